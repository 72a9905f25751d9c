/**
 * What the tests of LineParser share: a model that says which records the bytes of a text log hold, as plain as can
 * be and without src/codec, and run(), which feeds a parser in pieces and checks what must hold after each of them.
 * The model knows two prefixes, no limits of size, and csvlog and jsonlog only as PostgreSQL writes them.
 * Format: PostgreSQL, src/backend/utils/error/elog.c, send_message_to_server_log().
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { LineParser } from '../../../src/codec/line-parser.js';
import { compileLinePrefix } from '../../../src/codec/line-prefix.js';
import { expectedValues, readLogRows, readRecord, unescape } from './csvlog-model.js';

/** @import { CutRecord } from '../../../src/codec/row-sink.js' */
/** @import { Rejected } from '../../../src/codec/copy-rejected.js' */
/** @typedef {string | bigint | number | null} Value */
/** @typedef {Omit<Rejected, 'bytes'> & { bytes: string }} Piece */
/**
 * @typedef {object} ModelRecord
 * @property {number} start
 * @property {number} end after its last line
 * @property {number} ownBytes
 * @property {string} kind
 * @property {number} process
 * @property {string} raw its lines, one after the other
 * @property {(string | null)[]} columns 26
 * @property {number} order of its last part
 * @property {boolean} open
 * @property {string[]} texts of its parts, latin1
 */

