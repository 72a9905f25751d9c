/** One suite against the system's ssh and against ssh2, in the terms that both share. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import ssh2 from 'ssh2';
import { Client } from '../../../src/system-ssh/index.js';
import { configFor, directoryFor, finished, portOf, releaseAfter, sshdFor } from './support.js';

/** @typedef {import('../../helpers/sshd.js').Sshd} Sshd */

/** @type {Record<string, { create: () => any, config: (sshd: Sshd) => Promise<object> }>} */
const CLIENTS = {
  'system-ssh': { create: () => new Client(), config: sshd => configFor(sshd) },
  ssh2: {
    create: () => new ssh2.Client(),
    config: async ({ host, port, user, identityFile }) => {
      return { host, port, username: user, privateKey: await readFile(identityFile, 'utf8') };
    },
  },
};

/** @param {any} client @param {string} method @param {unknown[]} args @returns {Promise<any>} */
function call(client, method, ...args) {
  return new Promise((resolve, reject) => {
    client[method](...args, (/** @type {unknown} */ error, /** @type {unknown} */ value) =>
      error ? reject(error) : resolve(value),
    );
  });
}

/**
 * Runs a command. What comes of it is listened for before the callback returns: ssh2 may emit all of it at once.
 * @param {any} client @param {string} command
 * @returns {ReturnType<typeof finished>}
 */
function ran(client, command) {
  return new Promise((resolve, reject) => {
    client.exec(command, (/** @type {unknown} */ error, /** @type {any} */ stream) =>
      error ? reject(error) : resolve(finished(stream)),
    );
  });
}

for (const [name, { create, config }] of Object.entries(CLIENTS)) {
  /** @param {import('node:test').TestContext} t */
  const connected = async t => {
    const sshd = await sshdFor(t);
    const client = create();
    let isClosed = false;
    client.once('close', () => (isClosed = true));
    client.connect(await config(sshd));
    releaseAfter(t, async () => {
      if (isClosed) return;
      const closed = once(client, 'close');
      client.end();
      await closed;
    });
    await once(client, 'ready');
    return { client, sshd };
  };

  test(`${name}: exec gives stdout, stderr and the exit status`, async t => {
    const { client } = await connected(t);
    const result = await ran(client, 'echo out; echo err >&2; exit 7');
    assert.deepEqual(result, { stdout: 'out\n', stderr: 'err\n', exit: [7], close: [7] });
  });

  test(`${name}: status 255 of a command is a status`, async t => {
    const { client } = await connected(t);
    const { exit } = await ran(client, 'exit 255');
    assert.deepEqual(exit, [255]);
  });

  test(`${name}: a command that dies by a signal has no status`, async t => {
    const { client } = await connected(t);
    const { exit } = await ran(client, 'kill -KILL $$');
    assert.equal(exit[0], null);
    assert.equal(typeof exit[1], 'string');
  });

  test(`${name}: end() ends the command's stdin, and 4 MiB pass unchanged in both directions`, async t => {
    const { client } = await connected(t);
    const stream = await call(client, 'exec', 'cat');
    const sent = randomBytes(4 * 1024 * 1024);
    const hash = createHash('sha256');
    stream.on('data', (/** @type {Buffer} */ chunk) => hash.update(chunk));
    stream.end(sent);
    await once(stream, 'close');
    assert.equal(hash.digest('hex'), createHash('sha256').update(sent).digest('hex'));
  });

  test(`${name}: writes after the command has ended do no harm`, async t => {
    const { client } = await connected(t);
    /** @type {any} */
    const stream = await new Promise((resolve, reject) => {
      client.exec('exit 0', (/** @type {unknown} */ error, /** @type {any} */ opened) => {
        if (error) reject(error);
        else opened.resume().once('exit', () => resolve(opened));
      });
    });
    stream.write('too late');
    assert.deepEqual((await ran(client, 'echo alive')).stdout, 'alive\n');
  });

  test(`${name}: the command reaches the remote shell byte for byte`, async t => {
    const { client } = await connected(t);
    const command = `printf '%s|' "a  b" 'ä"\\$x%h\${y}' -o -- '\n'\nprintf end`;
    const { stdout } = await ran(client, command);
    assert.equal(stdout, 'a  b|ä"\\$x%h${y}|-o|--|\n|end');
  });

  test(`${name}: close() of a stream ends the command`, async t => {
    const { client } = await connected(t);
    const stream = await call(client, 'exec', 'echo started; cat');
    await once(stream, 'data');
    stream.resume();
    const closed = once(stream, 'close');
    stream.close();
    await closed;
  });

  test(`${name}: forwardOut reaches a port, passes both ends of stream, and reports a refusal`, async t => {
    const { client } = await connected(t);
    const echo = createServer({ allowHalfOpen: true }, socket => socket.pipe(socket));
    await new Promise(resolve => echo.listen(0, '127.0.0.1', () => resolve(undefined)));
    releaseAfter(t, () => echo.close());
    const port = portOf(echo);
    const stream = await call(client, 'forwardOut', '127.0.0.1', 0, '127.0.0.1', port);
    stream.end('through');
    assert.equal((await finished(stream)).stdout, 'through');
    await new Promise(resolve => echo.close(resolve));
    await assert.rejects(call(client, 'forwardOut', '127.0.0.1', 0, '127.0.0.1', port));
  });

  test(`${name}: openssh_forwardOutStreamLocal reaches a Unix socket`, async t => {
    const { client } = await connected(t);
    const path = join(await directoryFor(t), 'echo');
    const echo = createServer({ allowHalfOpen: true }, socket => socket.pipe(socket));
    await new Promise(resolve => echo.listen(path, () => resolve(undefined)));
    releaseAfter(t, () => echo.close());
    const stream = await call(client, 'openssh_forwardOutStreamLocal', path);
    stream.end('through');
    assert.equal((await finished(stream)).stdout, 'through');
  });

  test(`${name}: calls without a connection throw`, async t => {
    const { client } = await connected(t);
    client.end();
    await once(client, 'close');
    assert.throws(() => client.exec('true', () => {}), /Not connected/);
    assert.throws(() => client.forwardOut('', 0, '127.0.0.1', 1, () => {}), /Not connected/);
    assert.throws(() => client.openssh_forwardOutStreamLocal('/x', () => {}), /Not connected/);
  });

  test(`${name}: a connection that the server drops ends its sessions and emits close`, async t => {
    const { client, sshd } = await connected(t);
    client.on('error', () => {});
    const stream = await call(client, 'exec', 'cat');
    stream.resume();
    const ends = [stream, client].map(emitter => new Promise(resolve => emitter.once('close', resolve)));
    sshd.signalConnections('SIGKILL');
    await Promise.all(ends);
  });

  test(`${name}: a server that is not there is an error, then close`, async t => {
    const sshd = await sshdFor(t);
    const settings = await config(sshd);
    await sshd.stop();
    const client = create();
    /** @type {string[]} */
    const events = [];
    client.on('error', () => events.push('error'));
    const closed = new Promise(resolve => client.once('close', resolve));
    client.once('close', () => events.push('close'));
    client.connect(settings);
    await closed;
    assert.deepEqual(events, ['error', 'close']);
  });
}
