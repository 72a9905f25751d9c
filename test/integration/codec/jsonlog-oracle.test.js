// The same messages written by PostgreSQL as csvlog and as jsonlog must give the same rows.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, test } from 'node:test';
import { Client } from 'pg';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';
import { JsonlogRowEncoder, looksLikeJsonlog } from '../../../src/codec/jsonlog-row.js';
import { startPostgres, systemBinDirectories } from '../../helpers/postgres.js';
import { readLogRows } from '../../unit/codec/jsonlog-model.js';

/** @import { Rejected } from '../../../src/codec/copy-rejected.js' */
/** @import { TestPostgres } from '../../helpers/postgres.js' */
/** @import { Value } from '../../unit/codec/jsonlog-model.js' */

const FIRST_JSONLOG_VERSION = 15;
const NASTY_NAME = 'a "quoted\\", n\name\t\u00e9';
const LONG = 'select /* ' + 'long "text" \\ \t\n'.repeat(20_000) + ' */ 1';

/** @type {TestPostgres[]} */
const servers = [];
after(async () => {
  for (const server of servers) await server.stop();
});

/**
 * Statements that may fail, which is what they are for.
 * @param {import('pg').ClientConfig} options
 * @param {(string | { text: string, values: unknown[], name?: string })[]} statements
 */
async function run(options, statements) {
  const client = new Client(options);
  client.on('error', () => {}); // a session that is terminated
  try {
    await client.connect();
    for (const statement of statements) {
      // One union member at a time is what the overloads take.
      await (typeof statement === 'string' ? client.query(statement) : client.query(statement)).catch(
        () => {},
      );
    }
  } catch {
    // A connection that is refused is a message as well.
  } finally {
    await client.end().catch(() => {});
  }
}

/** @param {TestPostgres} server */
async function work(server) {
  const { connectionOptions: local, tcpOptions: tcp } = server;
  assert.ok(tcp);
  const win1251 = await server.createDatabase('win', { encoding: 'WIN1251' });
  await run({ ...local, application_name: 'make "things"' }, [
    `create role "${NASTY_NAME.replaceAll('"', '""')}" superuser login`,
    `create database "${NASTY_NAME.replaceAll('"', '""')}"`,
    'create table t (a int primary key, b text check (length(b) < 5))',
    'insert into t select g, g from generate_series(1, 3000) g',
    `create function deep(n int) returns int language plpgsql as $$
      begin
        if n = 0 then return (select 1/n); end if;
        return deep(n - 1);
      end $$`,
    `create function broken() returns int language plpgsql as $$ begin execute 'selec 1'; return 1; end $$`,
    `create function loud() returns int language plpgsql as $$
      begin
        raise log 'a log of %', E'\\x01\\x1f\\x7f\\r\\n\\t"\\\\' using detail = 'line 1' || chr(10) || 'line 2', hint = '';
        raise warning '' using errcode = 'ZX123';
        raise notice 'nothing' using hint = 'a "hint"';
        return 1;
      end $$`,
    `create function said(i int) returns int language plpgsql parallel safe as $$
      begin if i % 500 = 0 then raise log 'row %', i; end if; return i; end $$`,
  ]);
  const statements = [
    'select 1',
    '',
    '\r\n\tselect\t1,\r\n  2 -- comment\n',
    "select E'\\x07', 'quote '' \"double\" \\ \u001b[31m \u0001'",
    'select \u00e9\u20ac\u{1f600}',
    'select nothing from nowhere',
    'select from from where',
    'insert into t values (1, null)',
    "insert into t values (-1, 'too long a text')",
    'select deep(3)',
    'select broken()',
    'select loud()',
    'select 1/0; select 2',
    "set application_name = ''",
    'select 1/0',
    'set application_name = \'back \\slash "q"\'',
    'begin; insert into t values (100001)',
    'select * from t where a = $1',
    'rollback',
    'commit',
    { text: 'select $1::int / $2::int', values: [1, 0] },
    { text: 'select $1::text, $2::text', values: ['multi\nline "x"', null] },
    { text: 'select $1::int + 1', values: ['one'], name: 'prepared "name"' },
    { text: 'select length($1)', values: ['x'.repeat(3000)], name: 'other' },
    'set log_parameter_max_length_on_error = 20',
    { text: 'select 1 / length($1)', values: [''], name: 'third' },
    'set log_error_verbosity = verbose',
    'select deep(1)',
    'select loud()',
    'select 1',
    'set log_error_verbosity = terse',
    'select deep(1)',
    'set log_error_verbosity = default',
    'set log_min_error_statement = panic',
    'select 1/0',
    'reset log_min_error_statement',
    `set ${server.major > 15 ? 'debug_parallel_query' : 'force_parallel_mode'} = on`,
    // A leader that takes part may be done before its workers have begun.
    'set parallel_leader_participation = off; set min_parallel_table_scan_size = 0',
    'set parallel_setup_cost = 0; set parallel_tuple_cost = 0',
    'select sum(said(a)) from t',
    'select said(a) / 0 from t where a > 2990',
    "set statement_timeout = '1ms'",
    'select pg_sleep(1)',
    'reset statement_timeout',
    LONG,
    "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_format = json",
    'select count(*) from t join t u using (a)',
    'set auto_explain.log_format = text; set auto_explain.log_nested_statements = on',
    'select deep(2)',
    'checkpoint',
    'select pg_terminate_backend(pg_backend_pid())',
  ];
  await Promise.all([
    run(local, statements),
    run({ ...tcp, application_name: 'over tcp' }, statements),
    run({ ...local, user: NASTY_NAME, database: NASTY_NAME, application_name: NASTY_NAME }, statements),
    run(win1251, [
      "select '\u043f\u0440\u0438\u0432\u0435\u0442 \\ '",
      'select "\u043d\u0435\u0442"',
      "select 'ascii \\'",
    ]),
  ]);
  await run({ ...local, database: 'no "such" one' }, []);
  await run({ ...tcp, user: 'nobody' }, []);
  await server.query('vacuum t');
}

