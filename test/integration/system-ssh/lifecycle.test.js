/** Nothing is left behind: processes, sockets, files; whatever the end was. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from '../../../src/system-ssh/index.js';
import { descendants } from '../../helpers/sshd.js';
import {
  clientFor,
  configFor,
  directoryFor,
  eventually,
  exec,
  finished,
  processesWith,
  releaseAfter,
  run,
  sshdFor,
} from './support.js';

const CHILD = fileURLToPath(new URL('child.js', import.meta.url));

test('end() with running sessions and forwardings leaves no process and no file', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = await clientFor(t, await configFor(sshd, { controlDirectory, maxSessions: 1 }));
  const streams = await Promise.all([exec(client, 'cat'), exec(client, 'cat')]);
  await new Promise((resolve, reject) =>
    client.forwardOutLocalSocket({ host: '127.0.0.1', port: sshd.port }, (error, forward) =>
      error ? reject(error) : resolve(forward),
    ),
  );
  const [own] = await readdir(controlDirectory);
  const { mode } = statSync(join(controlDirectory, own));
  assert.equal(mode & 0o777, 0o700);
  for (const name of readdirSync(join(controlDirectory, own))) {
    assert.equal(statSync(join(controlDirectory, own, name)).mode & 0o077, 0, name);
  }
  assert.ok(processesWith(controlDirectory).length >= 4);
  const ended = streams.map(stream => finished(stream));
  /** @type {string[]} */
  const events = [];
  client.on('error', () => events.push('error'));
  client.on('end', () => events.push('end'));
  const closed = new Promise(resolve => client.once('close', resolve));
  client.end();
  await closed;
  for (const { exit } of await Promise.all(ended)) assert.equal(exit[0], null);
  assert.deepEqual(events, ['end']);
  assert.deepEqual(await readdir(controlDirectory), []);
  await eventually(
    () => processesWith(controlDirectory).length === 0,
    'the shell that watched stdin has ended',
  );
  await eventually(() => sshd.connectionPids().length === 0, 'the server saw the connections end');
});

test('end() before the connection is ready closes without an error', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = new Client();
  client.connect(await configFor(sshd, { controlDirectory }));
  client.on('ready', () => assert.fail('ready after end()'));
  const closed = once(client, 'close');
  client.end();
  await closed;
  assert.deepEqual(await readdir(controlDirectory), []);
  await eventually(() => processesWith(controlDirectory).length === 0, 'no process');
});

test('end() while sessions are being opened answers every callback', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd, { maxSessions: 2 }));
  const calls = Array.from({ length: 6 }, async () => finished(await exec(client, 'cat')));
  const outcomes = Promise.allSettled(calls);
  const closed = new Promise(resolve => client.once('close', resolve));
  client.end();
  await closed;
  // One that was opened a moment before is a stream that ends without a status.
  for (const outcome of await outcomes) {
    if (outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'SSH_PROTOCOL', outcome.reason.message);
    else assert.equal(outcome.value.exit[0], null);
  }
});

test('a connection that failed leaves no process and no file', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = await clientFor(t, await configFor(sshd, { controlDirectory }));
  const failed = new Promise(resolve => client.once('error', resolve));
  const closed = new Promise(resolve => client.once('close', resolve));
  sshd.signalConnections('SIGKILL');
  await failed;
  await closed;
  assert.deepEqual(await readdir(controlDirectory), []);
  await eventually(() => processesWith(controlDirectory).length === 0, 'no process');
});

test('finished sessions leave no file while the connection lives on', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = await clientFor(t, await configFor(sshd, { controlDirectory }));
  const list = () => readdirSync(join(controlDirectory, readdirSync(controlDirectory)[0])).toSorted();
  const before = list();
  for (let index = 0; index < 3; index += 1) await run(client, 'true');
  assert.deepEqual(list(), before);
});

for (const signal of /** @type {const} */ (['SIGKILL', 'SIGTERM'])) {
  test(`a process that dies by ${signal} takes its connections and files along`, async t => {
    const sshd = await sshdFor(t);
    const controlDirectory = await directoryFor(t);
    const config = JSON.stringify(await configFor(sshd, { controlDirectory, maxSessions: 1 }));
    const child = spawn(process.execPath, [CHILD, config], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    releaseAfter(t, () => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    assert.equal(sshd.connectionPids().length, 2);
    child.kill(signal);
    await ended;
    await eventually(() => processesWith(controlDirectory).length === 0, 'no process is left');
    await eventually(() => readdirSync(controlDirectory).length === 0, 'no file is left');
    await eventually(() => sshd.connectionPids().length === 0, 'the server saw the connections end');
  });
}

test('the death of the master ends its sessions and the connection', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const masters = descendants(process.pid).filter(pid => processesWith('pgsluice-target').includes(pid));
  const stream = await exec(client, 'cat');
  const ended = finished(stream);
  const failed = new Promise(resolve => client.once('error', resolve));
  const closed = new Promise(resolve => client.once('close', resolve));
  for (const pid of masters) process.kill(pid, 'SIGKILL');
  await failed;
  assert.equal((await ended).exit[0], null);
  await closed;
});

test('a master that does not react is killed', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = await clientFor(t, await configFor(sshd, { controlDirectory }));
  const masters = descendants(process.pid).filter(pid => processesWith(controlDirectory).includes(pid));
  assert.equal(masters.length, 1);
  process.kill(masters[0], 'SIGSTOP');
  const closed = new Promise(resolve => client.once('close', resolve));
  client.end();
  await closed;
  await eventually(() => processesWith(controlDirectory).length === 0, 'no process is left');
});
