/**
 * What the csvlog tests share: a csv writer, a csv reader and a COPY BINARY reader that know nothing of src/codec
 * and are as plain as can be, and run(), which feeds a parser in pieces.
 * Formats: PostgreSQL manual, "Using CSV-Format Log Output" and COPY, "Binary Format".
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';

/** @import { Rejected } from '../../../src/codec/copy-rejected.js' */
/** @import { CutRecord } from '../../../src/codec/row-sink.js' */
/** @typedef {(string | null)[]} Columns of a record, latin1 text: one character a byte */
/** @typedef {string | bigint | number | null} Value */
/** @typedef {Omit<Rejected, 'bytes'> & { bytes: string }} Piece a rejected piece with its bytes as latin1 */

/** What pg_timezone_abbrevs of PostgreSQL 15 says about the abbreviations in the fixtures. */
const ZONES = new Map([
  ['UTC', 0],
  ['CET', 3600],
  ['MSK', 10_800],
  ['IST', 7200],
  ['NST', -12_600],
]);

const CUT_BIT = 26;
const TIME_COLUMNS = [0, 8];
const POSTGRES_EPOCH_MS = Date.UTC(2000, 0, 1);

/** When the records of run() arrived. */
export const RECEIVED_AT_MS = Date.UTC(2026, 10, 20, 12, 0, 0, 125);

export const FIXTURES = ['postgresql-15.csv', 'postgresql-18.csv', 'win1251-database.csv', 'pgbench.csv'];

/** @param {string} name */
export function fixture(name) {
  return readFileSync(new URL(`../../fixtures/csvlog/${name}`, import.meta.url));
}

/** Kinds of the 26 columns: t(ext), z (timestamptz), i(nt4), l (int8). */
const KINDS = 'zttittltztlttttttittitttil';
export const MESSAGE_COLUMN = 13;

/**
 * A record as PostgreSQL writes it, but for the quotes: they stand around every text when `quoteAll`.
 * @param {Columns} columns
 * @param {{ quoteAll?: boolean, end?: string }} [options]
 * @returns {Buffer}
 */
export function writeRecord(columns, { quoteAll = false, end = '\n' } = {}) {
  const fields = columns.map((value, index) => {
    if (value === null) return '';
    if (KINDS[index] !== 't') return value;
    return quoteAll || value === '' || /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  });
  return Buffer.from(fields.join(',') + end, 'latin1');
}

/** @returns {Columns} a record of 26 columns with every one filled */
export function sampleColumns() {
  return [
    '2026-05-01 12:34:56.789 UTC',
    'alice',
    'shop',
    '4242',
    '10.0.0.7:50123',
    '66321234.1092',
    '17',
    'SELECT',
    '2026-05-01 12:00:00 UTC',
    '3/1234',
    '0',
    'LOG',
    '00000',
    'duration: 12.345 ms  statement: SELECT 1, \'a "b"\'',
    'some detail',
    'a hint',
    'SELECT inner',
    '7',
    'PL/pgSQL function f() line 1',
    'SELECT outer',
    '8',
    'exec_simple_query, postgres.c:1100',
    'psql',
    'client backend',
    '4200',
    '-6123456789012345678',
  ];
}

/**
 * @param {Buffer} bytes one whole record
 * @returns {Columns}
 */
export function readRecord(bytes) {
  const text = bytes.toString('latin1');
  /** @type {Columns} */
  const columns = [];
  let at = 0;
  for (;;) {
    const quoted = /^"((?:[^"]|"")*)"(,|\r?\n)/.exec(text.slice(at));
    const match = quoted ?? /^([^",\n]*?)(,|\r?\n)/.exec(text.slice(at));
    assert.ok(match, `not csv: ${text}`);
    const value = match[1];
    columns.push(quoted ? value.replaceAll('""', '"') : value === '' ? null : value);
    at += match[0].length;
    if (match[2] === ',') continue;
    assert.equal(at, text.length, `more than one record: ${text}`);
    return columns;
  }
}

/**
 * @param {Buffer} bytes COPY BINARY rows of the log table without header and trailer
 * @returns {Value[][]} 31 values a row; text as latin1, times as microseconds since 2000
 */
