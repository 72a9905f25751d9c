/**
 * One csvlog record -> one COPY BINARY row of the log table, straight from bytes to bytes.
 * This is where the time of the data path goes, hence its form: one loop over the fields with everything in local
 * variables, no Buffer or string a field, quoted text copied a 32-bit word at a time. It trusts nothing: a record
 * that is not exactly a storable csvlog row leaves the CopyBuffer untouched, and the caller asks the scanner
 * (csvlog-structure.js) why. Bytes that PostgreSQL's text cannot hold are rewritten by copy-escape.js.
 */
import { printable } from '../base/printable.js';
import {
  CSVLOG_COLUMNS,
  INT4,
  INT8,
  isCsvlogColumnCount,
  MESSAGE,
  ROW_OVERHEAD_BYTES,
  SEVERITY,
  TEXT,
  TIME,
} from './copy-columns.js';
import { escapeRow, isStorable } from './copy-escape.js';
import { POSTGRES_EPOCH_SECONDS, writeDecimal, writeMicroseconds, writeMilliseconds } from './copy-int64.js';
import { readDuration } from './duration.js';
import { severityTag, severityWord } from './languages.js';
import { TimeReader, UNKNOWN_ZONE } from './log-time.js';
import { writeLeadingFields, writeTrailingFields } from './row-ends.js';

/** @import { CopyBuffer } from './copy-buffer.js' */
/** @import { RowContext } from './row-sink.js' */

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;

const FOUR_COMMAS = 0x2c2c2c2c;
const FOUR_QUOTES = 0x22222222;
const COLUMNS = CSVLOG_COLUMNS.length;
const KINDS = Uint8Array.from(CSVLOG_COLUMNS, ([, kind]) => kind);
/** Integers of so many digits fit into 31 bits. */
const SHORT_DIGITS = 9;
/** Characters of a wrong value that its reason shows. */
const SHOWN_CHARACTERS = 40;

export class CsvlogRowEncoder {
  #streamId;
  #fileNo;
  #logTime;
  #startTime;
  #decoderOf;
  #failedColumn = 0;
  #failedAt = 0;

  /** bits of marks (row-ends.js) that the next rows get in any case */
  marks = 0;
  /** log_time of the last row encoded: UTC days since 1970-01-01, and milliseconds since then */
  logDay = 0;
  logTimeMs = 0;

  /** @param {RowContext} context */
  constructor({ streamId, fileNo, zones, timeZone = null, decoderOf }) {
    this.#streamId = streamId;
    this.#fileNo = fileNo;
    this.#logTime = new TimeReader({ zones, timeZone });
    this.#startTime = new TimeReader({ zones, timeZone, ordered: false });
    this.#decoderOf = decoderOf;
  }

