/**
 * What a line of a stderr log is: a message or one more part of it behind a known log_line_prefix, a csvlog row, a JSON
 * object, or text. LineParser asks for each line and reads the answer from the fields until it asks for the next. The
 * prefixes are shared by the files of a stream; a former one that fits again becomes the current one. Works on bytes,
 * allocates nothing, throws nothing.
 */
import { looksLikeJsonlog } from './jsonlog-row.js';
import {
  BACKTRACE,
  CONTEXT,
  DETAIL,
  HINT,
  labelAt,
  lengthOf,
  LOCATION,
  NONE,
  numberOf,
  QUERY,
  severityAt,
  STATEMENT,
} from './languages.js';
import { legacyWordAt } from './legacy-words.js';
import { beginsCsvlogRow } from './line-kinds.js';
import {
  APPLICATION_NAME,
  COMMAND_TAG,
  CONNECTION_FROM,
  DATABASE_NAME,
  PROCESS_ID,
  Q_ENDED,
  USER_NAME,
} from './line-prefix-fields.js';
import { useFirst } from './prefix-search.js';
import {
  BACKTRACE_PART,
  CONTEXT_PART,
  CSVLOG,
  DETAIL_PART,
  FIELDS_AT,
  HINT_PART,
  JSONLOG,
  LOCATION_PART,
  MESSAGE_PART,
  QUERY_PART,
  STATEMENT_PART,
  STRIDE,
  TEXT,
} from './waiting-records.js';

/** @import { LinePrefix } from './line-prefix.js' */
/** @import { Prefixes } from './prefix-search.js' */
/** @import { WaitingRecords } from './waiting-records.js' */

const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const OPENING_BRACE = 0x7b;
const NOT_ASCII = 0x80;
const HEX_OFFSET = 0x61 - 10;

/** The process of lines that do not tell theirs. */
const NO_PROCESS = -1;
const NO_SEVERITY = -1;

/** What only a session has. */
const SESSION_FIELDS = (1 << USER_NAME) | (1 << DATABASE_NAME) | (1 << CONNECTION_FROM);

/** Part of a record by the code of its label. */
const PARTS_OF_LABELS = new Uint8Array(8);
PARTS_OF_LABELS[DETAIL] = DETAIL_PART;
PARTS_OF_LABELS[HINT] = HINT_PART;
PARTS_OF_LABELS[QUERY] = QUERY_PART;
PARTS_OF_LABELS[CONTEXT] = CONTEXT_PART;
PARTS_OF_LABELS[LOCATION] = LOCATION_PART;
PARTS_OF_LABELS[STATEMENT] = STATEMENT_PART;
PARTS_OF_LABELS[BACKTRACE] = BACKTRACE_PART;

export class LineMatcher {
  #prefixes;
  /** @type {LinePrefix | null} */
  #matched = null;
  /** what is known of the prefix that matched last @type {LinePrefix | null} */
  #prefix = null;
  #captured = new Uint8Array(0);
  #mayBeEmpty = 0;
  #quits = false;
  #checkedAt = -1;
  /** number of the severity's word, code of the label, and the length of what stands there with its colon */
  #severity = NO_SEVERITY;
  #label = NONE;
  #length = 0;
  /** @type {import('./line-prefix.js').IsMessage} */
  #isMessage = (bytes, at, end) => this.#check(bytes, at, end);

  /** the part of a record that the line has: MESSAGE_PART, or that of its label */
  part = MESSAGE_PART;
  /** index where the text of the part begins */
  textAt = 0;

