// PostgreSQL writes each message to stderr and to csvlog: the rows of the one must equal the rows of the other in every
// column that both have. And a .log file in which formats and prefixes follow each other, as reloads leave it.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';
import { LineParser } from '../../../src/codec/line-parser.js';
import { compileLinePrefix } from '../../../src/codec/line-prefix.js';
import { startPostgres } from '../../helpers/postgres.js';
import { readLogRows } from '../../unit/codec/csvlog-model.js';

/** @import { Rejected } from '../../../src/codec/copy-rejected.js' */
/** @import { TestPostgres } from '../../helpers/postgres.js' */
/** @import { Value } from '../../unit/codec/line-parser-model.js' */

const COLUMNS =
  `log_time user_name database_name process_id connection_from session_id session_line_num command_tag
  session_start_time virtual_transaction_id transaction_id error_severity sql_state_code message detail hint
  internal_query internal_query_pos context query query_pos location application_name backend_type leader_pid
  query_id`.split(/\s+/);
/** stream_id, file_no, file_offset */
const LEADING = 3;
const SESSION_ID = LEADING + COLUMNS.indexOf('session_id');
const QUERY = LEADING + COLUMNS.indexOf('query');
const QUERY_POS = LEADING + COLUMNS.indexOf('query_pos');
const BACKEND_TYPE = LEADING + COLUMNS.indexOf('backend_type');
const MESSAGE = LEADING + COLUMNS.indexOf('message');
/** stderr counts lines there, csvlog records. */
const OWN_COUNT = 'session_line_num';

/** stderr leaves them out with log_error_verbosity=terse, csvlog does not. */
const NOT_IF_TERSE = ['detail', 'hint', 'internal_query', 'internal_query_pos', 'context'];

const SETTINGS = {
  logging_collector: 'on',
  log_destination: 'stderr,csvlog',
  log_directory: 'log',
  log_filename: 'server.log',
  log_timezone: 'UTC',
  log_statement: 'all',
  log_duration: 'on',
  log_connections: 'on',
  log_disconnections: 'on',
  log_lock_waits: 'on',
  log_checkpoints: 'on',
  log_min_messages: 'info',
  log_parameter_max_length: '-1',
  log_parameter_max_length_on_error: '-1',
  compute_query_id: 'on',
  max_parallel_workers_per_gather: '2',
};

/** What a session asks for; errors are what most of it is for. */
const STATEMENTS = [
  'SELECT 1',
  'SELECT * FROM missing',
  'SELECT\n  nothing,\r\n\tmore\nFROM\n\tmissing\n',
  "SELECT 'tab\there', 'cr\rhere', 'bell\u0007', 'esc\u001b', 'quote''s \"x\"', 'back\\slash'",
  "SELECT 'ends like this at character 5'",
  'SELEC 1',
  'SELECT 1/0',
  'SELECT 1/0 -- of the first\n;SELECT 2',
  "SELECT 'abc'::int",
  "CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text CHECK (b <> 'no'))",
  "INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING",
  "INSERT INTO t VALUES (1, 'again\nand again')",
  "INSERT INTO t VALUES (2, 'no')",
  "CREATE OR REPLACE FUNCTION f(x int) RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n  RAISE NOTICE 'in f\n\twith lines: %', x;\n  RETURN 1 / x;\nEND $$",
  'SELECT f(0)',
  'SELECT f(1)',
  "CREATE OR REPLACE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n  EXECUTE 'SELECT broken\n FROM nowhere';\nEND $$",
  'SELECT g()',
  "DO $$ BEGIN RAISE EXCEPTION 'mine: %', 'm\nn' USING DETAIL = E'd\n\te\n', HINT = 'h', ERRCODE = 'ZX123'; END $$",
  "DO $$ BEGIN RAISE EXCEPTION USING MESSAGE = '', DETAIL = '', HINT = ''; END $$",
  "DO $$ BEGIN RAISE WARNING 'ERROR:  like a line\n2026-05-01 12:34:56.789 UTC [1] LOG:  like another'; END $$",
  "DO $$ BEGIN RAISE LOG '12345: like a state'; END $$",
  "SET standard_conforming_strings = off; SELECT 'old \\' quote'; RESET standard_conforming_strings",
  'SELECT count(*) FROM generate_series(1, 10) g JOIN t ON a = g',
  `SELECT '${'long '.repeat(3000)}'::int`,
  `SELECT ${'\n'.repeat(500)} wrong`,
];

/** @param {Client} client @param {string} sql @param {unknown[]} [values] */
async function ask(client, sql, values) {
  await client.query(sql, values).catch(() => undefined);
}

