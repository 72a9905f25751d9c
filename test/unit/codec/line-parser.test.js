// Records of every format in one file, put together from lines, against expectations written by hand.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodingNamed } from '../../../src/codec/encodings.js';
import { sampleColumns, writeRecord } from './csvlog-model.js';
import { modelOf, RECEIVED_MS, run, sha256, valuesOf } from './line-parser-model.js';

const T = '2026-05-01 12:34:56.789 UTC';
const TIME = BigInt(Date.UTC(2026, 4, 1, 12, 34, 56, 789) - Date.UTC(2000, 0, 1)) * 1000n;
const RECEIVED = BigInt(RECEIVED_MS - Date.UTC(2000, 0, 1)) * 1000n;
const LOG_TIME = 3;
const PID = 6;
const SEVERITY = 14;
const STATE = 15;
const MESSAGE = 16;
const DETAIL = 17;
const HINT = 18;
const INTERNAL_QUERY = 19;
const INTERNAL_POS = 20;
const CONTEXT = 21;
const QUERY = 22;
const QUERY_POS = 23;
const LOCATION = 24;
const DURATION = 29;
const MARKS = 30;

/** @param {string[]} lines */
const file = lines => Buffer.from(lines.map(line => `${line}\n`).join(''), 'latin1');

/**
 * @param {import('./line-parser-model.js').Value[] | undefined} row
 * @param {Record<number, import('./line-parser-model.js').Value>} values by index; all others but the leading ones are NULL
 */
function assertRow(row, values) {
  assert.ok(row);
  const filled = Object.fromEntries(
    row.flatMap((value, at) => (at > 2 && value !== null ? [[at, value]] : [])),
  );
  assert.deepEqual(filled, values);
}

test('the parts of a message become columns', () => {
  const { rows } = run(
    file([
      `${T} [12] ERROR:  relation "x" does not exist at character 15`,
      `${T} [12] DETAIL:  one`,
      `\ttwo`,
      `\t\tthree`,
      `\t`,
      `${T} [12] HINT:  hint`,
      `${T} [12] CONTEXT:  PL/pgSQL function f()`,
      `${T} [12] STATEMENT:  select *`,
      `\tfrom x`,
    ]),
  );
  assert.equal(rows.length, 1);
  assertRow(rows[0], {
    [LOG_TIME]: TIME,
    [PID]: 12,
    [SEVERITY]: 'ERROR',
    [MESSAGE]: 'relation "x" does not exist',
    [DETAIL]: 'one\ntwo\n\tthree\n',
    [HINT]: 'hint',
    [CONTEXT]: 'PL/pgSQL function f()',
    [QUERY]: 'select *\nfrom x',
    [QUERY_POS]: 15,
  });
});

test('a position belongs to the internal query if there is one', () => {
  const { rows } = run(
    file([
      `${T} [12] ERROR:  bad at character 8`,
      `${T} [12] QUERY:  SELECT bad`,
      `${T} [12] STATEMENT:  select f()`,
    ]),
  );
  assertRow(rows[0], {
    [LOG_TIME]: TIME,
    [PID]: 12,
    [SEVERITY]: 'ERROR',
    [MESSAGE]: 'bad',
    [INTERNAL_QUERY]: 'SELECT bad',
    [INTERNAL_POS]: 8,
    [QUERY]: 'select f()',
  });
});

test('a statement that is logged may end like a position', () => {
  const { rows } = run(file([`${T} [12] LOG:  statement: select 'x at character 5`]));
  assert.equal(rows[0]?.[MESSAGE], "statement: select 'x at character 5");
  assert.equal(rows[0]?.[QUERY_POS], null);
});

test('a LOG message has a position where a statement follows', () => {
  const { rows } = run(
    file([
      `${T} [12] LOG:  process 12 still waiting for ShareLock after 50.123 ms at character 15`,
      `${T} [12] STATEMENT:  select * from x`,
      `${T} [12] LOG:  of a query at character 3`,
      `${T} [12] QUERY:  select 1`,
      `${T} [12] LOG:  statement: select 'x at character 5`,
      `${T} [12] DETAIL:  x`,
    ]),
  );
  assert.deepEqual(
    rows.map(row => [row[MESSAGE], row[INTERNAL_POS], row[QUERY_POS]]),
    [
      ['process 12 still waiting for ShareLock after 50.123 ms', null, 15],
      ['of a query', 3, null],
      ["statement: select 'x at character 5", null, null],
    ],
  );
});

