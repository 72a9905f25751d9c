/**
 * A real PostgreSQL in every language that the system's package has: each line of its stderr log must be recognised,
 * and what is found in it must be what jsonlog, which is not translated, says of the same record.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { readDuration } from '../../../src/codec/duration.js';
import {
  BACKTRACE,
  CONTEXT,
  DETAIL,
  HINT,
  labelAt,
  lengthOf,
  LOCATION,
  NONE,
  numberOf,
  positionNumber,
  QUERY,
  severityAt,
  severityTag,
  severityWord,
  splitPosition,
  STATEMENT,
} from '../../../src/codec/languages.js';
import { startTranslatedPostgres } from '../../helpers/translated-postgres.js';
import { readRecord } from '../../unit/codec/csvlog-model.js';

/** Columns of csvlog. */
const [SESSION, LINE, SEVERITY, MESSAGE] = [5, 6, 11, 13];
/** A prefix that no text of these statements has; %c is the session. */
const PREFIX = /^@([0-9a-f]+\.[0-9a-f]+)@ /;
/** Languages whose word for NOTICE is also the one for WARNING. */
const ONE_WORD = new Set(['ka']);

/** @typedef {Record<string, string | number | undefined>} Json a record of jsonlog */
/** @typedef {{ severity: Buffer, rest: Buffer, labels: [code: number, text: string][] }} Entry a record of stderr */

/** @type {Awaited<ReturnType<typeof startTranslatedPostgres>>} */
let server;
/** @type {string[]} */
let languages;
/** @type {Map<string, string>} session -> language */
const sessions = new Map();
/** @type {import('../../helpers/postgres.js').TestPostgres} */
let postgres;
/** @type {{ stderr: Map<string, Entry[]>, json: Map<string, Json[]>, csv: Map<string, string[][]> }} */
let logs;

before(async () => {
  server = await startTranslatedPostgres({
    logging_collector: 'on',
    log_destination: 'stderr,csvlog,jsonlog',
    log_filename: 'postgresql.log',
    log_line_prefix: '@%c@ ',
    log_timezone: 'UTC',
  });
  ({ postgres, languages } = server);
  for (const language of languages) await speak(language);
  await postgres.halt();
  logs = await readLogs();
});

after(async () => {
  await server?.stop();
});

/**
 * Makes a session say everything in a language, and ends it with FATAL.
 * @param {string} language
 */
async function speak(language) {
  const client = new Client(postgres.connectionOptions);
  client.on('error', () => {}); // its end is an error
  await client.connect();
  const fails = (/** @type {string} */ sql) => assert.rejects(client.query(sql));
  try {
    const id = `to_hex(trunc(extract(epoch FROM backend_start))::int) || '.' || to_hex(pid)`;
    const { rows } = await client.query(
      `SELECT ${id} AS id FROM pg_stat_activity WHERE pid = pg_backend_pid()`,
    );
    sessions.set(rows[0].id, language);
    await client.query(`SET lc_messages = '${language}.UTF-8'`);
    await fails('SELECT nothing_like_it');
    await fails(`DO $$ BEGIN RAISE EXCEPTION 'own' USING DETAIL = 'd' || chr(10) || 'e', HINT = 'h'; END $$`);
    await fails(`DO $$ BEGIN EXECUTE 'SELECT nothing_like_it'; END $$`);
    await client.query('SET log_min_messages = debug1');
    for (const level of ['DEBUG', 'LOG', 'INFO', 'NOTICE', 'WARNING']) {
      await client.query(`DO $$ BEGIN RAISE ${level} 'own'; END $$`);
    }
    await client.query('RESET log_min_messages');
    await client.query(`SET backtrace_functions = 'errorMissingColumn'`);
    await client.query('SET log_error_verbosity = verbose');
    await fails('SELECT nothing_like_it');
    await client.query('RESET log_error_verbosity');
    await client.query('SET log_duration = on');
    await client.query('SET log_duration = off');
    await client.query('SET log_min_duration_statement = 0');
    await client.query('SELECT 1');
    await client.query({ name: 'own', text: 'SELECT $1::int', values: [1] });
    await client.query('RESET log_min_duration_statement');
    // Not events.once(): the error that comes first would reject it.
    const gone = new Promise(resolve => client.once('end', resolve));
    await fails('SELECT pg_terminate_backend(pg_backend_pid())');
    await gone;
  } finally {
    await client.end();
  }
}

