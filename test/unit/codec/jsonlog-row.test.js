// One line of jsonlog at a time: what each key becomes, what is repaired, what is refused and why.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { looksLikeJsonlog } from '../../../src/codec/jsonlog-row.js';
import { run } from './csvlog-model.js';
import {
  encode,
  expectedRow,
  fixture,
  lineOf,
  newEncoder,
  RECEIVED_AT_MS,
  sample,
  tokensOf,
  unescaped,
} from './jsonlog-model.js';

const MESSAGE = 13;

/** @param {Record<string, string>} changes */
const encodeWith = changes => encode(lineOf({ ...sample(), ...changes }));

/** @param {...string} keys */
function encodeWithout(...keys) {
  const fields = Object.entries(sample()).filter(([key]) => !keys.includes(key));
  return encode(lineOf(Object.fromEntries(fields)));
}

test('every key', () => {
  const { values, marks, encoder } = encode(lineOf(sample()));
  assert.equal(marks, 0n);
  assert.deepEqual(values, [
    BigInt(Date.UTC(2026, 4, 1, 12, 34, 56, 789) - Date.UTC(2000, 0, 1)) * 1000n,
    'alice',
    'shop',
    4242,
    '10.0.0.7:50123',
    '66321234.1092',
    17n,
    'SELECT',
    BigInt(Date.UTC(2026, 4, 1, 9) - Date.UTC(2000, 0, 1)) * 1000n,
    '3/1234',
    0n,
    'ERROR',
    '42P01',
    'duration: 12.345 ms  statement: SELECT 1, \'a "b"\'',
    'some\tdetail',
    'a hint',
    'SELECT inner',
    7,
    'PL/pgSQL function f() line 1\nSQL statement',
    'SELECT outer',
    8,
    'exec_simple_query, postgres.c:1100',
    'psql',
    'client backend',
    4200,
    -6123456789012345678n,
    12.345,
  ]);
  assert.equal(encoder.logTimeMs, Date.UTC(2026, 4, 1, 12, 34, 56, 789));
  assert.equal(encoder.logDay, Date.UTC(2026, 4, 1) / 86_400_000);
});

test('a key that is not there is what csvlog has then', () => {
  const all = encode(lineOf(sample())).values;
  const keys = Object.keys(sample()).filter(
    key => !['timestamp', 'remote_host', 'file_name', 'message'].includes(key),
  );
  for (const key of keys) {
    const { values } = encodeWithout(key);
    const changed = values
      .map((value, column) => (value === all[column] ? '=' : value))
      .filter(value => value !== '=');
    const expected = {
      state_code: '00000',
      application_name: '',
      remote_port: '10.0.0.7',
      func_name: 'postgres.c:1100',
      file_line_num: 'exec_simple_query, postgres.c',
    };
    assert.deepEqual(
      changed,
      [key in expected ? expected[/** @type {keyof typeof expected} */ (key)] : null],
      key,
    );
  }
  assert.deepEqual(encodeWithout('message').values.slice(MESSAGE, MESSAGE + 1), [null]);
  assert.equal(encodeWithout('message').values[26], null);
  assert.equal(encodeWithout('remote_host', 'remote_port').values[4], null);
  assert.equal(encodeWithout('func_name', 'file_name', 'file_line_num').values[21], null);
  assert.equal(encodeWithout('file_name', 'file_line_num').values[21], 'exec_simple_query');
});

test('the timestamp alone is a row', () => {
  const { values } = encode('{"timestamp":"2026-05-01 12:34:56.789 UTC"}');
  const expected = encode(lineOf(sample())).values.map((value, column) => (column === 0 ? value : null));
  expected[12] = '00000';
  expected[22] = '';
  assert.deepEqual(values, expected);
});

test('escapes', () => {
  const cases = {
    '': '',
    '\\"\\\\\\/\\b\\f\\n\\r\\t': '"\\/\b\f\n\r\t',
    '\\u0001\\u001f\\u007F': '\x01\x1f\x7f',
    'a\\u0041\\u00e9\\u20AC': 'aA\xc3\xa9\xe2\x82\xac',
    '\\uD83D\\uDE00': '\xf0\x9f\x98\x80',
    '\xd0\x96\\n\xd0\x96': '\xd0\x96\n\xd0\x96',
  };
  for (const [source, text] of Object.entries(cases)) {
    for (const padding of ['', 'a', 'ab', 'abc']) {
      const { values, marks } = encodeWith({ message: `"${padding}${source}${padding}"` });
      assert.equal(values[MESSAGE], padding + text + padding);
      assert.equal(marks, 0n);
    }
  }
});