/**
 * @param {Value[][]} rows
 * @returns {Map<string, Value[]>} session_id and session_line_num -> all but the offset
 */
function bySession(rows) {
  const map = new Map(rows.map(row => [`${row[8]} ${row[9]}`, row.toSpliced(2, 1)]));
  assert.equal(map.size, rows.length);
  return map;
}

/** @param {Buffer} bytes */
function rowsOfJson(bytes) {
  const encoder = new JsonlogRowEncoder({ streamId: 1, fileNo: 2, zones: ZONES });
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const out = new CopyBuffer();
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf('\n', at);
    assert.ok(end > 0 && looksLikeJsonlog(bytes, at, end));
    assert.ok(encoder.encode(bytes, view, at, end, at, out, 0), encoder.reason());
    at = end + 1;
  }
  return readLogRows(out.bytes());
}

/** @param {Buffer} bytes */
function rowsOfCsv(bytes) {
  const parser = new CsvlogParser({
    streamId: 1,
    fileNo: 2,
    offset: 0,
    zones: ZONES,
    maxRecordBytes: 1 << 24,
  });
  const out = new CopyBuffer();
  const sink = {
    rows: out,
    days: new Set(),
    receivedAtMs: 0,
    cut() {},
    /** @param {Rejected} rejected */ reject: ({ reason }) => assert.fail(reason),
  };
  parser.write(bytes, sink);
  parser.end(sink);
  return readLogRows(out.bytes());
}

const ZONES = new Map([['MSK', 10_800]]);

const [newest] = await systemBinDirectories();
const systemWritesJsonlog = Number(newest?.match(/(\d+)\/bin$/)?.[1]) >= FIRST_JSONLOG_VERSION;

// The programs that npm brings write it, and those of the system where they are new enough.
for (const binaries of systemWritesJsonlog ? ['system', 'embedded'] : ['embedded']) {
  test(`${binaries} PostgreSQL`, async () => {
    const server = await startPostgres({
      binaries,
      tcp: true,
      settings: {
        logging_collector: 'on',
        log_destination: 'csvlog,jsonlog',
        log_directory: 'log',
        log_filename: 'postgresql.log',
        log_rotation_size: '0',
        log_rotation_age: '0',
        log_statement: 'all',
        log_duration: 'on',
        log_connections: 'on',
        log_disconnections: 'on',
        log_min_messages: 'debug1',
        log_timezone: 'Europe/Moscow',
        compute_query_id: 'on',
        max_worker_processes: '20',
        max_parallel_workers: '16',
        log_parameter_max_length_on_error: '-1',
      },
    });
    servers.push(server);
    await work(server);
    await server.halt();
    const [csv, json] = await Promise.all(
      ['csv', 'json'].map(end => readFile(path.join(server.logDir, `postgresql.${end}`))),
    );
    assert.ok(csv && json);
    const expected = rowsOfCsv(csv);
    const rows = bySession(rowsOfJson(json));
    for (const [key, row] of bySession(expected)) assert.deepEqual(rows.get(key), row);
    assert.equal(rows.size, expected.length);

    // That the workload was what it should be: every column has been seen with and without a value.
    const column = (/** @type {number} */ index) => expected.map(row => row[index + 3]);
    for (const index of [1, 2, 4, 7, 9, 14, 15, 16, 17, 18, 19, 20, 21, 24, 26]) {
      assert.ok(
        column(index).includes(null) && column(index).some(value => value !== null),
        `column ${index}`,
      );
    }
    assert.ok(
      column(4).includes('[local]') && column(4).some(value => /^127\.0\.0\.1:\d+$/.test(String(value))),
    );
    assert.ok(column(12).includes('00000') && column(12).includes('ZX123') && column(12).includes('22012'));
    assert.ok(column(13).includes('') && column(15).includes('') && column(22).includes(''));
    assert.ok(column(25).includes(0n) && column(25).some(id => id !== 0n));
    assert.ok(column(21).some(place => /^\w+, \w+\.c:\d+$/.test(String(place))));
    assert.ok(expected.some(row => row[30] !== null) && expected.some(row => row[29] !== null));
    assert.ok(expected.some(row => String(row[16]).length > 200_000));
  });
}
