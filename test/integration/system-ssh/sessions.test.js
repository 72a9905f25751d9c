/** How sessions share connections, counted in the server's own log. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync } from 'node:fs';
import { execFile } from 'node:child_process';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import {
  clientFor,
  configFor,
  directoryFor,
  eventually,
  exec,
  finished,
  releaseAfter,
  run,
  sshdFor,
} from './support.js';

test('12 sessions on a server with MaxSessions 10 use exactly two connections; the second is closed again', async t => {
  const sshd = await sshdFor(t, { settings: ['MaxSessions 10'] });
  const client = await clientFor(t, await configFor(sshd));
  const streams = await Promise.all(Array.from({ length: 12 }, () => exec(client, 'cat')));
  assert.equal(sshd.connections(), 2);
  assert.equal(sshd.connectionPids().length, 2);
  const results = streams.map((stream, index) => {
    stream.end(`session ${index}`);
    return finished(stream);
  });
  assert.deepEqual(
    (await Promise.all(results)).map(({ stdout }) => stdout),
    streams.map((_, index) => `session ${index}`),
  );
  await eventually(() => sshd.connectionPids().length === 1, 'the second connection is closed');
  assert.equal((await run(client, 'echo still')).stdout, 'still\n');
  assert.equal(sshd.connections(), 2);
});

test('a server that allows fewer sessions teaches it: the refused ones move, later ones do not try', async t => {
  const sshd = await sshdFor(t, { settings: ['MaxSessions 2'] });
  const client = await clientFor(t, await configFor(sshd));
  const streams = await Promise.all(Array.from({ length: 5 }, () => exec(client, 'cat')));
  assert.equal(sshd.connectionPids().length, 3);
  const refusals = () => sshd.log().match(/no more sessions/g)?.length ?? 0;
  const before = refusals();
  const connections = sshd.connections();
  assert.ok(before > 0, sshd.log());
  streams.push(await exec(client, 'cat'));
  assert.equal(refusals(), before);
  assert.equal(sshd.connections(), connections);
  const results = streams.map(stream => {
    stream.end('x');
    return finished(stream);
  });
  assert.ok((await Promise.all(results)).every(({ stdout, exit }) => stdout === 'x' && exit[0] === 0));
});

test('maxSessions of the client is respected', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd, { maxSessions: 1 }));
  const streams = await Promise.all([exec(client, 'cat'), exec(client, 'cat')]);
  assert.equal(sshd.connections(), 2);
  assert.doesNotMatch(sshd.log(), /no more sessions/);
  await Promise.all(
    streams.map(stream => {
      stream.end();
      return finished(stream);
    }),
  );
});

test('a server that allows no session is SSH_SESSION_REFUSED for each, and nothing connects around the master', async t => {
  const sshd = await sshdFor(t, { settings: ['MaxSessions 0'] });
  const client = await clientFor(t, await configFor(sshd));
  await assert.rejects(run(client, 'true'), { code: 'SSH_SESSION_REFUSED' });
  assert.equal(sshd.connections(), 1);
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => run(client, 'true')));
  for (const outcome of outcomes) {
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'SSH_SESSION_REFUSED');
  }
});

test('a session that the server still counts after its end does not stop the next one', async t => {
  const sshd = await sshdFor(t, { settings: ['MaxSessions 1'] });
  const client = await clientFor(t, await configFor(sshd));
  // Lives on without a channel, as a command that notices nothing; the server counts it until it ends.
  const lingering = await exec(client, 'echo $$; exec sleep 60 <&- >/dev/null 2>&1');
  const [pid] = await once(lingering, 'data');
  releaseAfter(t, () => process.kill(Number(pid), 'SIGKILL'));
  const closed = once(lingering, 'close');
  lingering.resume();
  lingering.close();
  await closed;
  assert.equal((await run(client, 'echo next')).stdout, 'next\n');
  // Otherwise the server had already forgotten the session, and this test said nothing.
  assert.match(sshd.log(), /no more sessions/);
});

test('stdout as a FIFO: ssh writes into it, the stream has no readable side', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const fifo = join(await directoryFor(t), 'fifo');
  await promisify(execFile)('mkfifo', [fifo]);
  const reading = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK);
  const reader = new Socket({ fd: reading, readable: true, writable: false });
  let received = 0;
  reader.on('data', chunk => (received += chunk.length));
  const ended = once(reader, 'end');
  const stream = await exec(client, 'head -c 300000 /dev/zero; echo to-stderr >&2', {
    stdio: ['pipe', writing, 'pipe'],
  });
  closeSync(writing);
  assert.equal(stream.readable, false);
  assert.ok(Number(stream.pid) > 0);
  process.kill(Number(stream.pid), 0);
  const { stdout, stderr, exit, close } = await finished(stream);
  assert.deepEqual(
    { stdout, stderr, exit, close },
    { stdout: '', stderr: 'to-stderr\n', exit: [0], close: [0] },
  );
  await ended;
  assert.equal(received, 300_000);
});

test('files as stdin, stdout and stderr; ignored parts', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const dir = await directoryFor(t);
  const input = openSync(sshd.authorizedKeysFile, 'r');
  const output = openSync(join(dir, 'out'), 'w');
  const errors = openSync(join(dir, 'err'), 'w');
  const stream = await exec(client, 'cat; echo wrong >&2; exit 3', { stdio: [input, output, errors] });
  for (const fd of [input, output, errors]) closeSync(fd);
  assert.equal(stream.stderr, undefined);
  assert.equal(stream.writable, false);
  assert.deepEqual((await finished(stream)).exit, [3]);
  assert.equal(readFileSync(join(dir, 'out'), 'utf8'), readFileSync(sshd.authorizedKeysFile, 'utf8'));
  assert.equal(readFileSync(join(dir, 'err'), 'utf8'), 'wrong\n');

  const silent = await exec(client, 'cat; echo unseen; echo unseen >&2', {
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  assert.deepEqual((await finished(silent)).exit, [0]);
});

test('a reader that does not read stops the remote writer, and loses nothing', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const dir = await directoryFor(t);
  const stream = await exec(client, `head -c 20000000 /dev/zero; echo done > '${dir}/done'`);
  stream.end();
  await once(stream, 'readable');
  assert.equal((await run(client, `test -e '${dir}/done' || echo waiting`)).stdout, 'waiting\n');
  let received = 0;
  stream.on('data', chunk => (received += chunk.length));
  await once(stream, 'close');
  assert.equal(received, 20_000_000);
});

test('wrong arguments are refused at once', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  /** @type {any} */
  const loose = client;
  for (const command of ['', 'a\0b', undefined, 5]) {
    assert.throws(() => loose.exec(command, () => {}), { code: 'USAGE' });
  }
  for (const options of [
    { pty: true },
    { env: {} },
    { stdio: 'pipe' },
    { stdio: ['pipe', -1, 'pipe'] },
    { stdio: [] },
  ]) {
    assert.throws(() => loose.exec('true', options, () => {}), { code: 'USAGE' });
  }
  assert.throws(() => loose.exec('true'), { code: 'USAGE' });
  assert.throws(() => loose.connect({ host: 'h' }), { code: 'USAGE' });
});