test('what text cannot hold is escaped and marked', () => {
  const cases = {
    '\\u0000': '\\x00',
    'a\\\\b\xff': 'a\\\\b\\xff',
    '\\ud83d': '\\xed\\xa0\\xbd',
    '\\ude00\\ud83d': '\\xed\\xb8\\x80\\xed\\xa0\\xbd',
    '\\ud83d\\ud83d\\ude00': '\\xed\\xa0\\xbd\xf0\x9f\x98\x80',
    '\xc3\\u0041': '\\xc3A',
  };
  for (const [source, text] of Object.entries(cases)) {
    const { values, marks } = encodeWith({ message: `"${source}"`, ps: '"a\\\\b"' });
    assert.equal(values[MESSAGE], text);
    assert.equal(values[7], 'a\\b');
    assert.equal(marks, 1n << 13n);
  }
});

test('raw bytes are decoded by the encoding of the database, escapes are not', () => {
  /** @type {(string | null)[]} */
  const names = [];
  const encoder = newEncoder({
    decoderOf: name => {
      names.push(name);
      return bytes => (bytes.includes(0) ? null : Buffer.from(Buffer.from(bytes).toString('latin1')));
    },
  });
  const line = (/** @type {string} */ message) => lineOf({ ...sample(), dbname: '"d\\\\b\xe9"', message });
  const decoded = encode(line('"caf\xe9 \\n"'), { encoder });
  assert.equal(decoded.values[2], 'd\\b\xc3\xa9');
  assert.equal(decoded.values[MESSAGE], 'caf\xc3\xa9 \n');
  assert.equal(decoded.marks, 0n);
  assert.deepEqual(names, ['d\\b\xe9']);
  const nul = encode(line('"\\u0000\xe9"'), { encoder });
  assert.equal(nul.values[MESSAGE], '\\x00\\xe9');
  assert.equal(nul.marks, 1n << 13n);
  const half = encode(lineOf({ ...sample(), message: '"\\ud83d \xc3\xa9"' }), { encoder });
  assert.equal(half.values[MESSAGE], '\\xed\\xa0\\xbd \xc3\xa9');
  assert.equal(half.marks, 1n << 13n);
});

test('marks of the times stay when texts are escaped', () => {
  const { values, marks } = encodeWith({
    timestamp: '"2026-05-01 12:34:56.789 QQQ"',
    session_start: '"yesterday \\" \xff"',
    message: '"\xff"',
  });
  assert.equal(marks, 1n | (1n << 8n) | (1n << 13n));
  assert.equal(values[0], BigInt(RECEIVED_AT_MS - Date.UTC(2000, 0, 1)) * 1000n);
  assert.equal(values[8], null);
  assert.equal(values[MESSAGE], '\\xff');
});

test('times that cannot be used', () => {
  const unknown = encodeWith({ timestamp: '"2026-05-01 12:34:56.789 QQQ"' });
  assert.equal(unknown.values[0], BigInt(RECEIVED_AT_MS - Date.UTC(2000, 0, 1)) * 1000n);
  assert.equal(unknown.marks, 1n);
  assert.equal(unknown.encoder.logTimeMs, RECEIVED_AT_MS);
  assert.equal(unknown.encoder.logDay, Math.floor(RECEIVED_AT_MS / 86_400_000));
  for (const start of [
    '2026-05-01 12:00:00 QQQ',
    '',
    'x',
    '2026-13-01 12:00:00 UTC',
    '2026-05-01 12:00:00 UTC!',
  ]) {
    const { values, marks } = encodeWith({ session_start: `"${start}"` });
    assert.equal(values[8], null);
    assert.equal(marks, 1n << 8n);
    assert.equal(values[9], '3/1234');
  }
});

test("the server's time zone", () => {
  // An hour that came twice under one name: sessions are not logged in the order in which they began.
  const encoder = newEncoder({ timeZone: 'Asia/Vladivostok' });
  for (const minute of [50, 10]) {
    const { values, marks } = encode(
      lineOf({
        ...sample(),
        timestamp: '"2014-10-27 00:00:00.001 VLAT"',
        session_start: `"2014-10-26 01:${minute}:00 VLAT"`,
      }),
      { encoder },
    );
    assert.equal(marks, 0n);
    assert.equal(values[0], BigInt(Date.UTC(2014, 9, 26, 14, 0, 0, 1) - Date.UTC(2000, 0, 1)) * 1000n);
    assert.equal(values[8], BigInt(Date.UTC(2014, 9, 25, 14, minute) - Date.UTC(2000, 0, 1)) * 1000n);
  }
});

