/**
 * A JSON object whose keys are those of jsonlog, in whatever order and with whatever white space -> the same as
 * PostgreSQL would write it, for the row encoder, which checks the values. Keys that are null are left out.
 * Nothing may be lost on the way: an object with a key that has no column, with a key twice or with nested values is
 * refused, and the caller keeps its bytes. The slow path: only lines that PostgreSQL did not write come here.
 */
import { printable } from '../base/printable.js';
import { JSONLOG_KEYS } from './jsonlog-keys.js';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPENING_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

const NO_OBJECT = 'not a JSON object';
const NULL = Buffer.from('null');
/** No key is longer, even if each of its letters is an escape. */
const LONGEST_KEY = 6 * Math.max(...JSONLOG_KEYS.map(([key]) => key.length)) + 2;
const SHOWN_CHARACTERS = 40;

const INDEX_OF_KEY = new Map(JSONLOG_KEYS.map(([key], index) => [key, index]));
/** `,"key":`, or `{"key":` for the first one, which is always there. */
const INTRODUCTIONS = JSONLOG_KEYS.map(([key], index) => Buffer.from(`${index === 0 ? '{' : ','}"${key}":`));
const END = Buffer.from('}');

/**
 * @param {Buffer} bytes
 * @param {number} at
 * @param {number} end the line is bytes[at, end)
 * @returns {Buffer | string} the line in the usual order; or why there is none, one line for an operator
 */
export function inUsualOrder(bytes, at, end) {
  /** @type {(Buffer | null | undefined)[]} by key; null: JSON's null */
  const values = [];
  let p = skipSpace(bytes, at, end);
  if (p === end || bytes[p] !== OPENING_BRACE) return NO_OBJECT;
  p = skipSpace(bytes, p + 1, end);
  let closed = p < end && bytes[p] === CLOSING_BRACE;
  while (!closed) {
    const keyEnd = endOfString(bytes, p, end);
    if (keyEnd < 0) return NO_OBJECT;
    const key = keyOf(bytes, p, keyEnd);
    if (key === null) return NO_OBJECT;
    p = skipSpace(bytes, keyEnd, end);
    if (p === end || bytes[p] !== COLON) return NO_OBJECT;
    p = skipSpace(bytes, p + 1, end);
    if (p === end) return NO_OBJECT;

    const index = INDEX_OF_KEY.get(key);
    if (index === undefined) return `jsonlog has no key ${shown(key)}`;
    if (values[index] !== undefined) return `${shown(key)} is there twice`;
    if (bytes[p] === OPENING_BRACE || bytes[p] === OPENING_BRACKET) {
      return `${shown(key)} is not a single value`;
    }
    const valueEnd = bytes[p] === QUOTE ? endOfString(bytes, p, end) : endOfWord(bytes, p, end);
    if (valueEnd < 0) return NO_OBJECT;
    const value = bytes.subarray(p, valueEnd);
    values[index] = value.equals(NULL) ? null : value;

    p = skipSpace(bytes, valueEnd, end);
    if (p === end) return NO_OBJECT;
    closed = bytes[p] === CLOSING_BRACE;
    if (!closed) {
      if (bytes[p] !== COMMA) return NO_OBJECT;
      p = skipSpace(bytes, p + 1, end);
    }
  }
  if (skipSpace(bytes, p + 1, end) !== end) return NO_OBJECT;
  if (!values[0]) return `no ${shown(JSONLOG_KEYS[0][0])}`;
  const parts = values.flatMap((value, index) => (value ? [INTRODUCTIONS[index], value] : []));
  return Buffer.concat([...parts, END]);
}

/**
 * @param {Buffer} bytes
 * @param {number} at of its opening quote
 * @param {number} end after its closing quote
 * @returns {string | null} null: not valid
 */
function keyOf(bytes, at, end) {
  const text = bytes.toString('latin1', at, Math.min(end, at + LONGEST_KEY));
  if (end - at > LONGEST_KEY) return text;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {string} key */
function shown(key) {
  return `"${printable(key.slice(0, SHOWN_CHARACTERS))}"`;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 */
function skipSpace(bytes, at, end) {
  while (at < end) {
    const byte = bytes[at];
    if (byte !== SPACE && byte !== TAB && byte !== LF && byte !== CR) break;
    at += 1;
  }
  return at;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @returns {number} the index after the closing quote; -1: no string. What is inside is not checked.
 */
function endOfString(bytes, at, end) {
  if (at >= end || bytes[at] !== QUOTE) return -1;
  for (let p = at + 1; p < end; p += 1) {
    if (bytes[p] === QUOTE) return p + 1;
    if (bytes[p] === BACKSLASH) p += 1;
  }
  return -1;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @returns {number} where the number or name that begins at `at` ends; -1: nothing there
 */
function endOfWord(bytes, at, end) {
  let p = at;
  while (p < end) {
    const byte = bytes[p];
    if (byte <= SPACE || byte === COMMA || byte === CLOSING_BRACE || byte === QUOTE) break;
    p += 1;
  }
  return p === at ? -1 : p;
}
