// Rows of a batch as they are walked, taken out, and told as csvlog. The encoder is the real one; what a row tells as
// csvlog must become the same row again.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { rowToCsv } from '../../../src/codec/copy-csv.js';
import { encodeRejected } from '../../../src/codec/copy-rejected.js';
import { dropStreams, rowStarts } from '../../../src/codec/copy-rows.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';

const LOGS = ['postgresql-15', 'postgresql-18', 'pgbench'].map(name =>
  readFileSync(new URL(`../../fixtures/csvlog/${name}.csv`, import.meta.url)),
);
const ZONES = new Map([['UTC', 0]]);

/** @param {CopyBuffer} rows @param {Buffer} log @param {number} streamId @param {number} [offset] */
function parse(rows, log, streamId, offset = 0) {
  const parser = new CsvlogParser({ streamId, fileNo: 2, offset, zones: ZONES, maxRecordBytes: 1 << 20 });
  parser.write(log, {
    rows,
    days: new Set(),
    receivedAtMs: 0,
    cut: () => assert.fail('nothing is cut'),
    reject: () => assert.fail('nothing is rejected'),
  });
}

/** @param {CopyBuffer} rows */
function rowsOf(rows) {
  const starts = rowStarts(rows);
  assert.equal(starts.length, rows.rows + 1);
  return Array.from({ length: rows.rows }, (_, row) =>
    rows.buffer.toString('hex', starts[row], starts[row + 1]),
  );
}

test('a row as csvlog becomes the same row again', () => {
  for (const log of LOGS) {
    const rows = new CopyBuffer(16);
    parse(rows, log, 7);
    assert.ok(rows.rows > 20);
    const starts = rowStarts(rows);
    let plain = 0;
    for (let row = 0; row < rows.rows; row += 1) {
      const told = rowToCsv(rows.buffer, starts[row] ?? 0);
      assert.deepEqual([told.streamId, told.fileNo, told.cut], [7, 2, false]);
      if (told.marked) continue; // its escapes would be text now
      plain += 1;
      const again = new CopyBuffer(16);
      parse(again, told.csv, 7, told.offset);
      assert.deepEqual(rowsOf(again), [rowsOf(rows)[row]]);
    }
    assert.ok(plain > 20);
  }
});

test('times at the ends of what PostgreSQL has', () => {
  const rows = new CopyBuffer(16);
  parse(rows, LOGS[1]?.subarray(0, LOGS[1].indexOf('\n') + 1) ?? Buffer.alloc(0), 1);
  /** @param {bigint} us since 2000-01-01 */
  const told = us => {
    rows.buffer.writeBigInt64BE(us, 30 + 4);
    return String(rowToCsv(rows.buffer, 0).csv).split(',')[0];
  };
  // As PostgreSQL 17 shows them with timezone UTC.
  assert.equal(told(-211_813_488_000_000_000n), '4714-11-24 00:00:00.000 UTC BC');
  assert.equal(told(9_223_371_331_199_999_999n), '294276-12-31 23:59:59.999999 UTC');
  assert.equal(told(-1n), '1999-12-31 23:59:59.999999 UTC');
});

test('the rows of streams are taken out, of records and of rejected bytes', () => {
  const rows = new CopyBuffer(16);
  const rejected = new CopyBuffer(16);
  for (const streamId of [1, 2, 1, 3, 2]) {
    parse(rows, LOGS[0] ?? Buffer.alloc(0), streamId);
    const bytes = Buffer.from(`stream ${streamId}`);
    encodeRejected(rejected, { streamId, fileNo: 1, offset: 0, length: 9, reason: 'why', bytes }, 0);
  }
  for (const [buffer, at] of /** @type {const} */ ([
    [rows, 6],
    [rejected, 6],
  ])) {
    const before = rowsOf(buffer);
    const kept = before.filter(row => ![2, 3].includes(Number.parseInt(row.slice(at * 2, at * 2 + 8), 16)));
    dropStreams(buffer, new Set([2, 3]));
    assert.deepEqual(rowsOf(buffer), kept);
    assert.equal(buffer.length * 2, kept.join('').length);
    dropStreams(buffer, new Set([1]));
    assert.deepEqual([buffer.rows, buffer.length], [0, 0]);
  }
});
