/**
 * Real servers write each message twice, to stderr with a log_line_prefix and to csvlog: what LinePrefix reads in the
 * one must be what the other says, and findLinePrefix() must find the prefix from the lines alone. One client works
 * at a time, so that both files have the messages in the same order.
 */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, escapeIdentifier, escapeLiteral } from 'pg';
import { findLinePrefix } from '../../../src/codec/find-prefix.js';
import { compileLinePrefix } from '../../../src/codec/line-prefix.js';
import { isUnknownName, writeConnectionFrom } from '../../../src/codec/line-prefix-fields.js';
import { startPostgres, systemBinDirectories } from '../../helpers/postgres.js';
import { readRecord } from '../../unit/codec/csvlog-model.js';
import { FIELD_OF } from '../../unit/codec/line-prefix-model.js';

/** @typedef {{ user: string, database: string, application: string, tcp: boolean }} Session */

const POLL_MS = 20;
const DEADLINE_MS = 30_000;
const RECORD = /^(?:DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):  /;
const LABEL = /^(?:DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT|BACKTRACE):  /;
/** Columns of csvlog. */
const [LOG_TIME, USER, PROCESS, FROM, LINE_NUM, SEVERITY, MESSAGE, APPLICATION] = [0, 1, 3, 4, 6, 11, 13, 22];

/** @type {Session[]} */
const PLAIN = [
  { user: 'alice', database: 'shop', application: 'psql', tcp: false },
  { user: 'bob', database: 'shop', application: '', tcp: true },
  { user: 'alice', database: 'crm', application: 'pgbench', tcp: true },
  { user: 'bob', database: 'crm', application: 'psql', tcp: false },
];
/** Names with what stands between the values. */
/** @type {Session[]} */
const ODD = [
  { user: 'carol@corp', database: 'my db', application: 'a [1] LOG: b', tcp: true },
  { user: 'x,db=y', database: 'LOG', application: 'app=,client=', tcp: false },
  { user: 'Ünïcode', database: 'naïve', application: 'DB:  x', tcp: true },
];

/**
 * `odd`: names are not mistaken for what stands between them. `unfound`: half a character is no text to give back.
 * @type {{ prefix: string, odd?: boolean, unfound?: boolean }[]}
 */
const CASES = [
  { prefix: '%m [%p] ', odd: true },
  { prefix: '%m [%p] %q%u@%d ' },
  { prefix: '%t [%p-%l] %q%u@%d ' },
  { prefix: '%t:%r:%u@%d:[%p]:', odd: true },
  { prefix: '%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:' },
  { prefix: '%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ' },
  { prefix: '%m %p %u %d %a ' },
  { prefix: '%m|%p|%c|%l|%s|%v|%x|%e|%Q|%b|%u|%d|%r|%i|', odd: true },
  { prefix: '%n %p %b ' },
  { prefix: '<%m> pid=%p vxid=%v xid=%x qid=%Q state=%e %q[%u/%d] ', odd: true },
  { prefix: '%c %l ' },
  { prefix: '%s %t %c %x ' },
  { prefix: '%-8p %25m %-10q%-14u %-14d ' },
  { prefix: 'db1: %m %12p:%-6l %-20b %q(%i) %h ' },
  { prefix: '%m [%p] %P %b L=%L ' },
  { prefix: '100%% %y%p%5 %é %--5p ', odd: true, unfound: true },
  { prefix: '100%% %y%p%5  %--5p ', odd: true },
  { prefix: '' },
];

const systems = (await systemBinDirectories()).length > 0 ? ['system', 'embedded'] : ['embedded'];
for (const binaries of systems) {
  describe(binaries, async () => {
    const postgres = await startPostgres({
      binaries,
      tcp: true,
      settings: {
        logging_collector: 'on',
        log_destination: 'stderr,csvlog',
        log_directory: 'log',
        log_filename: 'log.log',
        log_rotation_age: '0',
        log_rotation_size: '0',
        log_statement: 'all',
        log_connections: 'on',
        log_checkpoints: 'on',
        log_timezone: 'UTC',
        compute_query_id: 'on',
        autovacuum: 'off',
      },
    });
    after(() => postgres.stop());
    for (const { user, database } of [...PLAIN, ...ODD]) {
      await postgres.query(
        `DO $do$ BEGIN IF to_regrole(${escapeLiteral(escapeIdentifier(user))}) IS NULL
         THEN CREATE ROLE ${escapeIdentifier(user)} LOGIN SUPERUSER; END IF; END $do$`,
      );
      const { rows } = await postgres.query(
        `SELECT FROM pg_database WHERE datname = ${escapeLiteral(database)}`,
      );
      if (rows.length === 0) await postgres.query(`CREATE DATABASE ${escapeIdentifier(database)}`);
    }

    let marks = 0;
    for (const { prefix, odd = false, unfound = false } of CASES) {
      test(JSON.stringify(prefix), async () => {
        await setPrefix(postgres, prefix);
        const plain = await record(postgres, PLAIN, (marks += 1));
        const compiled = compileLinePrefix(prefix);
        const lines = compare(compiled, plain.log, plain.csv, postgres.major);
        assert.ok(lines > 50);
        const found = findLinePrefix(Buffer.concat(plain.log));
        if (unfound) {
          assert.equal(found, null);
        } else {
          assert.ok(found, plain.log[5]?.toString());
          assert.equal(found.matched, found.lines);
          sameFields(prefix, found.text, plain.log);
        }

        if (!odd) return;
        const nasty = await record(postgres, ODD, (marks += 1));
        compare(compiled, nasty.log, nasty.csv, postgres.major);
      });
    }
  });
}

