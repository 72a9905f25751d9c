/**
 * SIGTERM at any moment: while it starts, claims, connects, copies, while the storage or the host is away, in standby,
 * and once more at once. Nothing is lost or stored twice, it takes at most 10 s, and no process is left.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { checkConservation, checkCounts, csvFiles, waitUntilDrained } from '../helpers/conservation.js';
import { descendants, processesWith, TestDaemon } from '../helpers/daemon.js';
import { startLoad } from '../helpers/load.js';
import { csvlogSettings, startPostgres } from '../helpers/postgres.js';
import { signalAll } from '../helpers/signals.js';
import { startSshd } from '../helpers/sshd.js';

const PROGRAM = fileURLToPath(new URL('../../bin/pgsluice.js', import.meta.url));
const STOP_MAX_MS = 10_000;
const DRAIN_MS = 120_000;
const GONE_MS = 15_000;

/** @typedef {{ afterMs: number, away?: 'storage' | 'silent storage' | 'sshd', again?: NodeJS.Signals }} Run */

/** When it is told to end, after its start; what is away meanwhile; what is sent once more at once. @type {Run[]} */
const RUNS = [
  ...[50, 300, 600, 900, 1_200, 1_600, 2_000, 2_600, 3_500].map(afterMs => ({ afterMs })),
  { afterMs: 700, again: 'SIGTERM' },
  { afterMs: 1_500, again: 'SIGINT' },
  { afterMs: 3_000, again: 'SIGHUP' },
  { afterMs: 2_500, away: 'storage' },
  { afterMs: 3_500, away: 'silent storage' },
  { afterMs: 2_500, away: 'sshd', again: 'SIGTERM' },
  { afterMs: 4_500 },
];

describe('SIGTERM', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let source;
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let sshd;
  /** @type {TestDaemon} */
  let daemon;

  before(async () => {
    [source, storage, sshd] = await Promise.all([
      startPostgres({ settings: csvlogSettings({ rotationSize: '256kB' }) }),
      startPostgres(),
      startSshd(),
    ]);
    daemon = new TestDaemon({ toml: `storage.url = "${storage.url}"\ndaemon.workers = 2` });
    const log = source.dataDir;
    await daemon.addHost('openssh', { log, server: sshd, transport: 'openssh' });
    await daemon.addHost('ssh2', { log, server: sshd, transport: 'ssh2' });
    await daemon.addHost('local', { log });
  });
  after(async () => {
    await daemon?.remove();
    await Promise.all([sshd?.stop(), source?.stop(), storage?.stop()]);
  });

  /** @param {NodeJS.Signals} signal */
  function signalStorage(signal) {
    const postmaster = storage.pid() ?? 0;
    signalAll([postmaster, ...descendants(postmaster)], signal);
  }

  /** Those of the daemon, and what it runs on the host. */
  function left() {
    const onHost = new Set(descendants(sshd.pid));
    return [
      ...processesWith(daemon.dir),
      ...processesWith('pgsluice-follower').filter(({ pid }) => onHost.has(pid)),
    ];
  }

  async function noneLeft() {
    const deadline = Date.now() + GONE_MS;
    while (left().length > 0 && Date.now() < deadline) await sleep(100);
    assert.deepEqual(left(), []);
  }

  test('at any moment loses and repeats nothing, ends within 10 s, and leaves no process', async () => {
    const load = startLoad(source.connectionOptions, { ratePerSecond: 200 });
    try {
      for (const { afterMs, away, again } of RUNS) {
        const what = `SIGTERM after ${afterMs} ms${again ? ` and ${again}` : ''}${away ? `, ${away} away` : ''}`;
        const child = spawn(process.execPath, [PROGRAM, 'start', '--config', daemon.configFile], {
          stdio: ['ignore', 'ignore', 'pipe'],
          detached: true,
        });
        let said = '';
        child.stderr.on('data', chunk => (said += chunk));
        const exited = once(child, 'exit');
        await sleep(afterMs);
        if (away === 'storage') await storage.halt();
        if (away === 'silent storage') signalStorage('SIGSTOP');
        if (away === 'sshd') sshd.signalConnections('SIGSTOP');
        const asked = performance.now();
        child.kill('SIGTERM');
        if (again) child.kill(again);
        const [code, signal] = await exited;
        const tookMs = performance.now() - asked;
        // Before the program has begun to listen for signals it just ends.
        const early = signal === 'SIGTERM' && afterMs < 2_000;
        assert.ok(code === 0 || early, `${what}: it ended with ${code ?? signal}: ${said}`);
        assert.ok(tookMs < STOP_MAX_MS, `${what}: ${tookMs} ms`);
        if (away === 'storage') await storage.start();
        if (away === 'silent storage') signalStorage('SIGCONT');
        if (away === 'sshd') sshd.signalConnections('SIGCONT');
        await noneLeft();
      }
    } finally {
      await load.stop();
    }
    await daemon.start();
    const client = new Client(storage.connectionOptions);
    await client.connect();
    try {
      for (const host of ['openssh', 'ssh2', 'local']) {
        await waitUntilDrained(client, host, source.logDir, DRAIN_MS);
        const check = await checkConservation(client, host, await csvFiles(source.logDir));
        await checkCounts(client, host);
        assert.ok(check.source > 1_000, `${check.source} records in the source`);
        assert.deepEqual(
          { host, missing: check.missing, duplicated: check.duplicated, rejected: check.rejected },
          { host, missing: 0, duplicated: 0, rejected: 0 },
        );
      }
    } finally {
      await client.end();
    }
  });

  test('in standby, too', async () => {
    if (!(await daemon.ready())) await daemon.start();
    const second = new TestDaemon({ toml: daemon.toml });
    const starting = second.start().catch(() => {});
    const deadline = Date.now() + 30_000;
    while (!second.output.includes('FLEET_HELD') && Date.now() < deadline) await sleep(50);
    assert.ok((await second.stop()) < STOP_MAX_MS);
    await starting;
    await second.remove();
    assert.equal(await daemon.ready(), true, 'the first one works on');
  });
});
