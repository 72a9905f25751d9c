/**
 * What PostgreSQL says in the language of lc_messages: severities, the labels of a record's further lines, and the
 * position at the end of an error's message. In: UTF-8 bytes of a larger buffer (callers decode other encodings
 * first; nothing is read at or after `end`). Out: numbers; nothing is allocated. Called by the parsers, severityWord()
 * once a record, the others once a line. Words: languages-data.js. Layout of the lines: PostgreSQL,
 * src/backend/utils/error/elog.c, error_severity() and send_message_to_server_log().
 * Two results in one: labelAt() and severityAt() return what was found and the length of it; numberOf() and
 * lengthOf() take that apart.
 */
import { LABELS, POSITIONS, SEVERITIES } from './languages-data.js';

export const NONE = 0;
export const DETAIL = 1;
export const HINT = 2;
export const QUERY = 3;
export const CONTEXT = 4;
export const LOCATION = 5;
export const STATEMENT = 6;
export const BACKTRACE = 7;

/** @type {Record<string, number>} */
const LABEL_CODES = { DETAIL, HINT, QUERY, CONTEXT, LOCATION, STATEMENT, BACKTRACE };

/** All that error_severity() knows: the five DEBUG levels are one tag there. */
const ENGLISH_TAGS = ['LOG', 'ERROR', 'WARNING', 'FATAL', 'NOTICE', 'INFO', 'DEBUG', 'PANIC'];

const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const SPACE = 0x20;
/** A colon and two spaces, in every language. */
const AFTER_SEVERITY = 3;
/** A position is an int4. */
const MAX_POSITION = 0x7fffffff;
const MAX_POSITION_DIGITS = 10;
/** Found things are number * 256 + length: no label or severity is that long. */
const LENGTH_BITS = 8;
const LENGTH_MASK = 0xff;
/** severityAt() and severityWord(): no severity. */
const UNKNOWN = -1;

/**
 * Every word that a severity was ever translated to, with the English tag. The index is the number that rows store,
 * for ever: words are only ever appended. Index 0 stands for English, which needs no mark.
 * @type {readonly { word: string, tag: string }[]}
 */
export const SEVERITY_WORDS = [{ word: '', tag: '' }, ...SEVERITIES.map(([word, tag]) => ({ word, tag }))];

const TAG_BYTES = SEVERITY_WORDS.map(({ tag }) => Buffer.from(tag));

/** @typedef {{ bytes: Buffer, number: number }} Word */

const SEVERITY_TABLE = byByte(
  [
    ...ENGLISH_TAGS.map(tag => ({ bytes: Buffer.from(tag), number: 0 })),
    ...SEVERITIES.map(([word], index) => ({ bytes: Buffer.from(word), number: index + 1 })),
  ],
  ({ bytes }) => bytes[0],
);

// Some labels begin with another one (Turkish "YER: " and "YER:  "): the longer comes first.
const LABEL_TABLE = byByte(
  [
    ...Object.entries(LABEL_CODES).map(([label, number]) => ({ bytes: Buffer.from(`${label}:  `), number })),
    ...LABELS.map(([text, label]) => ({ bytes: Buffer.from(text), number: LABEL_CODES[label] ?? NONE })),
  ].toSorted((a, b) => b.bytes.length - a.bytes.length),
  ({ bytes }) => bytes[0],
);

/** By the last byte of a message; those that end with the number itself are under the digit 0. */
const POSITION_TABLE = byByte(
  [[' at character ', ''], ...POSITIONS]
    .map(([before = '', after = '']) => ({ before: Buffer.from(before), after: Buffer.from(after) }))
    .toSorted((a, b) => b.before.length + b.after.length - a.before.length - a.after.length),
  ({ after }) => after.at(-1) ?? ZERO,
);

/**
 * @param {Uint8Array} bytes
 * @param {number} at where the severity begins
 * @param {number} end where it ends
 * @returns {number} 0: an English tag; 1 and up: the number of a translated word; -1: neither
 */
export function severityWord(bytes, at, end) {
  const length = end - at;
  if (length <= 0) return UNKNOWN;
  const words = SEVERITY_TABLE[bytes[at]];
  if (words === undefined) return UNKNOWN;
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index];
    if (word.bytes.length === length && matches(bytes, at, word.bytes)) return word.number;
  }
  return UNKNOWN;
}

/**
 * @param {number} number of a translated word
 * @returns {Buffer} the bytes of its English tag; shared: not to be written to
 * @throws {RangeError} for a number that severityWord() never gives, and for 0: there the word is the tag
 */
export function severityTag(number) {
  const tag = TAG_BYTES[number];
  if (tag === undefined || number === 0) throw new RangeError(`no severity word has the number ${number}`);
  return tag;
}

