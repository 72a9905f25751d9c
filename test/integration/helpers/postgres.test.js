import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { startLoad } from '../../helpers/load.js';
import { csvlogSettings, socketUrl, startPostgres, systemBinDirectories } from '../../helpers/postgres.js';

const HELPER = new URL('../../helpers/postgres.js', import.meta.url).href;

/**
 * @param {import('node:test').TestContext} t
 * @param {import('../../helpers/postgres.js').StartOptions} [options]
 */
async function started(t, options) {
  const server = await startPostgres(options);
  t.after(() => server.stop());
  return server;
}

/** @param {import('pg').ClientConfig | string} to */
async function currentDatabase(to) {
  const client = new Client(to);
  await client.connect();
  const { rows } = await client.query('SELECT current_database() AS name');
  await client.end();
  return rows[0].name;
}

/** @param {number | undefined} pid */
function lives(pid) {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Line 7 of postmaster.pid: key and id of the System V segment. */
async function sharedMemoryOf(/** @type {string} */ dataDir) {
  const lines = (await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8')).split('\n');
  return lines[6].trim().split(/\s+/)[1];
}

async function sharedMemoryIds() {
  const lines = (await readFile('/proc/sysvipc/shm', 'utf8')).split('\n');
  return lines.map(line => line.trim().split(/\s+/)[1]);
}

/** All csv files of a log directory together. */
async function csvOf(/** @type {string} */ directory) {
  const names = (await readdir(directory)).filter(name => name.endsWith('.csv'));
  const texts = await Promise.all(names.map(name => readFile(path.join(directory, name), 'utf8')));
  return { names, text: texts.join('') };
}

describe('startPostgres', { concurrency: 2 }, () => {
  test('starts on its own socket, and stop removes everything', async () => {
    const server = await startPostgres({ settings: { work_mem: '7MB', cluster_name: `it's \\ "q"` } });
    const pid = server.pid();
    assert.ok(lives(pid));
    assert.equal(await currentDatabase(server.connectionOptions), 'postgres');
    assert.equal(await currentDatabase(server.url), 'postgres');
    assert.equal(new URL(server.url).searchParams.get('host'), server.socketDir);
    const { rows } = await server.query(
      `SELECT current_setting('listen_addresses') AS tcp, current_setting('work_mem') AS mem,
              current_setting('cluster_name') AS name, current_setting('server_version') AS version, $1::int AS n`,
      [3],
    );
    assert.deepEqual(rows, [{ tcp: '', mem: '7MB', name: `it's \\ "q"`, version: server.version, n: 3 }]);
    assert.equal(server.tcpOptions, undefined);
    await server.stop();
    await server.stop();
    await assert.rejects(stat(path.dirname(server.dataDir)), { code: 'ENOENT' });
    assert.equal(lives(pid), false);
  });

  test('keeps its data across restart, halt and kill', async t => {
    const server = await started(t);
    await server.query('CREATE TABLE kept AS SELECT 1 AS x');
    const pids = [server.pid()];
    await server.restart();
    pids.push(server.pid());
    await server.halt('immediate');
    assert.equal(server.pid(), undefined);
    await assert.rejects(server.query('SELECT 1'), { code: 'ENOENT' });
    await server.start();
    pids.push(server.pid());
    await server.start();
    assert.equal(server.pid(), pids[2]);
    // A backend that computes does not notice the postmaster's death by itself.
    const busy = server.query(`DO $$ BEGIN LOOP END LOOP; END $$`);
    const failed = assert.rejects(busy);
    const running = `SELECT 1 FROM pg_stat_activity WHERE query LIKE 'DO%' AND state = 'active'`;
    while ((await server.query(running)).rowCount === 0) await sleep(5);
    await server.kill();
    await failed;
    await server.start();
    pids.push(server.pid());
    assert.equal(new Set(pids).size, 4);
    assert.deepEqual((await server.query('SELECT x FROM kept')).rows, [{ x: 1 }]);
  });

  test('a kill before stop leaves no shared memory behind', async () => {
    const server = await startPostgres();
    const id = await sharedMemoryOf(server.dataDir);
    assert.ok((await sharedMemoryIds()).includes(id));
    await server.kill();
    await server.stop();
    assert.ok(!(await sharedMemoryIds()).includes(id));
  });

  test('makes databases of other encodings', async t => {
    const server = await started(t);
    const options = await server.createDatabase('wi"n', { encoding: 'WIN1251' });
    assert.equal(await currentDatabase(options), 'wi"n');
    assert.equal(await currentDatabase(socketUrl(options)), 'wi"n');
    const { rows } = await server.query('SHOW server_encoding', [], 'wi"n');
    assert.deepEqual(rows, [{ server_encoding: 'WIN1251' }]);
  });

  test('listens on TCP when asked, with a password for scram', async t => {
    const [open, scram] = await Promise.all([started(t, { tcp: true }), started(t, { tcp: 'scram' })]);
    assert.ok(open.tcpOptions && scram.tcpOptions);
    assert.equal(await currentDatabase(open.tcpOptions), 'postgres');
    assert.equal(await currentDatabase(scram.tcpOptions), 'postgres');
    await assert.rejects(currentDatabase({ ...scram.tcpOptions, password: 'wrong' }), { code: '28P01' });
  });

  test('runs every PostgreSQL of the system', async t => {
    for (const directory of await systemBinDirectories()) {
      const server = await started(t, { binaries: directory });
      assert.equal(String(server.major), path.basename(path.dirname(directory)));
      assert.equal((await server.query('SELECT 1 AS x')).rows[0].x, 1);
    }
  });

  test('says why it does not start, and leaves nothing', async t => {
    const beside = await started(t);
    const dir = beside.logDir.replace(/data\/log$/, '');
    const before = await readdir(dir);
    await assert.rejects(
      startPostgres({ dir, settings: { work_mem: 'much' } }),
      /invalid value for parameter "work_mem"/,
    );
    await assert.rejects(startPostgres({ dir, initdbArgs: ['--no-such'] }), /initdb failed.*no-such/);
    assert.deepEqual(await readdir(dir), before);
  });

  test('a test process that is killed leaves neither server nor files', async () => {
    const script = `
      import { startPostgres } from ${JSON.stringify(HELPER)};
      const { dataDir, pid } = await startPostgres();
      console.log(JSON.stringify({ dataDir, pid: pid() }));
      process.stdin.resume();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = await once(createInterface(child.stdout), 'line');
    const { dataDir, pid } = JSON.parse(line);
    assert.ok(lives(pid));
    const segment = await sharedMemoryOf(dataDir);
    assert.ok((await sharedMemoryIds()).includes(segment));
    child.kill('SIGKILL');
    await once(child, 'close');
    const base = path.dirname(dataDir);
    while (await stat(base).catch(() => undefined)) await sleep(20);
    assert.ok(!(await sharedMemoryIds()).includes(segment));
    await assert.rejects(
      readFile(`/proc/${pid}/cmdline`, 'utf8').then(text => assert.ok(text.includes(dataDir))),
    );
  });

  test('a forgotten server does not keep the test process alive', async () => {
    const script = `
      import { startPostgres } from ${JSON.stringify(HELPER)};
      const server = await startPostgres();
      await server.query('SELECT 1');
      console.log(server.dataDir);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [[line], [code]] = await Promise.all([
      once(createInterface(child.stdout), 'line'),
      once(child, 'exit'),
    ]);
    assert.equal(code, 0);
    while (await stat(path.dirname(line)).catch(() => undefined)) await sleep(20);
  });
});

describe('csvlogSettings and startLoad', { concurrency: 2 }, () => {
  test('the server rotates its csv files by size and on demand', async t => {
    const settings = csvlogSettings({
      rotationSize: '1kB',
      rotationAge: '1min',
      filename: 'pg-%Y%m%d%H%M%S.log',
    });
    const server = await started(t, { settings });
    for (let n = 0; (await csvOf(server.logDir)).names.length < 2; n += 1) {
      await server.query(`SELECT ${n}, repeat('x', 2000)`);
      await server.query('SELECT pg_rotate_logfile()');
      await sleep(100);
    }
    const { names, text } = await csvOf(server.logDir);
    assert.match(names[0], /^pg-\d{14}\.csv$/);
    assert.match(text, /"statement: SELECT 0, repeat/);
  });

  test('every statement that was answered is in the log once, across restarts and a kill', async t => {
    const server = await started(t, { settings: csvlogSettings({ rotationSize: '1MB' }) });
    const load = startLoad(server.connectionOptions, { connections: 5, payload: 20_000 });
    const untilMore = async () => {
      const enough = load.statements() + 700;
      while (load.statements() < enough) await sleep(10);
    };
    await untilMore();
    await server.restart();
    await untilMore();
    await server.kill();
    await server.start();
    await untilMore();
    const { statements } = await load.stop();
    assert.equal(load.statements(), statements);
    // A clean end, so that the collector has written all that was in its pipe.
    await server.halt();
    const { text } = await csvOf(server.logDir);
    const execution = /"(?:statement|execute <unnamed>): (?:[^"]|"")*?(load \d\.\d+) /g;
    const logged = [...text.matchAll(execution)].map(match => match[1]);
    assert.equal(new Set(logged).size, logged.length);
    // A syntax error is logged with its statement, but not as one.
    const all = new Set(text.match(/load \d\.\d+/g)).size;
    assert.ok(logged.length > 0.8 * all);
    // Besides the answered ones only those in flight at the restart and at the kill.
    assert.ok(all >= statements && all <= statements + 2 * 5, `${all} of ${statements}`);
    const seen = [
      'division by zero',
      'syntax error',
      'Key (id)=(1) already exists',
      'Parameters: $1',
      'notice',
      '漢字',
      'WARNING',
    ];
    for (const what of seen) assert.ok(text.includes(what), what);
    for (const name of ['"load"', '"billing ""v2"""', `"o'brien, cron"`])
      assert.ok(text.includes(`,${name},`), name);
    assert.ok(text.includes('big ÷ '.repeat(2000)));
  });

  test('what was logged before a kill is in the file after it, however late the collector is', async t => {
    const server = await started(t, { settings: csvlogSettings() });
    const pid = server.pid();
    const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ');
    const titles = await Promise.all(children.map(child => readFile(`/proc/${child}/cmdline`, 'utf8')));
    const collector = Number(children[titles.findIndex(title => title.includes('logger'))]);
    process.kill(collector, 'SIGSTOP');
    await server.query("SELECT 'marker'");
    let returned = false;
    const killed = server.kill().then(() => (returned = true));
    await sleep(200);
    assert.equal(returned, false);
    process.kill(collector, 'SIGCONT');
    await killed;
    assert.match((await csvOf(server.logDir)).text, /statement: SELECT 'marker'/);
  });

  test('keeps to its rate and its duration', async t => {
    const server = await started(t);
    const load = startLoad(server.connectionOptions, { ratePerSecond: 40, connections: 2, durationMs: 500 });
    await sleep(700);
    const statements = load.statements();
    assert.ok(statements > 0 && statements <= 24, String(statements));
    await sleep(100);
    assert.equal((await load.stop()).statements, statements);
  });
});