test('log_error_verbosity=verbose: state and location', () => {
  const { rows } = run(
    file([
      `${T} [12] ERROR:  42P01: relation "x" does not exist at character 15`,
      `${T} [12] LOCATION:  parserOpenTable, parse_relation.c:1392`,
      `${T} [12] STATEMENT:  select 1`,
      `${T} [12] ERROR:  42P01: not verbose: no location`,
    ]),
  );
  assertRow(rows[0], {
    [LOG_TIME]: TIME,
    [PID]: 12,
    [SEVERITY]: 'ERROR',
    [STATE]: '42P01',
    [MESSAGE]: 'relation "x" does not exist',
    [QUERY]: 'select 1',
    [QUERY_POS]: 15,
    [LOCATION]: 'parserOpenTable, parse_relation.c:1392',
  });
  assertRow(rows[1], {
    [LOG_TIME]: TIME,
    [PID]: 12,
    [SEVERITY]: 'ERROR',
    [MESSAGE]: '42P01: not verbose: no location',
  });
});

test('a backtrace follows the context', () => {
  const line = `${T} [12]`;
  const { rows } = run(
    file([
      `${line} ERROR:  a`,
      `${line} CONTEXT:  c`,
      `${line} BACKTRACE:  `,
      `\tpostgres: f+1`,
      `${line} ERROR:  b`,
      `${line} BACKTRACE:  x`,
    ]),
  );
  assert.deepEqual(
    rows.map(row => row[CONTEXT]),
    ['c\nBACKTRACE:  \npostgres: f+1', 'BACKTRACE:  x'],
  );
});

test('durations, also of a message of several lines', () => {
  const { rows } = run(file([`${T} [12] LOG:  duration: 1.250 ms  statement: select 1,`, `\t2`]));
  assertRow(rows[0], {
    [LOG_TIME]: TIME,
    [PID]: 12,
    [SEVERITY]: 'LOG',
    [MESSAGE]: 'duration: 1.250 ms  statement: select 1,\n2',
    [DURATION]: 1.25,
  });
});

test('translated severities become English, the word stays known', () => {
  const { rows } = run(Buffer.from(`${T} [12] ОШИБКА:  нет (символ 8)\n${T} [12] ОПЕРАТОР:  select\n`));
  assert.equal(rows[0]?.[SEVERITY], 'ERROR');
  assert.ok(BigInt(rows[0]?.[MARKS] ?? 0) >> 32n > 0n);
  assert.equal(BigInt(rows[0]?.[MARKS] ?? 0) & 0xffffffffn, 0n);
  assert.equal(rows[0]?.[QUERY], 'select');
  assert.equal(rows[0]?.[QUERY_POS], 8);
});

test('words that are not UTF-8, each line in the encoding of its database', () => {
  // The same record in WIN1251 and in KOI8R: message, position and STATEMENT.
  const bytes = file([
    `${T} [1] \xce\xd8\xc8\xc1\xca\xc0:  \xed\xe5\xf2 (\xf1\xe8\xec\xe2\xee\xeb 8)`,
    `${T} [1] \xce\xcf\xc5\xd0\xc0\xd2\xce\xd0:  select \xed\xe5\xf2`,
    `${T} [2] \xef\xfb\xe9\xe2\xeb\xe1:  \xce\xc5\xd4`,
    `${T} [2] \xef\xf0\xe5\xf2\xe1\xf4\xef\xf2:  select`,
  ]);
  const { rows } = run(bytes, { decoderOf: () => encodingNamed('WIN1251')?.decode ?? null });
  const utf8 = (/** @type {unknown} */ value) => Buffer.from(String(value), 'latin1').toString();
  assert.deepEqual(
    rows.map(row => [row[SEVERITY], row[QUERY_POS]]),
    [
      ['ERROR', 8],
      ['ERROR', null],
    ],
  );
  assert.equal(utf8(rows[0]?.[MESSAGE]), 'нет');
  assert.equal(utf8(rows[0]?.[QUERY]), 'select нет');
  assert.equal(rows[1]?.[QUERY], 'select');
  const found = run(bytes, { prefix: null });
  assert.equal(found.count, 2);
  assert.equal(found.rows[0]?.[MESSAGE], String.raw`\xed\xe5\xf2 (\xf1\xe8\xec\xe2\xee\xeb 8)`);
});

