/**
 * Secrets that a real server wrote into csvlog, jsonlog and stderr, read by the real daemon with log.redact: each has a
 * word of its own that says its class, which is looked for in every table of the storage.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { REDACT_CLASSES } from '../../src/base/redact-classes.js';
import { socketUrl, csvlogSettings, startPostgres } from '../helpers/postgres.js';
import { TestDaemon } from '../helpers/daemon.js';
import { tellSecrets, WORD, wordsOf } from '../helpers/secrets.js';
import { until } from '../helpers/until.js';

/** @typedef {import('../helpers/postgres.js').TestPostgres} TestPostgres */
/** @typedef {{ words: Set<string>, rest: { count: number, md5: string }, marked: number, rejected: number, shown: string }} Stored rest: besides texts */

/** @type {Set<string>} */
const IN_STATEMENTS = new Set(['credential', 'parsing_error']);

// Each of these reads the same files into a database of its own.
describe('secrets', { concurrency: 3 }, () => {
  /** @type {TestPostgres} */
  let storage;
  /** copies of the log files @type {string} */
  let dir;
  /** what the files say */
  let written = new Set();
  /** what is stored without redaction @type {Stored} */
  let plain;

  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'pgsluice-redact-'));
    chmodSync(dir, 0o755);
    const settings = {
      ...csvlogSettings(),
      log_destination: 'stderr,csvlog,jsonlog',
      log_line_prefix: '%m [%p] %q%u@%d %a %e ',
      deadlock_timeout: '50ms',
      archive_mode: 'on',
      archive_command: 'false zqoper3',
    };
    /** @type {TestPostgres} */
    let source;
    [storage, source] = await Promise.all([
      startPostgres({ binaries: 'system' }),
      startPostgres({ settings }),
    ]);
    try {
      await source.query('CREATE TABLE first (i int); SELECT pg_switch_wal()');
      await until(
        async () =>
          (await source.query('SELECT failed_count FROM pg_stat_archiver')).rows[0].failed_count > 0,
      );
      await tellSecrets(source.connectionOptions);
      await source.halt();
      cpSync(source.logDir, dir, { recursive: true });
    } finally {
      await source.stop();
    }
    const files = readdirSync(dir).map(name => join(dir, name));
    for (const file of files) {
      if (file.endsWith('.csv'))
        appendFileSync(file, 'zqreje1 is no time,"zqreje2"\n2026-01-01 zqreje3,,,,,,,,,,,,,,,,,,,,,,,,,\n');
      if (file.endsWith('.json'))
        appendFileSync(file, '{"timestamp":"2026-11-20 16:08:00.000 UTC","zqreje4":1}\n');
    }
    written = new Set(files.flatMap(file => readFileSync(file, 'latin1').match(WORD) ?? []));
    plain = await store('none');
  });
  after(async () => {
    await storage?.stop();
    rmSync(dir, { recursive: true });
  });

  /** @param {TestDaemon} daemon @param {number} records @returns {Promise<string>} what status and metrics say */
  async function countersOf(daemon, records) {
    await until(async () => (await daemon.status()).workers[0]?.totals?.redacted.records === records);
    return (await daemon.run('status')) + (await (await fetch(`${daemon.url}/metrics`)).text());
  }

  /**
   * Reads the files with a daemon.
   * @param {string} redact
   * @returns {Promise<Stored>}
   */
  async function store(redact) {
    const options = await storage.createDatabase(`redact_${redact}`);
    const daemon = new TestDaemon({
      toml: `storage.url = "${socketUrl(options)}"\nlog.redact = "${redact}"\ndaemon.workers = 1`,
    });
    const client = new Client(options);
    await client.connect();
    try {
      await daemon.start();
      const files = readdirSync(dir).map(name => join(dir, name));
      const more = files.slice(1).flatMap(file => ['--log', file]);
      await daemon.addHost('h', { log: files[0] ?? '', more });
      const size = files.reduce((sum, file) => sum + statSync(file).size, 0);
      await until(async () => {
        const { rows } = await client.query('SELECT sum("offset")::int AS read FROM pgsluice.file');
        return rows[0].read === size;
      });
      const { rows: marked } = await client.query('SELECT count(*)::int FROM pgsluice.marked WHERE redacted');
      const shown = redact === 'all' ? await countersOf(daemon, marked[0].count) : '';
      await daemon.stop();
      const { rows: tables } = await client.query(
        `SELECT relname FROM pg_class WHERE relnamespace = 'pgsluice'::regnamespace AND relkind IN ('r', 'p')`,
      );
      let text = '';
      for (const { relname } of tables) {
        const { rows } = await client.query(`SELECT t::text FROM pgsluice.${relname} t`);
        text += rows.map(row => row.t).join('\n');
      }
      const raw = await client.query(
        `SELECT reason, encode(bytes, 'escape') AS bytes FROM pgsluice.rejected`,
      );
      text += raw.rows.map(row => row.bytes).join('\n');
      const { rows: rest } = await client.query(
        `SELECT count(*)::int, md5(string_agg(concat_ws(',', stream, file_offset, log_time, process_id, error_severity,
                  sql_state_code, duration_ms, session_line_num, query_id), ';' ORDER BY stream, file_offset))
           FROM pgsluice.log`,
      );
      return {
        shown,
        words: new Set(text.match(WORD)),
        rest: rest[0],
        marked: marked[0].count,
        rejected: raw.rows.length,
      };
    } finally {
      await client.end();
      await daemon.remove();
    }
  }

  test('without redaction all of them are there', () => {
    for (const [name, least] of Object.entries({
      credential: 10,
      parsing_error: 5,
      statement_text: 8,
      statement_parameter: 2,
      table_data: 6,
      ops: 4,
      unidentified: 1,
      rejected: 4,
    }))
      assert.ok(wordsOf(written, name).length >= least, `${name}: ${wordsOf(written, name).join(' ')}`);
    assert.deepEqual(plain.words, written);
    assert.equal(plain.marked, 0);
    assert.equal(plain.rejected, 3);
  });

  for (const name of REDACT_CLASSES) {
    test(`${name} takes those of its class out, and no others`, async () => {
      const { words, rest, marked, rejected } = await store(name);
      assert.deepEqual(wordsOf(words, name), []);
      assert.deepEqual(wordsOf(words, 'rejected'), []);
      for (const other of REDACT_CLASSES) {
        // Statements hold passwords and what could not be parsed.
        if (other === name || (name === 'statement_text' && IN_STATEMENTS.has(other))) continue;
        assert.deepEqual(wordsOf(words, other), wordsOf(written, other));
      }
      assert.deepEqual(rest, plain.rest);
      assert.ok(marked > 0 && marked < plain.rest.count);
      assert.equal(rejected, 3);
    });
  }

  test('all takes all of them out, and nothing else is lost', async () => {
    const { words, rest, marked, rejected, shown } = await store('all');
    assert.deepEqual([...words], []);
    assert.deepEqual(rest, plain.rest);
    assert.ok(marked > 0);
    assert.equal(rejected, 3);
    assert.match(shown, new RegExp(`^redacted records: ${marked} \\(credential [1-9]`, 'm'));
    assert.match(shown, new RegExp(`^pgsluice_redacted_records_total\\{worker="1"\\} ${marked}$`, 'm'));
    for (const name of REDACT_CLASSES) {
      const line = `^pgsluice_redacted_records_by_class_total\\{worker="1",class="${name}"\\} [1-9]`;
      assert.match(shown, new RegExp(line, 'm'));
    }
  });
});