export function readLogRows(bytes) {
  const kinds = `iil${KINDS}fl`;
  const rows = [];
  for (let at = 0; at < bytes.length;) {
    assert.equal(bytes.readInt16BE(at), 31);
    at += 2;
    /** @type {Value[]} */
    const row = [];
    for (const kind of kinds) {
      const length = bytes.readInt32BE(at);
      at += 4;
      const value = bytes.subarray(at, at + Math.max(length, 0));
      at += value.length;
      if (length === -1) row.push(null);
      else if (kind === 't') row.push(value.toString('latin1'));
      else if (kind === 'i') row.push((assert.equal(length, 4), value.readInt32BE()));
      else if (kind === 'f') row.push((assert.equal(length, 8), value.readDoubleBE()));
      else row.push((assert.equal(length, 8), value.readBigInt64BE()));
    }
    assert.ok(at <= bytes.length);
    rows.push(row);
  }
  return rows;
}

/**
 * @param {Columns} columns of a record that can be stored
 * @returns {Value[]} the 26 stored values and duration_ms; a text that must be escaped is given unescaped
 */
export function expectedValues(columns) {
  const values = KINDS.split('').map((kind, index) => {
    const text = columns[index] ?? null;
    if (text === null || kind === 't') return text;
    if (kind === 'i') return Number(text);
    return kind === 'l' ? BigInt(text) : microsecondsOf(text);
  });
  const duration = /^duration: (\d+(?:\.\d+)?) ms(?=[ ,]|$)/.exec(columns[MESSAGE_COLUMN] ?? '');
  return [...values, duration ? Number(duration[1]) : null];
}

/** @param {string} text */
function microsecondsOf(text) {
  const match = /^(.{10}) (.{8})(?:\.(\d+))? (.*)$/.exec(text);
  assert.ok(match);
  const [, date, time, fraction = '', zone = ''] = match;
  const numeric = /^([+-])(\d\d?):?(\d\d)?$/.exec(zone);
  const east = numeric
    ? Number(`${numeric[1]}1`) * (Number(numeric[2]) * 3600 + Number(numeric[3] ?? 0) * 60)
    : ZONES.get(zone.toUpperCase());
  assert.ok(east !== undefined);
  const ms = Date.parse(`${date}T${time}Z`) - Date.UTC(2000, 0, 1) - east * 1000;
  return BigInt(ms) * 1000n + BigInt(fraction.padEnd(6, '0'));
}

/**
 * @param {string} text stored with its column's bit in marks
 * @returns {string} the bytes that were in the file
 */
export function unescape(text) {
  return text.replaceAll(/\\(?:\\|x([0-9a-f]{2}))/g, (_, hex) =>
    hex ? String.fromCharCode(parseInt(hex, 16)) : '\\',
  );
}

/**
 * Feeds a parser, in a buffer that is overwritten after each write.
 * @param {Buffer} bytes
 * @param {{ sizes?: number | number[], offset?: number, maxRecordBytes?: number, maxRejectedBytes?: number, end?: boolean }} [options]
 *   sizes: of the pieces; the last one repeats
 */
export function run(
  bytes,
  { sizes = bytes.length, offset = 0, maxRecordBytes = 1 << 20, maxRejectedBytes, end = true } = {},
) {
  const parser = new CsvlogParser({
    streamId: 7,
    fileNo: 9,
    offset,
    zones: ZONES,
    maxRecordBytes,
    maxRejectedBytes,
  });
  /** @type {Piece[]} */
  const rejected = [];
  /** @type {CutRecord[]} */
  const cuts = [];
  const sink = {
    rows: new CopyBuffer(1024),
    days: new Set(),
    receivedAtMs: RECEIVED_AT_MS,
    /** @param {CutRecord} cut */
    cut(cut) {
      cuts.push(cut);
    },
    /** @param {Rejected} piece */
    reject(piece) {
      rejected.push({ ...piece, bytes: Buffer.from(piece.bytes).toString('latin1') });
    },
  };
  const list = Array.isArray(sizes) ? [...sizes] : [sizes];
  let size = 1;
  for (let at = 0; at < bytes.length; at += size) {
    size = Math.max(1, list.shift() ?? size);
    const chunk = Buffer.from(bytes.subarray(at, at + size));
    parser.write(chunk, sink);
    chunk.fill(0x22);
    assert.equal(parser.offset, offset + Math.min(at + size, bytes.length));
    assert.equal(parser.pendingBytes, parser.offset - parser.recordOffset);
  }
  if (end) parser.end(sink);
  const raw = Buffer.from(sink.rows.bytes());
  return {
    parser,
    raw,
    rejected,
    cuts,
    days: [...sink.days],
    count: sink.rows.rows,
    /** read when asked for: most callers compare the raw bytes */
    get rows() {
      return readLogRows(raw);
    },
  };
}

