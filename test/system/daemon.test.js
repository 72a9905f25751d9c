/**
 * The daemon as an operator sees it: its endpoints, a storage that is away, children that die, a second daemon, and
 * what is left on a host when everything was killed.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { descendants, processesWith, TestDaemon } from '../helpers/daemon.js';
import { startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

const ROW =
  '2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n';

describe('the daemon', () => {
  /** @type {string} */
  let logs;
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {TestDaemon[]} */
  let daemons = [];

  before(async () => {
    logs = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(logs, 0o755);
    writeFileSync(join(logs, 'a.csv'), ROW);
    storage = await startPostgres();
  });
  after(async () => {
    await storage.stop();
    rmSync(logs, { recursive: true });
  });
  afterEach(async () => {
    for (const daemon of daemons) await daemon.remove();
    daemons = [];
  });

  /** @param {string} database @param {string} [toml] */
  async function makeDaemon(database, toml = '') {
    const { host, port, user } = await storage.createDatabase(database);
    const url = `postgres://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
    const daemon = new TestDaemon({ toml: `storage.url = "${url}"\ndaemon.workers = 1\n${toml}` });
    daemons.push(daemon);
    return daemon;
  }

  /** @param {TestDaemon} daemon @param {string} path */
  async function get(daemon, path) {
    const response = await fetch(`${daemon.url}${path}`);
    return {
      status: response.status,
      type: response.headers.get('content-type') ?? '',
      text: await response.text(),
    };
  }

  test('is ready without hosts, takes one up when it is added, and shows it everywhere', async () => {
    const daemon = await makeDaemon('endpoints');
    await daemon.start();
    assert.equal((await get(daemon, '/healthz')).status, 200);
    assert.equal((await get(daemon, '/readyz')).status, 200);
    assert.equal((await get(daemon, '/nothing')).status, 404);
    assert.equal((await fetch(`${daemon.url}/status`, { method: 'POST' })).status, 405);
    await daemon.addHost('local1', { log: logs });
    await until(
      async () => (await daemon.status()).hosts[0]?.streams[0]?.records === 1,
      'the record in /status',
    );
    const { status, type, text } = await get(daemon, '/metrics');
    assert.equal(status, 200);
    assert.match(type, /^text\/plain/);
    const labels = `\\{host="local1",stream="${logs}"\\}`;
    assert.match(text, new RegExp(`^pgsluice_records_total${labels} 1$`, 'm'));
    assert.match(text, new RegExp(`^pgsluice_rejected_total${labels} 0$`, 'm'));
    assert.match(text, /^pgsluice_ready 1$/m);
    for (const line of text.trim().split('\n')) {
      assert.match(line, /^(#.*|[a-z_]+(\{[^}]*\})? [-+.\deE]+|)$/, 'a line of the exposition format');
    }
    assert.match(await daemon.run('status'), /local1.*reading/);
    await daemon.run('host', 'pause', 'local1');
    await until(async () => (await daemon.status()).hosts[0]?.streams[0]?.state === 'paused', 'the pause');
    await daemon.run('host', 'remove', 'local1');
    await until(async () => (await daemon.status()).hosts.length === 0, 'the removal');
  });

  test('waits for a storage that is away, says so, and commands end with exit code 3', async () => {
    const daemon = await makeDaemon('away');
    await storage.halt();
    const starting = daemon.start();
    await until(() => daemon.url !== '', 'the endpoint');
    assert.equal((await get(daemon, '/healthz')).status, 200);
    const { status, text } = await get(daemon, '/readyz');
    assert.equal(status, 503);
    assert.match(text, /storage/);
    const command = await daemon.command('host', 'list');
    assert.equal(command.code, 3);
    assert.equal(command.stderr.trim().split('\n').length, 1);
    await storage.start();
    await starting;
    assert.equal((await get(daemon, '/readyz')).status, 200);
  });

  test('a second daemon on the same storage waits until the first is gone', async () => {
    const first = await makeDaemon('shared');
    await first.start();
    const second = new TestDaemon({
      toml: `storage.url = "${/storage\.url = "(.*)"/.exec(first.toml)?.[1]}"`,
    });
    daemons.push(second);
    const starting = second.start();
    await until(
      async () => second.url !== '' && (await get(second, '/readyz')).text.includes('another daemon'),
      'the standby',
    );
    assert.equal((await get(first, '/readyz')).status, 200);
    await first.kill({ children: true });
    await starting;
  });

  test('a daemon that was stopped for a while finds its fleet taken, and does not take it back', async () => {
    const own = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(own, 0o755);
    writeFileSync(join(own, 'a.csv'), ROW);
    const first = await makeDaemon('taken');
    await first.start();
    await first.addHost('local1', { log: own });
    await until(async () => (await first.status()).hosts[0]?.streams[0]?.records === 1, 'the record');
    const second = new TestDaemon({ toml: `${first.toml}` });
    daemons.push(second);
    const starting = second.start();
    await until(
      async () => second.url !== '' && (await get(second, '/readyz')).text.includes('another daemon'),
      'the standby',
    );
    process.kill(first.pid, 'SIGSTOP');
    await storage.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = 'taken' AND application_name LIKE 'pgsluice master %' AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)`);
    await starting;
    process.kill(first.pid, 'SIGCONT');
    await until(
      async () => (await get(first, '/readyz')).text.includes('another daemon'),
      'the first one waits',
    );
    await until(
      async () => (await second.status()).hosts[0]?.streams[0]?.state === 'reading',
      'the second one reads',
    );
    const connects = async () => (await second.status()).hosts[0]?.streams[0]?.connects;
    // Both read it now; the first one's worker learns from its commit that the stream is no longer its own.
    const before = await connects();
    appendFileSync(join(own, 'a.csv'), ROW);
    await until(async () => (await second.status()).hosts[0]?.streams[0]?.records === 1, 'the new record');
    await sleep(4_000);
    assert.equal(await connects(), before, 'nobody took the stream away');
    assert.equal((await get(second, '/readyz')).status, 200);
    rmSync(own, { recursive: true });
  });

  test('children that die are replaced', async () => {
    const daemon = await makeDaemon('children');
    await daemon.start();
    await daemon.addHost('local1', { log: logs });
    const before = await daemon.status();
    for (const pid of [before.workers[0]?.pid, before.sshproxy.pid]) process.kill(pid ?? 0, 'SIGKILL');
    await until(async () => {
      const { workers, sshproxy, ready, hosts } = await daemon.status();
      const replaced = workers[0]?.restarts === 1 && sshproxy.restarts === 1;
      return replaced && ready && hosts[0]?.streams[0]?.state === 'reading';
    }, 'new children that read');
  });

  test('with the embedded storage a killed daemon leaves its records, and a stopped one no process', async () => {
    const daemon = new TestDaemon({ toml: 'daemon.workers = 1' });
    daemons.push(daemon);
    await daemon.start();
    await daemon.addHost('local1', { log: logs });
    await until(async () => (await daemon.status()).hosts[0]?.streams[0]?.records === 1, 'the record');
    await daemon.kill({ children: true });
    await daemon.start();
    await until(
      async () => (await daemon.status()).hosts[0]?.streams[0]?.state === 'reading',
      'reading again',
    );
    await daemon.stop();
    await until(() => processesWith(daemon.dir).length === 0, 'the end of all its processes');
    // A command starts the embedded storage for its own duration.
    assert.match(await daemon.run('host', 'list'), /local1/);
    await until(() => processesWith(daemon.dir).length === 0, 'the end of the embedded storage');
  });

  test('after everything was killed with -9 nothing runs on the host 10 s later', async () => {
    const sshd = await startSshd();
    try {
      const daemon = await makeDaemon('killed');
      await daemon.start();
      for (const transport of ['openssh', 'ssh2'])
        await daemon.addHost(transport, { log: logs, server: sshd, transport });
      const followers = () => {
        const onHost = new Set(descendants(sshd.pid));
        return processesWith('pgsluice-follower').filter(({ pid }) => onHost.has(pid));
      };
      await until(async () => {
        const { hosts } = await daemon.status();
        return hosts.length === 2 && hosts.every(host => host.streams[0]?.state === 'reading');
      }, 'two followers');
      assert.ok(followers().length >= 2);
      await daemon.kill({ children: true });
      await sleep(10_000);
      assert.deepEqual(followers(), []);
    } finally {
      await sshd.stop();
    }
  });
});
