/**
 * COPY BINARY rows of the log table -> their positions, days and marks, and proof that each is well-formed: 31 fields
 * with the lengths of their types, texts that PostgreSQL takes in a UTF8 database. Knows nothing of src/codec.
 * Format: PostgreSQL manual, COPY, "Binary Format". Throws AssertionError.
 */
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';

/** i(nt4), l (int8), z (timestamptz), t(ext), f(loat8): stream, file, offset, 26 columns of csvlog, duration, marks. */
const KINDS = 'iilzttittltztlttttttittitttilfl';
const LENGTHS = { i: 4, l: 8, z: 8, f: 8, t: -1 };
const LOG_TIME = 3;
const SESSION_START = 11;
const POSTGRES_EPOCH_MS = Date.UTC(2000, 0, 1);
const DAY_MS = 86_400_000;
/** What PostgreSQL takes as timestamptz: MIN_TIMESTAMP and END_TIMESTAMP of datatype/timestamp.h. */
const MIN_TIME = -211_813_488_000_000_000n;
const END_TIME = 9_223_371_331_200_000_000n;
/** Bits 0 to 27 and 32 to 47. */
const MARKS = 0xffff_0fff_ffffn;

/** @typedef {{ offset: number, marks: bigint, day: number, isNull: (field: number) => boolean }} Row */

export const CUT_MARK = 1n << 26n;
/** Secrets were taken out. */
export const REDACTED_MARK = 1n << 27n;
/** session_start_time had no usable time. */
export const START_MARK = 1n << BigInt(SESSION_START - LOG_TIME);

/**
 * @param {Buffer} bytes rows without header and trailer
 * @returns {Row[]}
 */
export function readRows(bytes) {
  /** @type {Row[]} */
  const rows = [];
  for (let at = 0; at < bytes.length;) {
    assert.equal(bytes.readInt16BE(at), KINDS.length, 'fields of a row');
    at += 2;
    /** @type {number[]} */
    const starts = [];
    for (const kind of KINDS) {
      const length = bytes.readInt32BE(at);
      const wanted = LENGTHS[/** @type {keyof typeof LENGTHS} */ (kind)];
      at += 4;
      starts.push(length === -1 ? -1 : at);
      if (length === -1) continue;
      assert.ok(length >= 0 && at + length <= bytes.length, `a field of ${length} bytes`);
      if (wanted >= 0) assert.equal(length, wanted, 'length of a number');
      const value = bytes.subarray(at, at + length);
      assert.ok(wanted >= 0 || (isUtf8(value) && !value.includes(0)), 'a text that PostgreSQL does not take');
      at += length;
    }
    rows.push(readRow(bytes, starts));
  }
  return rows;
}

/**
 * @param {Buffer} bytes
 * @param {number[]} starts of the fields; -1: NULL
 * @returns {Row}
 */
function readRow(bytes, starts) {
  const start = (/** @type {number} */ field) => starts[field] ?? -1;
  for (const field of [0, 1, 2, LOG_TIME]) assert.ok(start(field) >= 0, `field ${field} is NULL`);
  const marks = start(30) < 0 ? 0n : bytes.readBigInt64BE(start(30));
  assert.equal(marks & ~MARKS, 0n, 'marks that mean nothing');
  assert.ok(start(30) < 0 || marks !== 0n, 'marks are 0');
  if (start(29) >= 0) assert.ok(bytes.readDoubleBE(start(29)) >= 0, 'a duration below 0');
  for (const field of [LOG_TIME, SESSION_START]) {
    const time = start(field) < 0 ? 0n : bytes.readBigInt64BE(start(field));
    assert.ok(time >= MIN_TIME && time < END_TIME, 'a time that PostgreSQL does not take');
  }
  const time = bytes.readBigInt64BE(start(LOG_TIME));
  return {
    offset: Number(bytes.readBigInt64BE(start(2))),
    marks,
    day: Math.floor((Number(time / 1000n) + POSTGRES_EPOCH_MS) / DAY_MS),
    isNull: field => start(field) < 0,
  };
}
