/**
 * The \uXXXX escapes of JSON (RFC 8259, section 7), bytes to bytes. PostgreSQL's jsonlog uses them for control
 * characters alone; other writers of JSON use them for anything outside ASCII. For the row encoder of jsonlog.
 */

const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const SURROGATES = 0xd800;
const LOW_SURROGATES = 0xdc00;
const AFTER_SURROGATES = 0xe000;
const SUPPLEMENTARY = 0x10000;

/** Bytes of one escape. */
export const ESCAPE_BYTES = 6;

/**
 * @param {Uint8Array} bytes
 * @param {number} at of the backslash
 * @param {number} end nothing is read from here on
 * @returns {number} the character; from 0x10000 on it took two escapes. A surrogate alone is returned as it is.
 *   -1: not an escape
 */
export function readEscape(bytes, at, end) {
  const unit = readUnit(bytes, at, end);
  if (unit < SURROGATES || unit >= LOW_SURROGATES) return unit;
  const low = readUnit(bytes, at + ESCAPE_BYTES, end);
  if (low < LOW_SURROGATES || low >= AFTER_SURROGATES) return unit;
  return SUPPLEMENTARY + (unit - SURROGATES) * 0x400 + (low - LOW_SURROGATES);
}

/**
 * @param {number} character
 * @returns {boolean} whether PostgreSQL's text cannot hold it: NUL, or a surrogate alone
 */
export function isUnstorable(character) {
  return character === 0 || (character >= SURROGATES && character < AFTER_SURROGATES);
}

/**
 * A surrogate alone is written in the form that UTF-8 would give it, which is not valid UTF-8.
 * @param {Uint8Array} into has room for four bytes
 * @param {number} at
 * @param {number} character
 * @returns {number} the index after it
 */
export function writeUtf8(into, at, character) {
  if (character < 0x80) {
    into[at] = character;
    return at + 1;
  }
  if (character < 0x800) {
    into[at] = 0xc0 | (character >> 6);
    into[at + 1] = 0x80 | (character & 0x3f);
    return at + 2;
  }
  if (character < SUPPLEMENTARY) {
    into[at] = 0xe0 | (character >> 12);
    into[at + 1] = 0x80 | ((character >> 6) & 0x3f);
    into[at + 2] = 0x80 | (character & 0x3f);
    return at + 3;
  }
  into[at] = 0xf0 | (character >> 18);
  into[at + 1] = 0x80 | ((character >> 12) & 0x3f);
  into[at + 2] = 0x80 | ((character >> 6) & 0x3f);
  into[at + 3] = 0x80 | (character & 0x3f);
  return at + 4;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @returns {number} 0..0xffff; -1: no escape there
 */
function readUnit(bytes, at, end) {
  if (at + ESCAPE_BYTES > end || bytes[at] !== BACKSLASH || bytes[at + 1] !== LOWER_U) return -1;
  let unit = 0;
  for (let index = at + 2; index < at + ESCAPE_BYTES; index += 1) {
    const digit = hexDigit(bytes[index]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/** @param {number} byte */
function hexDigit(byte) {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : -1;
}
