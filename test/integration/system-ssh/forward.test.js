/** Local sockets that lead to a port or a Unix socket behind the server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  clientFor,
  configFor,
  directoryFor,
  eventually,
  finished,
  releaseAfter,
  sshdFor,
} from './support.js';

/** @typedef {import('../../../src/system-ssh/index.js').Client} Client */

/** @param {import('node:test').TestContext} t @param {string | undefined} path @returns {Promise<number>} its port, if any */
async function echoServer(t, path) {
  const server = createServer({ allowHalfOpen: true }, socket => socket.on('error', () => {}).pipe(socket));
  await new Promise(resolve =>
    server.listen(path ?? { port: 0, host: '127.0.0.1' }, () => resolve(undefined)),
  );
  releaseAfter(t, () => server.close());
  const address = server.address();
  return typeof address === 'string' || address === null ? 0 : address.port;
}

/**
 * @param {Client} client
 * @param {import('../../../src/system-ssh/ssh-config.js').Destination} destination
 * @returns {Promise<import('../../../src/system-ssh/local-forward.js').LocalSocket>}
 */
function localSocket(client, destination) {
  return new Promise((resolve, reject) => {
    client.forwardOutLocalSocket(destination, (error, forward) => (error ? reject(error) : resolve(forward)));
  });
}

/** @param {string} path @param {string} text */
async function askThrough(path, text) {
  const socket = connect({ path, allowHalfOpen: true });
  socket.end(text);
  return (await finished(socket)).stdout;
}

test('a local socket to a port and to Unix sockets with odd names; closed on request', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const dir = join(await directoryFor(t), "so ck%h:'#");
  await mkdir(dir);
  const socketPath = join(dir, '.s.PGSQL.5432');
  await echoServer(t, socketPath);
  const port = await echoServer(t, undefined);
  for (const destination of [{ host: '127.0.0.1', port }, { socketPath }]) {
    const forward = await localSocket(client, destination);
    assert.equal(statSync(forward.path).mode & 0o077, 0);
    assert.equal(await askThrough(forward.path, 'first'), 'first');
    assert.equal(await askThrough(forward.path, 'second'), 'second');
    await new Promise(resolve => forward.close(() => resolve(undefined)));
    assert.equal(existsSync(forward.path), false);
    // Twice is once.
    await new Promise(resolve => forward.close(() => resolve(undefined)));
  }
});

test('a local socket ends with the connection, and can be closed after it', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const forward = await localSocket(client, { host: '127.0.0.1', port: sshd.port });
  const socket = connect(forward.path);
  await once(socket, 'data');
  const dropped = new Promise(resolve => socket.on('error', () => {}).once('close', resolve));
  const closed = new Promise(resolve => client.once('close', resolve));
  client.end();
  await closed;
  await dropped;
  assert.equal(existsSync(forward.path), false);
  await new Promise(resolve => forward.close(() => resolve(undefined)));
});

test('what the server refuses: forwardOut tells its callback, a Unix socket its stream', async t => {
  const sshd = await sshdFor(t, { settings: ['AllowTcpForwarding no', 'AllowStreamLocalForwarding no'] });
  const client = await clientFor(t, await configFor(sshd));
  await assert.rejects(
    new Promise((resolve, reject) => {
      client.forwardOut('', 0, '127.0.0.1', sshd.port, (error, stream) =>
        error ? reject(error) : resolve(stream),
      );
    }),
    { code: 'SSH_PROTOCOL', message: /127\.0\.0\.1:\d+ over SSH: .*refused/ },
  );
  const { promise, resolve, reject } = Promise.withResolvers();
  client.openssh_forwardOutStreamLocal('/nonexistent/socket', (error, stream) => {
    if (error) reject(error);
    else stream.once('error', resolve).resume();
  });
  /** @type {any} */
  const error = await promise;
  assert.equal(error.code, 'SSH_UNREACHABLE');
  assert.match(error.message, /\/nonexistent\/socket/);
});

test('the forwarding behind a Unix socket stream goes with the stream', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = await clientFor(t, await configFor(sshd, { controlDirectory }));
  const socketPath = join(await directoryFor(t), 'echo');
  await echoServer(t, socketPath);
  /** @type {import('node:net').Socket} */
  const stream = await new Promise((resolve, reject) => {
    client.openssh_forwardOutStreamLocal(socketPath, (error, value) =>
      error ? reject(error) : resolve(value),
    );
  });
  const sockets = () =>
    readdirSync(join(controlDirectory, readdirSync(controlDirectory)[0])).filter(name => /^f\d/.test(name));
  assert.equal(sockets().length, 2);
  stream.end('x');
  assert.equal((await finished(stream)).stdout, 'x');
  await eventually(() => sockets().length === 0, 'socket and configuration of the forwarding are gone');
});

test('destinations that could mean something else are refused at once', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  /** @type {any} */
  const loose = client;
  for (const socketPath of ['relative', '/a"b', '/a\nb', '/a${HOME}', '/a\\b', '', undefined]) {
    assert.throws(() => loose.forwardOutLocalSocket({ socketPath }, () => {}), { code: 'USAGE' });
  }
  for (const [host, port] of [
    ['a b', 1],
    ['-x', 1],
    ['h]:1 x', 1],
    ['h', 0],
    ['h', '22 x'],
  ]) {
    assert.throws(() => loose.forwardOutLocalSocket({ host, port }, () => {}), { code: 'USAGE' });
    assert.throws(() => loose.forwardOut('', 0, host, port, () => {}), { code: 'USAGE' });
  }
});
