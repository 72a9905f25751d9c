/**
 * Takes secrets out of COPY BINARY rows of the log table (copy-columns.js) before they are stored, for every format at
 * once. In: rows in a CopyBuffer, from a place on. Out: the same rows there, each secret of the classes that are on as
 * REDACTED, such rows with their mark; rows without a secret and other columns keep their bytes. Where it looks:
 *   query, internal_query               statements, whole
 *   message, detail, hint, context      by their wording (redact-rules.js), else by SQLSTATE and duration_ms, and
 *                                       whole if they may be in another language (redact-foreign.js)
 *   every text                          credentials
 * What is not certain is redacted. Work is linear; of a text longer than SEARCHED_BYTES the rest is redacted whole.
 */
import { createHash } from 'node:crypto';
import { REDACT_CLASSES } from '../base/redact-classes.js';
import { CopyBuffer } from './copy-buffer.js';
import { CSVLOG_COLUMNS, LEADING_FIELDS, LOG_FIELDS, MESSAGE, SEVERITY, TEXT } from './copy-columns.js';
import { findCredentials } from './redact-credentials.js';
import { beginsForeign, hasOtherLetters } from './redact-foreign.js';
import { CLASSES_OF_HOLE, CLASS_OF_STATE, RULES, SYNTAX_STATES } from './redact-rules.js';
import { LOOSE, NONE, Templates } from './redact-templates.js';
import { CUT_BIT, REDACTED_BIT } from './row-ends.js';

/** @import { RedactClass } from '../base/redact-classes.js' */
/** @import { Rejected } from './copy-rejected.js' */

/**
 * @typedef {object} Redactions
 * @property {number} records that something was taken out of
 * @property {Partial<Record<RedactClass, number>>} classes records by class: of several classes, in each of them
 */

/** @returns {Redactions} */
export const noRedactions = () => ({ records: 0, classes: {} });

/** @param {Redactions} sum grows @param {Redactions} more */
export function addRedactions(sum, { records, classes }) {
  sum.records += records;
  for (const name of REDACT_CLASSES) {
    const count = classes[name] ?? 0;
    if (count > 0) sum.classes[name] = (sum.classes[name] ?? 0) + count;
  }
}

/** What stands in the place of a secret. */
const REDACTED = '[redacted]';
/** So much of a text is looked at. */
export const SEARCHED_BYTES = 1024 * 1024;

const REPLACEMENT = Buffer.from(REDACTED);
const SCRATCH_BYTES = 64 * 1024;
/** A row grows by so much at most, besides replacements: marks that were NULL. */
const GROWTH_BYTES = 8;
/** The shortest text with a credential: pwd=x */
const MIN_CREDENTIAL_BYTES = 5;
/** A reason of rejection that shows what was written: log_time is not a time: ..., jsonlog has no key "..." */
const REASON_WITH_VALUE = /^(?:jsonlog has no key |[^:]*\bis not an? [^:]*: )/;

/** @param {string} name */
const fieldOf = name => LEADING_FIELDS + CSVLOG_COLUMNS.findIndex(([column]) => column === name);
const SEVERITY_FIELD = LEADING_FIELDS + SEVERITY;
const STATE_FIELD = fieldOf('sql_state_code');
const MESSAGE_FIELD = LEADING_FIELDS + MESSAGE;
const DURATION_FIELD = LOG_FIELDS - 2;
const MARKS_FIELD = LOG_FIELDS - 1;
const STATEMENT_FIELDS = new Set(['query', 'internal_query'].map(fieldOf));
/** message comes first: it tells whether the others belong to a statement that could not be parsed. */
const WORDED_FIELDS = new Set(['message', 'detail', 'hint', 'context'].map(fieldOf));
const WORDED_MARKS = [...WORDED_FIELDS].reduce((bits, field) => bits | (1 << (field - LEADING_FIELDS)), 0);
const TEXT_FIELDS = CSVLOG_COLUMNS.flatMap(([, kind], column) =>
  kind === TEXT && column !== SEVERITY && column + LEADING_FIELDS !== STATE_FIELD
    ? [column + LEADING_FIELDS]
    : [],
);

