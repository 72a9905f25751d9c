// Properties over random logs whose processes interleave, random bytes and damaged real files: the records are those
// of the model, however the bytes are cut, and reading may stop and go on at any recordOffset.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { sampleColumns, writeRecord } from './csvlog-model.js';
import { modelOf, plainValues, run, valuesOf } from './line-parser-model.js';

/** @import { ModelRecord, PrefixText, Value } from './line-parser-model.js' */

const LABELS = ['DETAIL', 'HINT', 'QUERY', 'CONTEXT', 'LOCATION', 'BACKTRACE', 'STATEMENT'];

const text = fc.oneof(
  fc.string({
    unit: fc.constantFrom('\n', '\t', '\r', 'a', ' ', ':', '"', '\\', '\0', '\xe9', '\xc3\xa9', ',', '{'),
    maxLength: 12,
  }),
  fc.constantFrom(
    'x at character 12',
    '42P01: bad',
    'duration: 1.250 ms  statement: select',
    'DETAIL:  no label',
    'ERROR:  no error',
    '2026-05-01 12:34:56.789 UTC [1] LOG:  no line',
    '',
  ),
  fc.nat(120).map(length => 'lorem ipsum '.repeat(10).slice(0, length)),
);
const severity = fc.constantFrom('LOG', 'ERROR', 'FATAL', 'WARNING', 'DEBUG');
const parts = fc
  .subarray(LABELS)
  .chain(labels =>
    fc.tuple(...labels.map(() => text)).map(texts => labels.map((label, at) => [label, texts[at] ?? ''])),
  );
/** A record: its process, and its lines as [label, text]. */
const message = fc
  .tuple(fc.integer({ min: 1, max: 4 }), severity, text, parts)
  .map(([process, word, body, rest]) => ({
    process,
    lines: [[word, body], ...rest],
  }));
const csvRow = text.map(body =>
  writeRecord(sampleColumns().with(13, body), { quoteAll: true }).toString('latin1'),
);
const other = fc.oneof(
  csvRow,
  fc.constant('{"timestamp":"2026-05-01 12:34:56.789 UTC","pid":5,"session_id":"1.5","line_num":1}\n'),
  fc.constant('\n'),
  fc.constant('sh: not found\r\n'),
  fc.constant('\t\tTAB\n'),
  fc
    .string({ unit: fc.constantFrom('a', ' ', '\xff', '"', '\0', '{', ':'), maxLength: 9 })
    .map(line => `${line}\n`),
);

/**
 * @param {PrefixText} prefix
 * @param {number} process
 * @param {number} count
 */
function prefixOf(prefix, process, count) {
  const fraction = String(count % 1000).padStart(3, '0');
  if (prefix === '%m [%p] ') return `2026-05-01 12:34:56.${fraction} UTC [${process}] `;
  const head = `2026-05-01 12:34:56 MSK 6632123${process % 3}.10${process}/${count} `;
  return process === 4
    ? head
    : `${head}u${process}@d/${count % 2 ? 'psql' : '[unknown]'} 10.0.0.${process}(5) 42P01 3/1 0 -5 `;
}

/** @type {fc.Arbitrary<{ prefix: PrefixText, bytes: Buffer }>} */
const log = fc
  .record({
    prefix: fc.constantFrom('%m [%p] ', '%t %c/%l %q%u@%d/%a %r %e %v %x %Q '),
    messages: fc.array(message, { minLength: 1, maxLength: 12 }),
    others: fc.array(other, { maxLength: 4 }),
    order: fc.array(fc.nat(5), { minLength: 1, maxLength: 60 }),
    newline: fc.boolean(),
  })
  .map(({ prefix, messages, others, order, newline }) => {
    /** @type {string[][]} the pieces each writer has still to write */
    const writers = [[], [], [], [], [], others.slice()];
    let count = 0;
    for (const { process, lines } of messages) {
      for (const [label, body = ''] of lines) {
        count += 1;
        writers[process]?.push(
          `${prefixOf(prefix, process, count)}${label}:  ${body.replaceAll('\n', '\n\t')}\n`,
        );
      }
    }
    const written = [];
    for (let turn = 0; writers.some(writer => writer.length > 0); turn += 1) {
      const from = order[turn % order.length] ?? 0;
      const piece = writers[from]?.shift() ?? writers.find(writer => writer.length > 0)?.shift();
      written.push(piece ?? '');
    }
    const bytes = Buffer.from(written.join(''), 'latin1');
    return { prefix, bytes: newline ? bytes : bytes.subarray(0, -1) };
  });
