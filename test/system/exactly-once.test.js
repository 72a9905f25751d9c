/**
 * The promise, on real servers: a PostgreSQL under load with fast rotation, read over a real sshd, while every kind of
 * process is killed with -9 in turn. What is stored must equal PostgreSQL's own COPY of the same files.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { checkConservation, checkCounts, csvFiles, waitUntilDrained } from '../helpers/conservation.js';
import { descendants, processesWith, TestDaemon } from '../helpers/daemon.js';
import { startLoad } from '../helpers/load.js';
import { csvlogSettings, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';

const LOAD_MS = 36_000;
const DRAIN_MS = 120_000;

describe('exactly once', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let source;
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let sshd;
  /** @type {TestDaemon} */
  let daemon;
  /** @type {Client} */
  let client;

  before(async () => {
    [source, storage, sshd] = await Promise.all([
      startPostgres({ settings: csvlogSettings({ rotationSize: '64kB' }) }),
      startPostgres({ binaries: 'system' }),
      startSshd(),
    ]);
    daemon = new TestDaemon({ toml: `storage.url = "${storage.url}"\ndaemon.workers = 2` });
    client = new Client(storage.connectionOptions);
    await client.connect();
  });

  after(async () => {
    await client?.end();
    await daemon?.remove();
    await Promise.all([sshd?.stop(), source?.stop(), storage?.stop()]);
  });

  test('holds while worker, sshproxy, ssh and the whole daemon are killed', async () => {
    await daemon.start();
    const log = source.dataDir;
    await daemon.addHost('openssh', { log, server: sshd, transport: 'openssh' });
    await daemon.addHost('ssh2', { log, server: sshd, transport: 'ssh2' });
    await daemon.addHost('local', { log });
    await daemon.addHost('switched', { log, server: sshd });

    /** kills one process of a kind; how many were there is what the test counts @type {Record<string, number>} */
    const killed = { worker: 0, sshproxy: 0, ssh: 0, follower: 0, daemon: 0 };
    /** @param {string} kind @param {(process: { pid: number, command: string }) => boolean} which */
    const killOne = (kind, which) => {
      const family = new Set([...descendants(daemon.pid), ...descendants(sshd.pid)]);
      const ours = processesWith('').filter(({ pid }) => family.has(pid));
      const victim = ours.filter(which)[0];
      if (!victim) return;
      try {
        process.kill(victim.pid, 'SIGKILL');
        killed[kind] = (killed[kind] ?? 0) + 1;
      } catch {
        // it ended by itself just now
      }
    };
    const load = startLoad(source.connectionOptions, { ratePerSecond: 400, durationMs: LOAD_MS });
    const until = Date.now() + LOAD_MS;
    /** @type {(() => Promise<unknown>)[]} */
    const faults = [
      async () => killOne('worker', ({ command }) => command.includes('/src/worker/')),
      async () => killOne('ssh', ({ command }) => /^\S*ssh /.test(command)),
      async () => killOne('sshproxy', ({ command }) => command.includes('/src/sshproxy/')),
      async () => killOne('follower', ({ command }) => command.includes('pgsluice-follower')),
      async () => {
        await daemon.kill({ children: (killed['daemon'] ?? 0) % 2 === 0 });
        killed['daemon'] = (killed['daemon'] ?? 0) + 1;
        await daemon.start();
      },
      () => daemon.run('host', 'update', 'switched', '--transport', 'ssh2'),
      () => daemon.run('host', 'update', 'switched', '--transport', 'openssh'),
    ];
    for (let turn = 0; Date.now() < until; turn += 1) {
      await sleep(1_500);
      await faults[turn % faults.length]?.();
    }
    await load.stop();
    for (const [kind, count] of Object.entries(killed))
      assert.ok(count >= 2, `${kind} was killed ${count} times`);

    for (const host of ['openssh', 'ssh2', 'local', 'switched']) {
      await waitUntilDrained(client, host, source.logDir, DRAIN_MS);
      const check = await checkConservation(client, host, await csvFiles(source.logDir));
      await checkCounts(client, host);
      assert.ok(check.source > 5_000, `${check.source} records in the source`);
      assert.deepEqual(
        { host, missing: check.missing, duplicated: check.duplicated, rejected: check.rejected },
        { host, missing: 0, duplicated: 0, rejected: 0 },
      );
      assert.equal(check.stored, check.source);
    }
    assert.ok((await csvFiles(source.logDir)).length > 10, 'rotation was fast');

    const stopMs = await daemon.stop();
    assert.ok(stopMs < 10_000, `stopping took ${stopMs} ms`);
    // What ran on the host notices that nobody reads.
    const deadline = Date.now() + 10_000;
    while (left().length > 0 && Date.now() < deadline) await sleep(200);
    assert.deepEqual(left(), []);
    function left() {
      const onHost = new Set(descendants(sshd.pid));
      return [
        ...processesWith(daemon.dir),
        ...processesWith('pgsluice-follower').filter(({ pid }) => onHost.has(pid)),
      ];
    }
  });
});
