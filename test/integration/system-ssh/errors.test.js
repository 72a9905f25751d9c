/** Each way in which a connection fails has its own code, and ssh's words are in the message. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from '../../../src/system-ssh/index.js';
import {
  clientFor,
  configFor,
  connectError,
  directoryFor,
  exec,
  finished,
  portOf,
  releaseAfter,
  sshdFor,
} from './support.js';
import { freePort, startSshd } from '../../helpers/sshd.js';

test('a key that is not known', async t => {
  const sshd = await sshdFor(t);
  const error = await connectError(t, await configFor(sshd, { hostKeyAlias: 'another' }));
  assert.equal(error.code, 'SSH_HOST_KEY_UNKNOWN');
  assert.match(error.message, /127\.0\.0\.1.*No ED25519 host key is known for another/);
});

test('another key than the known one, of the same or of another type', async t => {
  for (const hostKeyType of /** @type {const} */ (['ed25519', 'ecdsa'])) {
    const sshd = await sshdFor(t);
    const other = await startSshd({ hostKeyType });
    await other.stop();
    const knownHostsFile = join(await directoryFor(t), 'known_hosts');
    await writeFile(knownHostsFile, `tested ${other.hostKey}\n`);
    const error = await connectError(t, await configFor(sshd, { knownHostsFile }));
    assert.equal(error.code, 'SSH_HOST_KEY_CHANGED');
    assert.match(error.message, /Host key for tested has changed/);
  }
});

test('no option, and no file of the user, lets another key in', async t => {
  const sshd = await sshdFor(t);
  const other = await startSshd();
  await other.stop();
  const dir = await directoryFor(t);
  const knownHostsFile = join(dir, 'known_hosts');
  await writeFile(knownHostsFile, `tested ${other.hostKey}\n[${sshd.host}]:${sshd.port} ${other.hostKey}\n`);
  const theirs = join(dir, 'theirs');
  await writeFile(theirs, `* ${sshd.hostKey}\n`);
  const lax = {
    StrictHostKeyChecking: 'no',
    NoHostAuthenticationForLocalhost: 'yes',
    UserKnownHostsFile: theirs,
    GlobalKnownHostsFile: theirs,
    KnownHostsCommand: `/bin/cat ${theirs}`,
    VerifyHostKeyDNS: 'yes',
  };
  const configFile = join(dir, 'user_config');
  const lines = Object.entries(lax).map(([key, value]) => ` ${key} ${value}\n`);
  await writeFile(configFile, `Host *\n${lines.join('')}`);
  const options = Object.entries(lax).map(([key, value]) => `${key}=${value}`);
  for (const more of [{ options }, { configFile }]) {
    const { hostKeyAlias, ...config } = await configFor(sshd, { knownHostsFile, ...more });
    for (const named of [config, { ...config, hostKeyAlias }]) {
      const error = await connectError(t, named);
      assert.equal(error.code, 'SSH_HOST_KEY_CHANGED', error.message);
    }
  }
});

test('a key that the server does not accept', async t => {
  const sshd = await sshdFor(t);
  await writeFile(sshd.authorizedKeysFile, '');
  const error = await connectError(t, await configFor(sshd));
  assert.equal(error.code, 'SSH_AUTH_REFUSED');
  assert.match(error.message, /Permission denied \(publickey\)/);
});

test('an identity file that is not there is named', async t => {
  const sshd = await sshdFor(t);
  const error = await connectError(t, await configFor(sshd, { identityFile: '/nonexistent/id_ed25519' }));
  assert.equal(error.code, 'SSH_AUTH_REFUSED');
  assert.match(error.message, /no such identity: \/nonexistent\/id_ed25519/);
});

test('a port where nobody listens', async t => {
  const sshd = await sshdFor(t);
  const config = await configFor(sshd);
  await sshd.stop();
  const error = await connectError(t, config);
  assert.equal(error.code, 'SSH_UNREACHABLE');
  assert.match(error.message, /Connection refused/);
});

test('a name that does not resolve', async t => {
  const sshd = await sshdFor(t);
  const error = await connectError(t, await configFor(sshd, { host: 'no-such-host.invalid' }));
  assert.equal(error.code, 'SSH_UNREACHABLE');
  assert.match(error.message, /Could not resolve hostname no-such-host\.invalid/);
});

test('a server that never answers', async t => {
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();
  const mute = createServer(socket => sockets.add(socket.on('error', () => {})));
  await new Promise(resolve => mute.listen(0, '127.0.0.1', () => resolve(undefined)));
  releaseAfter(t, () => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  const port = portOf(mute);
  const sshd = await sshdFor(t);
  const error = await connectError(t, await configFor(sshd, { port, connectTimeoutMs: 300 }));
  assert.equal(error.code, 'SSH_UNREACHABLE');
  assert.match(error.message, /did not answer within 300 ms/);
});

test('a server that speaks something else', async t => {
  const web = createServer(socket => {
    socket.on('error', () => {});
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
  });
  await new Promise(resolve => web.listen(0, '127.0.0.1', () => resolve(undefined)));
  releaseAfter(t, () => web.close());
  const port = portOf(web);
  const sshd = await sshdFor(t);
  assert.equal((await connectError(t, await configFor(sshd, { port }))).code, 'SSH_PROTOCOL');
});

test('a server that stops answering is given up after three missed keepalives', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd, { keepaliveIntervalMs: 1 }));
  const stream = await exec(client, 'cat');
  const ended = finished(stream);
  /** @type {Promise<any>} */
  const failed = new Promise(resolve => client.once('error', resolve));
  sshd.signalConnections('SIGSTOP');
  releaseAfter(t, () => sshd.signalConnections('SIGCONT'));
  const error = await failed;
  assert.equal(error.code, 'SSH_UNREACHABLE');
  assert.match(error.message, /Timeout, server .* not responding/);
  const { exit, close } = await ended;
  assert.deepEqual(exit.slice(0, 2), [null, 'UNKNOWN']);
  assert.match(String(exit[3]), /connection/);
  assert.deepEqual(close, exit);
});

