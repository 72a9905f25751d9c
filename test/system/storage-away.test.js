/**
 * The storage is away for a while, under load, over a real ssh: stopped, killed, silent (all its processes stopped), out
 * of disk. The worker's memory stays bounded, reading stops and so does the follower on the host, /readyz says why, and
 * everything arrives once afterwards.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { descendants, processesWith, TestDaemon } from '../helpers/daemon.js';
import { startPostgres } from '../helpers/postgres.js';
import { signalAll } from '../helpers/signals.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

const MIB = 1024 * 1024;
const BATCH_MIB = 1;
// Five batches, each with room for the chunk that fills it, once more while those of a failure are given back; what is
// left over is V8's and the allocator's. Far less than what is written meanwhile.
const GROWTH_MAX_BYTES = 2 * 5 * (BATCH_MIB + 1) * MIB + 28 * MIB;
const AWAY_BYTES = 64 * MIB;
// The worker's batches, its FIFO, and the window of ssh (2 MiB and its pipes).
const AHEAD_MAX_BYTES = 5 * (BATCH_MIB + 1) * MIB + 4 * MIB;
const TEXT = 'x'.repeat(900);

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"${TEXT}",,,,,,,,,"psql","client backend",,0\n`;

describe('a storage that is away', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let sshd;
  /** @type {TestDaemon} */
  let daemon;
  /** @type {string} */
  let logs;
  let rows = 0;
  let written = 0;

  before(async () => {
    [storage, sshd] = await Promise.all([startPostgres(), startSshd()]);
    logs = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(logs, 0o755);
    append(MIB);
    daemon = new TestDaemon({
      toml: `storage.url = "${storage.url}"\ndaemon.workers = 1\nbatch.max_bytes = "${BATCH_MIB}MiB"`,
    });
    await daemon.start();
    await daemon.addHost('db1', { log: logs, server: sshd, transport: 'openssh' });
  });
  after(async () => {
    await daemon?.remove();
    await Promise.all([sshd?.stop(), storage?.stop()]);
    rmSync(logs, { recursive: true });
  });

  /** @param {number} bytes about so many */
  function append(bytes) {
    const count = Math.ceil(bytes / row(0).length);
    const text = Array.from({ length: count }, (_, n) => row(rows + n)).join('');
    appendFileSync(join(logs, 'a.csv'), text);
    rows += count;
    written += text.length;
  }

  /** Everything that was written is stored once. */
  async function allStored() {
    let stored = 0;
    await until(
      async () => {
        const result = await storage
          .query('SELECT count(*)::int FROM pgsluice.log WHERE host = $1', ['db1'])
          .catch(() => null);
        stored = result?.rows[0].count ?? stored;
        return stored >= rows;
      },
      () => `${rows} rows; ${stored} are stored; ${daemon.output.slice(-2000)}`,
    );
    const { rows: found } = await storage.query(
      `SELECT count(*)::int AS all, count(DISTINCT session_line_num)::int AS different,
              (SELECT count(*) FROM pgsluice.rejected)::int AS rejected FROM pgsluice.log`,
    );
    assert.deepEqual(found, [{ all: rows, different: rows, rejected: 0 }]);
  }

  async function sample() {
    const { workers, hosts, ready, reason } = await daemon.status();
    const [worker, stream] = [workers[0], hosts[0]?.streams[0]];
    return { rssBytes: worker?.rssBytes ?? 0, bytes: stream?.bytes ?? 0, ready, reason: reason ?? '' };
  }

  /** How far the follower on the host has read, or 0. */
  function followerOffset() {
    const onHost = new Set(descendants(sshd.pid));
    const offsets = processesWith('').flatMap(({ pid }) => {
      if (!onHost.has(pid)) return [];
      try {
        return [Number(/^pos:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/fdinfo/3`, 'utf8'))?.[1] ?? 0)];
      } catch {
        return [];
      }
    });
    return Math.max(0, ...offsets);
  }

  /**
   * @param {() => Promise<unknown>} away
   * @param {() => Promise<unknown>} back
   * @param {RegExp} why in /readyz
   */
  async function goesAway(away, back, why) {
    await allStored();
    await until(
      async () => (await sample()).ready,
      () => 'ready before',
    );
    const begin = await sample();
    const storedBytes = written;
    let rssMax = 0;
    let offsetMax = 0;
    let reason = '';
    await away();
    try {
      const awayUntil = Date.now() + 12_000;
      await until(
        async () => {
          if (written - storedBytes < AWAY_BYTES) append(2 * MIB);
          const now = await sample();
          rssMax = Math.max(rssMax, now.rssBytes);
          offsetMax = Math.max(offsetMax, followerOffset());
          if (!now.ready) reason = now.reason;
          return why.test(reason) && written - storedBytes >= AWAY_BYTES && Date.now() > awayUntil;
        },
        () => `/readyz says why: ${reason}`,
      );
      // On a full disk a batch may still find a place, and the next one does not.
      await until(
        async () => (await fetch(`${daemon.url}/readyz`)).status === 503,
        () => '/readyz answers 503',
      );
      const growth = rssMax - begin.rssBytes;
      assert.ok(growth < GROWTH_MAX_BYTES, `the worker grew by ${Math.round(growth / MIB)} MiB`);
      assert.ok(
        offsetMax < storedBytes + AHEAD_MAX_BYTES,
        `the follower went on: ${offsetMax} of ${written} bytes were read, ${storedBytes} are stored`,
      );
    } finally {
      await back();
    }
    await allStored();
    await until(
      async () => (await sample()).ready,
      () => 'ready again',
    );
  }

  /** @param {NodeJS.Signals} signal */
  function signalStorage(signal) {
    const pid = storage.pid() ?? 0;
    signalAll([pid, ...descendants(pid)], signal);
  }

  /** Of files that the storage writes; set as the owner of its processes, whom nobody forbids. @param {string} bytes */
  function limitFiles(bytes) {
    const pid = storage.pid() ?? 0;
    for (const one of [pid, ...descendants(pid)]) {
      try {
        execFileSync('prlimit', ['--pid', String(one), `--fsize=${bytes}:`], {
          ...storage.account,
          stdio: 'pipe',
        });
      } catch (error) {
        // A backend may have ended by itself just now.
        if (one === pid) throw error;
      }
    }
  }

  test('stopped for 12 s', () =>
    goesAway(
      () => storage.halt(),
      () => storage.start(),
      /storage/,
    ));

  test('killed with -9', () =>
    goesAway(
      () => storage.kill(),
      () => storage.start(),
      /storage/,
    ));

  test('silent: every process of it is stopped', () =>
    goesAway(
      async () => signalStorage('SIGSTOP'),
      async () => signalStorage('SIGCONT'),
      /storage/,
    ));

  test('out of disk: the files of its tables cannot grow', () => {
    append(30 * MIB); // the table is larger than the limit by then
    return goesAway(
      async () => limitFiles(String(24 * MIB)),
      async () => limitFiles('unlimited'),
      /records are not stored.*extend/,
    );
  });
});