/** @param {Value[]} row */
function dayOf(row) {
  return Math.floor((Number(BigInt(row[3] ?? 0) / 1000n) + POSTGRES_EPOCH_MS) / 86_400_000);
}

/**
 * A row that is the beginning of a record that is too long.
 * @param {Buffer} record all of it
 * @param {Value[]} row
 * @param {CutRecord | undefined} cut
 */
function checkCut(record, row, cut) {
  assert.ok(cut);
  assert.equal(cut.length, record.length);
  assert.deepEqual(cut.sha256, createHash('sha256').update(record).digest());
  const whole = readRecord(record);
  let isCut = false;
  for (const [column, value] of row.slice(3, 29).entries()) {
    if (KINDS[column] !== 't' || value === whole[column] || Number(row[30]) & (1 << column)) continue;
    // One column is the beginning of what was written, those after it are not there.
    if (value !== null) assert.ok(!isCut && whole[column]?.startsWith(String(value)), `column ${column}`);
    isCut = true;
  }
}

/**
 * Checks that rows and rejected pieces tile the bytes without a gap, and that each row is what its bytes say.
 * @param {Buffer} bytes
 * @param {ReturnType<typeof run>} result
 */
export function checkAccount(bytes, { parser, rows, rejected, cuts, count, days }) {
  assert.equal(rows.length, count);
  const starts = [
    ...rows.map(row => ({ offset: Number(row[2]), length: -1, row })),
    ...rejected.map(({ offset, length }) => ({ offset, length, row: null })),
  ].toSorted((a, b) => a.offset - b.offset);
  starts.push({ offset: parser.recordOffset, length: -1, row: null });
  assert.equal(starts[0]?.offset, 0);
  assert.ok(parser.recordOffset <= bytes.length);
  const seenDays = new Set();
  for (const [index, { offset, length, row }] of starts.slice(0, -1).entries()) {
    const next = /** @type {{ offset: number }} */ (starts[index + 1]).offset;
    assert.ok(next > offset);
    if (!row) {
      assert.equal(offset + length, next);
      continue;
    }
    const marks = Number(row[30]);
    if (marks & (1 << CUT_BIT)) {
      checkCut(
        bytes.subarray(offset, next),
        row,
        cuts.find(cut => cut.offset === offset),
      );
      seenDays.add(dayOf(row));
      continue;
    }
    const columns = readRecord(bytes.subarray(offset, next));
    assert.ok([22, 23, 24, 26].includes(columns.length));
    const expected = expectedValues(
      columns.map((value, column) => (TIME_COLUMNS.includes(column) && marks & (1 << column) ? null : value)),
    );
    const values = row.slice(3, 30).map((value, column) => {
      if (!(marks & (1 << column))) return value;
      if (TIME_COLUMNS.includes(column)) {
        // An unusable time: NULL, or that of the arrival.
        assert.equal(value, column === 0 ? BigInt(RECEIVED_AT_MS - POSTGRES_EPOCH_MS) * 1000n : null);
        return null;
      }
      const original = unescape(String(value));
      assert.ok(!isText(original), `column ${column} was escaped without need`);
      return original;
    });
    assert.deepEqual(row.slice(0, 2), [7, 9]);
    assert.deepEqual(values, expected);
    for (const value of row) assert.ok(typeof value !== 'string' || isText(value));
    seenDays.add(dayOf(row));
  }
  assert.deepEqual(new Set(days), seenDays);
  for (const { offset, length, bytes: kept } of rejected) {
    assert.ok(kept.length <= length);
    assert.equal(bytes.toString('latin1', offset, offset + kept.length), kept);
  }
}

/** @param {string} latin1 */
function isText(latin1) {
  const bytes = Buffer.from(latin1, 'latin1');
  return !bytes.includes(0) && Buffer.from(bytes.toString('utf8')).equals(bytes);
}
