import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openFifo } from '../../../src/transport/fifo.js';

/** @type {string} */
let dir;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-fifo-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

/** @param {string} name */
function makeFifo(name) {
  const path = join(dir, name);
  execFileSync('mkfifo', ['-m', '600', path]);
  return path;
}

/** @param {string} path @param {string} command writes to its stdout */
function writer(path, command) {
  const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', fd, 'inherit'] });
  closeSync(fd);
  return child;
}

test('gives every byte, waits for its writer, and ends when the writer does', async () => {
  const path = makeFifo('one');
  let bytes = 0;
  let zeros = true;
  /** @type {(error: Error | null) => void} */
  let ended = () => {};
  const end = new Promise(resolve => (ended = resolve));
  openFifo(path, {
    onChunk(chunk) {
      bytes += chunk.length;
      zeros &&= chunk.every(byte => byte === 0);
    },
    onEnd: ended,
  });
  await sleep(100);
  assert.equal(bytes, 0);
  writer(path, 'head -c 20000000 /dev/zero');
  assert.equal(await end, null);
  assert.equal(bytes, 20_000_000);
  assert.ok(zeros);
});

test('a paused FIFO stops its writer, and loses nothing when it is resumed', async () => {
  const path = makeFifo('paused');
  let bytes = 0;
  /** @type {(error: Error | null) => void} */
  let ended = () => {};
  const end = new Promise(resolve => (ended = resolve));
  const source = openFifo(path, {
    onChunk(chunk) {
      bytes += chunk.length;
      source.pause();
    },
    onEnd: ended,
  });
  const child = writer(path, 'head -c 1000000 /dev/zero');
  await sleep(300);
  assert.ok(bytes > 0 && bytes <= 65_536, `${bytes} bytes came before the pause`);
  assert.equal(child.exitCode, null);
  const resuming = setInterval(() => source.resume(), 2);
  assert.equal(await end, null);
  clearInterval(resuming);
  assert.equal(bytes, 1_000_000);
});

test('a closed FIFO ends its writer by SIGPIPE, and calls nobody', async () => {
  const path = makeFifo('closed');
  const source = openFifo(path, {
    onChunk: () => source.close(),
    onEnd: () => assert.fail('onEnd after close'),
  });
  const child = writer(path, 'exec cat /dev/zero');
  const [, signal] = await once(child, 'exit');
  assert.equal(signal, 'SIGPIPE');
});

test('fifty idle FIFOs do not keep a busy one, or the thread pool, from working', async () => {
  const idle = Array.from({ length: 50 }, (_, index) => {
    const path = makeFifo(`idle${index}`);
    const source = openFifo(path, { onChunk: () => {}, onEnd: () => {} });
    return { source, fd: openSync(path, constants.O_WRONLY | constants.O_NONBLOCK) };
  });
  let bytes = 0;
  const path = makeFifo('busy');
  await new Promise((resolve, reject) => {
    openFifo(path, {
      onChunk: chunk => (bytes += chunk.length),
      onEnd: error => (error ? reject(error) : resolve(undefined)),
    });
    writer(path, 'head -c 50000000 /dev/zero');
  });
  assert.equal(bytes, 50_000_000);
  // readFile goes through the thread pool: with readers blocked in it, this would never come back.
  const { readFile } = await import('node:fs/promises');
  await Promise.all(Array.from({ length: 8 }, () => readFile('/proc/self/stat')));
  for (const { source, fd } of idle) {
    source.close();
    closeSync(fd);
  }
});