/** Classes whose secrets are told by the wording around them. */
const WORDED_CLASSES = new Set(Object.values(CLASSES_OF_HOLE).flat());

export class Redactor {
  #classes;
  #templates = new Templates(RULES);
  #scratch = new CopyBuffer(SCRATCH_BYTES);
  /** of the row that is being looked at: where each field's value begins, and its length or -1 */
  #starts = new Int32Array(LOG_FIELDS);
  #lengths = new Int32Array(LOG_FIELDS);
  #isSyntaxError = false;
  /** of what was found in it, as far as that is known @type {Set<RedactClass>} */
  #foundClasses = new Set();
  /** The words of the row that is being looked at are not English. */
  #isForeign = false;
  #hasWordedClass;

  /** @param {readonly RedactClass[]} classes at least one */
  constructor(classes) {
    this.#classes = new Set(classes);
    this.#hasWordedClass = classes.some(name => WORDED_CLASSES.has(name));
  }

  /**
   * @param {CopyBuffer} rows whole rows; those from `from` on are rewritten
   * @param {number} from where a row begins, in bytes
   * @param {Redactions} [counts] grow by what is taken out
   */
  redact(rows, from, counts = noRedactions()) {
    const { buffer } = rows;
    const end = rows.length;
    const out = this.#scratch;
    let copied = from;
    for (let at = from, next; at < end; at = next) {
      next = this.#readRow(rows.view, at);
      const found = this.#findSecrets(buffer);
      if (found.size === 0) continue;
      counts.records += 1;
      for (const name of this.#foundClasses) counts.classes[name] = (counts.classes[name] ?? 0) + 1;
      append(out, buffer, copied, at);
      this.#writeRow(out, buffer, at, next, found);
      copied = next;
    }
    if (copied > from) {
      append(out, buffer, copied, end);
      rows.length = from;
      append(rows, out.buffer, 0, out.length);
    }
    out.reset();
  }

  /**
   * A piece that is no row could hold anything: of its bytes the hash remains.
   * @param {Rejected} rejected
   * @returns {Rejected}
   */
  redactRejected(rejected) {
    const sha256 = createHash('sha256').update(rejected.bytes).digest('hex');
    const [shown] = REASON_WITH_VALUE.exec(rejected.reason) ?? [];
    return {
      ...rejected,
      reason: shown === undefined ? rejected.reason : shown + REDACTED,
      bytes: Buffer.from(`${REDACTED} sha256 ${sha256}`),
    };
  }

  /**
   * @param {DataView} view
   * @param {number} at
   * @returns {number} where the next row begins
   */
  #readRow(view, at) {
    at += 2;
    for (let field = 0; field < LOG_FIELDS; field += 1) {
      const length = view.getInt32(at);
      at += 4;
      this.#starts[field] = at;
      this.#lengths[field] = length;
      if (length > 0) at += length;
    }
    return at;
  }

  /**
   * @param {Buffer} buffer with the row that was read
   * @returns {Map<number, number[]>} by field: from and to of each secret within its text, in order and apart
   */
  #findSecrets(buffer) {
    const found = new Map();
    this.#foundClasses.clear();
    const isMarked = this.#lengths[MARKS_FIELD] !== -1;
    const marks = isMarked ? buffer.readInt32BE(this.#starts[MARKS_FIELD] + 4) : 0;
    // The word of the severity, or letters that could not be decoded and stand escaped.
    this.#isForeign =
      isMarked && (buffer.readInt32BE(this.#starts[MARKS_FIELD]) !== 0 || (marks & WORDED_MARKS) !== 0);
    const isUnreadable = this.#lengths[SEVERITY_FIELD] === -1 && (marks & (1 << CUT_BIT)) !== 0;
    const state = this.#text(buffer, STATE_FIELD, this.#lengths[STATE_FIELD]);
    this.#isSyntaxError = SYNTAX_STATES.has(state);
    for (const field of TEXT_FIELDS) {
      const length = this.#lengths[field];
      if (length <= 0) continue;
      /** @type {number[]} */
      const spans = [];
      // Of a row that was cut, the beginning may be of any format.
      if (isUnreadable && field === MESSAGE_FIELD) spans.push(0, length);
      else if (STATEMENT_FIELDS.has(field) && this.#isStatementSecret()) {
        this.#foundClasses.add(this.#classOfStatement);
        spans.push(0, length);
      } else this.#search(buffer, field, state, spans);
      if (spans.length > 0) found.set(field, spans.length === 2 ? spans : united(spans));
    }
    return found;
  }

  /** Of a statement that is secret. @returns {RedactClass} */
  get #classOfStatement() {
    return this.#classes.has('statement_text') ? 'statement_text' : 'parsing_error';
  }

  #isStatementSecret() {
    return this.#classes.has('statement_text') || (this.#isSyntaxError && this.#classes.has('parsing_error'));
  }