test('lines of different processes interleave', () => {
  const { rows } = run(
    file([
      `${T} [1] ERROR:  a`,
      `${T} [2] ERROR:  b`,
      `${T} [1] DETAIL:  of a`,
      `\tmore of a`,
      `${T} [2] DETAIL:  of b`,
      `${T} [1] STATEMENT:  by a`,
      `${T} [1] LOG:  c`,
      `${T} [2] STATEMENT:  by b`,
    ]),
  );
  assert.deepEqual(
    rows.map(row => [row[MESSAGE], row[DETAIL], row[QUERY]]),
    [
      ['a', 'of a\nmore of a', 'by a'],
      ['b', 'of b', 'by b'],
      ['c', null, null],
    ],
  );
});

test('a label without its message is a record of its own, and takes the labels after it', () => {
  const { rows } = run(
    file([`${T} [1] DETAIL:  lost`, `${T} [1] STATEMENT:  select`, `${T} [1] DETAIL:  another`]),
  );
  assertRow(rows[0], { [LOG_TIME]: TIME, [PID]: 1, [DETAIL]: 'lost', [QUERY]: 'select' });
  assertRow(rows[1], { [LOG_TIME]: TIME, [PID]: 1, [DETAIL]: 'another' });
});

test('text that is no message is stored with its time of arrival', () => {
  const { rows } = run(file(['sh: 1: archive: not found', '', '\tTAB', 'a\r']));
  assert.deepEqual(
    rows.map(row => row[MESSAGE]),
    ['sh: 1: archive: not found', '', '\tTAB', 'a'],
  );
  assertRow(rows[0], { [LOG_TIME]: RECEIVED, [MESSAGE]: 'sh: 1: archive: not found', [MARKS]: 1n });
});

test('a carriage return belongs to a message', () => {
  const { rows } = run(file([`${T} [1] LOG:  statement: select 1\r`, '\t+ 2\r']));
  assert.equal(rows[0]?.[MESSAGE], 'statement: select 1\r\n+ 2\r');
});

test('csvlog rows and JSON objects in the middle of a stderr log', () => {
  const csv = writeRecord(sampleColumns().with(13, 'two\nLOG:  lines "x"'));
  const bytes = Buffer.concat([
    file([`${T} [1] LOG:  a`]),
    csv,
    file([
      '{"timestamp":"2026-05-01 12:34:56.789 UTC","pid":5,"session_id":"1.5","line_num":1,"error_severity":"LOG","message":"j","backend_type":"x","query_id":0}',
      `${T} [1] DETAIL:  of a`,
    ]),
    csv,
  ]);
  const { rows, rejected } = run(bytes);
  assert.deepEqual(rejected, []);
  assert.deepEqual(
    rows.map(row => [row[MESSAGE], row[DETAIL]]),
    [
      ['a', 'of a'],
      ['two\nLOG:  lines "x"', 'some detail'],
      ['j', null],
      ['two\nLOG:  lines "x"', 'some detail'],
    ],
  );
  assert.deepEqual(rows[1]?.slice(3, 30), valuesOf(modelOf(csv, '%m [%p] ', 100)[0] ?? assert.fail()));
});

test('csvlog rows that cannot be stored are rejected, broken ones up to the end of their line', () => {
  const row = writeRecord(sampleColumns());
  const wide = writeRecord([...sampleColumns(), 'x']);
  const torn = row.subarray(0, row.indexOf('a ""b""') + 3);
  const bytes = Buffer.concat([wide, torn, row, file([`${T} [1] LOG:  a`]), row.subarray(0, 200)]);
  const { rows, rejected } = run(bytes);
  assert.deepEqual(
    rejected.map(({ offset, length, reason }) => [offset, length, reason]),
    [
      [0, wide.length, '27 columns; a csvlog row has 22, 23, 24 or 26'],
      [wide.length, torn.length + row.length, 'not csv: a quote that no csvlog row has there'],
      [bytes.length - 200, 200, 'unfinished record at the end of the file'],
    ],
  );
  assert.deepEqual(
    rows.map(values => values[MESSAGE]),
    ['a'],
  );
});

