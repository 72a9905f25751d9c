/** init, config, status, help, and how commands fail: always an exit code and one line. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'smol-toml';
import { freePort } from '../../helpers/sshd.js';
import { PROGRAM, cleanEnvironment, cliStorage, configText, failed, pgsluice, portOf } from './support.js';

/** @type {import('./support.js').CliStorage} */
let storage;
before(async () => (storage = await cliStorage()));
after(() => storage.stop());

/** @param {import('node:test').TestContext} t @returns {Promise<string>} */
async function directoryFor(t) {
  const dir = await mkdtemp(join(tmpdir(), 'pgsluice-cli-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test('init creates the schema once, and says where', async () => {
  const { run, json, query } = await storage.fresh();
  const first = await run('init');
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^schema created, now \d+, in postgres:\/\/.*\n$/);
  assert.match((await run('init')).stdout, /^schema \d+ is up to date in /);
  const again = await json('init');
  assert.equal(again.from, again.to);
  assert.equal((await query('SELECT count(*)::int AS hosts FROM pgsluice.host')).rows[0].hosts, 0);
});

test('a storage that is newer, unfit or away', async t => {
  const { run, query } = await storage.fresh();
  assert.equal((await run('init')).code, 0);
  await query("INSERT INTO pgsluice.migration (number, name) VALUES (9000, 'of tomorrow')");
  failed(await run('host', 'list'), 1, /schema 9000/);

  const dir = await directoryFor(t);
  const config = join(dir, 'away.toml');
  const port = await freePort();
  await writeFile(
    config,
    configText({ url: `postgres://u:secret@127.0.0.1:${port}/x`, dir, listen: 'none' }),
  );
  const away = await pgsluice(['host', 'list', '--config', config]);
  failed(away, 3, /ECONNREFUSED.*start it, or name another with storage\.url/);
  assert.doesNotMatch(away.stderr, /secret/);
  const json = await pgsluice(['host', 'list', '--json', '--config', config]);
  assert.equal(json.code, 3);
  assert.equal(json.stdout, '');
  const { error } = JSON.parse(json.stderr);
  assert.equal(error.code, 'STORAGE_UNREACHABLE');
  assert.match(error.message, /ECONNREFUSED/);

  const { socketDir, port: pgPort } = storage.postgres;
  const url = `postgres://postgres@localhost:${pgPort}/nowhere?host=${encodeURIComponent(socketDir)}`;
  await writeFile(config, configText({ url, dir, listen: 'none' }));
  failed(await pgsluice(['init', '--config', config]), 1, /database "nowhere" does not exist/);
});