const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 20 });
const windowBytes = fc.constantFrom(0, 60, 300, 65_536);

/**
 * @param {ModelRecord[]} records
 * @param {number} offset
 * @returns {boolean} whether no record has lines on both sides of it
 */
function isCutPoint(records, offset) {
  return records.every(({ start, end }) => end <= offset || start >= offset);
}

/**
 * @param {ReturnType<typeof run>} result
 * @returns {[number, Value[]][]}
 */
function stored({ rows }) {
  return rows.map(row => [Number(row[2]), plainValues(row)]);
}

test('the records are those of the model, in any pieces, and released at cut points only', () => {
  fc.assert(
    fc.property(log, sizes, windowBytes, ({ prefix, bytes }, pieces, window) => {
      const records = modelOf(bytes, prefix, window);
      const expected = records.map(record => [record.start, valuesOf(record)]);
      const result = run(bytes, {
        prefix,
        sizes: pieces,
        windowBytes: window,
        each: ({ recordOffset }, rows) => {
          assert.ok(isCutPoint(records, recordOffset), `${recordOffset} is within a record`);
          assert.equal(rows, records.filter(({ start }) => start < recordOffset).length);
        },
      });
      assert.deepEqual(result.rejected, []);
      assert.deepEqual(stored(result), expected);
      assert.equal(
        records.reduce((sum, { ownBytes }) => sum + ownBytes, 0),
        bytes.length,
      );
    }),
    { numRuns: 500 },
  );
});

const waiting = fc.constantFrom(0, 100, 400, 1 << 20);
const limits = fc
  .constantFrom([1, 1], [30, 8], [120, 64], [400, 100], [1 << 20, 1 << 16])
  .map(([most, kept]) => ({
    maxRecordBytes: most,
    maxRejectedBytes: kept,
  }));

/** @param {ReturnType<typeof run>} result all that it gave, in the order of the file */
function given(result) {
  const cuts = new Map(result.cuts.map(cut => [cut.offset, cut]));
  const rows = result.rows.map(row => ({
    offset: Number(row[2]),
    row,
    cut: cuts.get(Number(row[2])) ?? null,
  }));
  const pieces = result.rejected.map(piece => ({ offset: piece.offset, piece }));
  return [...rows, ...pieces].toSorted((a, b) => a.offset - b.offset);
}

test('reading may stop at any recordOffset and go on there', () => {
  fc.assert(
    fc.property(
      log,
      sizes,
      windowBytes,
      waiting,
      limits,
      ({ prefix, bytes }, pieces, window, most, limit) => {
        const options = { ...limit, prefix, windowBytes: window, maxWaitingBytes: most };
        /** @type {Map<number, number>} */
        const stops = new Map();
        const whole = run(bytes, {
          ...options,
          sizes: pieces,
          each: ({ recordOffset }, rows) => stops.set(recordOffset, rows),
        });
        const all = given(whole);
        for (const [offset, rows] of stops) {
          assert.equal(all.filter(({ offset: start }) => start < offset).length, rows);
          const rest = run(bytes.subarray(offset), { ...options, sizes: [7, 300], offset });
          assert.deepEqual([...all.slice(0, rows), ...given(rest)], all);
        }
      },
    ),
    { numRuns: 120 },
  );
});

test('what is completed because too much waits does not depend on the pieces either', () => {
  const tight = fc.constantFrom([300, 400], [300, 200], [1 << 16, 400], [150, 250]);
  fc.assert(
    fc.property(log, sizes, tight, ({ prefix, bytes }, pieces, [window, most]) => {
      const options = { prefix, windowBytes: window, maxWaitingBytes: most };
      const whole = run(bytes, options);
      assert.ok(run(bytes, { ...options, sizes: 1 }).raw.equals(whole.raw));
      assert.ok(run(bytes, { ...options, sizes: pieces }).raw.equals(whole.raw));
    }),
    { numRuns: 400 },
  );
});

