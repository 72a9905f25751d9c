/**
 * Single fields of a COPY BINARY row: int32 length, then the value; -1 for NULL. For row encoders whose fields come
 * from scattered places; the callers have made room and write many fields before they move CopyBuffer.length.
 * Each function returns the index after the field. Nothing is allocated; nothing throws.
 */
import { POSTGRES_EPOCH_SECONDS, writeDecimal, writeMicroseconds } from './copy-int64.js';

const LF = 0x0a;
const MINUS = 0x2d;
const ZERO = 0x30;

const FOUR_NEWLINES = 0x0a0a0a0a;
/** A native copy costs as much as this many bytes copied a word at a time. */
const NATIVE_COPY_BYTES = 160;
/** Integers of so many digits fit into 31 bits. */
const SHORT_DIGITS = 9;

/**
 * @param {DataView} to
 * @param {number} o
 */
export function writeNull(to, o) {
  to.setInt32(o, -1);
  return o + 4;
}

/**
 * @param {Buffer} bytes
 * @param {DataView} view of the same bytes; whole words are read and written, so both views go on for three bytes
 * @param {number} from
 * @param {number} end
 * @param {Buffer} target
 * @param {DataView} to of the same bytes
 * @param {number} o
 * @returns {number} the index after the copy
 */
function copyBytes(bytes, view, from, end, target, to, o) {
  const length = end - from;
  if (length > NATIVE_COPY_BYTES) {
    bytes.copy(target, o, from, end);
    return o + length;
  }
  for (let index = 0; index < length; index += 4) {
    to.setInt32(o + index, view.getInt32(from + index, true), true);
  }
  return o + length;
}

/**
 * @param {Buffer} bytes
 * @param {DataView} view
 * @param {number} from
 * @param {number} end
 * @param {Buffer} target
 * @param {DataView} to
 * @param {number} o
 */
export function writeText(bytes, view, from, end, target, to, o) {
  to.setInt32(o, end - from);
  return copyBytes(bytes, view, from, end, target, to, o + 4);
}

/**
 * Copies lines of which all but the first begin with a TAB that is not data. Word by word: a statement of tens of
 * megabytes may have a million lines, too many for a native call each.
 * @param {Buffer} bytes
 * @param {DataView} view of the same bytes
 * @param {number} from
 * @param {number} end
 * @param {Buffer} target
 * @param {DataView} to of the same bytes
 * @param {number} o
 * @returns {number} the index after the copy
 */
export function copyLines(bytes, view, from, end, target, to, o) {
  const lastWord = end - 4;
  while (from <= lastWord) {
    const word = view.getInt32(from, true);
    to.setInt32(o, word, true);
    // The lowest set bit marks the first byte that is a newline (Hacker's Delight, 6-1).
    const difference = word ^ FOUR_NEWLINES;
    const found = (difference - 0x01010101) & ~difference & 0x80808080;
    if (found === 0) {
      from += 4;
      o += 4;
    } else {
      const step = ((31 - Math.clz32(found & -found)) >>> 3) + 1;
      from += step + 1;
      o += step;
    }
  }
  for (; from < end; from += 1, o += 1) {
    target[o] = bytes[from];
    if (bytes[from] === LF) from += 1;
  }
  return o;
}

/**
 * @param {Uint8Array} bytes digits, perhaps after a minus
 * @param {number} from
 * @param {number} end
 * @param {DataView} to
 * @param {number} o
 */
export function writeInt4Digits(bytes, from, end, to, o) {
  const negative = bytes[from] === MINUS;
  const first = negative ? from + 1 : from;
  let value = 0;
  for (let p = first; p < end; p += 1) value = value * 10 + bytes[p] - ZERO;
  if (value > 0x7fffffff + (negative ? 1 : 0)) return writeNull(to, o);
  to.setInt32(o, 4);
  to.setInt32(o + 4, negative ? -value : value);
  return o + 8;
}

/**
 * @param {Uint8Array} bytes digits, perhaps after a minus
 * @param {number} from
 * @param {number} end
 * @param {DataView} to
 * @param {number} o
 */
export function writeInt8Digits(bytes, from, end, to, o) {
  const negative = bytes[from] === MINUS;
  const first = negative ? from + 1 : from;
  if (end - first > SHORT_DIGITS) {
    if (!writeDecimal(to, o + 4, bytes, first, end, negative)) return writeNull(to, o);
  } else {
    let value = 0;
    for (let p = first; p < end; p += 1) value = (value * 10 + bytes[p] - ZERO) | 0;
    if (negative) value = -value;
    to.setInt32(o + 4, value >> 31);
    to.setInt32(o + 8, value);
  }
  to.setInt32(o, 8);
  return o + 12;
}

/**
 * @param {DataView} to
 * @param {number} o
 * @param {number} seconds since 1970-01-01 UTC
 * @param {number} microseconds
 */
export function writeTime(to, o, seconds, microseconds) {
  to.setInt32(o, 8);
  writeMicroseconds(to, o + 4, seconds - POSTGRES_EPOCH_SECONDS, microseconds);
  return o + 12;
}

/**
 * @param {DataView} to
 * @param {number} o
 * @param {number} value
 */
export function writeInt4(to, o, value) {
  to.setInt32(o, 4);
  to.setInt32(o + 4, value);
  return o + 8;
}

/**
 * @param {Buffer} bytes
 * @param {DataView} view
 * @param {number} start
 * @param {number} end
 * @param {Buffer} target
 * @param {DataView} to
 * @param {number} o
 */
export function writeLines(bytes, view, start, end, target, to, o) {
  const after = copyLines(bytes, view, start, end, target, to, o + 4);
  to.setInt32(o, after - o - 4);
  return after;
}

/**
 * Two at a time: of an odd number, four bytes behind them are written too. A row always goes on there.
 * @param {DataView} to
 * @param {number} o
 * @param {number} count
 */
export function writeNulls(to, o, count) {
  const end = o + 4 * count;
  for (; o < end; o += 8) to.setBigInt64(o, -1n);
  return end;
}
