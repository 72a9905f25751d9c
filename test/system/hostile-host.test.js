/**
 * Hosts that send what a follower never sends (test/helpers/hostile-host.js), over a real sshd, to the real daemon with
 * one worker: what each may hurt is its own stream. An honest host in the same worker is read all the while.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { TestDaemon } from '../helpers/daemon.js';
import { ATTACK_NAMES, ESCAPES } from '../helpers/hostile-host.js';
import { socketUrl, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

const ATTACKER = fileURLToPath(new URL('../helpers/hostile-host.js', import.meta.url));
const WAIT_MS = 60_000;
const FLOOD_MS = 2_500;
/** A second, and what two cores take that run the attacker, both ends of ssh and other tests besides. */
const DELAY_MAX_MS = 10_000;
/** Five batches of 8 MiB, the records that are open, and Node; a flood is hundreds of megabytes. */
const RSS_MAX_BYTES = 450_000_000;
const LOG_LINES_MAX = 60;

/** What a stream that is not read to its end is told to be. @type {Record<string, RegExp>} */
const REFUSED = {
  'a header without end': /a frame header is longer/,
  'files without end': /names more than/,
  'one inode without end': /names more than/,
  'files to skip without end': /names more than/,
  'zones without end': /settings of the server/,
  'prefixes without end': /settings of the server/,
  'bytes before a file': /before the name/,
  'bytes at another place': /bytes at 100 of a\.csv, expected 0/,
  'bytes again': /bytes at 0 of a\.csv, expected 2/,
  'too many bytes that may not hold': /\d+ bytes that may not hold/,
  'bytes that may not hold, and others': /bytes that may not hold, and nothing more/,
  'no bytes': /0 bytes/,
  'a negative length': /not a frame/,
  'a length of 30 digits': /not a frame/,
  'a sum over too much': /not a frame/,
  'NUL in a name': /not a frame/,
  'NUL in the prefix': /not a frame/,
  'a copy of nothing': /copy of an unknown file/,
  'nothing that is done': /not known/,
  'hello twice': /hello/,
  'no hello': /hello/,
  'a file that goes on elsewhere': /expected a known file/,
  'another protocol': /not a frame/,
  'a journal field of 2^63 bytes': /a field of \d+ bytes/,
  'a journal cursor that is none': /not a frame/,
  'a journal entry without a look': /outside a look/,
  'a journal entry without a time': /without a time/,
  'a journal of files': /not a frame/,
  'words of its own': /not a frame/,
};

/** Those that say one thing and are refused for it: nothing is left of them that could disturb the next. */
const SHORT = ATTACK_NAMES.filter(name => name in REFUSED && !name.endsWith(' without end'));

const isJournal = (/** @type {string} */ attack) => attack.includes('journal');
const pathFor = (/** @type {string} */ attack) =>
  isJournal(attack) ? 'journal:evil.service' : '/var/log/nothing';

