/**
 * The structure of csvlog bytes, without their meaning: where a record ends, how many columns it has, whether it is
 * broken, and where the next row begins after something broken.
 * The scanner is incremental: it keeps its state between pieces and looks at each byte once, so a record of many
 * megabytes costs the same in any number of pieces. It is the authority on what is broken; the row encoder, which is
 * faster, only ever accepts what the scanner would.
 * Rules (PostgreSQL, src/backend/utils/error/csvlog.c): a quote opens only at the start of a field, closes only
 * before a comma, a newline or a CR and newline, and is doubled inside; any byte but a quote may stand inside.
 */

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const COMMA = 0x2c;
const ZERO = 0x30;
const NINE = 0x39;

const FIELD_START = 0;
const PLAIN = 1;
const QUOTED = 2;
/** After a quote inside quotes: it closes them or is the first of two. */
const QUOTE_SEEN = 3;
/** After a closing quote and a CR: only a newline may follow. */
const CLOSED_CR = 4;

/** scan(): the bytes ended before the record did. */
export const UNFINISHED = -1;
/** scan(): the record is not csv; see brokenAt. */
export const BROKEN = -2;

export class CsvlogScanner {
  #state = FIELD_START;
  /** columns begun so far; of the whole record when scan() found its end */
  columns = 1;
  /** after BROKEN: index of the first byte that cannot follow what was before it */
  brokenAt = 0;

  get state() {
    return this.#state;
  }

  /** Begins a record. */
  reset() {
    this.#state = FIELD_START;
    this.columns = 1;
  }

  /**
   * Continues the record through `bytes` from `at` to their end.
   * @param {Buffer} bytes
   * @param {number} at
   * @returns {number} the index after the record's newline, or UNFINISHED, or BROKEN
   */
  scan(bytes, at) {
    let state = this.#state;
    for (; at < bytes.length; at += 1) {
      if (state === QUOTED) {
        at = bytes.indexOf(QUOTE, at);
        if (at === -1) break;
        state = QUOTE_SEEN;
        continue;
      }
      const byte = bytes[at];
      if (state === QUOTE_SEEN && byte === QUOTE) {
        state = QUOTED;
      } else if (byte === LF) {
        return at + 1;
      } else if (byte === COMMA && state !== CLOSED_CR) {
        state = FIELD_START;
        this.columns += 1;
      } else if (state === QUOTE_SEEN && byte === CR) {
        state = CLOSED_CR;
      } else if (state === FIELD_START) {
        state = byte === QUOTE ? QUOTED : PLAIN;
      } else if (state !== PLAIN || byte === QUOTE) {
        this.brokenAt = at;
        return BROKEN;
      }
    }
    this.#state = state;
    return UNFINISHED;
  }
}

/**
 * Makes a whole record of the beginning of one: closes the field in which it is cut, and leaves out what cannot be closed.
 * @param {Buffer} bytes of the beginning, cut anywhere before its end
 * @param {number} columns that the record is to have
 * @returns {Buffer | null} a record with its newline; null when that is not the beginning of a record
 */
export function closeRecord(bytes, columns) {
  const scanner = new CsvlogScanner();
  if (scanner.scan(bytes, 0) !== UNFINISHED || scanner.columns > columns) return null;
  let end = bytes.length;
  let close = '';
  if (scanner.state === QUOTED || scanner.state === QUOTE_SEEN) {
    // A quote at the very end may be half of two.
    if (scanner.state === QUOTE_SEEN) end -= 1;
    end = wholeCharacters(bytes, end);
    close = '"';
  } else {
    end = bytes.lastIndexOf(COMMA) + 1;
    if (scanner.state === CLOSED_CR) return null;
  }
  return Buffer.concat([
    bytes.subarray(0, end),
    Buffer.from(`${close}${','.repeat(columns - scanner.columns)}\n`),
  ]);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} end
 * @returns {number} the same without a UTF-8 character that it cuts
 */
function wholeCharacters(bytes, end) {
  let lead = end - 1;
  while (lead > end - 4 && lead >= 0 && (bytes[lead] & 0xc0) === 0x80) lead -= 1;
  const byte = bytes[lead];
  const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
  return lead >= 0 && lead + length > end ? lead : end;
}

/** How every csvlog row begins: log_time to the millisecond. 0 stands for a digit. */
const ROW_START = Buffer.from('0000-00-00 00:00:00.000 ');

/**
 * Looks for a newline that a csvlog row follows.
 * @param {Buffer} bytes
 * @param {number} from where to look from
 * @param {number} before a newline at or after this index does not count
 * @returns {number} the index where the row begins, or `~index` when there is none: what lies before index is done
 *   with, and the search goes on there when there are more bytes
 */
export function findRowStart(bytes, from, before) {
  for (let at = bytes.indexOf(LF, from); at !== -1 && at < before; at = bytes.indexOf(LF, at + 1)) {
    const matched = matchRowStart(bytes, at + 1);
    if (matched === ROW_START.length) return at + 1;
    if (at + 1 + matched === bytes.length) return ~at;
  }
  return ~Math.min(bytes.length, before);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} how many bytes from `at` on look like the start of a row
 */
function matchRowStart(bytes, at) {
  const length = Math.min(ROW_START.length, bytes.length - at);
  for (let index = 0; index < length; index += 1) {
    const byte = bytes[at + index];
    const wanted = ROW_START[index];
    if (wanted === ZERO ? byte < ZERO || byte > NINE : byte !== wanted) return index;
  }
  return length;
}