test('quiet() at any time loses nothing', () => {
  fc.assert(
    fc.property(log, sizes, fc.integer({ min: 1, max: 4 }), ({ prefix, bytes }, pieces, quietEvery) => {
      const lines = bytes.toString('latin1').split('\n');
      const result = run(bytes, {
        prefix,
        sizes: pieces,
        quietEvery,
        each: ({ recordOffset }, rows) => {
          assert.ok(recordOffset === 0 || bytes[recordOffset - 1] === 0x0a);
          assert.equal(rows > 0, recordOffset > 0);
        },
      });
      checkTiles(bytes, result);
      assert.ok(result.count + result.rejected.length <= lines.length);
    }),
    { numRuns: 300 },
  );
});

/**
 * Rows, rejected pieces and cut records begin at different places, the first of them where the bytes begin.
 * @param {Buffer} bytes
 * @param {ReturnType<typeof run>} result
 * @param {number} offset
 */
function checkTiles(bytes, result, offset = 0) {
  const starts = [...result.rows.map(row => Number(row[2])), ...result.rejected.map(piece => piece.offset)];
  assert.equal(new Set(starts).size, starts.length);
  if (bytes.length > 0) assert.equal(Math.min(...starts), offset);
  for (const start of starts) {
    assert.ok(
      start === offset || bytes[start - offset - 1] === 0x0a || bytes.length === 0,
      `no line at ${start}`,
    );
  }
  for (const { offset: at, length, bytes: kept } of result.rejected) {
    assert.equal(bytes.toString('latin1', at - offset, at - offset + Math.min(length, kept.length)), kept);
  }
}

/**
 * @param {Buffer} bytes
 * @param {number[]} pieces
 * @param {import('./line-parser-model.js').RunOptions} options
 */
function sameAndComplete(bytes, pieces, options) {
  const whole = run(bytes, options);
  checkTiles(bytes, whole);
  const cut = run(bytes, { ...options, sizes: pieces });
  assert.deepEqual(cut.rejected, whole.rejected);
  assert.deepEqual(cut.cuts, whole.cuts);
  assert.ok(cut.raw.equals(whole.raw));
  // What of the file is in no row and no piece? Nothing: the lines that begin none continue one.
  const lengths = whole.cuts.reduce((sum, { length }) => sum + length, 0);
  assert.ok(lengths <= bytes.length);
}

const format = fc.constantFrom(/** @type {const} */ ('auto'), 'stderr', 'jsonlog', 'plain');
const prefixText = fc.constantFrom('%m [%p] ', '', '[%p] ', '%t %q%u@%d ', null);

test('random bytes: nothing thrown, every byte accounted for', () => {
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes)),
    fc
      .array(
        fc.constantFrom(
          '\n',
          '\t',
          '\r',
          ' ',
          '"',
          '\xff',
          '\0',
          '[1] LOG:  a',
          '[2] ERROR:  b',
          '[1] DETAIL:  c',
          '[1] STATEMENT:  d',
          '2026-05-01 12:34:56.789 UTC ',
          '2026-05-01 12:34:56.789 UTC,"u","d",1,"[local]",1.1,1,',
          '2026-05-01 12:34:56 UTC u@d LOG:  e',
          '{"timestamp":"2026-05-01 12:34:56.789 UTC"}',
          'LOG:  f',
        ),
        { maxLength: 60 },
      )
      .map(list => Buffer.from(list.join(''), 'latin1')),
  );
  fc.assert(
    fc.property(
      noise,
      sizes,
      limits,
      format,
      prefixText,
      windowBytes,
      (bytes, pieces, limit, name, prefix, window) =>
        sameAndComplete(bytes, pieces, { ...limit, format: name, prefix, windowBytes: window }),
    ),
    { numRuns: 1500 },
  );
});

test('random logs with limits: the same in any pieces', () => {
  fc.assert(
    fc.property(log, sizes, limits, windowBytes, waiting, ({ prefix, bytes }, pieces, limit, window, most) =>
      sameAndComplete(bytes, pieces, { ...limit, prefix, windowBytes: window, maxWaitingBytes: most }),
    ),
    { numRuns: 500 },
  );
});