test('a storage that is read-only, such as a standby, passes for one that is away', async t => {
  const { run, query } = await storage.fresh();
  assert.equal((await run('init')).code, 0);
  const hosts = join(await directoryFor(t), 'hosts');
  const host = { name: 'db1', transport: 'local', streams: [{ path: '/var/log/x.log' }] };
  await writeFile(hosts, `${JSON.stringify(host)}\n`);
  const [{ name }] = (await query('SELECT current_database() AS name')).rows;
  await query(`ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
  failed(await run('host', 'import', hosts), 3, /cannot execute .* in a read-only transaction/);
  await storage.postgres.query(`ALTER DATABASE "${name}" RESET ALL`);
  assert.equal((await run('host', 'import', hosts)).code, 0);
});

test('a role that may do nothing is told so, in one line', async t => {
  await storage.postgres.query('CREATE ROLE nobody LOGIN');
  const dir = await directoryFor(t);
  const { socketDir, port } = storage.postgres;
  const url = `postgres://nobody@localhost:${port}/postgres?host=${encodeURIComponent(socketDir)}`;
  await writeFile(join(dir, 'c.toml'), configText({ url, dir, listen: 'none' }));
  failed(await pgsluice(['init', '--config', join(dir, 'c.toml')]), 1, /permission denied/);
});

test('config check and print', async t => {
  const { config, run, json } = await storage.fresh();
  assert.equal((await run('config', 'check')).stdout, `ok: ${config}\n`);
  const printed = await run('config', 'print');
  const { http } = parse(printed.stdout);
  assert.equal(JSON.stringify(http), '{"listen":"none","auth_file":"","tls_cert_file":"","tls_key_file":""}');
  const object = await json('config', 'print');
  assert.equal(object.file, config);
  assert.equal(object.config.http.listen, 'none');

  const dir = await directoryFor(t);
  await writeFile(join(dir, 'bad.toml'), '[batch]\nmax_byte = 1\n');
  failed(
    await pgsluice(['config', 'check', '--config', 'bad.toml'], { cwd: dir }),
    2,
    /bad\.toml:2.*did you mean batch\.max_bytes/,
  );
  failed(
    await pgsluice(['config', 'check'], { env: { PGSLUICE_HTTP_LISTE: 'x' } }),
    2,
    /did you mean PGSLUICE_HTTP_LISTEN/,
  );
  failed(await pgsluice(['config', 'check', '--config', '/no\u001b[31m/file']), 2, /no such file/);
});

test('help works with a broken configuration, and usage errors come first', async t => {
  const dir = await directoryFor(t);
  await writeFile(join(dir, 'bad.toml'), '[');
  const env = { PGSLUICE_CONFIG: join(dir, 'bad.toml') };
  for (const words of [
    ['--help'],
    ['help'],
    ['host', '--help'],
    ['help', 'host', 'add'],
    ['start', '--help'],
    ['--version'],
  ]) {
    const { code, stdout, stderr } = await pgsluice(words, { env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /pgsluice/);
    assert.equal(stderr, '');
  }
  failed(await pgsluice(['host', 'lst'], { env }), 2, /did you mean "host list"/);
  const bare = await pgsluice([], { env });
  assert.equal(bare.code, 2);
  assert.equal(bare.stdout, '');
  assert.match(bare.stderr, /pgsluice host add NAME/);
});

test('an old Node gets a sentence', async () => {
  const pretend =
    'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.19.0"}})';
  const { code, stdout, stderr } = await pgsluice(['--version'], { program: ['--import', pretend, PROGRAM] });
  assert.equal(stderr, 'pgsluice: Node 20.19.0 is too old: run it with Node 22 or newer\n');
  assert.equal(code, 2);
  assert.equal(stdout, '');
});

test('a reader that has seen enough is no error', async () => {
  const { config } = await storage.fresh();
  const child = spawn(process.execPath, [PROGRAM, 'config', 'print', '--config', config], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: cleanEnvironment(),
  });
  child.stdout.destroy();
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
  const [code] = await once(child, 'close');
  assert.equal(stderr, '');
  assert.equal(code, 0);
});

test('output that cannot be written is an error', async () => {
  const full = openSync('/dev/full', 'w');
  const child = spawn(process.execPath, [PROGRAM, '--version'], {
    stdio: ['ignore', full, 'pipe'],
    env: cleanEnvironment(),
  });
  closeSync(full);
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', text => (stderr += text));
  const [code] = await once(child, 'close');
  failed({ code, signal: null, stdout: '', stderr }, 1, /the output cannot be written: ENOSPC/);
});

test('status without a daemon', async () => {
  const listen = `127.0.0.1:${await freePort()}`;
  const { run } = await storage.fresh({ listen });
  const { code, stdout } = await run('status');
  assert.equal(code, 1);
  assert.match(stdout, /^no daemon answers at 127\.0\.0\.1:\d+ .*start it with "pgsluice start"\n$/);
  const json = await run('status', '--json');
  assert.equal(json.code, 1);
  assert.equal(JSON.parse(json.stdout).running, false);
  const none = await (await storage.fresh()).run('status');
  assert.equal(none.code, 1);
  assert.match(none.stdout, /http\.listen is "none"/);
});

test('status shows what the daemon says, without its control characters', async t => {
  const stream = {
    path: '/log\u001b[2J',
    state: 'reading',
    error: { code: 'SSH_AUTH_REFUSED', message: 'no\u009b' },
    notice: null,
    file: null,
    worker: 1,
    records: 12,
    rejected: 3,
    lostBytes: 2048,
    lostEvents: 2,
    bytes: 4,
    bytesPerSecond: 2048,
    connects: 1,
    lagBytes: null,
    lastHeard: '2024-01-01T00:00:00.000Z',
    clockSkewMs: 0,
  };
  const answer = {
    ready: false,
    reason: 'workers are being started',
    storage: { mode: 'ready', error: null },
    hosts: [{ name: 'db1', address: 'db1', port: 22, transport: 'auto', labels: {}, streams: [stream] }],
    workers: [{ pid: 1, ready: true, restarts: 2 }],
    sshproxy: { pid: 2, ready: true, restarts: 1, status: null },
    master: { pid: 3, rssBytes: 0 },
  };
  let body = JSON.stringify(answer);
  const server = createServer((_, response) => response.end(body));
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => server.close());
  const port = portOf(server);
  const { run, json } = await storage.fresh({ listen: `127.0.0.1:${port}` });
  const { code, stdout } = await run('status');
  assert.equal(code, 0);
  assert.equal(
    stdout,
    [
      'not ready: workers are being started',
      'HOST  STREAM       STATE    RECORDS  REJECTED  LOST          LAG  RATE       LAST HEARD                ERROR',
      'db1   /log\\x1b[2J  reading  12       3         2 x, 2.0 KiB  -    2.0 KiB/s  2024-01-01T00:00:00.000Z  SSH_AUTH_REFUSED: no\\x9b',
      'master 3, sshproxy 2, 1 of 1 workers, 3 restarts; storage ready',
      '',
    ].join('\n'),
  );
  const object = await json('status');
  assert.deepEqual(object, { running: true, ...answer });

  for (const other of ['<html>', '{}', '{"hosts":[{}]}', 'null']) {
    body = other;
    const wrong = await run('status');
    assert.equal(wrong.code, 1);
    assert.match(wrong.stdout, /is not pgsluice/);
  }
});