test('a killed command and a broken connection are exits without a status', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const killed = await finished(await exec(client, 'kill -KILL $$'));
  assert.deepEqual(killed.exit.slice(0, 3), [null, 'UNKNOWN', false]);
  assert.match(String(killed.exit[3]), /signal/);
  assert.deepEqual(killed.close, killed.exit);
  const stream = await exec(client, 'cat');
  const ended = finished(stream);
  /** @type {Promise<any>} */
  const failed = new Promise(resolve => client.once('error', resolve));
  sshd.signalConnections('SIGKILL');
  assert.equal((await failed).code, 'SSH_PROTOCOL');
  assert.match(String((await ended).exit[3]), /connection/);
});

test('a forwarding that was refused earlier is not taken for the reason of a broken connection', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const port = await freePort();
  const refused = await new Promise(resolve => {
    client.forwardOut('', 0, '127.0.0.1', port, (...result) => resolve(result[0]));
  });
  assert.ok(refused);
  /** @type {Promise<any>} */
  const failed = new Promise(resolve => client.once('error', resolve));
  sshd.signalConnections('SIGKILL');
  const error = await failed;
  assert.equal(error.code, 'SSH_PROTOCOL', error.message);
});

test('sessions that need another connection get the reason why there is none', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd, { maxSessions: 1 }));
  const first = await exec(client, 'cat');
  await writeFile(sshd.authorizedKeysFile, '');
  const outcomes = await Promise.allSettled([exec(client, 'true'), exec(client, 'true')]);
  for (const outcome of outcomes) {
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'SSH_AUTH_REFUSED');
  }
  first.end('alive');
  assert.equal((await finished(first)).stdout, 'alive');
});

test('an option that ssh does not know', async t => {
  const sshd = await sshdFor(t);
  const error = await connectError(t, await configFor(sshd, { options: ['NoSuchOption=yes'] }));
  assert.equal(error.code, 'CONFIG_INVALID');
  assert.match(error.message, /nosuchoption/i);
});

test('a program that is not there', async t => {
  const sshd = await sshdFor(t);
  const error = await connectError(t, await configFor(sshd, { program: 'no-such-ssh-program' }));
  assert.equal(error.code, 'NOT_SUPPORTED');
  assert.match(error.message, /no-such-ssh-program.*install the OpenSSH client/);
});

test('a control directory that is not private, not ours, too long or not there', async t => {
  const dir = await directoryFor(t);
  const open = join(dir, 'open');
  await mkdir(open);
  await chmod(open, 0o750);
  const private_ = join(dir, 'private');
  await mkdir(private_, { mode: 0o700 });
  const link = join(dir, 'link');
  await symlink(private_, link);
  const file = join(dir, 'file');
  await writeFile(file, '', { mode: 0o600 });
  const long = join(dir, 'x'.repeat(90));
  await mkdir(long, { mode: 0o700 });
  const odd = join(dir, 'a"b');
  await mkdir(odd, { mode: 0o700 });
  /** @type {[string, RegExp][]} */
  const cases = [
    [open, /accessible to others/],
    [link, /symbolic link/],
    [`${link}/`, /symbolic link/],
    [file, /not a directory/],
    [long, /too long/],
    [odd, /character/],
    [join(dir, 'missing'), /ENOENT/],
  ];
  if (process.getuid?.() === 0) {
    const foreign = join(dir, 'foreign');
    await mkdir(foreign, { mode: 0o700 });
    await chown(foreign, 65534, 65534);
    cases.push([foreign, /belongs to another user/]);
  } else {
    cases.push(['/root', /belongs to another user|accessible to others/]);
  }
  for (const [controlDirectory, message] of cases) {
    assert.throws(() => new Client().connect({ host: 'h', controlDirectory }), {
      code: 'DIRECTORY_UNUSABLE',
      message,
    });
  }
});

test('a control directory on a full disk is an error, and not a wait for ever', async t => {
  const sshd = await sshdFor(t);
  const program = fileURLToPath(new URL('./no-room.js', import.meta.url));
  const config = JSON.stringify(await configFor(sshd));
  const { stdout } = await promisify(execFile)(
    '/bin/sh',
    ['-c', 'ulimit -f 0; exec "$0" "$@"', process.execPath, program, config],
    { timeout: 20_000 },
  );
  assert.match(stdout, /^DIRECTORY_UNUSABLE control directory .* cannot be written .*: make room\nclosed\n$/);
});

test('a control directory that is removed ends the connection, with the reason', async t => {
  const sshd = await sshdFor(t);
  const controlDirectory = await directoryFor(t);
  const client = await clientFor(t, await configFor(sshd, { controlDirectory }));
  /** @type {Promise<any>} */
  const failed = new Promise(resolve => client.once('error', resolve));
  const closed = new Promise(resolve => client.once('close', resolve));
  await rm(controlDirectory, { recursive: true });
  const error = await failed;
  assert.equal(error.code, 'DIRECTORY_UNUSABLE');
  assert.match(error.message, /was removed/);
  await closed;
});
