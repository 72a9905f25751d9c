/**
 * Severities, labels and positions of stderr logs whose words are not UTF-8: PostgreSQL writes each line in the
 * encoding of the process's database. The words are known before the database is, since they tell where the prefix
 * ends; so every encoding that a translation is used with is tried, and a word in the wrong one means nothing. This is
 * the slow path: bytes once seen are remembered, up to a bound. Never throws.
 */
import { encodingNamed } from './encodings.js';
import {
  labelAt,
  lengthOf,
  numberOf,
  positionNumber,
  SEVERITY_WORDS,
  severityAt,
  splitPosition,
} from './languages.js';
import { LABELS } from './languages-data.js';

/** @import { Decoder } from './row-sink.js' */

/** Of languages that PostgreSQL is translated to, the more usual first. @type {Decoder[]} */
const ENCODINGS = [
  'WIN1251',
  'KOI8R',
  'ISO_8859_5',
  'WIN866',
  'KOI8U',
  'LATIN1',
  'LATIN2',
  'WIN1250',
  'LATIN5',
  'EUC_JP',
  'SJIS',
  'EUC_CN',
  'GBK',
  'GB18030',
  'EUC_TW',
  'BIG5',
  'EUC_KR',
  'UHC',
].map(name => encodingNamed(name)?.decode ?? (() => null));
const COLON = 0x3a;
const SPACE = 0x20;
const NOT_ASCII = 0x80;
/** Bytes of a word that is looked up, and of the end of a message that may be a position, at most. */
const WORD_BYTES = 64;
const POSITION_BYTES = 80;
const MAX_SEEN = 256;

const FIRST_CHARACTERS = new Set(
  [...SEVERITY_WORDS.map(({ word }) => word), ...LABELS.map(([text]) => text)].map(text =>
    text.codePointAt(0),
  ),
);
const YES = 1;
const NO = 2;
/**
 * By encoding, then by a word's first two bytes: whether it may be one. Keeps noise from being decoded in vain.
 * @type {(Uint8Array | undefined)[]}
 */
const begins = ENCODINGS.map(() => undefined);

/** @typedef {{ isSeverity: boolean, number: number, length: number }} LegacyWord length: bytes as they are in the log */

/** @type {Map<string, LegacyWord | null>} */
const seen = new Map();

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @returns {LegacyWord | null} the severity or label that stands there, with its colon and spaces
 */
export function legacyWordAt(bytes, at, end) {
  const limit = Math.min(end, at + WORD_BYTES);
  let ascii = true;
  let after = at;
  for (; after < limit && bytes[after] !== COLON; after += 1) ascii &&= bytes[after] < NOT_ASCII;
  if (ascii || after === limit || bytes[after + 1] !== SPACE) return null;
  after += 1;
  while (after < limit && bytes[after] === SPACE) after += 1;
  const word = Buffer.from(bytes.subarray(at, after));
  const key = word.toString('latin1');
  let found = seen.get(key);
  if (found === undefined) {
    found = lookUp(word);
    if (seen.size >= MAX_SEEN) seen.clear();
    seen.set(key, found);
  }
  return found;
}

/**
 * @param {Buffer} word with its colon and the spaces behind it, of which the last may belong to the text
 * @returns {LegacyWord | null}
 */
function lookUp(word) {
  const first = word.readUInt16BE(0);
  for (let index = 0; index < ENCODINGS.length; index += 1) {
    const decode = ENCODINGS[index];
    if (!mayBegin(index, decode, word, first)) continue;
    const text = decode(word);
    if (!text) continue;
    const severity = severityAt(text, 0, text.length);
    const label = severity < 0 ? labelAt(text, 0, text.length) : 0;
    const packed = severity < 0 ? label : severity;
    if (packed <= 0) continue;
    // All that follows the word is ASCII.
    const length = word.length - (text.length - lengthOf(packed));
    return { isSeverity: severity >= 0, number: numberOf(packed), length };
  }
  return null;
}

/**
 * @param {number} index of the encoding
 * @param {Decoder} decode
 * @param {Buffer} word
 * @param {number} first its first two bytes
 */
function mayBegin(index, decode, word, first) {
  const known = (begins[index] ??= new Uint8Array(0x10000));
  if (known[first] === 0) {
    const text = decode(word.subarray(0, 2)) ?? decode(word.subarray(0, 1));
    known[first] = text !== null && FIRST_CHARACTERS.has(text.toString().codePointAt(0)) ? YES : NO;
  }
  return known[first] === YES;
}

/**
 * splitPosition() for a message in another encoding.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @param {Decoder} decode
 * @returns {{ textEnd: number, position: number } | null}
 */
export function splitLegacyPosition(bytes, at, end, decode) {
  const text = decode(bytes.subarray(at, end));
  if (text === null) return null;
  const split = splitPosition(text, 0, text.length);
  if (split < 0) return null;
  const position = positionNumber(text, split, text.length);
  const suffix = text.subarray(split);
  for (let textEnd = end - 1; textEnd >= at && textEnd >= end - POSITION_BYTES; textEnd -= 1) {
    if (decode(bytes.subarray(textEnd, end))?.equals(suffix)) return { textEnd, position };
  }
  return null;
}