test('one encoder after another line: nothing of the line before is left', () => {
  const encoder = newEncoder();
  encode(lineOf({ ...sample(), timestamp: '"2026-05-01 12:34:56.789 QQQ"', message: '"\xff"' }), { encoder });
  const { values, marks } = encode(lineOf({ ...sample(), message: '"plain"' }), { encoder });
  assert.equal(marks, 0n);
  assert.equal(values[26], null);
  assert.equal(encoder.logTimeMs, Date.UTC(2026, 4, 1, 12, 34, 56, 789));
});

test('numbers', () => {
  for (const value of [
    '0',
    '-0',
    '-1',
    '123456789',
    '999999999',
    '1000000000',
    '2147483647',
    '-2147483648',
  ]) {
    assert.equal(encodeWith({ pid: value }).values[3], value === '-0' ? 0 : Number(value));
    assert.equal(encodeWith({ query_id: value }).values[25], BigInt(value));
  }
  for (const value of ['9007199254740993', '9223372036854775807', '-9223372036854775808', '4294967295']) {
    assert.equal(encodeWith({ txid: value }).values[10], BigInt(value));
  }
  const wrong = [
    '2147483648',
    '-2147483649',
    '1.0',
    '1e3',
    '"1"',
    'true',
    '99999999999999999999999',
    '01',
    '-',
    '+1',
  ];
  for (const value of wrong) {
    const { reason } = encodeWith({ pid: value });
    assert.equal(
      reason?.startsWith(`"pid" is not an integer of 4 bytes: ${value},"remote_host"`),
      true,
      String(reason),
    );
  }
  for (const value of ['9223372036854775808', '-9223372036854775809', '1.5', '007']) {
    assert.match(
      String(encodeWith({ line_num: value }).reason),
      /^"line_num" is not an integer of 8 bytes: /,
    );
  }
});

test('another order, white space and nulls', () => {
  const expected = encode(lineOf(sample()));
  const reversed = Object.fromEntries(Object.entries(sample()).toReversed());
  assert.deepEqual(encode(lineOf(reversed)).raw, expected.raw);
  const spaced = Object.entries(sample()).map(([key, value]) => `\t"${key}" :  ${value} `);
  assert.deepEqual(encode(` { ${spaced.join(' , ')}\t}  `).raw, expected.raw);
  const escapedKey = lineOf(sample()).replace('"pid"', '"p\\u0069\\u0064"');
  assert.deepEqual(encode(escapedKey).raw, expected.raw);
  const { values } = encodeWith({
    hint: 'null',
    state_code: 'null',
    remote_port: 'null',
    session_start: 'null',
  });
  assert.deepEqual([values[15], values[12], values[4], values[8]], [null, '00000', '10.0.0.7', null]);
});

