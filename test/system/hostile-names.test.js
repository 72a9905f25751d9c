/** Records of logs whose directories and files have names that a shell would run are stored, under those very names. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestDaemon } from '../helpers/daemon.js';
import { socketUrl, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';

const WAIT_MS = 60_000;
const ROW =
  '2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n';

const NAMES = [
  '-n -exec touch canary ;',
  `it's "$(touch canary)" \`touch canary\``,
  ' ; touch canary ; \\n %s %h {} ~ * [a] ! & | >canary #',
  'é\u{1f600}=$IFS$((a[$(touch canary)]))',
];

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
  base = mkdtempSync(join(tmpdir(), 'pgsluice-names-'));
  chmodSync(base, 0o755);
  for (const name of NAMES) {
    mkdirSync(join(base, name));
    for (const file of NAMES) writeFileSync(join(base, name, `${file}.csv`), ROW);
    writeFileSync(join(base, name, '\u001b[2J\nD 0 9\n.csv'), ROW);
  }
});
after(async () => {
  await daemon.remove();
  await Promise.all([storage.stop(), sshd.stop()]);
  rmSync(base, { recursive: true });
});

test('over each transport', async () => {
  const options = await storage.createDatabase('names');
  daemon = new TestDaemon({ toml: `storage.url = "${socketUrl(options)}"\ndaemon.workers = 1` });
  await daemon.start();
  const transports = ['openssh', 'ssh2', 'local'];
  const [first = '', ...others] = NAMES.map(name => join(base, name));
  for (const transport of transports) {
    const server = transport === 'local' ? {} : { server: sshd };
    await daemon.addHost(transport, {
      log: first,
      transport,
      more: others.flatMap(log => ['--log', log]),
      ...server,
    });
  }
  const expected = transports.flatMap(host =>
    NAMES.flatMap(stream => NAMES.map(file => `${host} ${join(base, stream)} ${file}.csv`)),
  );
  const sql = `SELECT host || ' ' || stream || ' ' || file AS name FROM pgsluice.log`;
  const names = async () =>
    (await storage.query(sql, [], 'names')).rows.map(({ name }) => String(name)).toSorted();
  for (const deadline = Date.now() + WAIT_MS; (await names()).length < expected.length; await sleep(200))
    if (Date.now() > deadline) break;
  assert.deepEqual(await names(), expected.toSorted());
  for (const name of NAMES) assert.equal(readdirSync(join(base, name)).length, NAMES.length + 1);
  assert.equal(existsSync(join(base, 'canary')), false);
});
