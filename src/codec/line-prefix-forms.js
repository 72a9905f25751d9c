/**
 * The values of log_line_prefix that are known by their form: where one ends. Called by LinePrefix for each such value
 * of each line; reads nothing at or behind `end`, never throws. Forms: PostgreSQL manual, log_line_prefix.
 */
import { DIGITS, EPOCH, MAYBE_NUMBER, SESSION, STATE, TIME, TIME_MS, VXID } from './line-prefix-steps.js';

const SPACE = 0x20;
const PLUS = 0x2b;
const MINUS = 0x2d;
const DOT = 0x2e;
const SLASH = 0x2f;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const UPPER_A = 0x41;
const UPPER_Z = 0x5a;
const LOWER_A = 0x61;
const LOWER_F = 0x66;
const LOWER_Z = 0x7a;

/** `2026-05-01 12:34:56` */
const SECOND_LENGTH = 19;

/**
 * @param {number} form
 * @param {Uint8Array} bytes
 * @param {number} p
 * @param {number} end
 * @returns {number} the index after a value of that form, -1: there is none
 */
export function endOfForm(form, bytes, p, end) {
  switch (form) {
    case TIME:
    case TIME_MS:
      return endOfTime(bytes, p, end, form === TIME_MS);
    case DIGITS:
      return endOfDigits(bytes, p, end);
    case MAYBE_NUMBER: {
      const digits = p < end && bytes[p] === MINUS ? p + 1 : p;
      const after = endOfDigits(bytes, digits, end);
      return after < 0 ? (digits === p ? p : -1) : after;
    }
    case EPOCH: {
      const dot = endOfDigits(bytes, p, end);
      if (dot < 0 || dot + 4 > end || bytes[dot] !== DOT) return -1;
      return areDigits(bytes, dot + 1, dot + 4) ? dot + 4 : -1;
    }
    case SESSION: {
      const dot = endOfHex(bytes, p, end);
      return dot < 0 || dot >= end || bytes[dot] !== DOT ? -1 : endOfHex(bytes, dot + 1, end);
    }
    case VXID: {
      const slash = endOfDigits(bytes, p, end);
      if (slash < 0) return p;
      return slash >= end || bytes[slash] !== SLASH ? -1 : endOfDigits(bytes, slash + 1, end);
    }
    case STATE: {
      if (p + 5 > end) return -1;
      for (let index = p; index < p + 5; index += 1) {
        const byte = bytes[index];
        if (!isDigit(byte) && !(byte >= UPPER_A && byte <= UPPER_Z)) return -1;
      }
      return p + 5;
    }
    default:
      return -1;
  }
}

/**
 * `2026-05-01 12:34:56[.789] ZONE`; a zone is letters, or a sign and two or four digits.
 * @param {Uint8Array} bytes
 * @param {number} p
 * @param {number} end
 * @param {boolean} milliseconds
 * @returns {number} the index after it, or -1
 */
function endOfTime(bytes, p, end, milliseconds) {
  const blank = p + SECOND_LENGTH + (milliseconds ? 4 : 0);
  let zone = blank + 1;
  if (zone >= end) return -1;
  if (
    bytes[p + 4] !== MINUS ||
    bytes[p + 7] !== MINUS ||
    bytes[p + 10] !== SPACE ||
    bytes[p + 13] !== COLON ||
    bytes[p + 16] !== COLON ||
    bytes[blank] !== SPACE ||
    !areDigits(bytes, p, p + 4) ||
    !areDigits(bytes, p + 5, p + 7) ||
    !areDigits(bytes, p + 8, p + 10) ||
    !areDigits(bytes, p + 11, p + 13) ||
    !areDigits(bytes, p + 14, p + 16) ||
    !areDigits(bytes, p + 17, p + 19)
  )
    return -1;
  if (milliseconds && (bytes[p + 19] !== DOT || !areDigits(bytes, p + 20, p + 23))) return -1;
  const first = bytes[zone];
  if (first === PLUS || first === MINUS) {
    const after = endOfDigits(bytes, zone + 1, end);
    const digits = after - zone - 1;
    return digits === 2 || digits === 4 ? after : -1;
  }
  while (zone < end && isLetter(bytes[zone])) zone += 1;
  return zone === blank + 1 ? -1 : zone;
}

/** @param {number} byte */
function isDigit(byte) {
  return byte >= ZERO && byte <= NINE;
}

/** @param {number} byte */
function isLetter(byte) {
  return (byte >= UPPER_A && byte <= UPPER_Z) || (byte >= LOWER_A && byte <= LOWER_Z);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} from
 * @param {number} to
 */
function areDigits(bytes, from, to) {
  for (let p = from; p < to; p += 1) if (!isDigit(bytes[p])) return false;
  return true;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} p
 * @param {number} end
 * @returns {number} the index after the digits, -1: there are none
 */
function endOfDigits(bytes, p, end) {
  const first = p;
  while (p < end && isDigit(bytes[p])) p += 1;
  return p === first ? -1 : p;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} p
 * @param {number} end
 * @returns {number} the index after the lower-case hexadecimal digits, -1: there are none
 */
function endOfHex(bytes, p, end) {
  const first = p;
  while (p < end && (isDigit(bytes[p]) || (bytes[p] >= LOWER_A && bytes[p] <= LOWER_F))) p += 1;
  return p === first ? -1 : p;
}
