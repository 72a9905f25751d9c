// What is beyond a limit in a text log: records that are cut while their prefix, or their end, is still looked for, and
// times that no timestamptz can hold.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineWindow } from '../../../src/codec/line-window.js';
import { sampleColumns, writeRecord } from './csvlog-model.js';
import { RECEIVED_MS, run, sha256 } from './line-parser-model.js';

const T = '2026-05-01 12:34:56.789 UTC';
const RECEIVED = BigInt(RECEIVED_MS - Date.UTC(2000, 0, 1)) * 1000n;
const SECOND_2000 = 946_684_800;
const LOG_TIME = 3;
const PID = 6;
const MESSAGE = 16;
const MARKS = 30;
const MAX_RECORD_BYTES = 400;

/** @param {Buffer} bytes */
const sizesOf = ({ length }) => [length, 1, 2, 7, 50, MAX_RECORD_BYTES, MAX_RECORD_BYTES + 1];

test('the hash of a record that is cut ends with it, also while the prefix was looked for', () => {
  const record = `${T} [1] ERROR:  a\n\t${'b'.repeat(300)}\n${T} [1] STATEMENT:  ${'c'.repeat(200)}\n`;
  const after = Array.from({ length: 30 }, (_, n) => `${T} [${n + 2}] LOG:  after\n`).join('');
  const bytes = Buffer.from(`${record}${after}`);
  for (const sizes of sizesOf(bytes)) {
    const { cuts, prefixes } = run(bytes, { sizes, prefix: null, maxRecordBytes: MAX_RECORD_BYTES });
    assert.equal(prefixes.current?.text, '%m [%p] ');
    assert.deepEqual(cuts, [
      { streamId: 7, fileNo: 9, offset: 0, length: record.length, sha256: sha256(record) },
    ]);
  }
});

test('the hash of a line that began like a csvlog row ends with the line', () => {
  const row = writeRecord(sampleColumns().with(13, `,${'x'.repeat(300)}`)).toString('latin1');
  // Broken in a later line, before the limit; then the line that is too long is no csv.
  const line = `${row.slice(0, row.indexOf('xxx'))}${'y'.repeat(180)}\n`;
  const bytes = Buffer.from(`${line}z "q\n${T} [1] LOG:  after\n`);
  for (const sizes of sizesOf(bytes)) {
    for (const maxRecordBytes of [line.length - 1, line.length, line.length + 1, line.length + 6]) {
      const { cuts, rejected } = run(bytes, { sizes, maxRecordBytes });
      for (const { offset, length, sha256: hash } of cuts) {
        assert.equal(hash, sha256(bytes.toString('latin1', offset, offset + length)));
      }
      assert.equal(cuts.length + rejected.length, 1);
    }
  }
});

test('a csvlog row that is too long and no csv behind the limit ends with its line', () => {
  const row = writeRecord(sampleColumns().with(13, `,${'x'.repeat(MAX_RECORD_BYTES)}`)).toString('latin1');
  const head = `${row.slice(0, row.lastIndexOf('xxx'))}xxx`;
  for (const broken of [`${head}"torn`, `${head}\n\tx" y`]) {
    const bytes = Buffer.from(`${broken}\n${T} [1] LOG:  a\n${T} [1] LOG:  b\n`);
    for (const sizes of sizesOf(bytes)) {
      const { rows, cuts, rejected } = run(bytes, { sizes, maxRecordBytes: MAX_RECORD_BYTES });
      assert.deepEqual(rejected, []);
      assert.deepEqual(cuts, [
        { streamId: 7, fileNo: 9, offset: 0, length: broken.length + 1, sha256: sha256(`${broken}\n`) },
      ]);
      assert.deepEqual(
        rows.slice(1).map(values => values[MESSAGE]),
        ['a', 'b'],
      );
    }
  }
});

test('seconds of %n beyond the year 9999: the time of arrival, marked', () => {
  const last = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;
  for (const seconds of [
    last + 1,
    9_594_294_967_296,
    Number.MAX_SAFE_INTEGER,
    '9'.repeat(30),
    '9'.repeat(400),
  ]) {
    const { rows, days, parser } = run(Buffer.from(`${seconds}.123 1 LOG:  a\n`), { prefix: '%n %p ' });
    assert.equal(rows.length, 1);
    assert.deepEqual(
      [rows[0]?.[LOG_TIME], rows[0]?.[MARKS], rows[0]?.[PID], rows[0]?.[MESSAGE]],
      [RECEIVED, 1n, 1, 'a'],
    );
    assert.deepEqual([...days], [Math.floor(RECEIVED_MS / 86_400_000)]);
    assert.equal(parser.maxLogTimeMs, RECEIVED_MS);
  }
  const { rows } = run(Buffer.from(`${last}.123 1 LOG:  a\n`), { prefix: '%n %p ' });
  assert.deepEqual(
    [rows[0]?.[LOG_TIME], rows[0]?.[MARKS]],
    [BigInt(last - SECOND_2000) * 1_000_000n + 123_000n, null],
  );
});

test('memory for a record that grows: from a small part of the limit to the limit, not twice as much', () => {
  const limit = 1 << 20;
  const piece = Buffer.alloc(10_000, 'x');
  const window = new LineWindow(0, true, limit);
  const sizes = new Set();
  for (let length = 0; length + piece.length <= limit; length += piece.length) {
    window.append(piece, 0);
    sizes.add(window.bytes.buffer.byteLength);
  }
  const [last = 0, before = 0] = [...sizes].toReversed();
  assert.ok(last >= limit && last < limit + 100, `${last} bytes`);
  assert.ok(before <= limit / 4, `${before} bytes, then ${last}`);
  window.append(Buffer.alloc(limit, 'y'), 0);
  assert.equal(window.bytes.at(-1), 'y'.charCodeAt(0));
  assert.equal(window.end, Math.floor(limit / piece.length) * piece.length + limit);
});
