/**
 * One line of PostgreSQL's jsonlog -> one COPY BINARY row of the log table, straight from bytes to bytes, with the
 * values that csvlog has for the same message.
 * PostgreSQL writes the keys in one order (jsonlog-keys.js), which is the order of the columns, so the usual line is
 * one walk over its bytes with everything in local variables. Any other JSON object is put into that order first
 * (jsonlog-reorder.js). A line that is not wholly a storable row leaves the CopyBuffer untouched, and reason() tells
 * why. Bytes that are not UTF-8 are taken as they are and rewritten at the end by copy-escape.js. Never throws.
 */
import { isUtf8 } from 'node:buffer';
import { printable } from '../base/printable.js';
import { CSVLOG_COLUMNS, MESSAGE, ROW_OVERHEAD_BYTES } from './copy-columns.js';
import { escapeRow } from './copy-escape.js';
import { writeDecimal, writeMicroseconds } from './copy-int64.js';
import { readDuration } from './duration.js';
import { ESCAPE_BYTES, isUnstorable, readEscape, writeUtf8 } from './json-escape.js';
import {
  COLUMN_OF,
  FILE,
  FIRST_WORDS,
  INT4,
  INT8,
  JSONLOG_KEYS,
  KEYS,
  KEY_WORDS,
  KINDS,
  LINE,
  PORT,
  TIME,
  TOKEN_LENGTHS,
  WORDS,
} from './jsonlog-keys.js';
import { inUsualOrder } from './jsonlog-reorder.js';
import { TimeReader, UNKNOWN_ZONE } from './log-time.js';
import { writeLeadingFields, writeTrailingFields } from './row-ends.js';

/** @import { CopyBuffer } from './copy-buffer.js' */
/** @import { RowContext } from './row-sink.js' */

const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

const FOUR_QUOTES = 0x22222222;
const FOUR_BACKSLASHES = 0x5c5c5c5c;
const HIGH_BITS = 0x80808080;

/** What a letter after a backslash stands for (RFC 8259, section 7); 0: nothing, or \u. */
const SHORT_ESCAPES = new Uint8Array(256);
for (const [letter, byte] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  SHORT_ESCAPES[letter.charCodeAt(0)] = byte.charCodeAt(0);
}

const COLUMNS = CSVLOG_COLUMNS.length;

/** How a line of jsonlog begins, up to the year. */
const BEGINNING = Buffer.from('{"timestamp":"');
const YEAR_DIGITS = 4;
/** Bits of marks for what is not as it was written: log_time and session_start_time. */
const LOG_TIME_MARK = 1 << 0;
const START_TIME_MARK = 1 << 8;
const STATE_CODE_COLUMN = 12;
const APPLICATION_NAME_COLUMN = 22;
/** '0000' */
const FOUR_ZEROS = 0x30303030;

/** PostgreSQL's epoch, 2000-01-01, in seconds since 1970. */
const POSTGRES_EPOCH_SECONDS = 946_684_800;
/** Integers of so many digits fit into 31 bits. */
const SHORT_DIGITS = 9;
/** Characters of a wrong value that its reason shows. */
const SHOWN_CHARACTERS = 40;

export class JsonlogRowEncoder {
  #streamId;
  #fileNo;
  #decoderOf;
  #logTime;
  #startTime;
  #failedKey = 0;
  #failedAt = 0;
  #reason = '';

  /** log_time of the last row encoded: UTC days since 1970-01-01, and milliseconds since then */
  logDay = 0;
  logTimeMs = 0;

  /** @param {RowContext} context */
  constructor({ streamId, fileNo, zones, timeZone = null, decoderOf }) {
    this.#streamId = streamId;
    this.#fileNo = fileNo;
    this.#decoderOf = decoderOf;
    this.#logTime = new TimeReader({ zones, timeZone });
    this.#startTime = new TimeReader({ zones, timeZone, ordered: false });
  }