  /**
   * @param {Buffer} buffer
   * @param {number} field a text
   * @param {string} state SQLSTATE
   * @param {number[]} spans gets from and to of what is secret
   */
  #search(buffer, field, state, spans) {
    const length = this.#lengths[field];
    const searched = length > SEARCHED_BYTES ? this.#endOfCharacter(buffer, field, SEARCHED_BYTES) : length;
    const isWorded = WORDED_FIELDS.has(field);
    if (!isWorded && (length < MIN_CREDENTIAL_BYTES || !this.#classes.has('credential'))) {
      if (searched < length) spans.push(searched, length);
      return;
    }
    const text = this.#text(buffer, field, searched);
    if (isWorded) this.#readWording(text, field, state, spans);
    if (this.#classes.has('credential')) {
      const before = spans.length;
      for (const place of findCredentials(text)) spans.push(place);
      if (spans.length > before) this.#foundClasses.add('credential');
    }
    if (searched < length) spans.push(searched, length);
  }

  /**
   * @param {string} text
   * @param {number} field that it is of
   * @param {string} state SQLSTATE
   * @param {number[]} spans
   */
  #readWording(text, field, state, spans) {
    const templates = this.#templates;
    const unknown = this.#classOfUnknown(field, state);
    let followsSecret = false;
    for (let at = 0; at < text.length;) {
      const end = templates.find(text, at);
      this.#isSyntaxError ||= templates.spans.some(({ hole }) => hole === 'E');
      // An unknown line after a secret may be more of it: what was taken for its end was a part.
      const isUnknown = end === NONE || end === LOOSE;
      if (
        isUnknown &&
        (unknown !== null || followsSecret || this.#isInOtherLanguage(text, at, field, state))
      ) {
        if (unknown !== null) this.#foundClasses.add(unknown);
        spans.push(at, text.length);
        return;
      }
      for (const { from, to, hole } of templates.spans) {
        const name = this.#classOfHole(hole);
        if (name === null) continue;
        followsSecret = true;
        if (to <= from) continue;
        this.#foundClasses.add(name);
        spans.push(from, to);
      }
      if (end === LOOSE) return;
      const newline = end === NONE ? text.indexOf('\n', at) : end;
      at = newline < 0 ? text.length : newline + 1;
    }
  }