async function readLogs() {
  const file = (/** @type {string} */ end) => readFile(path.join(postgres.logDir, `postgresql.${end}`));
  /** @type {Map<string, Json[]>} */
  const json = new Map();
  for (const line of (await file('json')).toString().trimEnd().split('\n')) {
    const record = JSON.parse(line);
    append(json, record.session_id, record);
  }
  /** @type {Map<string, string[][]>} */
  const csv = new Map();
  for (const record of (await file('csv')).toString('latin1').matchAll(/(?:"(?:[^"]|"")*"|[^"\n])+\n/g)) {
    const columns = readRecord(Buffer.from(record[0], 'latin1')).map(column => column ?? '');
    append(csv, columns[SESSION] ?? '', columns);
  }
  return { json, csv, stderr: readStderr((await file('log')).toString()) };
}

/**
 * @param {string} text
 * @returns {Map<string, Entry[]>} by session
 */
function readStderr(text) {
  /** @type {Map<string, Entry[]>} */
  const records = new Map();
  for (const line of text.trimEnd().split(/\n(?!\t)/)) {
    const session = PREFIX.exec(line)?.[1];
    // Before the collector starts there is only the helper's file; what else has no prefix is not PostgreSQL's.
    assert.ok(session, `a line without a prefix: ${line}`);
    const bytes = Buffer.from(line.replaceAll('\n\t', '\n'));
    const at = `@${session}@ `.length;
    const label = labelAt(bytes, at, bytes.length);
    const severity = severityAt(bytes, at, bytes.length);
    assert.ok((label === NONE) !== (severity === -1), `a severity or a label: ${line}`);
    if (severity !== -1) {
      const rest = at + lengthOf(severity);
      const word = bytes.subarray(at, rest - 3);
      const number = numberOf(severity);
      append(records, session, {
        severity: number === 0 ? word : severityTag(number),
        rest: bytes.subarray(rest),
        labels: [],
      });
    } else {
      const last = records.get(session)?.at(-1);
      assert.ok(last, `a label without a record: ${line}`);
      last.labels.push([numberOf(label), bytes.subarray(at + lengthOf(label)).toString()]);
    }
  }
  return records;
}

/**
 * @param {string} language
 * @param {Json} json
 */
function expectedSeverity(language, json) {
  return ONE_WORD.has(language) && json.error_severity === 'NOTICE' ? 'WARNING' : json.error_severity;
}

/**
 * Calls back for each session whose language was set; what was logged before is English and is checked like the rest.
 * @param {(language: string, session: string) => void} check
 */
function forEachSession(check) {
  assert.equal(sessions.size, languages.length);
  for (const [session, language] of sessions) check(language, session);
}

