/**
 * Rewrites a COPY BINARY log row whose text PostgreSQL would refuse, so that it can be stored without loss.
 * A log file mixes the encodings of its databases, and one invalid UTF-8 byte or one NUL fails a whole COPY. Such a
 * column is decoded by the encoding that is known for its database. Without one, or if its bytes mean nothing in it, it
 * is stored escaped: each byte that does not belong to a valid UTF-8 sequence, and NUL, as \xNN (lower-case hex), and a
 * backslash as \\, so the original bytes can be had back, and its bit in marks says so. Columns that are valid UTF-8
 * stay as they are. This is the slow path: callers know that the row has such bytes.
 */
import { isUtf8 } from 'node:buffer';
import { CSVLOG_COLUMNS, MESSAGE, ROW_OVERHEAD_BYTES, SEVERITY, TEXT } from './copy-columns.js';
import { readDuration } from './duration.js';
import { severityTag, severityWord } from './languages.js';
import { LEADING_BYTES, writeTrailingFields } from './row-ends.js';

/** @import { CopyBuffer } from './copy-buffer.js' */
/** @import { Decoder, RowContext } from './row-sink.js' */

/** The column before database_name. */
const USER = 1;
const HEX = Buffer.from('0123456789abcdef');
const BACKSLASH = 0x5c;
const LOWER_X = 0x78;

/**
 * @param {CopyBuffer} out its last row, not yet counted in `length`, lies at `length`
 * @param {number} end where that row ends in out.buffer
 * @param {RowContext['decoderOf']} [decoderOf] without it nothing is decoded
 * @returns {number} where the rewritten row ends
 */
export function escapeRow(out, end, decoderOf) {
  const row = Buffer.from(out.buffer.subarray(out.length, end));
  // One byte becomes at most four: \xNN.
  out.ensure(row.length * 4 + ROW_OVERHEAD_BYTES);
  const { buffer } = out;
  /** @type {Decoder | null} */
  let decode = null;
  let from = LEADING_BYTES;
  let at = out.length;
  let marks = 0;
  let word = 0;
  let duration = NaN;
  row.copy(buffer, at, 0, from);
  at += from;
  for (let column = 0; column < CSVLOG_COLUMNS.length; column += 1) {
    const length = row.readInt32BE(from);
    const next = from + 4 + Math.max(length, 0);
    const value = row.subarray(from + 4, next);
    // The database comes second: names of users and databases are as their own database has them, too.
    if (column === USER) decode = decoderOf?.(databaseOf(row, next)) ?? null;
    if (CSVLOG_COLUMNS[column]?.[1] !== TEXT || isStorable(value)) {
      at += row.copy(buffer, at, from, next);
    } else {
      const content = at + 4;
      const decoded = decode?.(value) ?? null;
      if (decoded !== null && isStorable(decoded)) {
        at = content + decoded.copy(buffer, content);
        if (column === MESSAGE) duration = readDuration(buffer, content, at);
        if (column === SEVERITY) {
          word = Math.max(0, severityWord(buffer, content, at));
          if (word > 0) at = content + severityTag(word).copy(buffer, content);
        }
      } else {
        at = escapeText(value, buffer, content);
        marks |= 1 << column;
      }
      buffer.writeInt32BE(at - content, content - 4);
    }
    from = next;
  }
  if (row.readInt32BE(from) !== -1) {
    duration = row.readDoubleBE(from + 4);
    from += 8;
  }
  from += 4;
  if (row.readInt32BE(from) !== -1) {
    word = Math.max(word, row.readInt32BE(from + 4));
    marks |= row.readInt32BE(from + 8);
  }
  return writeTrailingFields(out.view, at, duration, marks, word);
}

/**
 * @param {Buffer} row
 * @param {number} at where the field of database_name begins, with its length
 * @returns {string | null} its bytes, one character each
 */
function databaseOf(row, at) {
  const length = row.readInt32BE(at);
  return length < 0 ? null : row.toString('latin1', at + 4, at + 4 + length);
}

/**
 * @param {Uint8Array} bytes
 * @returns {boolean} whether PostgreSQL takes them as text in a UTF8 database
 */
export function isStorable(bytes) {
  return isUtf8(bytes) && !bytes.includes(0);
}

/**
 * @param {Uint8Array} bytes
 * @param {Uint8Array} into has room for four times as many
 * @param {number} at where to begin in it
 * @returns {number} where the escaped text ends
 */
export function escapeText(bytes, into, at) {
  let from = 0;
  while (from < bytes.length) {
    const byte = bytes[from];
    const length = sequenceLength(bytes, from);
    if (length === 0) {
      into[at] = BACKSLASH;
      into[at + 1] = LOWER_X;
      into[at + 2] = HEX[byte >> 4];
      into[at + 3] = HEX[byte & 15];
      at += 4;
      from += 1;
    } else if (byte === BACKSLASH) {
      into[at] = BACKSLASH;
      into[at + 1] = BACKSLASH;
      at += 2;
      from += 1;
    } else {
      for (const to = from + length; from < to; from += 1) into[at++] = bytes[from];
    }
  }
  return at;
}

/**
 * Well-formed byte sequences: RFC 3629, section 4 (the same that PostgreSQL's pg_utf8_islegal() takes).
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} the length of the valid UTF-8 character that begins there; 0 for none, and for NUL
 */
function sequenceLength(bytes, at) {
  const lead = bytes[at];
  if (lead < 0x80) return lead === 0 ? 0 : 1;
  const length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length === 0 || at + length > bytes.length) return 0;
  const second = bytes[at + 1];
  const lowest = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const highest = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  if (second < lowest || second > highest) return 0;
  for (let index = at + 2; index < at + length; index += 1) {
    if ((bytes[index] & 0xc0) !== 0x80) return 0;
  }
  return length;
}
