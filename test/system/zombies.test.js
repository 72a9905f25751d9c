/**
 * Daemons that are believed to be dead: whose machine vanished without a word, who were stopped for a while, who lost
 * their storage and come back. One works on a storage at a time, and what is stored stays exactly once.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { checkConservation, checkCounts, csvFiles, waitUntilDrained } from '../helpers/conservation.js';
import { descendants, TestDaemon } from '../helpers/daemon.js';
import { startLoad } from '../helpers/load.js';
import { csvlogSettings, startPostgres } from '../helpers/postgres.js';
import { signalAll } from '../helpers/signals.js';
import { startSilentProxy } from '../helpers/silent-proxy.js';
import { until } from '../helpers/until.js';

const TAKEOVER_MS = 15_000;
const DRAIN_MS = 60_000;

const ROW =
  '2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n';

/** @param {TestDaemon} daemon */
async function readyz(daemon) {
  if (daemon.url === '') return '';
  return (await fetch(`${daemon.url}/readyz`)).text();
}

/** @param {TestDaemon} daemon */
async function stateOf(daemon) {
  return (await daemon.status()).hosts[0]?.streams[0]?.state;
}

describe('zombies', () => {
  /** @type {(() => Promise<unknown>)[]} what afterEach stops, the last first */
  let releasers = [];
  afterEach(async () => {
    for (const release of releasers.toReversed()) await release();
    releasers = [];
  });

  /** A directory with one record in a.csv. */
  function logDirectory() {
    const dir = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(dir, 0o755);
    writeFileSync(join(dir, 'a.csv'), ROW);
    releasers.push(async () => rmSync(dir, { recursive: true }));
    return dir;
  }

  async function storageOverTcp() {
    const storage = await startPostgres({ tcp: true });
    releasers.push(() => storage.stop());
    const proxy = await startSilentProxy({ port: storage.port });
    releasers.push(() => proxy.close());
    const { user, database } = storage.connectionOptions;
    /** @param {number} port */
    const url = port => `postgres://${user}@127.0.0.1:${port}/${database}`;
    return { storage, proxy, direct: url(storage.port), through: url(proxy.port) };
  }

  /** @param {string} url */
  function makeDaemon(url) {
    const daemon = new TestDaemon({ toml: `storage.url = "${url}"\ndaemon.workers = 1` });
    releasers.push(() => daemon.remove());
    return daemon;
  }

  test('a daemon whose machine vanishes silently gives the fleet up by itself; back again, it waits', async () => {
    const { proxy, direct, through } = await storageOverTcp();
    const logs = logDirectory();
    const first = makeDaemon(through);
    await first.start();
    await first.addHost('local1', { log: logs });
    await until(async () => (await first.status()).hosts[0]?.streams[0]?.records === 1, 'the record');
    const second = makeDaemon(direct);
    const starting = second.start();
    await until(async () => (await readyz(second)).includes('another daemon'), 'the standby');
    assert.match(
      await readyz(second),
      new RegExp(`process ${first.pid} on `),
      'says which process holds the fleet',
    );
    assert.match(second.output, /FLEET_HELD/);
    proxy.silence();
    const silentAt = performance.now();
    await starting;
    const tookMs = performance.now() - silentAt;
    assert.ok(tookMs < TAKEOVER_MS, `taken over after ${tookMs} ms`);
    await until(async () => (await stateOf(second)) === 'reading', 'the second one reads');
    await until(async () => (await readyz(first)) !== 'ready\n', 'the first one notices');

    proxy.cut();
    proxy.speak();
    await until(async () => (await readyz(first)).includes('another daemon'), 'the first one waits');
    // Nothing was written meanwhile: no commit told the first one's worker. It puts its streams down all the same.
    await until(async () => (await stateOf(first)) === 'unassigned', 'the first one reads no more');
    const before = (await second.status()).hosts[0]?.streams[0]?.connects;
    appendFileSync(join(logs, 'a.csv'), ROW);
    await until(async () => (await second.status()).hosts[0]?.streams[0]?.records === 1, 'the new record');
    assert.equal((await second.status()).hosts[0]?.streams[0]?.connects, before, 'nobody took it away');
    // The other way round: the one that waits takes over again.
    await second.kill({ children: true });
    await until(() => first.ready(), 'the first one has the fleet again');
    appendFileSync(join(logs, 'a.csv'), ROW);
    await until(async () => (await first.status()).hosts[0]?.streams[0]?.records === 1, 'the next record');
  });

  test('a daemon that lost its connection does not wait for its own dead session', async () => {
    const { proxy, through } = await storageOverTcp();
    const daemon = makeDaemon(through);
    await daemon.start();
    proxy.strand();
    const lostAt = performance.now();
    await until(async () => !(await daemon.ready()), 'the loss');
    await until(() => daemon.ready(), 'the fleet again');
    const tookMs = performance.now() - lostAt;
    assert.ok(tookMs < 8_000, `back after ${tookMs} ms: the storage ends an idle session after 10 s`);
    assert.doesNotMatch(daemon.output, /FLEET_HELD/);
  });

  test('processes that were stopped for longer than the takeover write nothing twice', async () => {
    const [source, storage] = await Promise.all([
      startPostgres({ settings: csvlogSettings({ rotationSize: '64kB' }) }),
      startPostgres(),
    ]);
    releasers.push(
      () => source.stop(),
      () => storage.stop(),
    );
    const first = makeDaemon(storage.url);
    await first.start();
    await first.addHost('local1', { log: source.dataDir });
    const load = startLoad(source.connectionOptions, { ratePerSecond: 400 });
    const second = makeDaemon(storage.url);
    const starting = second.start();
    await until(
      async () => ((await first.status()).hosts[0]?.streams[0]?.records ?? 0) > 500,
      'the first one stores',
    );
    const stopped = [first.pid, ...descendants(first.pid)];
    signalAll(stopped, 'SIGSTOP');
    const stoppedAt = performance.now();
    await starting;
    assert.ok(performance.now() - stoppedAt < TAKEOVER_MS, 'taken over');
    await until(
      async () => ((await second.status()).hosts[0]?.streams[0]?.records ?? 0) > 500,
      'the second one stores',
    );
    signalAll(stopped.toReversed(), 'SIGCONT');
    await until(async () => (await readyz(first)).includes('another daemon'), 'the first one waits');
    await sleep(3_000); // both live: what the first one still holds, it tries to write now
    await load.stop();
    const client = new Client(storage.connectionOptions);
    await client.connect();
    releasers.push(() => client.end());
    await waitUntilDrained(client, 'local1', source.logDir, DRAIN_MS);
    const check = await checkConservation(client, 'local1', await csvFiles(source.logDir));
    await checkCounts(client, 'local1');
    assert.deepEqual(
      { missing: check.missing, duplicated: check.duplicated, rejected: check.rejected },
      { missing: 0, duplicated: 0, rejected: 0 },
    );
    assert.equal(check.stored, check.source);
  });
});