  /**
   * @param {string} text of unknown wording
   * @param {number} at where the unknown begins
   * @param {number} field
   * @param {string} state SQLSTATE
   * @returns {boolean} it may say in another language what a class is for that is on
   */
  #isInOtherLanguage(text, at, field, state) {
    if (!this.#hasWordedClass) return false;
    if (field === MESSAGE_FIELD) this.#isForeign ||= beginsForeign(text, at);
    const isForeign = this.#isForeign || beginsForeign(text, at) || hasOtherLetters(text, at);
    // Its statement, which comes later, may be what could not be parsed.
    if (isForeign && field === MESSAGE_FIELD && state === '') this.#isSyntaxError = true;
    // Whose time is known is known for what it is.
    return isForeign && (field !== MESSAGE_FIELD || this.#lengths[DURATION_FIELD] === -1);
  }

  /** @param {string} hole @returns {RedactClass | null} null: what is in it stays */
  #classOfHole(hole) {
    const classes = CLASSES_OF_HOLE[hole] ?? [];
    const isOn = classes.find(name => this.#classes.has(name));
    return isOn ?? (hole === 'S' && this.#isStatementSecret() ? this.#classOfStatement : null);
  }

  /**
   * @param {number} field
   * @param {string} state SQLSTATE
   * @returns {RedactClass | null} a text of unknown wording in this field may hold a secret of this class, which is on
   */
  #classOfUnknown(field, state) {
    if (this.#classes.has('unidentified')) return 'unidentified';
    // duration: in another language, with a statement or a plan
    if (field === MESSAGE_FIELD && this.#lengths[DURATION_FIELD] !== -1) return this.#classOfHole('A');
    const likely = CLASS_OF_STATE[state.slice(0, 2)];
    return likely !== undefined && this.#classes.has(likely) ? likely : null;
  }

  /**
   * @param {CopyBuffer} out
   * @param {Buffer} buffer with the row that was read
   * @param {number} at where the row begins
   * @param {number} end
   * @param {Map<number, number[]>} found
   */
  #writeRow(out, buffer, at, end, found) {
    let places = 0;
    for (const spans of found.values()) places += spans.length / 2;
    out.ensure(end - at + places * REPLACEMENT.length + GROWTH_BYTES);
    for (const [field, spans] of found) {
      const start = this.#starts[field];
      append(out, buffer, at, start);
      const content = out.length;
      let copied = 0;
      for (let index = 0; index < spans.length; index += 2) {
        append(out, buffer, start + copied, start + (spans[index] ?? 0));
        append(out, REPLACEMENT, 0, REPLACEMENT.length);
        copied = spans[index + 1] ?? 0;
      }
      at = start + this.#lengths[field];
      append(out, buffer, start + copied, at);
      out.view.setInt32(content - 4, out.length - content);
    }
    const marks = this.#starts[MARKS_FIELD];
    const isNull = this.#lengths[MARKS_FIELD] === -1;
    append(out, buffer, at, marks - 4);
    out.view.setInt32(out.length, 8);
    out.view.setInt32(out.length + 4, isNull ? 0 : buffer.readInt32BE(marks));
    out.view.setInt32(out.length + 8, (isNull ? 0 : buffer.readInt32BE(marks + 4)) | (1 << REDACTED_BIT));
    out.length += 12;
  }

  /**
   * @param {Buffer} buffer
   * @param {number} field
   * @param {number} length -1: NULL
   * @returns {string} its first bytes, one character each
   */
  #text(buffer, field, length) {
    const start = this.#starts[field];
    return length <= 0 ? '' : buffer.toString('latin1', start, start + length);
  }

  /**
   * @param {Buffer} buffer
   * @param {number} field
   * @param {number} length within the text
   * @returns {number} `length`, or a little less so that no UTF-8 character is cut
   */
  #endOfCharacter(buffer, field, length) {
    while (length > 0 && (buffer[this.#starts[field] + length] & 0xc0) === 0x80) length -= 1;
    return length;
  }
}

/**
 * @param {CopyBuffer} out
 * @param {Buffer} bytes
 * @param {number} from
 * @param {number} to
 */
function append(out, bytes, from, to) {
  out.ensure(to - from);
  bytes.copy(out.buffer, out.length, from, to);
  out.length += to - from;
}

/**
 * @param {number[]} spans pairs of from and to
 * @returns {number[]} the same places in order, those that touch as one
 */
function united(spans) {
  const pairs = [];
  for (let index = 0; index < spans.length; index += 2)
    pairs.push([spans[index] ?? 0, spans[index + 1] ?? 0]);
  pairs.sort(([a = 0], [b = 0]) => a - b);
  /** @type {number[]} */
  const result = [];
  for (const [from = 0, to = 0] of pairs) {
    const last = result.at(-1) ?? -1;
    if (from > last) result.push(from, to);
    else if (to > last) result[result.length - 1] = to;
  }
  return result;
}
