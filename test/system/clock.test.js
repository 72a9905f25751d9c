/**
 * A monitoring host whose clock jumps, by years ahead and back, while the daemon reads, stops and starts: everything is
 * read on, each record once, and nothing is dropped as past retention. libfaketime changes what the daemon's processes
 * are told of the time of day; the storage and the monitored host have the right one.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestDaemon } from '../helpers/daemon.js';
import { socketUrl, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';

const WAIT_MS = 60_000;
const [LIBRARY = ''] = globSync('/usr/lib/*/faketime/libfaketime.so.1');
const TRANSPORTS = ['openssh', 'ssh2'];

/** @type {import('../helpers/postgres.js').TestPostgres} */
let storage;
/** @type {import('../helpers/sshd.js').Sshd} */
let sshd;
/** @type {TestDaemon} */
let daemon;
/** @type {string} */
let logs;
before(async () => {
  [storage, sshd] = await Promise.all([startPostgres(), startSshd()]);
  logs = mkdtempSync(join(tmpdir(), 'pgsluice-clock-'));
  chmodSync(logs, 0o755);
  writeFileSync(join(logs, 'a.csv'), '');
});
after(async () => {
  await daemon?.remove();
  await Promise.all([storage.stop(), sshd.stop()]);
  rmSync(logs, { recursive: true });
});

test('jumps of the clock lose nothing and repeat nothing', async () => {
  const offset = join(logs, 'offset');
  const jump = (/** @type {string} */ by) => writeFileSync(offset, `${by}\n`);
  jump('+0');
  const url = socketUrl(await storage.createDatabase('clock'));
  daemon = new TestDaemon({
    toml: `storage.url = "${url}"\ndaemon.workers = 1\nretention.days = 2`,
    env: {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: offset,
      FAKETIME_NO_CACHE: '1',
      // Both names, for versions before and since 0.9.9.
      DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  });
  await daemon.start();
  for (const transport of TRANSPORTS)
    await daemon.addHost(transport, { log: join(logs, 'a.csv'), server: sshd, transport });

  let written = 0;
  /** Rows of now that arrive, whatever the daemon thinks what time it is. @param {string} when */
  async function arrives(when) {
    for (let n = 0; n < 20; n += 1) {
      const now = new Date().toISOString().replace('T', ' ').replace('Z', ' UTC');
      appendFileSync(
        join(logs, 'a.csv'),
        `${now},"u","d",17,"[local]",673f.11,${(written += 1)},"SELECT",${now.slice(0, 19)} UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`,
      );
      await sleep(50);
    }
    const expected = TRANSPORTS.map(host => ({ host, rows: written, different: written }));
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const { rows } = await storage.query(
        `SELECT host, count(*)::int AS rows, count(DISTINCT session_line_num)::int AS different
           FROM pgsluice.log GROUP BY host ORDER BY host`,
        [],
        'clock',
      );
      if (rows.length === expected.length && rows.every(row => row.rows >= written)) {
        assert.deepEqual(rows, expected, when);
        return;
      }
      if (performance.now() > deadline)
        assert.deepEqual(rows, expected, `${when}: ${daemon.output.slice(-2_000)}`);
      await sleep(100);
    }
  }

  /** @param {number} least @param {number} most days that the hosts' clocks are ahead of the daemon's */
  async function isSeen(least, most) {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const { hosts } = await daemon.status();
      const days = hosts.map(({ streams }) => (streams[0]?.clockSkewMs ?? 0) / 86_400_000);
      if (days.every(skew => skew > least && skew < most)) return;
      if (performance.now() > deadline) assert.fail(`skews of ${days.join(' and ')} days`);
      await sleep(100);
    }
  }

  await arrives('the right time');
  jump('+20y');
  await arrives('20 years ahead');
  await isSeen(-7_400, -7_200);
  await daemon.kill({ children: true });
  await daemon.start();
  await arrives('20 years ahead from the start on');
  await isSeen(-7_400, -7_200);
  jump('-3d');
  await arrives('3 days behind');
  await isSeen(2.9, 3.1);
  jump('+0');
  await arrives('the right time again');
  const { hosts } = await daemon.status();
  assert.deepEqual(
    hosts.map(({ streams }) => streams[0]?.connects),
    [1, 1],
    'no connection was given up',
  );
});