/**
 * Does a line begin with a severity, a colon and two spaces?
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end of the line
 * @returns {number} -1: no; else numberOf() is the word's, as from severityWord(), and lengthOf() is of all three
 */
export function severityAt(bytes, at, end) {
  if (at >= end) return UNKNOWN;
  const words = SEVERITY_TABLE[bytes[at]];
  if (words === undefined) return UNKNOWN;
  for (let index = 0; index < words.length; index += 1) {
    /** @type {Word} */
    const word = words[index];
    const { length } = word.bytes;
    const colon = at + length;
    if (
      colon + AFTER_SEVERITY <= end &&
      bytes[colon] === COLON &&
      bytes[colon + 1] === SPACE &&
      bytes[colon + 2] === SPACE &&
      matches(bytes, at, word.bytes)
    ) {
      return (word.number << LENGTH_BITS) | (length + AFTER_SEVERITY);
    }
  }
  return UNKNOWN;
}

/**
 * Does a line begin with one of the labels, with all that PostgreSQL prints between it and its text?
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end of the line
 * @returns {number} NONE: no; else numberOf() is DETAIL, HINT ... and lengthOf() is where its text begins, from `at`
 */
export function labelAt(bytes, at, end) {
  if (at >= end) return NONE;
  const labels = LABEL_TABLE[bytes[at]];
  if (labels === undefined) return NONE;
  for (let index = 0; index < labels.length; index += 1) {
    const label = labels[index];
    const { length } = label.bytes;
    if (at + length <= end && matches(bytes, at, label.bytes)) return (label.number << LENGTH_BITS) | length;
  }
  return NONE;
}

/**
 * @param {number} found from severityAt() or labelAt(), which found something
 * @returns {number} the number of the word, or the code of the label
 */
export function numberOf(found) {
  return found >> LENGTH_BITS;
}

/**
 * @param {number} found from severityAt() or labelAt(), which found something
 * @returns {number} how many bytes it takes
 */
export function lengthOf(found) {
  return found & LENGTH_MASK;
}

/**
 * Does a message end with " at character 17"? Only the stderr format has it there. A message whose own text ends so
 * looks the same, in English as in every other language.
 * @param {Uint8Array} bytes
 * @param {number} at where the message begins
 * @param {number} end
 * @returns {number} where the text before it ends; -1: it does not
 */
export function splitPosition(bytes, at, end) {
  if (at >= end) return -1;
  const last = bytes[end - 1];
  const positions = POSITION_TABLE[isDigit(last) ? ZERO : last];
  if (positions === undefined) return -1;
  for (let index = 0; index < positions.length; index += 1) {
    const { before, after } = positions[index];
    const digitsEnd = end - after.length;
    if (digitsEnd <= at || !matches(bytes, digitsEnd, after)) continue;
    let digits = digitsEnd;
    const lowest = digitsEnd - MAX_POSITION_DIGITS;
    while (digits > lowest && isDigit(bytes[digits - 1])) digits -= 1;
    // A position is at least 1 and has no leading zeros; one more digit before it fails to match `before`.
    if (digits === digitsEnd || bytes[digits] === ZERO) continue;
    const textEnd = digits - before.length;
    if (textEnd < at || !matches(bytes, textEnd, before)) continue;
    if (positionNumber(bytes, digits, digitsEnd) <= MAX_POSITION) return textEnd;
  }
  return -1;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} textEnd from splitPosition()
 * @param {number} end of the message
 * @returns {number} the position: characters from 1 on
 */
export function positionNumber(bytes, textEnd, end) {
  let at = textEnd;
  while (at < end && !isDigit(bytes[at])) at += 1;
  let value = 0;
  for (; at < end && isDigit(bytes[at]); at += 1) value = value * 10 + bytes[at] - ZERO;
  return value;
}

/** @param {number} byte */
function isDigit(byte) {
  return byte >= ZERO && byte <= NINE;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at the caller has made sure that there are enough bytes from here on
 * @param {Uint8Array} wanted
 * @returns {boolean} whether they are there
 */
export function matches(bytes, at, wanted) {
  for (let index = 0; index < wanted.length; index += 1) {
    if (bytes[at + index] !== wanted[index]) return false;
  }
  return true;
}

/**
 * @template T
 * @param {T[]} entries
 * @param {(entry: T) => number | undefined} byteOf
 * @returns {(T[] | undefined)[]} 256 lists, in the order of `entries`
 */
function byByte(entries, byteOf) {
  /** @type {(T[] | undefined)[]} */
  const table = Array.from({ length: 256 }, () => undefined);
  for (const entry of entries) (table[byteOf(entry) ?? 0] ??= []).push(entry);
  return table;
}
