/**
 * What master, workers and sshproxy tell each other is lost, repeated, late and malformed for a while
 * (test/helpers/faulty-channel.js), and the inventory changes meanwhile: master goes on, no record is stored twice, and
 * after that every stream is read again.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { TestDaemon } from '../helpers/daemon.js';
import { socketUrl, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';

const PRELOAD = fileURLToPath(new URL('../helpers/faulty-channel.js', import.meta.url));
const FAULTY_MS = 8_000;
const WAIT_MS = 60_000;
const HOSTS = ['local', 'openssh', 'ssh2', 'local', 'openssh', 'ssh2'];

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`;

/** @type {import('../helpers/postgres.js').TestPostgres} */
let storage;
/** @type {import('../helpers/sshd.js').Sshd} */
let sshd;
/** @type {TestDaemon} */
let daemon;
/** @type {string} */
let base;
before(async () => {
  [storage, sshd] = await Promise.all([startPostgres(), startSshd()]);
  base = mkdtempSync(join(tmpdir(), 'pgsluice-channels-'));
  chmodSync(base, 0o755);
});
after(async () => {
  await daemon?.remove();
  await Promise.all([storage.stop(), sshd.stop()]);
  rmSync(base, { recursive: true });
});

test('after a time of faults all is read, and nothing twice', async t => {
  const faults = join(base, 'faults');
  daemon = new TestDaemon({
    toml: `storage.url = "${socketUrl(await storage.createDatabase('channels'))}"\ndaemon.workers = 3`,
    env: { NODE_OPTIONS: `--import=${PRELOAD}`, FAULTY_CHANNELS: faults },
  });
  await daemon.start();
  const master = daemon.pid;
  const logs = HOSTS.map((_, n) => join(base, `log${n}.csv`));
  let written = 0;
  const write = () => {
    for (const log of logs) appendFileSync(log, row(written));
    written += 1;
  };
  write();
  for (const [n, transport] of HOSTS.entries()) {
    const server = transport === 'local' ? {} : { server: sshd };
    await daemon.addHost(`h${n}`, { log: logs[n] ?? '', transport, ...server });
  }
  writeFileSync(faults, '');
  const end = Date.now() + FAULTY_MS;
  for (let n = 0; Date.now() < end; n = (n + 1) % HOSTS.length) {
    write();
    // Streams are put down and assigned anew all the while.
    await daemon.run('host', 'update', `h${n}`, '--label', `n=${written}`);
    await daemon.run('host', 'pause', `h${n}`);
    await daemon.run('host', 'resume', `h${n}`);
    const worker = (await daemon.status()).workers[n % 3];
    if (n % 3 === 2 && worker?.pid) process.kill(worker.pid, 'SIGKILL');
  }
  rmSync(faults);
  write();
  const counts = async () =>
    (
      await storage.query(
        `SELECT host, count(*)::int AS n, count(DISTINCT session_line_num)::int AS distinct
           FROM pgsluice.log GROUP BY host ORDER BY host`,
        [],
        'channels',
      )
    ).rows;
  const expected = HOSTS.map((_, n) => ({ host: `h${n}`, n: written, distinct: written }));
  const whole = async () => (await counts()).every(({ distinct }) => distinct >= written);
  for (const deadline = Date.now() + WAIT_MS; !(await whole()); await sleep(200))
    if (Date.now() > deadline) break;
  assert.deepEqual(await counts(), expected, JSON.stringify(await daemon.status()).slice(0, 6_000));
  assert.equal(daemon.pid, master);
  assert.equal(await daemon.ready(), true, 'the same master is ready');
  // Each stream stays where it is, and is read on.
  await sleep(1_500);
  const before = (await daemon.status()).hosts.map(({ streams }) => streams[0]?.connects);
  write();
  while (!(await whole())) await sleep(100);
  await sleep(1_500);
  const { hosts } = await daemon.status();
  assert.deepEqual(
    hosts.map(({ streams }) => [streams[0]?.state, streams[0]?.connects]),
    before.map(connects => ['reading', connects]),
  );
  const zones = await storage.query(
    'SELECT arrival_time FROM pgsluice.marked WHERE arrival_time',
    [],
    'channels',
  );
  assert.deepEqual(zones.rows, [], 'no time was read before the zones were known');
  const odd = daemon.output.split('\n').filter(line => line.includes('not understood'));
  t.diagnostic(`${written} rows each, ${odd.length} messages not understood`);
  assert.ok(odd.length > 0);
  assert.doesNotMatch(daemon.output, /\n +at /, 'no stack');
});