test('stderr: severities and labels are what jsonlog says', () => {
  forEachSession((language, session) => {
    const json = logs.json.get(session) ?? [];
    const stderr = logs.stderr.get(session) ?? [];
    assert.deepEqual(
      stderr.map(({ severity }) => severity.toString()),
      json.map(record => expectedSeverity(language, record)),
      language,
    );
    for (const tag of ['DEBUG', 'LOG', 'INFO', 'NOTICE', 'WARNING', 'ERROR', 'FATAL']) {
      assert.ok(
        json.some(record => record.error_severity === tag),
        `${language} has ${tag}`,
      );
    }
    /** @type {Set<number>} */
    const seen = new Set();
    for (const [index, record] of json.entries()) {
      const labels = new Map(stderr[index]?.labels);
      const location = record.func_name && `${record.func_name}, ${record.file_name}:${record.file_line_num}`;
      const where = `${language}: ${record.message}`;
      assert.equal(labels.get(DETAIL), record.detail, where);
      assert.equal(labels.get(HINT), record.hint, where);
      assert.equal(labels.get(QUERY), record.internal_query, where);
      assert.equal(labels.get(CONTEXT), record.context, where);
      assert.equal(labels.get(LOCATION), location, where);
      assert.equal(labels.get(STATEMENT), record.statement, where);
      // jsonlog and csvlog have no backtrace.
      assert.equal(
        labels.get(BACKTRACE)?.includes('PostmasterMain'),
        location === undefined ? undefined : true,
        where,
      );
      for (const code of labels.keys()) seen.add(code);
    }
    assert.deepEqual(
      [...seen].toSorted((a, b) => a - b),
      [DETAIL, HINT, QUERY, CONTEXT, LOCATION, STATEMENT, BACKTRACE],
      language,
    );
  });
});

test('stderr: the position is taken from the end of the message, and from there alone', () => {
  forEachSession((language, session) => {
    let positions = 0;
    for (const [index, record] of (logs.json.get(session) ?? []).entries()) {
      const { rest } = logs.stderr.get(session)?.[index] ?? assert.fail();
      // With log_error_verbosity = verbose the SQLSTATE stands before the message.
      const at = record.func_name ? `${record.state_code ?? '00000'}: `.length : 0;
      const textEnd = splitPosition(rest, at, rest.length);
      const expected = record.cursor_position ?? record.internal_position;
      const where = `${language}: ${rest.toString()}`;
      assert.equal(textEnd === -1 ? undefined : positionNumber(rest, textEnd, rest.length), expected, where);
      assert.equal(rest.toString('utf8', at, textEnd === -1 ? rest.length : textEnd), record.message, where);
      positions += expected === undefined ? 0 : 1;
    }
    assert.equal(positions, 3, language);
  });
});

test('durations of every kind of statement', () => {
  forEachSession((language, session) => {
    let durations = 0;
    for (const { message } of logs.json.get(session) ?? []) {
      const bytes = Buffer.from(`${message}`);
      // No other message of this session has a number with three decimals.
      const time = /\d+\.\d{3}/.exec(`${message}`)?.[0];
      assert.equal(
        readDuration(bytes, 0, bytes.length),
        time === undefined ? NaN : Number(time),
        `${language}: ${message}`,
      );
      durations += time === undefined ? 0 : 1;
    }
    // log_duration, a statement, parse, bind, execute, and the SETs between them.
    assert.ok(durations >= 5, `${language} has ${durations}`);
  });
});

test('csvlog: the severity is what jsonlog says', () => {
  forEachSession((language, session) => {
    const json = logs.json.get(session) ?? [];
    const csv = logs.csv.get(session) ?? [];
    assert.equal(csv.length, json.length, language);
    let translated = 0;
    for (const [index, columns] of csv.entries()) {
      const text = (/** @type {number} */ column) => Buffer.from(columns[column] ?? '', 'latin1');
      const record = json[index] ?? {};
      assert.equal(Number(columns[LINE]), record.line_num, language);
      assert.equal(text(MESSAGE).toString(), record.message, language);
      const word = text(SEVERITY);
      const number = severityWord(word, 0, word.length);
      assert.ok(number >= 0, `${language}: ${word.toString()}`);
      assert.equal(
        (number === 0 ? word : severityTag(number)).toString(),
        expectedSeverity(language, record),
        language,
      );
      translated += number === 0 ? 0 : 1;
    }
    // Spanish and Japanese leave them in English.
    assert.ok(translated > 0 || ['es', 'ja'].includes(language), language);
  });
});

/**
 * @template T
 * @param {Map<string, T[]>} lists
 * @param {string} key
 * @param {T} value
 */
function append(lists, key, value) {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}