export const RECEIVED_MS = Date.UTC(2026, 6, 7, 8, 9, 10, 123);
const ZONES = new Map([
  ['UTC', 0],
  ['MSK', 10_800],
]);
const LABELS = ['', 'DETAIL', 'HINT', 'QUERY', 'CONTEXT', 'LOCATION', 'BACKTRACE', 'STATEMENT'];
const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`;
const SEVERITY = 'DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC';
const WORD = String.raw`(?:${SEVERITY}|${LABELS.slice(1).join('|')})`;

/** Prefixes by their text, with what they are as a regular expression whose groups are named by column number. */
const PREFIXES = {
  '%m [%p] ': String.raw`(?<c0>${TIME}\.\d{3} (?:UTC|MSK)) \[(?<c3>\d+)\] `,
  '%t %c/%l %q%u@%d/%a %r %e %v %x %Q ': String.raw`(?<c0>${TIME} (?:UTC|MSK)) (?<c5>[0-9a-f]+\.[0-9a-f]+)/(?<c6>\d+) (?:(?=${WORD}:  )|(?<c1>\w+|\[unknown\])@(?<c2>\w+|\[unknown\])/(?<c22>\w+|\[unknown\]) (?<c4>[\w.]+\(\d+\)|\[local\]|) (?<c12>[0-9A-Z]{5}) (?<c9>\d+/\d+|) (?<c10>\d+) (?<c25>-?\d+) )`,
};
/** @typedef {keyof typeof PREFIXES} PrefixText */

/** @param {string} name */
export function fixture(name) {
  return readFileSync(new URL(`../../fixtures/stderr/${name}`, import.meta.url));
}

/**
 * @param {Buffer} bytes
 * @param {PrefixText} prefix
 * @param {number} windowBytes
 * @returns {ModelRecord[]} in the order of their first byte; those with kind 'rejected' are not stored
 */
export function modelOf(bytes, prefix, windowBytes) {
  const text = bytes.toString('latin1');
  const message = new RegExp(
    `^${PREFIXES[prefix]}(?:(?<severity>${SEVERITY})|(?<label>${LABELS.slice(1).join('|')})):  (?<text>[^]*)$`,
  );
  /** @type {ModelRecord[]} */
  const records = [];
  /** @type {ModelRecord | undefined} */
  let current;
  for (let at = 0; at < text.length;) {
    const newline = text.indexOf('\n', at);
    let next = newline < 0 ? text.length : newline + 1;
    let line = text.slice(at, newline < 0 ? next : newline);
    const match = message.exec(line);
    if (line[0] === '\t' && current) {
      current.texts[current.order] += `\n${line.slice(1)}`;
    } else if (match) {
      const { severity, label = '', text: rest = '', ...columns } = match.groups ?? {};
      const key = columns.c3 ? Number(columns.c3) : parseInt(columns.c5?.split('.')[1] ?? '', 16);
      const order = severity ? 0 : LABELS.indexOf(label);
      const start = at;
      const last = records.findLast(({ kind, process }) => kind === 'message' && process === key);
      const fits = last?.open && start - last.end <= windowBytes && order > last.order;
      if (last && !fits) last.open = false;
      if (!last || !fits) {
        current = newRecord(at, 'message', key);
        records.push(current);
        for (let column = 0; column < 26; column += 1)
          current.columns[column] = columns[`c${column}`] ?? null;
        if (prefix.includes('%a')) current.columns[22] ??= '';
        current.columns[11] = severity ?? null;
      } else {
        current = last;
      }
      current.order = order;
      current.texts[order] = rest;
    } else {
      const csv =
        /^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^,"]*,(?:(?:"(?:[^"]|"")*"|[^,"]*),){4}[0-9a-f]+\.[0-9a-f]+,\d+,)/.exec(
          line,
        )
          ? /^(?:(?:"(?:[^"]|"")*"|[^,"\n]*)(?:,|\r?\n))*?(?:"(?:[^"]|"")*"|[^,"\n]*)\r?\n/.exec(
              text.slice(at),
            )
          : null;
      if (csv) {
        next = at + csv[0].length;
        line = csv[0];
      }
      const kind = csv ? 'csvlog' : line.startsWith('{"timestamp":"') ? 'jsonlog' : 'text';
      current = newRecord(at, kind, NaN);
      current.open = false;
      records.push(current);
      if (kind === 'text') current.texts[0] = newline < 0 ? line : line.replace(/\r$/, '');
      current.raw = line;
      extend(current, at, next, text);
      current = undefined;
      at = next;
      continue;
    }
    if (current) extend(current, at, next, text);
    at = next;
  }
  return records;
}

/**
 * @param {number} start
 * @param {string} kind
 * @param {number} process
 * @returns {ModelRecord}
 */
function newRecord(start, kind, process) {
  const columns = Array.from({ length: 26 }, () => null);
  return { start, end: start, ownBytes: 0, kind, process, raw: '', columns, order: 0, open: true, texts: [] };
}

/**
 * @param {ModelRecord} record
 * @param {number} at
 * @param {number} next
 * @param {string} text
 */
function extend(record, at, next, text) {
  record.end = next;
  record.ownBytes += next - at;
  if (record.kind === 'message') record.raw += text.slice(at, next);
}

/**
 * @param {ModelRecord} record of a kind that is stored
 * @returns {Value[]} 26 columns and duration_ms
 */
export function valuesOf({ kind, raw, columns, texts }) {
  if (kind === 'csvlog') return expectedValues(readRecord(Buffer.from(raw, 'latin1')));
  if (kind === 'jsonlog') {
    const { timestamp, pid, session_id, line_num } = JSON.parse(raw);
    const values = Array.from({ length: 26 }, () => /** @type {string | null} */ (null));
    values[0] = timestamp;
    values[3] = String(pid);
    values[5] = session_id;
    values[6] = String(line_num);
    values[12] = '00000';
    values[22] = '';
    return expectedValues(values);
  }
  if (kind === 'text') {
    const values = Array.from({ length: 27 }, () => /** @type {Value} */ (null));
    values[0] = BigInt(RECEIVED_MS - Date.UTC(2000, 0, 1)) * 1000n;
    values[13] = texts[0] ?? '';
    return values;
  }
  const all = [...columns];
  for (const column of [1, 2]) if (all[column] === '[unknown]') all[column] = null;
  if (all[22] === '[unknown]') all[22] = '';
  for (const column of [4, 9]) if (all[column] === '') all[column] = null;
  all[4] = all[4]?.replace(/\((\d+)\)$/, ':$1') ?? null;
  let message = texts[0] ?? null;
  let position = null;
  if (message !== null) {
    const state = /^([0-9A-Z]{5}): /.exec(message);
    if (state && texts[5] !== undefined) {
      message = message.slice(7);
      all[12] ??= state[1] ?? null;
    }
    const at = / at character ([1-9]\d{0,8})$/.exec(message);
    if (at && (columns[11] !== 'LOG' || texts[3] !== undefined || texts[7] !== undefined)) {
      position = at[1] ?? null;
      message = message.slice(0, -at[0].length);
    }
  }
  const [, detail, hint, query, context, location, backtrace, statement] = texts;
  all[13] = message;
  all[14] = detail ?? null;
  all[15] = hint ?? null;
  all[16] = query ?? null;
  all[query === undefined ? 20 : 17] = position;
  const stack = backtrace === undefined ? undefined : `BACKTRACE:  ${backtrace}`;
  all[18] = context && stack ? `${context}\n${stack}` : (stack ?? context ?? null);
  all[19] = statement ?? null;
  all[21] = location ?? null;
  return expectedValues(all);
}

/**
 * @param {Value[]} row
 * @returns {Value[]} 26 columns and duration_ms; texts that are stored escaped as they were in the file
 */
export function plainValues(row) {
  const marks = BigInt(row[30] ?? 0);
  return row.slice(3, 30).map((value, column) => {
    const escaped = column !== 0 && column !== 8 && (marks >> BigInt(column)) & 1n;
    return escaped && column < 26 ? unescape(String(value)) : value;
  });
}

/**
 * @typedef {object} RunOptions
 * @property {number | number[]} [sizes] of the pieces; the last one repeats
 * @property {number} [offset]
 * @property {number} [maxRecordBytes]
 * @property {number} [maxRejectedBytes]
 * @property {number} [windowBytes]
 * @property {number} [maxWaitingBytes]
 * @property {'auto' | 'stderr' | 'jsonlog' | 'plain'} [format]
 * @property {string | null} [prefix] given; null: to be found
 * @property {import('../../../src/codec/row-sink.js').RowContext['decoderOf']} [decoderOf]
 * @property {boolean} [end]
 * @property {number} [quietEvery] quiet() after every so many pieces
 * @property {(parser: LineParser, rows: number) => void} [each] after each piece
 */

/**
 * Feeds a parser, in a buffer that is overwritten after each write.
 * @param {Buffer} bytes
 * @param {RunOptions} [options]
 */
export function run(
  bytes,
  {
    sizes = Math.max(bytes.length, 1),
    offset = 0,
    maxRecordBytes = 1 << 20,
    maxRejectedBytes,
    windowBytes,
    maxWaitingBytes,
    format = 'auto',
    prefix = '%m [%p] ',
    decoderOf,
    end = true,
    quietEvery = 0,
    each = () => {},
  } = {},
) {
  /** @type {import('../../../src/codec/line-parser.js').Prefixes} */
  const prefixes = {
    current: prefix === null ? null : compileLinePrefix(prefix),
    given: prefix !== null,
  };
  const parser = new LineParser({
    streamId: 7,
    fileNo: 9,
    offset,
    zones: ZONES,
    maxRecordBytes,
    maxRejectedBytes,
    windowBytes,
    maxWaitingBytes,
    decoderOf,
    format,
    prefixes,
  });
  /** @type {Piece[]} */
  const rejected = [];
  /** @type {(Omit<CutRecord, 'sha256'> & { sha256: string })[]} */
  const cuts = [];
  const sink = {
    rows: new CopyBuffer(1024),
    days: /** @type {Set<number>} */ (new Set()),
    receivedAtMs: RECEIVED_MS,
    /** @param {CutRecord} cut */
    cut: cut => cuts.push({ ...cut, sha256: cut.sha256.toString('hex') }),
    /** @param {Rejected} piece */
    reject: piece => rejected.push({ ...piece, bytes: Buffer.from(piece.bytes).toString('latin1') }),
  };
  const check = () => {
    assert.ok(parser.recordOffset <= parser.offset);
    assert.equal(parser.pendingBytes, parser.offset - parser.recordOffset);
    const tailAt = parser.recordOffset - parser.tail.length;
    assert.ok(parser.tail.length <= 512 && tailAt >= offset);
    assert.ok(bytes.subarray(tailAt - offset, parser.recordOffset - offset).equals(parser.tail));
    each(parser, sink.rows.rows + rejected.length);
  };
  const list = Array.isArray(sizes) ? [...sizes] : [sizes];
  let size = 1;
  let pieces = 0;
  for (let at = 0; at < bytes.length; at += size) {
    size = Math.max(1, list.shift() ?? size);
    const chunk = Buffer.from(bytes.subarray(at, at + size));
    parser.write(chunk, sink);
    chunk.fill(0x22);
    assert.equal(parser.offset, offset + Math.min(at + size, bytes.length));
    check();
    pieces += 1;
    if (quietEvery > 0 && pieces % quietEvery === 0) {
      parser.quiet(sink);
      check();
    }
  }
  if (end) {
    parser.end(sink);
    assert.equal(parser.recordOffset, offset + bytes.length);
  }
  const raw = Buffer.from(sink.rows.bytes());
  return {
    parser,
    sink,
    prefixes,
    raw,
    rejected,
    cuts,
    days: sink.days,
    count: sink.rows.rows,
    /** read when asked for: most callers compare the raw bytes */
    get rows() {
      return readLogRows(raw);
    },
  };
}

/** @param {string} text latin1 */
export function sha256(text) {
  return createHash('sha256').update(text, 'latin1').digest('hex');
}