test('what is refused, and why', () => {
  const line = lineOf(sample());
  const time = '"timestamp":"2026-05-01 12:34:56.789 UTC"';
  /** @type {[string, string][]} */
  const cases = [
    ['', 'not a JSON object'],
    ['{', 'not a JSON object'],
    ['{}', 'no "timestamp"'],
    ['[]', 'not a JSON object'],
    ['null', 'not a JSON object'],
    ['2026-05-01 12:34:56.789 UTC [1] LOG:  hello', 'not a JSON object'],
    [line.slice(0, -1), 'not a JSON object'],
    [`${line} x`, 'not a JSON object'],
    [`${line}${line}`, 'not a JSON object'],
    [line.replace('"pid":4242', '"pid" 4242'), 'not a JSON object'],
    [line.replace('"pid":4242', '"pid":'), 'not a JSON object'],
    [line.replace('"pid":4242,', '"pid":4242,,'), 'not a JSON object'],
    [line.replace('}', ',}'), 'not a JSON object'],
    [line.replace('"pid"', 'pid'), 'not a JSON object'],
    [line.replace('"pid"', '"p\tid"'), 'not a JSON object'],
    ['{"user":"x","pid":1}', 'no "timestamp"'],
    ['{"timestamp":null}', 'no "timestamp"'],
    [`{${time},"level":"info"}`, 'jsonlog has no key "level"'],
    [`{${time},"\\u001b[31m":1}`, 'jsonlog has no key "\\x1b[31m"'],
    [`{${time},"${'k'.repeat(500)}":1}`, `jsonlog has no key ""${'k'.repeat(39)}"`],
    [`{${time},"pid":1,"pid":2}`, '"pid" is there twice'],
    [`{"pid":null,${time},"pid":2}`, '"pid" is there twice'],
    [`{${time},"message":{"a":1}}`, '"message" is not a single value'],
    [`{${time},"message":["a"]}`, '"message" is not a single value'],
    [`{${time},"message":5}`, '"message" is not a text: 5'],
    [`{${time},"message":"a\tb"}`, '"message" is not a text: "a\\tb"'],
    [`{${time},"message":"a\0b"}`, '"message" is not a text: "a\\x00b"'],
    [`{${time},"message":"\\x"}`, '"message" is not a text: "\\x"'],
    [`{${time},"message":"\\u12g4"}`, '"message" is not a text: "\\u12g4"'],
    [`{${time},"remote_port":5432}`, '"remote_port" is not a number after "remote_host": 5432'],
    [
      `{${time},"remote_host":"h","remote_port":"5432"}`,
      '"remote_port" is not a number after "remote_host": "5432"',
    ],
    [`{${time},"func_name":"f","file_line_num":7}`, '"file_line_num" is not a number after "file_name": 7'],
    [`{${time},"file_name":"f","file_line_num":07}`, '"file_line_num" is not a number after "file_name": 07'],
    ['{"timestamp":"today","message":"x"}', '"timestamp" is not a time: "today","message":"x"'],
    ['{"timestamp":5}', '"timestamp" is not a time: 5'],
    [
      '{"timestamp":"2026-02-30 12:34:56.789 UTC"}',
      '"timestamp" is not a time: "2026-02-30 12:34:56.789 UTC"',
    ],
    [
      '{"timestamp":"2026-05-01 12:34:56 UTC tail"}',
      '"timestamp" is not a time: "2026-05-01 12:34:56 UTC tail"',
    ],
    ['{"timestamp":"2026-05-01 12:34:56 QQ?"}', '"timestamp" is not a time: "2026-05-01 12:34:56 QQ?"'],
  ];
  for (const [text, reason] of cases) assert.equal(encode(text).reason, reason);
});

test('only the bytes of the line count', () => {
  const line = lineOf(sample());
  for (let length = 0; length < line.length; length += 1) {
    const beginning = line.slice(0, length);
    for (const after of ['', '\n', line.slice(length), '}\n'])
      assert.notEqual(encode(beginning, { after }).reason, null);
  }
  // A brace where the line ends, and a long way to the next quote.
  const open = '{"timestamp":"2026-05-01 12:34:56.789 UTC","message":"abc}';
  assert.notEqual(encode(open, { after: `${'x'.repeat(5000)}"}` }).reason, null);
  const expected = encode(line).raw;
  for (const around of [
    { before: '', after: '' },
    { before: '', after: '\n' },
    { before: line, after: line },
    { before: '\n', after: '\r\n' },
  ]) {
    assert.deepEqual(encode(line, around).raw, expected);
    assert.deepEqual(encode(`${line}\r`, around).raw, expected);
  }
});

test('looksLikeJsonlog', () => {
  const is = (/** @type {string} */ text, length = text.length) =>
    looksLikeJsonlog(Buffer.from(`{{${text}`, 'latin1'), 2, 2 + length);
  assert.ok(is(lineOf(sample())));
  assert.ok(is('{"timestamp":"2026-0'));
  assert.ok(!is('{"timestamp":"2026-'.slice(0, -1)));
  assert.ok(!is(lineOf(sample()), 18));
  assert.ok(is(lineOf(sample()), 19));
  for (const text of [
    '',
    '{',
    '{"timestamp": "2026-05-01"}',
    '{"timestamp":"26-05-01 00"}',
    '{"timestamp":1777632896000}',
  ]) {
    assert.ok(!is(text));
  }
});

for (const name of ['postgresql-15', 'postgresql-18', 'win1251-database']) {
  test(`${name}: the rows of jsonlog are those of csvlog for the same messages`, () => {
    const { rows } = run(fixture(`${name}.csv`));
    const ofCsv = new Map(
      rows.map(row => [`${row[8]} ${row[9]}`, { values: row.slice(3, 30), marks: BigInt(row[30] ?? 0) }]),
    );
    const lines = fixture(`${name}.json`).toString('latin1').split('\n').slice(0, -1);
    assert.equal(ofCsv.size, rows.length);
    assert.equal(lines.length, rows.length);
    assert.ok(lines.length > 3);
    for (const line of lines) {
      const { values, marks } = encode(line);
      assert.deepEqual({ values, marks }, ofCsv.get(`${values[5]} ${values[6]}`));
      const tokens = tokensOf(line);
      assert.ok(tokens);
      assert.deepEqual(unescaped({ values, marks }), expectedRow(tokens));
    }
  });
}