  /** @param {Prefixes} prefixes */
  constructor(prefixes) {
    this.#prefixes = prefixes;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} at
   * @param {number} end of the line, or of as much of it as counts
   * @returns {boolean} whether a known prefix and then a severity or a label stand there
   */
  match(bytes, at, end) {
    const { current, former } = this.#prefixes;
    if (current === null) return false;
    if (this.#fits(current, bytes, at, end)) return true;
    if (former === undefined) return false;
    for (let index = 0; index < former.length; index += 1) {
      const prefix = former[index];
      if (!this.#fits(prefix, bytes, at, end)) continue;
      useFirst(this.#prefixes, prefix);
      return true;
    }
    return false;
  }

  /**
   * @param {Uint8Array} bytes of the line that matched
   * @returns {number} a number that its process alone has, of those that log at a time
   */
  processOf(bytes) {
    const { fields, processKey } = /** @type {LinePrefix} */ (this.#matched);
    if (processKey < 0) return NO_PROCESS;
    let p = fields[2 * processKey];
    const end = fields[2 * processKey + 1];
    if (p < 0) return NO_PROCESS;
    let number = 0;
    if (processKey === PROCESS_ID) {
      for (; p < end; p += 1) number = number * 10 + bytes[p] - ZERO;
      return number;
    }
    // %c is start.pid, both in hexadecimal digits.
    while (p < end && bytes[p] !== DOT) p += 1;
    for (p += 1; p < end; p += 1) number = number * 16 + bytes[p] - (bytes[p] <= NINE ? ZERO : HEX_OFFSET);
    return number;
  }

  /**
   * Copies what a record keeps of its first line, which is the one that matched.
   * @param {WaitingRecords} records
   * @param {number} slot of the record
   * @param {number} at index of the line; stands for nothing
   */
  copyTo(records, slot, at) {
    const prefix = /** @type {LinePrefix} */ (this.#matched);
    const { fields } = prefix;
    const { spans } = records;
    const captured = this.#capturedOf(prefix);
    const f = slot * STRIDE + FIELDS_AT;
    let present = 0;
    for (let index = 0; index < captured.length; index += 1) {
      const field = captured[index];
      const start = fields[2 * field];
      if (start < 0) continue;
      spans[f + 2 * field] = start;
      spans[f + 2 * field + 1] = fields[2 * field + 1];
      present |= 1 << field;
    }
    // Where a prefix prints nothing but csvlog has an empty text.
    const empty = (this.#mayBeEmpty & ~present) === 0 ? 0 : this.#emptyFields(fields, present);
    for (let left = empty; left !== 0; left &= left - 1) {
      const field = 31 - Math.clz32(left & -left);
      spans[f + 2 * field] = spans[f + 2 * field + 1] = at;
    }
    records.present[slot] = present | empty;
    records.severity[slot] = Math.max(0, this.#severity);
    records.severityBytes[slot] = this.#length;
  }

  /**
   * Sets #captured, #mayBeEmpty and #quits.
   * @param {LinePrefix} prefix
   * @returns {Uint8Array} fields that it may have
   */
  #capturedOf(prefix) {
    if (prefix === this.#prefix) return this.#captured;
    const text = prefix.text.replaceAll('%%', '');
    this.#prefix = prefix;
    this.#captured = Uint8Array.from(prefix.values, ({ field }) => field);
    this.#mayBeEmpty =
      (/%-?\d*a/.test(text) ? 1 << APPLICATION_NAME : 0) | (/%-?\d*i/.test(text) ? 1 << COMMAND_TAG : 0);
    this.#quits = /%-?\d*q/.test(text);
    return this.#captured;
  }

  /**
   * The application of a process that serves no client, the command tag of a session that has just begun.
   * @param {Int32Array} fields
   * @param {number} present
   * @returns {number} fields that are empty texts, as bits
   */
  #emptyFields(fields, present) {
    const isSession = (this.#quits && fields[2 * Q_ENDED] < 0) || (present & SESSION_FIELDS) !== 0;
    return this.#mayBeEmpty & ~present & (isSession ? -1 : ~(1 << COMMAND_TAG));
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} at of a line that did not match
   * @param {number} end
   * @returns {number} CSVLOG, JSONLOG or TEXT
   */
  kindOf(bytes, at, end) {
    if (bytes[at] === OPENING_BRACE) return looksLikeJsonlog(bytes, at, end) ? JSONLOG : TEXT;
    return beginsCsvlogRow(bytes, at, end) ? CSVLOG : TEXT;
  }

  /**
   * @param {LinePrefix} prefix
   * @param {Uint8Array} bytes
   * @param {number} at
   * @param {number} end
   */
  #fits(prefix, bytes, at, end) {
    this.#checkedAt = -1;
    const after = prefix.match(bytes, at, end, this.#isMessage);
    if (after < 0) return false;
    if (this.#checkedAt !== after) this.#check(bytes, after, end);
    if (this.#severity !== NO_SEVERITY) {
      this.part = MESSAGE_PART;
    } else if (this.#label !== NONE) {
      this.part = PARTS_OF_LABELS[this.#label];
    } else {
      return false;
    }
    this.textAt = after + this.#length;
    this.#matched = prefix;
    return true;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} at
   * @param {number} end
   * @returns {boolean} whether a severity or a label stands there
   */
  #check(bytes, at, end) {
    this.#checkedAt = at;
    this.#label = NONE;
    this.#severity = NO_SEVERITY;
    const severity = severityAt(bytes, at, end);
    if (severity >= 0) {
      this.#severity = numberOf(severity);
      this.#length = lengthOf(severity);
      return true;
    }
    const label = labelAt(bytes, at, end);
    if (label !== NONE) {
      this.#label = numberOf(label);
      this.#length = lengthOf(label);
      return true;
    }
    const legacy = bytes[at] < NOT_ASCII ? null : legacyWordAt(bytes, at, end);
    if (legacy === null) return false;
    if (legacy.isSeverity) this.#severity = legacy.number;
    else this.#label = legacy.number;
    this.#length = legacy.length;
    return true;
  }
}
