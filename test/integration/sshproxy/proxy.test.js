/** sshproxy's FIFOs and directory, with the real ssh and a port where nobody listens. */
import assert from 'node:assert/strict';
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { SshProxy } from '../../../src/sshproxy/proxy.js';
import { freePort } from '../../helpers/sshd.js';

/** @typedef {import('../../../src/ipc/messages.js').FromProxy} FromProxy */

const WAIT_MS = 20_000;

/** A proxy whose directory is not there yet. @param {import('node:test').TestContext} t */
async function startProxy(t) {
  const dir = mkdtempSync(join(tmpdir(), 'pgp-'));
  const knownHostsFile = join(dir, 'known_hosts');
  writeFileSync(knownHostsFile, '');
  const directory = join(dir, 'ssh');
  /** @type {FromProxy[]} */
  const messages = [];
  const proxy = new SshProxy(
    {
      program: 'ssh',
      options: [],
      configFile: 'none',
      connectTimeoutMs: 10_000,
      connectRate: 20,
      directory,
      logLevel: 'silent',
    },
    message => messages.push(message),
  );
  t.after(() => {
    proxy.stop();
    rmSync(dir, { recursive: true });
  });
  proxy.handle({
    type: 'open',
    streamId: 1,
    attempt: 1,
    command: 'true',
    input: '',
    host: {
      hostId: 1,
      name: 'db1',
      address: '127.0.0.1',
      port: await freePort(),
      username: 'nobody',
      identityFile: null,
      jumpHosts: [],
      knownHostsFile,
      hostKeyAlias: 'db1',
    },
  });
  /** @template {FromProxy['type']} T @param {T} type @returns {Promise<Extract<FromProxy, { type: T }>>} */
  async function message(type) {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      const found = messages.find(each => each.type === type);
      if (found) return /** @type {any} */ (found);
      if (Date.now() > deadline) throw new Error(`no message ${type}`);
      await sleep(10);
    }
  }
  return { proxy, directory, message };
}

test('a FIFO is private, in a directory that is made again, and goes with its stream', async t => {
  const { proxy, directory, message } = await startProxy(t);
  const { path } = await message('fifo');
  assert.ok(statSync(path).isFIFO());
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
  proxy.handle({ type: 'close', streamId: 1, attempt: 1 });
  assert.equal(existsSync(path), false);
});

test('a directory that is removed before the connection is made is made once more', async t => {
  const { proxy, directory, message } = await startProxy(t);
  const { path } = await message('fifo');
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(() => closeSync(reader));
  proxy.handle({ type: 'opened', streamId: 1, attempt: 1 });
  assert.equal(existsSync(path), false, 'both ends have it: nobody else can open it any more');
  rmSync(directory, { recursive: true });
  assert.equal((await message('closed')).error?.code, 'SSH_UNREACHABLE');
});
