/**
 * Rewrites a COPY BINARY log row whose text PostgreSQL would refuse, so that it can be stored without loss.
 * A log file mixes the encodings of its databases, and one invalid UTF-8 byte or one NUL fails a whole COPY. Such a
 * column is stored escaped: each byte that does not belong to a valid UTF-8 sequence, and NUL, as \xNN (lower-case
 * hex), and a backslash as \\, so the original bytes can be had back. Its bit in marks says so; the other columns
 * stay as they were. This is the slow path: callers know that the row has such bytes.
 */
import { isUtf8 } from 'node:buffer';
import { CSVLOG_COLUMNS, ROW_OVERHEAD_BYTES, TEXT } from './copy-columns.js';

/** @import { CopyBuffer } from './copy-buffer.js' */

const HEX = Buffer.from('0123456789abcdef');
const BACKSLASH = 0x5c;
const LOWER_X = 0x78;
/** stream_id, file_no, file_offset with their lengths, after the int16 field count. */
const LEADING_BYTES = 2 + 8 + 8 + 12;

/**
 * @param {CopyBuffer} out its last row, not yet counted in `length`, lies at `length`
 * @param {number} end where that row ends in out.buffer
 * @returns {number} where the rewritten row ends
 */
export function escapeRow(out, end) {
  const row = Buffer.from(out.buffer.subarray(out.length, end));
  // One byte becomes at most four: \xNN.
  out.ensure(row.length * 4 + ROW_OVERHEAD_BYTES);
  const { buffer } = out;
  let from = LEADING_BYTES;
  let at = out.length;
  let marks = 0;
  row.copy(buffer, at, 0, from);
  at += from;
  for (let column = 0; column < CSVLOG_COLUMNS.length; column += 1) {
    const length = row.readInt32BE(from);
    const next = from + 4 + Math.max(length, 0);
    const value = row.subarray(from + 4, next);
    if (CSVLOG_COLUMNS[column]?.[1] !== TEXT || isStorable(value)) {
      at += row.copy(buffer, at, from, next);
    } else {
      const valueEnd = escapeText(value, buffer, at + 4);
      buffer.writeInt32BE(valueEnd - at - 4, at);
      at = valueEnd;
      marks |= 1 << column;
    }
    from = next;
  }
  // duration_ms as it is; marks was NULL.
  at += row.copy(buffer, at, from, row.length - 4);
  at = buffer.writeInt32BE(4, at);
  return buffer.writeInt32BE(marks, at);
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
