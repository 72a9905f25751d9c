/**
 * What a line of a log looks like when its prefix is not known: the start of a csvlog row, or a message behind a prefix
 * that nobody has told of. Bytes in, yes or no out; allocates nothing, throws nothing. Called for lines that
 * log_line_prefix does not match, which are few.
 */
import { legacyWordAt } from './legacy-words.js';
import { labelAt, severityAt } from './languages.js';

const QUOTE = 0x22;
const COMMA = 0x2c;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const SPACE = 0x20;
const LOWER_A = 0x61;
const LOWER_F = 0x66;
const NOT_ASCII = 0x80;

/** How log_time begins in csvlog; 0 stands for a digit. */
const TIME = Buffer.from('0000-00-00 00:00:00.000 ');
/** Columns from user_name to connection_from. */
const TEXTS_BEFORE_SESSION = 4;
/** A prefix longer than this is nobody's. */
const SEARCHED_BYTES = 1024;
/** Colons with two spaces that are looked at: the word is before the first, unless a prefix has one too. */
const MAX_PLACES = 4;
/** The longest word of a severity or label in any language, in bytes. */
const LONGEST_WORD = 48;

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end of the line or of what is known of it
 * @returns {boolean} whether a csvlog row begins there: its first seven columns are as PostgreSQL writes them. That is
 *   strict on purpose: a quote after something that only looks like a row would swallow all that follows
 */
export function beginsCsvlogRow(bytes, at, end) {
  if (end - at < TIME.length) return false;
  for (let index = 0; index < TIME.length; index += 1) {
    const byte = bytes[at + index];
    const wanted = TIME[index];
    if (wanted === ZERO ? byte < ZERO || byte > NINE : byte !== wanted) return false;
  }
  let p = at + TIME.length;
  while (p < end && bytes[p] !== COMMA && bytes[p] !== QUOTE) p += 1;
  for (let column = 0; column < TEXTS_BEFORE_SESSION; column += 1) {
    if (p >= end || bytes[p] !== COMMA) return false;
    p += 1;
    if (bytes[p] === QUOTE) {
      do {
        for (p += 1; p < end && bytes[p] !== QUOTE;) p += 1;
        p += 1;
      } while (p < end && bytes[p] === QUOTE);
    } else {
      while (p < end && bytes[p] !== COMMA && bytes[p] !== QUOTE) p += 1;
    }
  }
  if (p >= end || bytes[p] !== COMMA) return false;
  const start = endOfHex(bytes, p + 1, end);
  if (start === p + 1 || bytes[start] !== DOT) return false;
  const session = endOfHex(bytes, start + 1, end);
  if (session === start + 1 || bytes[session] !== COMMA) return false;
  p = session + 1;
  while (p < end && bytes[p] >= ZERO && bytes[p] <= NINE) p += 1;
  return p > session + 1 && p < end && bytes[p] === COMMA;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @returns {boolean} whether the word of a severity or a label stands somewhere near the beginning of a line
 */
export function holdsMessage(bytes, at, end) {
  return wordIn(bytes, at, end) >= 0;
}

/**
 * @param {Buffer} line that holds a message
 * @returns {Buffer} the same; if its word is not UTF-8, with an English one in its place
 */
export function withKnownWord(line) {
  const at = wordIn(line, 0, line.length);
  const word = at < 0 || line[at] < NOT_ASCII ? null : legacyWordAt(line, at, line.length);
  if (word === null) return line;
  const english = Buffer.from(word.isSeverity ? 'LOG:  ' : 'DETAIL:  ');
  return Buffer.concat([line.subarray(0, at), english, line.subarray(at + word.length)]);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @returns {number} index of the first severity or label; -1: there is none
 */
function wordIn(bytes, at, end) {
  const last = Math.min(end - 3, at + SEARCHED_BYTES);
  let places = 0;
  for (let p = at; p <= last && places < MAX_PLACES; p += 1) {
    if (bytes[p] !== COLON || bytes[p + 1] !== SPACE || bytes[p + 2] !== SPACE) continue;
    places += 1;
    for (let word = p - 1; word >= at && word >= p - LONGEST_WORD; word -= 1) {
      if (severityAt(bytes, word, p + 3) >= 0 || labelAt(bytes, word, p + 3) > 0) return word;
      const begins = bytes[word] >= NOT_ASCII && (word === at || bytes[word - 1] < NOT_ASCII);
      if (begins && legacyWordAt(bytes, word, p + 3) !== null) return word;
    }
  }
  return -1;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} p
 * @param {number} end
 */
function endOfHex(bytes, p, end) {
  while (
    p < end &&
    ((bytes[p] >= ZERO && bytes[p] <= NINE) || (bytes[p] >= LOWER_A && bytes[p] <= LOWER_F))
  ) {
    p += 1;
  }
  return p;
}
