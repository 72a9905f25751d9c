/** The child's end of the channel in a process of its own, whose master goes while it speaks. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const ORPHANED = 17;
const DEAF_MS = 500;

// It cannot hear that the channel is closed before it has spoken.
const PROGRAM = `
  import { connectToMaster } from ${JSON.stringify(new URL('../../../src/ipc/child.js', import.meta.url).href)};
  const channel = connectToMaster({
    messages: { speak: () => true },
    onMessage() {
      channel.send({ type: 'hearing nothing' });
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${DEAF_MS});
      for (let n = 0; n < 3; n += 1) channel.send({ type: 'said to nobody' });
    },
    onOrphaned: () => process.exit(${ORPHANED}),
  });`;

test('a child that says something while its master goes ends as an orphan does, and not by an exception', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'pgsluice-child-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const program = join(dir, 'program.mjs');
  writeFileSync(program, PROGRAM);
  const child = fork(program, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] });
  t.after(() => child.kill('SIGKILL'));
  const { stderr } = child;
  assert.ok(stderr);
  let words = '';
  stderr.on('data', chunk => (words += chunk));
  child.send({ type: 'speak' });
  await once(child, 'message');
  const ended = Promise.all([once(child, 'exit'), once(stderr, 'end')]);
  child.disconnect();
  const [[code]] = await ended;
  assert.deepEqual({ code, words }, { code: ORPHANED, words: '' });
});