/** @typedef {import('../../helpers/postgres.js').TestPostgres} TestPostgres */

/**
 * @param {TestPostgres} postgres
 * @param {string} prefix
 */
async function setPrefix(postgres, prefix) {
  await postgres.query(`ALTER SYSTEM SET log_line_prefix = ${escapeLiteral(prefix)}`);
  await postgres.query('SELECT pg_reload_conf()');
  for (const end = Date.now() + DEADLINE_MS; ; await sleep(POLL_MS)) {
    const { rows } = await postgres.query('SHOW log_line_prefix');
    if (rows[0].log_line_prefix === prefix) return;
    assert.ok(Date.now() < end, 'the server did not reload');
  }
}

/**
 * Lets the sessions work.
 * @param {TestPostgres} postgres
 * @param {Session[]} sessions
 * @param {number} mark
 * @returns {Promise<{ log: Buffer[], csv: (string | null)[][] }>} lines of the one file, records of the other
 */
async function record(postgres, sessions, mark) {
  const [begin, finish] = [`SELECT 'begin ${mark}'`, `SELECT 'finish ${mark}'`];
  await postgres.query(begin);
  for (const session of sessions) await work(postgres, session);
  await postgres.query(finish);
  const files = await readdir(postgres.logDir);
  assert.deepEqual(files.toSorted(), ['log.csv', 'log.log']);
  for (const end = Date.now() + DEADLINE_MS; ; await sleep(POLL_MS)) {
    const [csv = '', log = ''] = await Promise.all(
      ['log.csv', 'log.log'].map(name => readFile(path.join(postgres.logDir, name), 'latin1')),
    );
    if (!csv.includes(finish) || !log.includes(finish)) {
      assert.ok(Date.now() < end, 'the log did not arrive');
      continue;
    }
    const records = (csv.match(/(?:"(?:[^"]|"")*"|[^"\n])*\n/g) ?? []).map(text =>
      readRecord(Buffer.from(text, 'latin1')),
    );
    const first = records.findIndex(columns => columns[MESSAGE] === `statement: ${begin}`);
    const last = records.findIndex(columns => columns[MESSAGE] === `statement: ${finish}`);
    const from = log.indexOf('\n', log.indexOf(`statement: ${begin}`)) + 1;
    const to = log.lastIndexOf('\n', log.indexOf(`statement: ${finish}`)) + 1;
    // The session of the second mark has begun before it.
    const process = records[last]?.[PROCESS];
    const lines = log.slice(from, to).split('\n').slice(0, -1);
    const chosen = records.slice(first + 1, last);
    let surplus = chosen.filter(columns => columns[PROCESS] === process).length;
    while (surplus > 0 && lines.length > 0) {
      lines.pop();
      surplus -= 1;
    }
    return {
      log: lines.map(line => Buffer.from(`${line}\n`, 'latin1')),
      csv: chosen.filter(columns => columns[PROCESS] !== process),
    };
  }
}

/**
 * @param {TestPostgres} postgres
 * @param {Session} session
 */
async function work(postgres, { user, database, application, tcp }) {
  const base = tcp ? postgres.tcpOptions : postgres.connectionOptions;
  const client = new Client({ ...base, user, database, application_name: application });
  await client.connect();
  const parallel = postgres.major >= 16 ? 'debug_parallel_query' : 'force_parallel_mode';
  const statements = [
    'SELECT 1',
    'SELECT\n 2 AS "LOG:  two"',
    'SELECT nothing FROM nowhere',
    'BEGIN',
    'CREATE TEMP TABLE t (a int)',
    `DO $$ BEGIN RAISE LOG 'in a transaction' USING DETAIL = E'two\nlines', HINT = 'a hint'; END $$`,
    'ROLLBACK',
    `DO $$ BEGIN RAISE WARNING 'user=x,db=y LOG:  z' USING ERRCODE = '01XYZ'; END $$`,
    'CHECKPOINT',
    `CREATE OR REPLACE FUNCTION pg_temp.f() RETURNS int PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'f'; RETURN 1; END $$`,
    `CREATE OR REPLACE FUNCTION public.f() RETURNS int PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'f'; RETURN 1; END $$`,
    `SET ${parallel} = on`,
    'SELECT public.f()',
  ];
  for (const statement of statements) await client.query(statement).catch(() => undefined);
  await client.end();
}