/** @param {TestPostgres} postgres */
async function workload(postgres) {
  const session = async (/** @type {number} */ number) => {
    const client = new Client({
      ...postgres.connectionOptions,
      application_name: number ? `app-${number}` : '',
    });
    client.on('error', () => {});
    client.on('notice', () => {});
    await client.connect();
    for (const verbosity of ['default', 'verbose', 'terse']) {
      await ask(client, `SET log_error_verbosity = ${verbosity}`);
      for (const sql of STATEMENTS) await ask(client, sql);
      await ask(client, 'SELECT $1::int, $2::text', ['nan', "p'q\nr"]);
      await ask(client, 'SELECT 1 / $1::int, $2::text', [0, "p'q\nr"]);
    }
    await ask(
      client,
      "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_verbose = on",
    );
    await ask(client, 'SELECT count(*) FROM pg_class WHERE relname = $1', ['t']);
    await ask(
      client,
      'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0',
    );
    await ask(client, 'SELECT count(*) FROM pg_class');
    await ask(client, 'BEGIN; SELECT txid_current(); SELECT 1/0');
    await client.end();
  };
  await Promise.all([0, 1, 2, 3].map(session));
  await postgres.query('CHECKPOINT');
  const refused = new Client({ ...postgres.connectionOptions, database: 'no such "db"' });
  await refused.connect().catch(() => undefined);
  const killed = new Client(postgres.connectionOptions);
  killed.on('error', () => {});
  await killed.connect();
  await killed.query('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
  await killed.end().catch(() => undefined);
}

/**
 * @param {LineParser | CsvlogParser} parser
 * @param {Buffer} bytes
 */
function rowsOf(parser, bytes) {
  const rows = new CopyBuffer();
  /** @type {string[]} */
  const rejected = [];
  const sink = {
    rows,
    days: /** @type {Set<number>} */ (new Set()),
    receivedAtMs: 0,
    cut: () => assert.fail('no record is too long'),
    reject: (/** @type {Rejected} */ piece) => void rejected.push(piece.reason),
  };
  for (let at = 0; at < bytes.length; at += 10_000) parser.write(bytes.subarray(at, at + 10_000), sink);
  parser.end(sink);
  assert.deepEqual(rejected, []);
  return readLogRows(rows.bytes());
}

const context = {
  streamId: 1,
  fileNo: 2,
  zones: new Map([['UTC', 0]]),
  timeZone: null,
  maxRecordBytes: 1 << 24,
};

/** @param {Buffer} bytes @param {string | null} prefix null: to be found */
function parseLog(bytes, prefix) {
  const prefixes = { current: prefix === null ? null : compileLinePrefix(prefix), given: prefix !== null };
  return {
    rows: rowsOf(new LineParser({ ...context, offset: 0, format: 'auto', prefixes }), bytes),
    prefixes,
  };
}

/**
 * @param {Value[][]} rows
 * @returns {Map<Value, Value[][]>} by session, in order
 */
function bySession(rows) {
  return Map.groupBy(rows, row => row[SESSION_ID] ?? null);
}

/** @param {TestPostgres} postgres */
async function logFiles(postgres) {
  const names = (await readdir(postgres.logDir)).toSorted();
  const read = async (/** @type {string} */ end) =>
    Buffer.concat(
      await Promise.all(
        names.filter(name => name.endsWith(end)).map(name => readFile(path.join(postgres.logDir, name))),
      ),
    );
  return { csv: await read('.csv'), log: await read('.log'), json: await read('.json') };
}

/** @type {{ text: string, behindQ: string[], missing: string[] }[]} */
const PREFIXES = [
  {
    text: '%m [%p] %c %l %q%u@%d/%a %r %i %e %s %v %x %b %P %Q ',
    behindQ:
      'user_name database_name connection_from command_tag sql_state_code session_start_time virtual_transaction_id transaction_id backend_type leader_pid query_id'.split(
        ' ',
      ),
    missing: [],
  },
  { text: '%m|%u|%d|%p|%r|%c|%l|%i|%s|%v|%x|%a|%b|%P|%Q|', behindQ: [], missing: ['sql_state_code'] },
];

for (const binaries of ['system', 'embedded']) {
  for (const { text, behindQ, missing } of PREFIXES) {
    test(`${binaries} PostgreSQL, log_line_prefix ${text}`, async () => {
      const settings = { ...SETTINGS, log_line_prefix: text };
      const postgres = await startPostgres({ binaries, settings });
      let files;
      try {
        await workload(postgres);
        await postgres.halt();
        files = await logFiles(postgres);
      } finally {
        await postgres.stop();
      }
      const parser = new CsvlogParser({ ...context, offset: 0 });
      const csv = bySession(rowsOf(parser, files.csv));
      const { rows } = parseLog(files.log, text);
      // What came before the collector wrote csv is in .log alone.
      const own = bySession(rows.filter(row => row[SESSION_ID] !== null && csv.has(row[SESSION_ID] ?? null)));
      assert.ok(csv.size > 5);
      let compared = 0;
      for (const [session, theirs] of csv) {
        const ours = own.get(session) ?? [];
        assert.equal(ours.length, theirs.length, `records of session ${session}`);
        let terse = false;
        for (const [index, row] of ours.entries()) {
          const wanted = theirs[index] ?? [];
          const set = /^statement: SET log_error_verbosity = (\w+)/.exec(String(wanted[MESSAGE]));
          if (set) terse = set[1] === 'terse';
          const client = wanted[BACKEND_TYPE] === 'client backend';
          for (const [column, name] of COLUMNS.entries()) {
            if (name === OWN_COUNT) continue;
            const at = LEADING + column;
            if (!client && behindQ.includes(name)) continue;
            if (missing.includes(name) && row[at] === null) continue;
            if (terse && NOT_IF_TERSE.includes(name) && row[at] === null) continue;
            // csvlog has a position only beside the statement, stderr in any case; and with
            // log_error_verbosity=terse stderr has that of an internal query without the query.
            if (at === QUERY_POS && (wanted[QUERY] === null || terse)) continue;
            assert.deepEqual(
              row[at],
              wanted[at],
              `${name} of ${String(wanted[MESSAGE])}, line ${String(wanted[9])}`,
            );
            compared += 1;
          }
          assert.deepEqual(row[29], wanted[29], 'duration_ms');
        }
      }
      assert.ok(compared > 10_000, String(compared));
    });
  }
}

test('formats and prefixes change in one file', async () => {
  const postgres = await startPostgres({
    binaries: 'system',
    settings: { ...SETTINGS, log_line_prefix: '%m [%p] ', log_duration: 'off' },
  });
  /** @type {[string, string][]} */
  const phases = [
    ['log_destination', 'csvlog'],
    ['log_destination', 'stderr'],
    ['log_destination', 'jsonlog'],
    ['log_destination', 'stderr'],
    ['log_line_prefix', '%t [%p-%l] %q%u@%d '],
    ['log_line_prefix', '%m %c %q%u@%d '],
    ['log_destination', 'csvlog,jsonlog'],
    ['log_line_prefix', '%m [%p] '],
    ['log_destination', 'stderr'],
  ];
  let marker = 0;
  let files;
  try {
    const client = new Client(postgres.connectionOptions);
    client.on('error', () => {});
    await client.connect();
    for (const [name, value] of phases) {
      for (let count = 0; count < 30; count += 1) {
        marker += 1;
        await ask(client, `SELECT 'marker ${marker}'\n, 1/0`);
      }
      await client.query(`ALTER SYSTEM SET ${name} = '${value}'`);
      await client.query('SELECT pg_reload_conf()');
      // The session itself reads the new value when it is idle.
      for (let tries = 0; tries < 100; tries += 1) {
        const { rows } = await client.query(`SHOW ${name}`);
        if (rows[0][name] === value) break;
        await sleep(20);
      }
    }
    await client.end();
    await postgres.halt();
    files = await logFiles(postgres);
  } finally {
    await postgres.stop();
  }
  // Between a reload and the collector's next look rows land in .log whatever their format: so do all of them here.
  const mixed = Buffer.concat([files.log, files.csv, files.json, files.log]);
  const { rows, prefixes } = parseLog(mixed, null);
  assert.equal(prefixes.given, false);
  const text = mixed.toString('latin1');
  for (let number = 1; number <= marker; number += 1) {
    const found = rows.filter(row => [row[MESSAGE], row[QUERY]].some(value => holds(value, number)));
    // As a statement that is logged, and beside its error; at least once in a destination of the time.
    const wanted = (text.match(new RegExp(`'marker ${number}'`, 'g')) ?? []).length;
    assert.equal(found.length, wanted, `marker ${number}`);
    assert.ok(wanted >= 2, `marker ${number} in ${wanted} records`);
    for (const row of found) assert.equal(row[30], null, 'the time of each could be read');
  }
  const json = rowsOf(new LineParser({ ...context, offset: 0, format: 'jsonlog', prefixes }), files.json);
  const csv = rowsOf(new CsvlogParser({ ...context, offset: 0 }), files.csv);
  assert.ok(json.length > 60 && csv.length > 60);
  const log = parseLog(files.log, null).rows;
  assert.deepEqual(values(rows), values([...log, ...csv, ...json, ...log]));
});

/** @param {Value | undefined} value @param {number} number */
function holds(value, number) {
  return String(value).includes(`'marker ${number}'\n, 1/0`);
}

/** @param {Value[][]} rows */
function values(rows) {
  return rows.map(row => row.slice(LEADING));
}
