/**
 * `pgsluice tail` beside a running daemon: each record once, over restarts of the daemon and of the storage, and nothing
 * that a terminal would act on.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { TestDaemon } from '../helpers/daemon.js';
import { socketUrl, startPostgres } from '../helpers/postgres.js';

const PROGRAM = fileURLToPath(new URL('../../bin/pgsluice.js', import.meta.url));
const WAIT_MS = 60_000;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

let lines = 0;

/** @param {string} message @param {{ severity?: string, detail?: string, query?: string }} [more] */
function row(message, { severity = 'LOG', detail = '', query = '' } = {}) {
  lines += 1;
  const time = new Date(Date.UTC(2026, 10, 20, 16, 0, lines, 120)).toISOString().replace(/T(.*)Z/, ' $1 UTC');
  return `${time},"u","d",17,"[local]",673f.11,${lines},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,${severity},00000,"${message}","${detail}",,,,,"${query}",,,"psql","client backend",,9007199254740993\n`;
}

describe('tail', () => {
  /** @type {import('../helpers/postgres.js').TestPostgres} */
  let storage;
  /** @type {TestDaemon} */
  let daemon;
  /** @type {string} */
  let logs;

  before(async () => {
    storage = await startPostgres();
    logs = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(logs, 0o755);
    const url = socketUrl(await storage.createDatabase('tail'));
    daemon = new TestDaemon({ toml: `storage.url = "${url}"\ndaemon.workers = 1` });
    await daemon.start();
    for (const host of ['db1', 'db2']) {
      const log = join(logs, `${host}.csv`);
      writeFileSync(log, '');
      chmodSync(log, 0o644);
      await daemon.addHost(host, { log });
    }
  });
  after(async () => {
    await daemon.remove();
    await storage.stop();
    rmSync(logs, { recursive: true });
  });

  /** @param {string} host @param {string} text */
  const append = (host, text) => appendFileSync(join(logs, `${host}.csv`), text);

  /** @param {import('node:test').TestContext} t @param {string[]} words */
  function tail(t, ...words) {
    const child = spawn(process.execPath, [PROGRAM, 'tail', ...words, '--config', daemon.configFile], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const seen = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', text => (seen.stdout += text));
    child.stderr.setEncoding('utf8').on('data', text => (seen.stderr += text));
    const ended = once(child, 'close');
    t.after(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    return {
      child,
      seen,
      ended,
      messages: () =>
        seen.stdout
          .split('\n')
          .slice(0, -1)
          .map(line => JSON.parse(line).message),
      /** @param {() => boolean} condition @param {string} what */
      async until(condition, what) {
        const deadline = Date.now() + WAIT_MS;
        while (!condition()) {
          if (Date.now() > deadline || child.exitCode !== null)
            assert.fail(`not seen: ${what}: ${seen.stdout}${seen.stderr}`);
          await sleep(50);
        }
      },
    };
  }

  /** @param {string} message that is stored */
  async function stored(message) {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      const { rows } = await storage.query(
        'SELECT 1 FROM pgsluice.log WHERE message = $1',
        [message],
        'tail',
      );
      if (rows.length > 0) return;
      if (Date.now() > deadline) assert.fail(`${message} was not stored`);
      await sleep(50);
    }
  }

  test('the last records, then each that comes, of the hosts that are named', async t => {
    append('db1', row('one') + row('two') + row('three'));
    append('db2', row('old', { severity: 'ERROR' }) + row('other'));
    await stored('three');
    await stored('other');
    const one = tail(t, 'db1', '--json', '--lines', '2');
    const all = tail(t, '--json', '--lines', '1', '--severity', 'error');
    await one.until(() => one.messages().length === 2, 'the last two');
    await all.until(() => all.messages().length === 1, 'the last error');
    append('db2', row('not asked for') + row('bad', { severity: 'ERROR' }));
    await all.until(() => all.messages().length === 2, 'the error of db2');
    append('db1', row('four'));
    await one.until(() => one.messages().includes('four'), 'the next one');
    assert.deepEqual(one.messages(), ['two', 'three', 'four']);
    assert.deepEqual(all.messages(), ['old', 'bad']);
    const { rows } = await storage.query(
      `SELECT row_to_json(l)::text AS json FROM pgsluice.log l WHERE message = 'bad'`,
      [],
      'tail',
    );
    const bad = all.seen.stdout.split('\n')[1] ?? '';
    assert.deepEqual(JSON.parse(bad), JSON.parse(rows[0].json));
    assert.match(bad, /"query_id":9007199254740993[,}]/);
    one.child.kill('SIGINT');
    assert.deepEqual(await one.ended, [130, null]);
    assert.equal(one.seen.stderr, '');
  });

  test('each once while the daemon is killed, and while the storage is away', async t => {
    const reader = tail(t, 'db1', '--json', '--lines', '1');
    await reader.until(() => reader.messages().length === 1, 'the last one');
    const expected = [];
    for (let n = 0; n < 60; n += 1) {
      append('db1', row(`r${n}`));
      expected.push(`r${n}`);
      if (n === 15) await daemon.kill({ children: true });
      if (n === 30) void daemon.start();
      if (n === 45) await storage.restart('immediate');
      await sleep(100);
    }
    await reader.until(() => reader.messages().includes('r59'), 'the last one');
    assert.deepEqual(
      reader.messages().filter(message => message.startsWith('r')),
      expected,
    );
    assert.match(
      reader.seen.stderr,
      /^pgsluice: storage: .*tried again every 2 s\n(.*\n)*pgsluice: the storage is back\n$/,
    );
    await daemon.ready();
  });

  test('as text: nothing that a terminal would act on, and no message looks like another record', async t => {
    append(
      'db1',
      row('nothing \u001b[2J\u009b31m\u202e\r to see\n2026-11-20 16:08:00.000 UTC db1 [1] FATAL:  fake', {
        severity: 'ERROR',
        detail: 'a\u0007b',
        query: 'SELECT\n\t1',
      }),
    );
    append('db1', row('end'));
    await stored('end');
    const { seen, ended } = tail(t, '--no-follow', '--lines', '1', '--severity', 'ERROR', 'db1');
    assert.deepEqual(await ended, [0, null]);
    assert.doesNotMatch(seen.stdout, UNSAFE);
    const head = /^2026-11-20 16:\d\d:\d\d\.120 UTC db1 \[17\] u@d ERROR:/.exec(seen.stdout)?.[0] ?? '';
    assert.equal(
      seen.stdout,
      [
        `${head}  nothing \\x1b[2J\\x9b31m\\u202e\\r to see`,
        '\t2026-11-20 16:08:00.000 UTC db1 [1] FATAL:  fake',
        '  DETAIL:  a\\x07b',
        '  STATEMENT:  SELECT',
        '\t\t1',
        '',
      ].join('\n'),
    );
    const json = tail(t, '--no-follow', '--lines', '1', '--json', '--severity', 'ERROR', 'db1');
    await json.ended;
    assert.doesNotMatch(json.seen.stdout, UNSAFE);
    assert.ok(JSON.parse(json.seen.stdout).message.startsWith('nothing \u001b[2J\u009b31m\u202e\r to see\n'));
  });

  test('ends when nobody reads it any more', async t => {
    const reader = tail(t, '--lines', '1');
    await reader.until(() => reader.seen.stdout !== '', 'the last one');
    reader.child.stdout.destroy();
    // A pipe without a reader is noticed by the next line.
    append('db1', row('more'));
    assert.deepEqual(await reader.ended, [0, null]);
    assert.equal(reader.seen.stderr, '');
  });

  test('what is wrong is said in one line', async () => {
    /** @type {[string[], number, RegExp][]} */
    const wrong = [
      [['nowhere'], 1, /no host is named "nowhere"/],
      [['a b'], 2, /is not a host NAME/],
      [['--lines', '-1'], 2, /--lines/],
      [['--lines', 'ten'], 2, /"ten" is not a number from 0 to 100000/],
      [['--severity', 'eror'], 2, /did you mean ERROR\?/],
      [['--severity', 'loud'], 2, /one of DEBUG, LOG, /],
    ];
    for (const [words, code, message] of wrong) {
      const outcome = await daemon.command('tail', ...words);
      assert.equal(outcome.code, code, outcome.stderr);
      assert.match(outcome.stderr, /^pgsluice: [^\n]+\n$/);
      assert.match(outcome.stderr, message);
    }
  });
});