// What a terminal acts on; JSON and tables have newlines between their lines.
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"honest",,,,,,,,,"psql","client backend",,0\n`;

describe('a hostile host', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let sshd;
  /** @type {TestDaemon} */
  let daemon;
  /** @type {string} */
  let logs;
  /** by case @type {Map<string, string>} */
  const identities = new Map();
  /** when each honest row was written, by its number */
  const writtenAt = [0];
  /** @type {NodeJS.Timeout | undefined} */
  let writing;

  before(async () => {
    logs = mkdtempSync(join(tmpdir(), 'pgsluice-honest-'));
    chmodSync(logs, 0o755);
    writeFileSync(join(logs, 'a.csv'), '');
    storage = await startPostgres();
    sshd = await startSshd();
    // One key would do for all, if a key could have several commands.
    for (const [index, name] of ATTACK_NAMES.entries()) {
      const file = join(sshd.dir, `attack${index}`);
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file]);
      const command = `exec '${process.execPath}' '${ATTACKER}' ${name}`;
      appendFileSync(
        sshd.authorizedKeysFile,
        `command="${command}" ${readFileSync(`${file}.pub`, 'utf8').trim()}\n`,
      );
      identities.set(name, file);
    }
    const url = socketUrl(await storage.createDatabase('hostile'));
    daemon = new TestDaemon({
      toml: `storage.url = "${url}"\ndaemon.workers = 1\nbatch.max_record_bytes = "16MiB"\n`,
    });
    await daemon.start();
    await daemon.addHost('honest', { log: logs, server: sshd });
    await sees(async () => (await streamOf('honest'))?.state === 'reading', 'the honest stream');
    writing = setInterval(() => {
      writtenAt.push(performance.now());
      appendFileSync(join(logs, 'a.csv'), row(writtenAt.length - 1));
    }, 100);
  });
  after(async () => {
    clearInterval(writing);
    await daemon.remove();
    await sshd.stop();
    await storage.stop();
    rmSync(logs, { recursive: true });
  });

  /** @param {() => unknown} condition @param {string} what */
  const sees = (condition, what) => until(condition, () => `${what}; ${daemon.output.slice(-2_000)}`);

  /** @param {string} name */
  async function streamOf(name) {
    const { hosts } = await daemon.status();
    return hosts.find(host => host.name === name)?.streams[0];
  }

  async function honestRows() {
    // What is counted is stored, as the last test sees; counting millions of hostile rows takes longer than they delay.
    const { rows } = await storage.query(
      `SELECT records::int AS n FROM pgsluice.stream JOIN pgsluice.host USING (host_id) WHERE name = 'honest'`,
      [],
      'hostile',
    );
    return rows[0]?.n ?? 0;
  }

  /**
   * How long the honest host's rows were on their way, and how large the worker was.
   * @param {() => Promise<boolean>} enough
   */
  async function watch(enough) {
    let delayMs = 0;
    let rssBytes = 0;
    const deadline = performance.now() + WAIT_MS;
    do {
      const asked = performance.now();
      const waiting = writtenAt[(await honestRows()) + 1];
      if (waiting !== undefined) delayMs = Math.max(delayMs, asked - waiting);
      const status = await daemon.status();
      rssBytes = Math.max(rssBytes, status.workers[0]?.rssBytes ?? 0);
      if (performance.now() > deadline) throw new Error(`not seen in time; ${daemon.output.slice(-2_000)}`);
      await sleep(30);
    } while (!(await enough()));
    return { delayMs, rssBytes };
  }

  /** @param {string} name of the host @param {string} attack */
  function add(name, attack) {
    return daemon.addHost(name, {
      log: pathFor(attack),
      server: { ...sshd, identityFile: identities.get(attack) ?? '' },
      from: attack === 'files to skip without end' ? 'end' : 'start',
      more: isJournal(attack) ? [] : ['--format', 'csvlog'],
    });
  }

  /**
   * @param {{ delayMs: number, rssBytes: number }} seen
   * @param {number} logged lines before
   * @param {number} [hosts] that mean harm
   */
  async function hurtNobody({ delayMs, rssBytes }, logged, hosts = 1) {
    assert.ok(delayMs < DELAY_MAX_MS, `an honest row was on its way for ${Math.round(delayMs)} ms`);
    assert.ok(rssBytes < RSS_MAX_BYTES, `the worker had ${Math.round(rssBytes / 1e6)} MB`);
    const status = await daemon.status();
    assert.equal(status.workers[0]?.restarts, 0);
    assert.equal(status.workers[0]?.totals?.failures, 0, 'no batch failed');
    assert.equal((await streamOf('honest'))?.connects, 1, 'the honest stream was not interrupted');
    const lines = daemon.output.split('\n').length - logged;
    assert.ok(lines < LOG_LINES_MAX * hosts, `${lines} lines in the daemon's log`);
    assert.doesNotMatch(daemon.output, UNSAFE, "the daemon's log");
    for (const args of [['status'], ['status', '--json']])
      assert.doesNotMatch(await daemon.run(...args), UNSAFE, args.join(' '));
    for (const path of ['/status', '/metrics'])
      assert.doesNotMatch(await (await fetch(`${daemon.url}${path}`)).text(), UNSAFE, path);
  }

  /** @param {Awaited<ReturnType<typeof streamOf>>} stream @param {RegExp} why */
  function isRefused(stream, why) {
    assert.ok((stream?.connects ?? 99) <= 4, 'it backs off');
    assert.match(stream?.error?.message ?? '', why);
    assert.doesNotMatch(stream?.error?.message ?? '', /\n/);
  }

  test('what the machine takes without any of them', async t => {
    const enough = performance.now() + FLOOD_MS;
    const seen = await watch(async () => performance.now() > enough);
    t.diagnostic(`${Math.round(seen.delayMs)} ms, ${Math.round(seen.rssBytes / 1e6)} MB`);
  });

  for (const [index, attack] of ATTACK_NAMES.entries()) {
    if (SHORT.includes(attack)) continue;
    test(`${attack} hurts its own stream alone`, async t => {
      const name = `hostile${index}`;
      await sees(async () => writtenAt.length - (await honestRows()) < 15, 'the honest rows up to now');
      const logged = daemon.output.split('\n').length;
      await add(name, attack);
      const refused = REFUSED[attack];
      let since = 0;
      /** @type {Awaited<ReturnType<typeof streamOf>>} */
      let stream;
      const seen = await watch(async () => {
        stream = await streamOf(name);
        if (refused) return stream?.error?.code === 'FOLLOWER_PROTOCOL';
        if (stream?.state === 'reading' && since === 0) since = performance.now();
        return since > 0 && performance.now() - since > FLOOD_MS;
      });
      t.diagnostic(`${Math.round(seen.delayMs)} ms, ${Math.round(seen.rssBytes / 1e6)} MB`);
      await hurtNobody(seen, logged);
      if (refused) isRefused(stream, refused);
      await daemon.run('host', 'remove', name);
    });
  }

  test('many at once', async t => {
    const attacks = ['tiny lines without end', 'beginnings without end', 'losses without end'];
    await sees(async () => writtenAt.length - (await honestRows()) < 15, 'the honest rows up to now');
    for (const [index, attack] of attacks.entries()) await add(`many${index}`, attack);
    const logged = daemon.output.split('\n').length;
    await sees(async () => (await streamOf(`many${attacks.length - 1}`))?.state === 'reading', 'the last');
    const enough = performance.now() + FLOOD_MS;
    const seen = await watch(async () => performance.now() > enough);
    t.diagnostic(`${Math.round(seen.delayMs)} ms, ${Math.round(seen.rssBytes / 1e6)} MB`);
    await hurtNobody(seen, logged);
    for (const [index] of attacks.entries()) await daemon.run('host', 'remove', `many${index}`);
  });

  test('what is said once and is no protocol ends each stream that says it, and hurts nobody', async t => {
    await sees(async () => writtenAt.length - (await honestRows()) < 15, 'the honest rows up to now');
    const logged = daemon.output.split('\n').length;
    const hosts = SHORT.map((attack, index) => ({ attack, name: `short${index}` }));
    const file = join(daemon.dir, 'hosts');
    const lines = hosts.map(({ attack, name }) => ({
      name,
      address: '127.0.0.1',
      port: sshd.port,
      user: sshd.user,
      identityFile: identities.get(attack) ?? '',
      hostKeys: [sshd.hostKey],
      streams: [{ path: pathFor(attack), format: isJournal(attack) ? 'auto' : 'csvlog', from: 'start' }],
    }));
    writeFileSync(file, lines.map(line => `${JSON.stringify(line)}\n`).join(''));
    await daemon.run('host', 'import', file);
    const streams = async () => {
      const status = await daemon.status();
      return hosts.map(({ name }) => status.hosts.find(host => host.name === name)?.streams[0]);
    };
    const seen = await watch(async () =>
      (await streams()).every(stream => stream?.error?.code === 'FOLLOWER_PROTOCOL'),
    );
    t.diagnostic(`${Math.round(seen.delayMs)} ms, ${Math.round(seen.rssBytes / 1e6)} MB`);
    await hurtNobody(seen, logged, hosts.length);
    for (const [index, stream] of (await streams()).entries())
      isRefused(stream, REFUSED[SHORT[index] ?? ''] ?? /nothing/);
  });

  test('what hosts say is bounded in the storage, and every honest row is there once', async () => {
    clearInterval(writing);
    const written = writtenAt.length - 1;
    await sees(async () => (await honestRows()) >= written, 'the last honest row');
    const { rows } = await storage.query(
      `SELECT count(*)::int AS n, count(DISTINCT session_line_num)::int AS distinct
         FROM pgsluice.log WHERE host = 'honest'`,
      [],
      'hostile',
    );
    assert.deepEqual(rows[0], { n: written, distinct: written });
    const files = await storage.query(
      `SELECT stream_id, count(*)::int AS n FROM pgsluice.file GROUP BY 1 HAVING count(*) > 20100`,
      [],
      'hostile',
    );
    assert.deepEqual(files.rows, []);
    const names = await storage.query(
      `SELECT f.name FROM pgsluice.file f WHERE f.name LIKE '../../eee%'`,
      [],
      'hostile',
    );
    assert.equal(names.rows[0]?.name, `../../${'e'.repeat(4_000)}/${ESCAPES}.csv`, 'kept as it was sent');
  });
});