  /**
   * @param {Buffer} bytes the last of them is a newline
   * @param {DataView} view of the same bytes
   * @param {number} at where the record begins
   * @param {number} offset the same in the file
   * @param {CopyBuffer} out receives the row
   * @param {boolean} suspicious the bytes may hold a NUL or be invalid UTF-8
   * @param {number} receivedAtMs milliseconds since 1970-01-01: log_time when the record tells no usable one
   * @returns {number} the index after the record; -1: not a storable row within these bytes, nothing was written
   */
  encode(bytes, view, at, offset, out, suspicious, receivedAtMs) {
    const limit = bytes.length;
    // Every field's text is at most as long as its source, the rest is bounded by a constant.
    out.ensure(limit - at + ROW_OVERHEAD_BYTES);
    const target = out.buffer;
    const to = out.view;
    const lastWord = limit - 4;
    let o = out.length;
    let p = at;
    let column = 0;
    let duration = NaN;
    let { marks } = this;
    let word = 0;

    o = writeLeadingFields(to, o, this.#streamId, this.#fileNo, offset);

    for (;;) {
      let byte = bytes[p];
      if (byte === COMMA && column !== 0) {
        // Nothing is NULL. Most records have eight such columns in a row.
        while (p <= lastWord && column < COLUMNS - 4 && view.getInt32(p) === FOUR_COMMAS) {
          to.setInt32(o, -1);
          to.setInt32(o + 4, -1);
          to.setInt32(o + 8, -1);
          to.setInt32(o + 12, -1);
          o += 16;
          p += 4;
          column += 4;
        }
        byte = bytes[p];
        if (byte === COMMA) {
          to.setInt32(o, -1);
          o += 4;
          p += 1;
          column += 1;
          if (column === COLUMNS) return -1;
          continue;
        }
      }
      const kind = KINDS[column];
      const start = p;
      if (byte === LF || (byte === CR && bytes[p + 1] === LF)) {
        to.setInt32(o, -1);
        o += 4;
      } else if (kind === TEXT) {
        const content = o + 4;
        o = content;
        if (byte === QUOTE) {
          p += 1;
          for (;;) {
            while (p <= lastWord) {
              const word = view.getInt32(p, true);
              to.setInt32(o, word, true);
              // The lowest set bit marks the first byte that is a quote (Hacker's Delight, 6-1).
              const difference = word ^ FOUR_QUOTES;
              const found = (difference - 0x01010101) & ~difference & 0x80808080;
              if (found !== 0) {
                const step = (31 - Math.clz32(found & -found)) >>> 3;
                p += step;
                o += step;
                break;
              }
              p += 4;
              o += 4;
            }
            for (; p < limit && bytes[p] !== QUOTE; p += 1, o += 1) target[o] = bytes[p];
            // Unfinished. Reading on would be harmless but slow: V8 gives up code that leaves an array.
            if (p >= limit) return -1;
            p += 1;
            if (bytes[p] !== QUOTE) break;
            target[o] = QUOTE;
            o += 1;
            p += 1;
          }
        } else {
          // A newline ends it at the latest.
          while (byte !== COMMA && byte !== LF) {
            if (byte === QUOTE) return -1;
            target[o] = byte;
            o += 1;
            p += 1;
            byte = bytes[p];
          }
          // The CR of a CR and newline is not data.
          if (byte === LF && target[o - 1] === CR) {
            o -= 1;
            p -= 1;
          }
        }
        if (column === MESSAGE) {
          duration = readDuration(target, content, o);
        } else if (column === SEVERITY) {
          word = severityWord(target, content, o);
          if (word > 0) o = content + severityTag(word).copy(target, content);
          else word = 0;
        }
        to.setInt32(content - 4, o - content);
      } else if (kind === TIME) {
        const reader = column === 0 ? this.#logTime : this.#startTime;
        p = reader.read(bytes, view, p);
        if (p >= 0) {
          to.setInt32(o, 8);
          writeMicroseconds(to, o + 4, reader.seconds - POSTGRES_EPOCH_SECONDS, reader.microseconds);
          o += 12;
        } else if (p === UNKNOWN_ZONE) {
          // The rest of the record is fine: it is stored, and marked.
          p = reader.end;
          marks |= 1 << column;
          if (column === 0) {
            to.setInt32(o, 8);
            writeMilliseconds(to, o + 4, receivedAtMs);
            o += 12;
          } else {
            to.setInt32(o, -1);
            o += 4;
          }
        } else {
          return this.#fail(column, start);
        }
      } else {
        const negative = byte === MINUS;
        if (negative) p += 1;
        const first = p;
        // Nine digits fit into 31 bits, and nearly all numbers have fewer; query_id is the exception.
        const nine = p + SHORT_DIGITS;
        let value = 0;
        let digit = 0;
        for (; p < nine && (digit = bytes[p] - ZERO) >= 0 && digit <= 9; p += 1) {
          value = (value * 10 + digit) | 0;
        }
        if (p === first) return this.#fail(column, start);
        if (negative) value = -value;
        if (kind === INT4) {
          if (p === nine) {
            p = endOfDigits(bytes, p);
            const long = Number(bytes.toString('latin1', start, p));
            if (long > 0x7fffffff || long < -0x80000000) return this.#fail(column, start);
            value = long;
          }
          to.setInt32(o, 4);
          to.setInt32(o + 4, value);
          o += 8;
        } else {
          to.setInt32(o, 8);
          if (p < nine) {
            to.setInt32(o + 4, value >> 31);
            to.setInt32(o + 8, value);
          } else {
            p = endOfDigits(bytes, p);
            if (!writeDecimal(to, o + 4, bytes, first, p, negative)) return this.#fail(column, start);
          }
          o += 12;
        }
      }

      const end = bytes[p];
      if (end === COMMA) {
        p += 1;
        column += 1;
        if (column === COLUMNS) return -1;
      } else if (end === LF) {
        p += 1;
        break;
      } else if (end === CR && bytes[p + 1] === LF) {
        p += 2;
        break;
      } else {
        return this.#fail(column, start);
      }
    }

    column += 1;
    if (!isCsvlogColumnCount(column)) return -1;
    for (; column < COLUMNS; column += 1, o += 4) to.setInt32(o, -1);
    o = writeTrailingFields(to, o, duration, marks, word);
    out.length = suspicious && !isStorable(bytes.subarray(at, p)) ? escapeRow(out, o, this.#decoderOf) : o;
    out.rows += 1;
    const { seconds, microseconds } = this.#logTime;
    this.logTimeMs = marks & 1 ? receivedAtMs : seconds * 1000 + microseconds / 1000;
    this.logDay = Math.floor(this.logTimeMs / 86_400_000);
    return p;
  }

  /**
   * @param {Buffer} bytes those of the last encode(), which returned -1
   * @param {number} columns how many the record has, according to the scanner
   * @returns {string} why the record cannot be stored: one line for an operator
   */
  reason(bytes, columns) {
    if (!isCsvlogColumnCount(columns)) {
      return `${columns} column${columns === 1 ? '' : 's'}; a csvlog row has 22, 23, 24 or 26`;
    }
    const [name, kind] = CSVLOG_COLUMNS[this.#failedColumn];
    const shown = bytes.subarray(this.#failedAt, this.#failedAt + SHOWN_CHARACTERS);
    const length = shown.findIndex((byte, index) => (byte === COMMA && index > 0) || byte === LF);
    const text = printable(shown.toString('latin1', 0, length < 0 ? shown.length : length));
    if (kind === INT4) return `${name} is not an integer of 4 bytes: ${text}`;
    if (kind === INT8) return `${name} is not an integer of 8 bytes: ${text}`;
    return `${name} is not a time: ${text}`;
  }

  /**
   * @param {number} column
   * @param {number} at
   */
  #fail(column, at) {
    this.#failedColumn = column;
    this.#failedAt = at;
    return -1;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} the index after the digits from `at` on
 */
function endOfDigits(bytes, at) {
  while (bytes[at] >= ZERO && bytes[at] <= NINE) at += 1;
  return at;
}
