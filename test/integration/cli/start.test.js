/** `start` in the foreground: what it says, which signals end it and how, and that nothing of it stays. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startSshd, descendants, freePort } from '../../helpers/sshd.js';
import {
  PROGRAM,
  cleanEnvironment,
  cliStorage,
  configText,
  failed,
  pgsluice,
  portOf,
  startDaemon,
} from './support.js';

/** @type {import('./support.js').CliStorage} */
let storage;
before(async () => (storage = await cliStorage()));
after(() => storage.stop());

/** @param {string} text @returns {string} the base of the URLs it announced */
function announced(text) {
  const [, base = ''] = /(http:\/\/127\.0\.0\.1:\d+)\/status/.exec(text) ?? [];
  assert.notEqual(base, '', text);
  return base;
}

test('it says where it is and what comes next; SIGHUP does nothing; SIGTERM ends it with 0', async t => {
  const { config } = await storage.fresh({ listen: '127.0.0.1:0' });
  const daemon = startDaemon(t, config);
  await daemon.until(() => daemon.stdout().includes('next '));
  assert.match(daemon.stdout(), /^storage {2}postgres:\/\//m);
  assert.match(
    daemon.stdout(),
    /^next {5}pgsluice host add db1 --ssh postgres@db1\.example --log \/var\/lib\/postgresql\/15\/main --trust-on-first-use$/m,
  );
  const base = announced(daemon.stdout());
  daemon.child.kill('SIGHUP');
  assert.equal(await (await fetch(`${base}/healthz`)).text(), 'ok\n');

  // The same port from another configuration: what an operator does with `status`.
  const other = join(storage.dir, 'status.toml');
  await writeFile(other, `[http]\nlisten = "${new URL(base).host}"\n`);
  const status = await pgsluice(['status', '--json', '--config', other]);
  assert.equal(status.code, 0, status.stderr);
  assert.equal(JSON.parse(status.stdout).master.pid, daemon.child.pid);

  const family = descendants(Number(daemon.child.pid));
  daemon.child.kill('SIGTERM');
  daemon.child.kill('SIGINT');
  assert.deepEqual(await daemon.ended, { code: 0, signal: null });
  for (const pid of family)
    assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, `process ${pid} is left`);
});

test('under npm start the hint is what npm users type; a host of this machine needs no hint', async t => {
  const { config } = await storage.fresh({ listen: `127.0.0.1:${await freePort()}` });
  const daemon = startDaemon(t, config, { env: { npm_lifecycle_event: 'start' } });
  await daemon.until(() => daemon.stdout().includes('next '));
  assert.match(daemon.stdout(), /^next {5}npm run pgsluice -- host add db1 /m);
  const added = await pgsluice([
    'host',
    'add',
    'here',
    '--transport',
    'local',
    '--log',
    '/x',
    '--config',
    config,
  ]);
  assert.equal(added.code, 0, added.stderr);
  assert.doesNotMatch(added.stdout, /no daemon answers/);
  daemon.child.kill('SIGINT');
  assert.deepEqual(await daemon.ended, { code: 0, signal: null });
});

test('it goes on when nobody reads what it prints', async t => {
  const listen = `127.0.0.1:${await freePort()}`;
  const { config } = await storage.fresh({ listen });
  const daemon = startDaemon(t, config);
  daemon.child.stdout.destroy();
  await daemon.until(() => daemon.stderr().includes('storage: '));
  assert.equal(await (await fetch(`http://${listen}/healthz`)).text(), 'ok\n');
  daemon.child.kill('SIGTERM');
  assert.deepEqual(await daemon.ended, { code: 0, signal: null });
});

test('SIGTERM while it starts ends it too', async t => {
  const { config } = await storage.fresh({ listen: '127.0.0.1:0' });
  const daemon = startDaemon(t, config, { words: ['--json'] });
  await daemon.until(() => daemon.stdout() !== '' || daemon.stderr() !== '');
  daemon.child.kill('SIGTERM');
  assert.deepEqual(await daemon.ended, { code: 0, signal: null });
});

test('what keeps it from starting is one line', async t => {
  const dir = await mkdtemp(join(tmpdir(), 'pgsluice-cli-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const config = join(dir, 'c.toml');
  const { socketDir, port } = storage.postgres;
  const url = `postgres://postgres@localhost:${port}/postgres?host=${encodeURIComponent(socketDir)}`;
  const sshd = await startSshd();
  t.after(() => sshd.stop());
  await writeFile(config, configText({ url, dir, listen: `127.0.0.1:${sshd.port}` }));
  failed(await pgsluice(['start', '--config', config]), 1, /http\.listen 127\.0\.0\.1:\d+ cannot be used/);
  await writeFile(join(dir, 'file'), '');
  await writeFile(config, configText({ url, dir: join(dir, 'file'), listen: 'none' }));
  failed(await pgsluice(['start', '--config', config]), 1, /cannot be used .*daemon\.data_dir/);
});

test('a command that starts the embedded PostgreSQL ends it, also when it is interrupted', async t => {
  // A socket's path must be short.
  const dir = await mkdtemp(join(tmpdir(), 'pgs-'));
  // As root PostgreSQL runs under another account, which must come through.
  await chmod(dir, 0o711);
  t.after(() => rm(dir, { recursive: true, force: true }));
  const config = join(dir, 'c.toml');
  await writeFile(config, configText({ url: 'embedded', dir, listen: 'none' }));
  const pidFile = join(dir, 'd', 'postgres', 'postmaster.pid');
  const first = await pgsluice(['init', '--config', config]);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /the embedded PostgreSQL in /);
  await assert.rejects(readFile(pidFile), { code: 'ENOENT' });

  // A host that accepts and says nothing keeps the command waiting.
  const mute = createServer(socket => {
    t.after(() => socket.destroy());
    socket.on('error', () => {});
  });
  await new Promise(resolve => mute.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => mute.close());
  const reached = once(mute, 'connection');
  const port = portOf(mute);
  const sshd = await startSshd();
  t.after(() => sshd.stop());
  const add = [
    'host',
    'add',
    'db1',
    '--ssh',
    `127.0.0.1:${port}`,
    '--host-key',
    sshd.hostKey,
    '--config',
    config,
  ];
  const temporary = await mkdtemp(join(dir, 't'));
  const command = spawn(process.execPath, [PROGRAM, ...add], {
    stdio: 'ignore',
    env: { ...cleanEnvironment(), TMPDIR: temporary },
  });
  const ended = new Promise(resolve => command.once('close', (code, signal) => resolve({ code, signal })));
  await reached;
  assert.match(await readFile(pidFile, 'utf8'), /^\d+\n/);
  command.kill('SIGINT');
  assert.deepEqual(await ended, { code: 130, signal: null });
  await assert.rejects(readFile(pidFile), { code: 'ENOENT' });
  assert.deepEqual(await readdir(temporary), []);
});