/**
 * @param {ReturnType<typeof compileLinePrefix>} prefix
 * @param {Buffer[]} log
 * @param {(string | null)[][]} csv
 * @param {number} major
 * @returns {number} lines with a message
 */
function compare(prefix, log, csv, major) {
  const letters = new Set(prefix.values.map(({ letter }) => letter));
  /** @type {Map<string | null, number>} */
  const counts = new Map();
  const backgrounds = new Set(
    csv.filter(columns => columns[USER] === null && columns[FROM] === null).map(columns => columns[PROCESS]),
  );
  let next = 0;
  let lines = 0;
  /** @type {(string | null)[]} */
  let columns = [];
  for (const line of log) {
    if (line[0] === 0x09) continue;
    const end = line.length - 1;
    const after = prefix.match(line, 0, end, isMessage);
    const text = line.toString('latin1', 0, end);
    assert.ok(after >= 0, text);
    const message = line.toString('latin1', after, end);
    if (RECORD.test(message)) {
      columns = csv[next] ?? [];
      next += 1;
      const body = message.replace(RECORD, '').replace(/ at character \d+$/, '');
      assert.equal(body, columns[MESSAGE]?.split('\n')[0], text);
      assert.ok(message.startsWith(`${columns[SEVERITY]}:`), text);
    } else {
      assert.match(message, LABEL, text);
    }
    lines += 1;
    const process = columns[PROCESS] ?? '';
    counts.set(process, (counts.get(process) ?? 0) + 1);

    const ended = prefix.fields[2 * 28] !== -1;
    if (ended) assert.ok(backgrounds.has(process), text);
    for (const { letter, field } of prefix.values) {
      if (ended && prefix.text.search(/%-?\d*q/) < prefix.text.lastIndexOf(letter)) {
        assert.equal(prefix.fields[2 * field], -1, text);
        continue;
      }
      const start = prefix.fields[2 * field] ?? -1;
      const stop = prefix.fields[2 * field + 1] ?? -1;
      const value = start < 0 ? '' : line.toString('latin1', start, stop);
      const column = FIELD_OF[/** @type {keyof typeof FIELD_OF} */ (letter)];
      const expected = columns[column] ?? '';
      const where = `%${letter} of ${text}`;
      if ('uda'.includes(letter)) {
        const unknown = start < 0 || isUnknownName(line, start, stop);
        // A parallel worker has the application of its leader in csvlog, and none in the prefix.
        if (column === APPLICATION && backgrounds.has(process)) {
          assert.equal(value, '', where);
          continue;
        }
        assert.equal(unknown ? '' : value, expected, where);
        // csvlog: no name is NULL, no application is empty.
        if (unknown) assert.equal(columns[column], column === APPLICATION ? '' : null, where);
      } else if (letter === 'r') {
        const into = Buffer.alloc(200);
        const length = start < 0 ? 0 : writeConnectionFrom(line, start, stop, into, 0);
        assert.equal(into.toString('latin1', 0, length), expected, where);
      } else if (letter === 'h') {
        assert.equal(value, expected.replace(/:\d+$/, ''), where);
      } else if (letter === 't') {
        assert.ok(Math.abs(Date.parse(value) - Date.parse(columns[LOG_TIME] ?? '')) < 2000, where);
      } else if (letter === 'n') {
        assert.equal(Math.round(Number(value) * 1000), Date.parse(columns[LOG_TIME] ?? ''), where);
      } else if (letter === 'L') {
        if (major >= 18) assert.match(value, /^(?:\[none\]|\[local\]|127\.0\.0\.1)$/, where);
        else assert.equal(value, '', where);
      } else if (column === LINE_NUM) {
        // Its own counter, of lines; those of background processes began before.
        if (!backgrounds.has(process)) assert.equal(Number(value), counts.get(process), where);
      } else {
        assert.equal(value, expected, where);
      }
    }
    assert.equal(letters.size, prefix.values.length);
  }
  assert.equal(next, csv.length);
  return lines;
}

/**
 * @param {string} expected
 * @param {string} found
 * @param {Buffer[]} log
 */
function sameFields(expected, found, log) {
  const [a, b] = [compileLinePrefix(expected), compileLinePrefix(found)];
  const letters = a.values.filter(({ letter }) => letter !== 'P' && letter !== 'L').map(({ field }) => field);
  for (const line of log) {
    if (line[0] === 0x09) continue;
    const end = line.length - 1;
    const where = `${found} for ${line.toString()}`;
    assert.equal(b.match(line, 0, end, isMessage), a.match(line, 0, end, isMessage), where);
    for (const field of letters) {
      assert.deepEqual(
        [...b.fields.subarray(2 * field, 2 * field + 2)],
        [...a.fields.subarray(2 * field, 2 * field + 2)],
        `field ${field}: ${where}`,
      );
    }
  }
}

/** @type {import('../../../src/codec/line-prefix.js').IsMessage} */
function isMessage(bytes, at, end) {
  const text = Buffer.from(bytes.subarray(at, Math.min(end, at + 20))).toString('latin1');
  return RECORD.test(text) || LABEL.test(text);
}