  /**
   * @param {Buffer} bytes
   * @param {DataView} view of the same bytes
   * @param {number} at where the line begins
   * @param {number} end where its newline is, or would be; a CR before it is not data
   * @param {number} offset of the line in its file
   * @param {CopyBuffer} out receives the row
   * @param {number} receivedAtMs milliseconds since 1970: log_time of a line whose time zone is not known
   * @returns {boolean} false: not a storable row, nothing was written, reason() tells more
   */
  encode(bytes, view, at, end, offset, out, receivedAtMs) {
    if (end > at && bytes[end - 1] === CR) end -= 1;
    if (this.#encodeUsual(bytes, view, at, end, offset, out, receivedAtMs)) return true;
    const line = inUsualOrder(bytes, at, end);
    if (typeof line === 'string') {
      this.#reason = line;
      return false;
    }
    const lineView = new DataView(line.buffer, line.byteOffset, line.length);
    if (this.#encodeUsual(line, lineView, 0, line.length, offset, out, receivedAtMs)) return true;
    this.#reason = describe(this.#failedKey, line.subarray(this.#failedAt, -1));
    return false;
  }

  /** @returns {string} after encode() was false: why the line cannot be stored, one line for an operator */
  reason() {
    return this.#reason;
  }

  /**
   * encode() for a line whose keys are in PostgreSQL's order, without white space.
   * @param {Buffer} bytes
   * @param {DataView} view
   * @param {number} at
   * @param {number} end
   * @param {number} offset
   * @param {CopyBuffer} out
   * @param {number} receivedAtMs
   * @returns {boolean} false: it is another line; or a value is wrong, see #failedKey and #failedAt
   */
  #encodeUsual(bytes, view, at, end, offset, out, receivedAtMs) {
    // Every text is at most as long as its source, the rest is bounded by a constant.
    out.ensure(end - at + ROW_OVERHEAD_BYTES);
    const target = out.buffer;
    const to = out.view;
    const lastWord = end - 4;
    let p = at + 1;
    let key = 0;
    let previous = -1;
    let column = 0;
    let duration = NaN;
    let marks = 0;
    let logSeconds = 0;
    let logMicroseconds = 0;
    // All bytes of texts together: a high bit says that not all of them are ASCII.
    let seen = 0;
    // An escape that text cannot hold.
    let unstorable = false;
    // Where the length of the last text is: the next key may go on with the text.
    let open = 0;

    // The brace at the end is also what stops everything below that does not look at `end`: numbers and times.
    if (end - at <= BEGINNING.length || bytes[at] !== OPENING_BRACE) return false;
    if (bytes[end - 1] !== CLOSING_BRACE) return false;
    // No other key begins with the same word, so the first one is there if the word is.
    if (view.getInt32(at + 2, true) !== FIRST_WORDS[0]) return false;
    let o = writeLeadingFields(to, out.length, this.#streamId, this.#fileNo, offset);

    for (;;) {
      if (p >= lastWord || bytes[p] !== QUOTE) return false;
      p += 1;
      const word = view.getInt32(p, true);
      let length = 0;
      for (; ; key += 1) {
        while (key < KEYS && FIRST_WORDS[key] !== word) key += 1;
        if (key === KEYS) return false;
        length = TOKEN_LENGTHS[key];
        if (p + length >= end) return false;
        let index = 4;
        let next = key * KEY_WORDS + 1;
        for (; index < length - 4 && view.getInt32(p + index, true) === WORDS[next]; index += 4) next += 1;
        if (index >= length - 4 && view.getInt32(p + length - 4, true) === WORDS[next]) break;
      }
      p += length;
      const start = p;
      const kind = KINDS[key];
      for (const own = COLUMN_OF[key]; column < own; column += 1) o = writeAbsent(to, o, column);
      let byte = bytes[p];

      if (kind === INT4 || kind === INT8) {
        const negative = byte === MINUS;
        if (negative) p += 1;
        const first = p;
        const nine = p + SHORT_DIGITS;
        let value = 0;
        let digit = 0;
        for (; p < nine && (digit = bytes[p] - ZERO) >= 0 && digit <= 9; p += 1) {
          value = (value * 10 + digit) | 0;
        }
        // JSON has no leading zeros.
        if (p === first || (bytes[first] === ZERO && p > first + 1)) return this.#fail(key, start);
        if (negative) value = -value;
        if (p === nine) p = endOfDigits(bytes, p);
        if (kind === INT4) {
          if (p >= nine) {
            const long = Number(bytes.toString('latin1', start, p));
            if (long > 0x7fffffff || long < -0x80000000) return this.#fail(key, start);
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
          } else if (!writeDecimal(to, o + 4, bytes, first, p, negative)) {
            return this.#fail(key, start);
          }
          o += 12;
        }
        column += 1;
      } else if (kind === PORT || kind === LINE) {
        if (previous !== key - 1) return this.#fail(key, start);
        target[o] = COLON;
        o += 1;
        for (; (byte = bytes[p]) >= ZERO && byte <= NINE; p += 1, o += 1) target[o] = byte;
        if (p === start || (bytes[start] === ZERO && p > start + 1)) return this.#fail(key, start);
        to.setInt32(open, o - open - 4);
      } else {
        if (byte !== QUOTE) return this.#fail(key, start);
        p += 1;
        let isText = true;
        if (kind === TIME) {
          const reader = key === 0 ? this.#logTime : this.#startTime;
          let after = reader.read(bytes, view, p);
          let seconds = reader.seconds;
          let microseconds = reader.microseconds;
          if (key === 0) {
            if (after === UNKNOWN_ZONE) {
              after = reader.end;
              marks |= LOG_TIME_MARK;
              seconds = Math.floor(receivedAtMs / 1000);
              microseconds = Math.floor((receivedAtMs - seconds * 1000) * 1000);
            }
            logSeconds = seconds;
            logMicroseconds = microseconds;
          }
          if (after >= 0 && bytes[after] === QUOTE) {
            to.setInt32(o, 8);
            writeMicroseconds(to, o + 4, seconds - POSTGRES_EPOCH_SECONDS, microseconds);
            o += 12;
            p = after + 1;
            column += 1;
            isText = false;
          } else {
            if (key === 0) return this.#fail(key, start);
            marks |= START_TIME_MARK;
          }
        }
        if (isText) {
          if (kind === FILE && previous === key - 1) {
            target[o] = COMMA;
            target[o + 1] = SPACE;
            o += 2;
          } else {
            open = o;
            o += 4;
            column += 1;
          }
          for (;;) {
            while (p <= lastWord) {
              const word = view.getInt32(p, true);
              to.setInt32(o, word, true);
              seen |= word;
              // The lowest set bit marks the first byte that is a quote, a backslash or a control character
              // (Hacker's Delight, 6-1).
              const quotes = word ^ FOUR_QUOTES;
              const backslashes = word ^ FOUR_BACKSLASHES;
              const found =
                (((quotes - 0x01010101) & ~quotes) |
                  ((backslashes - 0x01010101) & ~backslashes) |
                  ((word - 0x20202020) & ~word)) &
                HIGH_BITS;
              if (found !== 0) {
                const step = (31 - Math.clz32(found & -found)) >>> 3;
                p += step;
                o += step;
                break;
              }
              p += 4;
              o += 4;
            }
            for (; p < end && (byte = bytes[p]) !== QUOTE && byte !== BACKSLASH && byte >= SPACE; p += 1) {
              target[o] = byte;
              o += 1;
              seen |= byte;
            }
            if (p >= end - 1) return this.#fail(key, start);
            byte = bytes[p];
            if (byte === QUOTE) break;
            if (byte !== BACKSLASH) return this.#fail(key, start);
            const short = SHORT_ESCAPES[bytes[p + 1]];
            if (short !== 0) {
              target[o] = short;
              o += 1;
              p += 2;
            } else {
              const character = readEscape(bytes, p, end);
              if (character < 0) return this.#fail(key, start);
              if (isUnstorable(character)) unstorable = true;
              o = writeUtf8(target, o, character);
              p += character > 0xffff ? 2 * ESCAPE_BYTES : ESCAPE_BYTES;
            }
          }
          p += 1;
          if (kind === TIME) {
            to.setInt32(open, -1);
            o = open + 4;
          } else {
            to.setInt32(open, o - open - 4);
            if (column === MESSAGE + 1) duration = readDuration(target, open + 4, o);
          }
        }
      }

      const separator = bytes[p];
      if (separator === COMMA) {
        p += 1;
        previous = key;
        key += 1;
      } else if (separator === CLOSING_BRACE) {
        if (p + 1 !== end) return false;
        break;
      } else {
        return this.#fail(key, start);
      }
    }

    for (; column < COLUMNS; column += 1) o = writeAbsent(to, o, column);
    o = writeTrailingFields(to, o, duration, marks, 0);
    const isText = (seen & HIGH_BITS) === 0 || isUtf8(bytes.subarray(at, end));
    // An escape has nothing to do with the encoding of the database: only raw bytes are decoded.
    if (unstorable || !isText) o = escapeRow(out, o, isText ? undefined : this.#decoderOf);
    out.length = o;
    out.rows += 1;
    this.logDay = Math.floor(logSeconds / 86_400);
    this.logTimeMs = logSeconds * 1000 + logMicroseconds / 1000;
    return true;
  }

  /**
   * @param {number} key whose value is wrong
   * @param {number} at where the value begins
   */
  #fail(key, at) {
    this.#failedKey = key;
    this.#failedAt = at;
    return false;
  }
}

/**
 * Tells jsonlog from other lines.
 * @param {Uint8Array} bytes
 * @param {number} at where a line begins
 * @param {number} end
 * @returns {boolean} whether it begins as PostgreSQL begins its lines: {"timestamp":"dddd-
 */
export function looksLikeJsonlog(bytes, at, end) {
  const year = at + BEGINNING.length;
  if (year + YEAR_DIGITS >= end) return false;
  for (let index = 0; index < BEGINNING.length; index += 1) {
    if (bytes[at + index] !== BEGINNING[index]) return false;
  }
  return endOfDigits(bytes, year) === year + YEAR_DIGITS && bytes[year + YEAR_DIGITS] === MINUS;
}

/**
 * Writes what csvlog has where jsonlog has no key.
 * @param {DataView} to has room
 * @param {number} at
 * @param {number} column
 * @returns {number} the index after the field
 */
function writeAbsent(to, at, column) {
  if (column === STATE_CODE_COLUMN) {
    to.setInt32(at, 5);
    to.setInt32(at + 4, FOUR_ZEROS);
    to.setInt8(at + 8, ZERO);
    return at + 9;
  }
  to.setInt32(at, column === APPLICATION_NAME_COLUMN ? 0 : -1);
  return at + 4;
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

/**
 * @param {number} index of the key
 * @param {Buffer} value it and what follows
 * @returns {string}
 */
function describe(index, value) {
  const [key, kind] = JSONLOG_KEYS[index];
  const text = printable(value.toString('latin1', 0, SHOWN_CHARACTERS));
  if (kind === INT4) return `"${key}" is not an integer of 4 bytes: ${text}`;
  if (kind === INT8) return `"${key}" is not an integer of 8 bytes: ${text}`;
  if (kind === PORT || kind === LINE)
    return `"${key}" is not a number after "${JSONLOG_KEYS[index - 1][0]}": ${text}`;
  return `"${key}" is not a ${kind === TIME ? 'time' : 'text'}: ${text}`;
}