test('format jsonlog rejects what is no JSON object', () => {
  const json = '{"timestamp":"2026-05-01 12:34:56.789 UTC","message":"j"}';
  const { rows, rejected } = run(file([json, 'LOG:  x', '', json]), { format: 'jsonlog' });
  assert.equal(rows.length, 2);
  assert.deepEqual(
    rejected.map(({ offset, length, bytes }) => [offset, length, bytes]),
    [
      [json.length + 1, 8, 'LOG:  x\n'],
      [json.length + 9, 1, '\n'],
    ],
  );
  for (const { reason } of rejected) assert.ok(reason.length > 0);
});

test('format plain: a line is a record', () => {
  const { rows } = run(Buffer.from(`${T} [1] LOG:  a\r\n\n\tb\n{"timestamp":"x"}\nlast`), {
    format: 'plain',
  });
  assert.deepEqual(
    rows.map(row => row[MESSAGE]),
    [`${T} [1] LOG:  a`, '', '\tb', '{"timestamp":"x"}', 'last'],
  );
  for (const row of rows) assert.deepEqual([row[LOG_TIME], row[MARKS]], [RECEIVED, 1n]);
});

test('a zone that nobody knows: the time of arrival, marked; no time in the prefix: the same', () => {
  const { rows } = run(file(['2026-05-01 12:34:56.789 XXT [1] LOG:  a']));
  assert.deepEqual([rows[0]?.[LOG_TIME], rows[0]?.[MARKS], rows[0]?.[PID]], [RECEIVED, 1n, 1]);
  const without = run(file(['[1] LOG:  a']), { prefix: '[%p] ' });
  assert.deepEqual([without.rows[0]?.[LOG_TIME], without.rows[0]?.[MARKS]], [RECEIVED, 1n]);
  const epoch = run(file(['1777638896.789 LOG:  a']), { prefix: '%n ' });
  assert.deepEqual([epoch.rows[0]?.[LOG_TIME], epoch.rows[0]?.[MARKS]], [TIME, null]);
});

test('a prefix with most fields', () => {
  const prefix = '%t %c/%l %q%u@%d/%a %r %e %v %x %Q ';
  const bytes = file([
    '2026-05-01 12:34:56 UTC 66321234.1092/3 alice@shop/psql 10.0.0.7(50123) 42P01 3/17 900 -6123456789012345678 ERROR:  a',
    '2026-05-01 12:34:56 UTC 66321234.1092/4 alice@shop/psql 10.0.0.7(50123) 42P01 3/17 900 -6123456789012345678 DETAIL:  b',
    '2026-05-01 12:34:56 UTC 66321234.1093/1 [unknown]@[unknown]/[unknown] [local] 00000  0 0 LOG:  c',
    '2026-05-01 12:34:56 UTC 66321234.1094/1 LOG:  d',
  ]);
  const { rows } = run(bytes, { prefix });
  const time = BigInt(Date.UTC(2026, 4, 1, 12, 34, 56) - Date.UTC(2000, 0, 1)) * 1000n;
  assertRow(rows[0], {
    [LOG_TIME]: time,
    4: 'alice',
    5: 'shop',
    7: '10.0.0.7:50123',
    8: '66321234.1092',
    9: 3n,
    12: '3/17',
    13: 900n,
    [SEVERITY]: 'ERROR',
    [STATE]: '42P01',
    [MESSAGE]: 'a',
    [DETAIL]: 'b',
    25: 'psql',
    28: -6123456789012345678n,
  });
  assertRow(rows[1], {
    [LOG_TIME]: time,
    7: '[local]',
    8: '66321234.1093',
    9: 1n,
    13: 0n,
    [SEVERITY]: 'LOG',
    [STATE]: '00000',
    [MESSAGE]: 'c',
    25: '',
    28: 0n,
  });
  assertRow(rows[2], {
    [LOG_TIME]: time,
    8: '66321234.1094',
    9: 1n,
    [SEVERITY]: 'LOG',
    [MESSAGE]: 'd',
    25: '',
  });
});

test('what is not UTF-8 is stored escaped, and nothing else', () => {
  const { rows } = run(
    file([`${T} [1] ERROR:  \xef\xf0\\ at character 3`, `${T} [1] DETAIL:  a\\b`, '\xff\0']),
  );
  assert.equal(rows[0]?.[MESSAGE], String.raw`\xef\xf0\\`);
  assert.equal(rows[0]?.[DETAIL], String.raw`a\b`);
  assert.equal(rows[0]?.[MARKS], BigInt(1 << 13));
  assert.equal(rows[1]?.[MESSAGE], String.raw`\xff\x00`);
  assert.equal(rows[1]?.[MARKS], BigInt((1 << 13) | 1));
});

