// Properties over random values, random bytes and damaged lines.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  encode,
  expectedRow,
  fixture,
  INT4_KEYS,
  INT8_KEYS,
  lineOf,
  newEncoder,
  sample,
  TEXT_KEYS,
  tokensOf,
  unescaped,
} from './jsonlog-model.js';

const KEYS = Object.keys(sample());

/** The bytes of a text, as they may stand in a JSON string: PostgreSQL's escapes and those of other writers. */
const piece = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.string({ unit: fc.constantFrom('a', ' ', ',', '{', '}', ':', "'", '/', '\x7f') }),
  },
  fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t'),
  fc.integer({ min: 0, max: 0xffff }).map(unit => `\\u${unit.toString(16).padStart(4, '0')}`),
  fc.constantFrom('\\u0000', '\\u001F', '\\u00e9', '\\ud83d', '\\uDE00', '\\ud83d\\ude00', '\\uD83D\\uDE00'),
  fc
    .string({ unit: 'grapheme', maxLength: 5 })
    .map(text => Buffer.from(JSON.stringify(text).slice(1, -1)).toString('latin1')),
  fc.uint8Array({ maxLength: 8 }).map(bytes =>
    // Neither control characters, which JSON has not in strings, nor quotes and backslashes.
    Buffer.from(bytes.filter(byte => byte >= 0x20 && byte !== 0x22 && byte !== 0x5c)).toString('latin1'),
  ),
  fc.nat(300).map(length => 'lorem ipsum'.repeat(30).slice(0, length)),
);
const text = fc.oneof(
  { weight: 5, arbitrary: fc.array(piece, { maxLength: 6 }).map(pieces => `"${pieces.join('')}"`) },
  {
    weight: 1,
    arbitrary: fc
      .double({ min: 0, max: 1e12, noNaN: true })
      .map(ms => `"duration: ${ms.toFixed(3)} ms  plan:\\n"`),
  },
);
const zone = fc.constantFrom('UTC', 'MSK', 'NST', '+03', '-0330', '+05:30', 'QQQ');
const time = fc
  .tuple(fc.integer({ min: Date.UTC(1900, 0, 1), max: Date.UTC(2200, 0, 1) }), zone, fc.boolean())
  .map(([ms, name, fraction]) => {
    const local = new Date(ms).toISOString().replace('T', ' ');
    return `"${local.slice(0, fraction ? 23 : 19)} ${name}"`;
  });
const int4 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String);
const int8 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);
const natural = fc.nat(99_999).map(String);

/** @type {Record<string, fc.Arbitrary<string>>} */
const values = Object.fromEntries(
  KEYS.map(key => {
    if (TEXT_KEYS.includes(key)) return [key, text];
    if (INT4_KEYS.includes(key)) return [key, int4];
    if (INT8_KEYS.includes(key)) return [key, int8];
    return [key, key === 'timestamp' || key === 'session_start' ? time : natural];
  }),
);
/** Any of the keys, but no number without the text that it belongs to. */
const fields = fc
  .record(values, { requiredKeys: ['timestamp'] })
  .map(record => ({
    ...record,
    ...(record['remote_host'] === undefined && { remote_port: undefined }),
    ...(record['file_name'] === undefined && { file_line_num: undefined }),
  }))
  .map((/** @type {Record<string, string | undefined>} */ record) =>
    KEYS.flatMap(key => (record[key] === undefined ? [] : [[key, record[key]]])),
  );

test('the row says what the line says', () => {
  const encoder = newEncoder();
  fc.assert(
    fc.property(fields, entries => {
      const line = lineOf(Object.fromEntries(entries));
      const tokens = tokensOf(line);
      assert.ok(tokens);
      const expected = expectedRow(tokens);
      assert.ok(expected);
      assert.deepEqual(unescaped(encode(line, { encoder })), expected);
    }),
    { numRuns: 600 },
  );
});

test('another order, white space and null keys: the same row', () => {
  const space = fc.constantFrom('', '', ' ', '\t ', '\r');
  const shuffled = fields.chain(entries => {
    const absent = KEYS.filter(key => !entries.some(([name]) => name === key)).map(key => [key, 'null']);
    return fc.tuple(
      fc.constant(entries),
      fc
        .subarray(absent)
        .chain(some =>
          fc.shuffledSubarray([...entries, ...some], { minLength: entries.length + some.length }),
        ),
      fc.array(space, { minLength: 5, maxLength: 5 }),
    );
  });
  fc.assert(
    fc.property(shuffled, ([entries, order, [a, b, c, d, e]]) => {
      const line = `${a}{${b}${order.map(([key, value]) => `"${key}"${c}:${d}${value}${e}`).join(`,${b}`)}}${a}`;
      assert.deepEqual(encode(line).raw, encode(lineOf(Object.fromEntries(entries))).raw);
    }),
    { numRuns: 300 },
  );
});

/**
 * A line that may be anything: refused without a trace, or a row that says what the line says.
 * @param {string} line
 * @param {string} after
 */
function refusedOrRight(line, after) {
  const row = encode(line, { after });
  const tokens = tokensOf(line);
  const expected = tokens && expectedRow(tokens);
  if (row.raw === null) {
    assert.equal(expected, null);
    return;
  }
  assert.ok(expected, `stored without reason: ${line}`);
  assert.deepEqual(unescaped(row), expected);
}

test('random bytes', () => {
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes).toString('latin1')),
    fc
      .array(
        fc.oneof(
          fc.constantFrom('{', '}', '"', ',', ':', '\\', '\\u00', '\0', '\xff', 'null', '1', ' '),
          fc.constantFrom(...KEYS.map(key => `"${key}":`)),
          fc.constantFrom('{"timestamp":"2026-05-01 12:34:56.789 UTC"', '"x"', ',"message":"'),
        ),
        { maxLength: 30 },
      )
      .map(parts => parts.join('')),
  );
  fc.assert(fc.property(noise, fc.constantFrom('', '\n', '"}', '\r\n'), refusedOrRight), { numRuns: 3000 });
});

test('damaged lines', () => {
  const lines = ['postgresql-15.json', 'postgresql-18.json', 'win1251-database.json']
    .flatMap(name => fixture(name).toString('latin1').split('\n'))
    .filter(line => line !== '' && line.length < 2000);
  const damage = fc.record({
    at: fc.nat(),
    skip: fc.oneof(fc.nat(3), fc.nat(300)),
    put: fc.oneof(
      fc.constantFrom(
        '',
        '"',
        '\\',
        '\\"',
        ',',
        '}',
        '{',
        ' ',
        ':',
        'null',
        '0',
        '\xff',
        '\r',
        '",',
        ',"pid":',
      ),
      fc.uint8Array({ maxLength: 3 }).map(bytes => Buffer.from(bytes).toString('latin1')),
    ),
  });
  // Times are somebody else's: damage begins after the timestamp, and session_start is taken out.
  const first = '{"timestamp":"2026-05-01 12:34:56.789 UTC"'.length;
  const input = fc
    .tuple(fc.constantFrom(...lines), fc.array(damage, { minLength: 1, maxLength: 3 }))
    .map(([line, list]) => {
      line = line.replace(/"session_start":"[^"]*",/, '');
      for (const { at, skip, put } of list) {
        const from = first + (at % (line.length - first + 1));
        line = line.slice(0, from) + put + line.slice(from + skip);
      }
      return line.replaceAll('\n', ' ');
    });
  fc.assert(fc.property(input, fc.constantFrom('', '\n', '"}\n'), refusedOrRight), { numRuns: 3000 });
});
