// Properties over random records, random bytes and damaged files.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  checkAccount,
  expectedValues,
  FIXTURES,
  fixture,
  run,
  unescape,
  writeRecord,
} from './csvlog-model.js';

/** @import { Columns } from './csvlog-model.js' */

/** Text as latin1, from the bytes that matter to the parser, from any bytes, and from long plain runs. */
const text = fc.oneof(
  fc.string({
    unit: fc.constantFrom('"', ',', '\n', '\r', '\\', 'a', ' ', '\t', '\0', '\xe9', '\xc3', '\xa9'),
    maxLength: 12,
  }),
  fc.uint8Array({ maxLength: 20 }).map(bytes => Buffer.from(bytes).toString('latin1')),
  fc.string({ unit: 'grapheme', maxLength: 20 }).map(value => Buffer.from(value).toString('latin1')),
  fc.nat(600).map(length => 'lorem ipsum'.repeat(60).slice(0, length)),
  fc.double({ min: 0, max: 1e12, noNaN: true }).map(ms => `duration: ${ms.toFixed(3)} ms  statement: x`),
);
const zone = fc.constantFrom('UTC', 'MSK', 'cet', '+03', '-0330', '+05:30', '-11');
const instant = fc.integer({ min: Date.UTC(1900, 0, 1), max: Date.UTC(2200, 0, 1) });
const time = fc.tuple(instant, zone, fc.boolean()).map(
  ([ms, name, fraction]) =>
    new Date(ms)
      .toISOString()
      .replace('T', ' ')
      .slice(0, fraction ? 23 : 19) + ` ${name}`,
);
const int4 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String);
const int8 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);
/** @param {fc.Arbitrary<string>} value */
const nullable = value => fc.option(value, { freq: 3 });

/** @type {fc.Arbitrary<Columns>} */
const columns = fc
  .tuple(
    fc.tuple(
      time,
      nullable(text),
      nullable(text),
      nullable(int4),
      nullable(text),
      nullable(text),
      nullable(int8),
    ),
    fc.tuple(nullable(text), nullable(time), nullable(text), nullable(int8), nullable(text), nullable(text)),
    fc.tuple(nullable(text), nullable(text), nullable(text), nullable(text), nullable(int4), nullable(text)),
    fc.tuple(
      nullable(text),
      nullable(int4),
      nullable(text),
      nullable(text),
      nullable(text),
      nullable(int4),
      nullable(int8),
    ),
    fc.constantFrom(22, 23, 24, 26),
  )
  .map(([a, b, c, d, count]) => /** @type {Columns} */ ([...a, ...b, ...c, ...d]).slice(0, count));
const records = fc.array(fc.tuple(columns, fc.boolean(), fc.constantFrom('\n', '\r\n')), {
  minLength: 1,
  maxLength: 8,
});
const sizes = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 20 });

test('what is written is read back, in any pieces', () => {
  fc.assert(
    fc.property(records, sizes, (list, pieces) => {
      const written = list.map(([record, quoteAll, end]) => writeRecord(record, { quoteAll, end }));
      const bytes = Buffer.concat(written);
      const result = run(bytes, { sizes: pieces });
      assert.deepEqual(result.rejected, []);
      assert.equal(result.count, list.length);
      let offset = 0;
      for (const [index, [record]] of list.entries()) {
        const row = result.rows[index] ?? [];
        const marks = Number(row[30]);
        const values = row
          .slice(3, 30)
          .map((value, at) => (marks & (1 << at) ? unescape(String(value)) : value));
        assert.deepEqual(values, expectedValues(record));
        assert.deepEqual(row.slice(0, 3), [7, 9, BigInt(offset)]);
        offset += written[index]?.length ?? 0;
      }
      checkAccount(bytes, result);
    }),
    { numRuns: 400 },
  );
});

/**
 * @param {Buffer} bytes
 * @param {number[]} pieces
 * @param {number} maxRecordBytes
 */
function sameAndComplete(bytes, pieces, maxRecordBytes) {
  const limits = { maxRecordBytes, maxRejectedBytes: 64 };
  const whole = run(bytes, limits);
  if (bytes.length > 0) checkAccount(bytes, whole);
  assert.equal(whole.parser.recordOffset, bytes.length);
  const cut = run(bytes, { ...limits, sizes: pieces });
  assert.deepEqual(cut.rejected, whole.rejected);
  assert.ok(cut.raw.equals(whole.raw));
}

const limit = fc.constantFrom(1, 30, 200, 1 << 20);

test('random bytes: nothing thrown, every byte accounted for', () => {
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes)),
    fc
      .array(
        fc.constantFrom(
          '"',
          ',',
          '\n',
          '\r',
          'x',
          '\xff',
          '\0',
          '\n2026-05-01 12:34:56.789 UTC,',
          '\n2026-05-01 ',
        ),
        { maxLength: 80 },
      )
      .map(parts => Buffer.from(parts.join(''), 'latin1')),
  );
  fc.assert(fc.property(noise, sizes, limit, sameAndComplete), { numRuns: 1500 });
});

const damage = fc.record({
  at: fc.nat(),
  kind: fc.constantFrom('overwrite', 'insert', 'delete'),
  bytes: fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 4 }).map(bytes => Buffer.from(bytes)),
    fc.constantFrom('"', '\n', ',', '\r\n', '""').map(value => Buffer.from(value)),
  ),
  length: fc.integer({ min: 1, max: 400 }),
});

test('damaged files: every byte accounted for, the same in any pieces', () => {
  const files = FIXTURES.map(name => fixture(name));
  const input = fc
    .tuple(fc.constantFrom(...files), fc.nat(), fc.array(damage, { minLength: 1, maxLength: 5 }))
    .map(([file, at, list]) => {
      const start = file.indexOf(10, at % (file.length - 200)) + 1;
      let bytes = Buffer.from(file.subarray(start, start + 3000));
      for (const { at: where, kind, bytes: put, length } of list) {
        const from = where % (bytes.length + 1);
        const skip = kind === 'insert' ? 0 : kind === 'delete' ? length : put.length;
        bytes = Buffer.concat([
          bytes.subarray(0, from),
          ...(kind === 'delete' ? [] : [put]),
          bytes.subarray(from + skip),
        ]);
      }
      return bytes;
    });
  fc.assert(fc.property(input, sizes, limit, sameAndComplete), { numRuns: 1000 });
});
