/**
 * One run of a parser over an input that is cut into pieces, and what it gave. The pieces lie in memory that is
 * overwritten after each call, so that a view kept too long shows.
 */
import assert from 'node:assert/strict';
import { CopyBuffer } from '../../src/codec/copy-buffer.js';
import { CsvlogParser } from '../../src/codec/csvlog.js';
import { LineParser } from '../../src/codec/line-parser.js';

/** @import { CutRecord, RowContext, RowSink } from '../../src/codec/row-sink.js' */
/** @import { Prefixes } from '../../src/codec/prefix-search.js' */

/**
 * @typedef {object} Options
 * @property {'csvlog' | 'auto' | 'stderr' | 'jsonlog' | 'plain'} format
 * @property {Prefixes} prefixes as they are when the run begins; not changed
 * @property {number} maxRecordBytes
 * @property {number} maxRejectedBytes
 * @property {number} windowBytes
 * @property {string | null} timeZone
 * @property {RowContext['decoderOf']} decoderOf
 */

/** @typedef {{ offset: number, length: number, reason: string, bytes: Buffer }} Piece */
/** @typedef {{ recordOffset: number, rowBytes: number, rejected: number, cuts: number, prefixes: Prefixes }} Step */

const ZONES = new Map([
  ['UTC', 0],
  ['CET', 3600],
  ['CEST', 7200],
  ['MSK', 10_800],
  ['+0330', 12_600],
]);
const CONTEXT = { streamId: 7, fileNo: 9, zones: ZONES };
const RECEIVED_AT_MS = Date.UTC(2026, 10, 20, 12, 0, 0, 125);

/**
 * @param {Buffer} bytes the file from `offset` on
 * @param {number[]} sizes of the pieces, over and over
 * @param {Options} options
 * @param {{ offset?: number, end?: boolean, quiet?: (piece: number) => boolean }} [run] quiet: whether the host says
 *   after this piece that there is no more
 */
export function runParser(bytes, sizes, options, { offset = 0, end = true, quiet = () => false } = {}) {
  /** @type {Piece[]} */
  const rejected = [];
  /** @type {CutRecord[]} */
  const cuts = [];
  /** @type {Step[]} */
  const steps = [];
  /** @type {RowSink} */
  const sink = {
    rows: new CopyBuffer(1024),
    days: new Set(),
    receivedAtMs: RECEIVED_AT_MS,
    reject({ offset: at, length, reason, bytes: kept }) {
      rejected.push({ offset: at, length, reason, bytes: Buffer.from(kept) });
    },
    cut(cut) {
      cuts.push(cut);
    },
  };
  const prefixes = copyOf(options.prefixes);
  const context = { ...CONTEXT, ...options, offset, prefixes };
  const parser =
    options.format === 'csvlog'
      ? new CsvlogParser(context)
      : new LineParser({ ...context, format: options.format });
  let piece = 0;
  for (let at = 0; at < bytes.length; piece += 1) {
    const size = Math.min(bytes.length - at, Math.max(1, sizes[piece % sizes.length] ?? 1));
    const chunk = Buffer.from(bytes.subarray(at, at + size));
    const before = parser.recordOffset;
    parser.write(chunk, sink);
    chunk.fill(0x22);
    at += size;
    if (quiet(piece)) parser.quiet(sink);
    const { recordOffset } = parser;
    assert.equal(parser.offset, offset + at, 'offset');
    assert.ok(recordOffset >= before && recordOffset <= offset + at, 'recordOffset goes back, or too far');
    assert.equal(parser.pendingBytes, offset + at - recordOffset, 'pendingBytes');
    const tail = parser.tail;
    const place = recordOffset - offset;
    if (tail.length <= place)
      assert.ok(bytes.subarray(place - tail.length, place).equals(tail), 'tail is not what lies there');
    if (steps.length > 0 && steps.at(-1)?.recordOffset === recordOffset && !end) continue;
    steps.push({
      recordOffset,
      rowBytes: sink.rows.length,
      rejected: rejected.length,
      cuts: cuts.length,
      prefixes: copyOf(prefixes),
    });
  }
  if (end) {
    parser.end(sink);
    assert.equal(parser.pendingBytes, 0, 'pendingBytes after the end');
    assert.equal(parser.recordOffset, offset + bytes.length, 'recordOffset after the end');
  }
  return {
    raw: Buffer.from(sink.rows.bytes()),
    rows: sink.rows.rows,
    days: [...sink.days].toSorted((a, b) => a - b),
    rejected,
    cuts,
    steps,
    prefix: prefixes.current?.text ?? null,
    maxLogTimeMs: parser.maxLogTimeMs,
  };
}

/** @typedef {ReturnType<typeof runParser>} Result */

/** @param {Prefixes} prefixes @returns {Prefixes} */
function copyOf({ current, given, former }) {
  return { current, given, ...(former && { former: [...former] }) };
}