test('a record is complete when its process begins the next, or when enough other bytes have followed', () => {
  const next = run(file([`${T} [1] LOG:  a`, `${T} [1] LOG:  b`]), { end: false });
  assert.equal(next.count, 1);
  const others = [`${T} [1] LOG:  a`, `${T} [2] LOG:  b`, `${T} [3] LOG:  c`, `${T} [4] LOG:  d`];
  assert.equal(run(file(others), { end: false }).count, 0);
  assert.equal(run(file(others), { end: false, windowBytes: 100 }).count, 1);
  assert.equal(run(file(others), { end: false, maxWaitingBytes: 100 }).count, 3);
});

test('quiet() completes what only waits for more lines', () => {
  const bytes = file([`${T} [1] ERROR:  a`, `${T} [1] DETAIL:  b`]);
  const open = run(bytes, { end: false });
  assert.equal(open.count, 0);
  assert.equal(open.parser.recordOffset, 0);
  const quiet = run(bytes, { end: false, quietEvery: 1 });
  assert.equal(quiet.count, 1);
  assert.equal(quiet.parser.pendingBytes, 0);
});

test('quiet() waits for an unfinished line, but not for ever', () => {
  const bytes = Buffer.from(`${T} [1] ERROR:  a\n${T} [1] DETA`);
  const { parser, sink } = run(bytes, { end: false, quietEvery: 1 });
  assert.equal(sink.rows.rows, 0);
  assert.equal(parser.recordOffset, 0);
  parser.quiet(sink);
  assert.equal(sink.rows.rows, 1);
  assert.equal(parser.recordOffset, bytes.indexOf('\n') + 1);
  parser.write(Buffer.from('IL:  b\n'), sink);
  parser.end(sink);
  assert.equal(sink.rows.rows, 2);
});

test('records that are too long: the beginning, the length and the hash', () => {
  const long = 'x'.repeat(500);
  const lines = {
    text: `text ${long}`,
    message: `${T} [1] ERROR:  ${long}`,
    grown: `${T} [1] ERROR:  short\n\t${long}\n\tmore\n${T} [1] STATEMENT:  select`,
    label: `${T} [1] ERROR:  short\n${T} [1] STATEMENT:  ${long}`,
    json: `{"timestamp":"${T}","message":"${long}"}`,
    csv: writeRecord(sampleColumns().with(13, `${long}\n"${long}`))
      .toString('latin1')
      .trimEnd(),
  };
  for (const [name, raw] of Object.entries(lines)) {
    const before = `${T} [2] LOG:  before\n`;
    const bytes = Buffer.from(`${before}${raw}\n${T} [2] LOG:  after\n`, 'latin1');
    const { rows, cuts, rejected } = run(bytes, { maxRecordBytes: 400, maxRejectedBytes: 100 });
    assert.deepEqual(rejected, []);
    assert.equal(rows.length, 3, name);
    assert.deepEqual(cuts, [
      { streamId: 7, fileNo: 9, offset: before.length, length: raw.length + 1, sha256: sha256(`${raw}\n`) },
    ]);
    const row = rows[1] ?? [];
    assert.equal(row[2], BigInt(before.length));
    assert.ok((BigInt(row[MARKS] ?? 0) >> 26n) & 1n, name);
    const kept = raw.slice(0, 100);
    const head = `${T} [1] ERROR:  `.length;
    if (name === 'grown')
      assert.deepEqual([row[MESSAGE], row[QUERY]], [`short\n${'x'.repeat(100 - head - 7)}`, null]);
    else if (name === 'label') assert.equal(row[MESSAGE], 'short');
    else if (name === 'message') assert.equal(row[MESSAGE], kept.slice(head));
    else assert.equal(row[MESSAGE], kept);
    assert.equal(row[LOG_TIME], name === 'text' ? RECEIVED : TIME, name);
  }
});

test('a beginning is cut between two characters', () => {
  const bytes = Buffer.from(`${'ж'.repeat(300)}\n`);
  const { rows } = run(bytes, { maxRecordBytes: 400, maxRejectedBytes: 101, format: 'plain' });
  assert.equal(Buffer.from(String(rows[0]?.[MESSAGE]), 'latin1').toString(), 'ж'.repeat(50));
  assert.equal(rows[0]?.[MARKS], BigInt(1 << 26) | 1n);
});
