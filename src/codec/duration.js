/**
 * The time of a statement from the message that carries it. In: the UTF-8 bytes of a message in a larger buffer, which
 * may hold anything after `end`. Out: milliseconds. Called by the row encoders once a record, so a message that has
 * no time must be known by its first byte, or its first four. Allocates nothing, never throws.
 * PostgreSQL (13 to 18) writes these, in the language of lc_messages but for the last (languages-data.js):
 *   duration: 0.123 ms                         log_duration
 *   duration: 0.123 ms  statement: ...         log_min_duration_statement, simple protocol
 *   duration: 0.123 ms  parse name: ...        the same, extended protocol; also bind, execute and execute fetch
 *   duration: 0.123 ms  fastpath function call: ...
 *   duration: 0.123 ms  plan: ...              auto_explain
 * Source: src/backend/tcop/postgres.c and fastpath.c, contrib/auto_explain.
 */
import { matches } from './languages.js';
import { DURATIONS } from './languages-data.js';

const ZERO = 0x30;
const DOT = 0x2e;
const SPACE = 0x20;
const COMMA = 0x2c;
/** 'dura' and 'tion', little-endian */
const DURA = 0x61727564;
const TION = 0x6e6f6974;
const COLON_SPACE = 0x203a;
const ENGLISH_LENGTH = 'duration: '.length;
const ENGLISH_UNITS = [Buffer.from(' ms')];

/** Integers of so many digits are exact in a double, and so are the powers of ten up to there. */
const EXACT_DIGITS = 15;
const POWERS = [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/** @type {Map<string, Buffer[]>} what is before the time -> units that may follow it */
const unitsByPrefix = new Map();
for (const [prefix, unit] of DURATIONS) {
  unitsByPrefix.set(prefix, [...(unitsByPrefix.get(prefix) ?? []), Buffer.from(unit)]);
}

/** @type {({ prefix: Buffer, units: Buffer[] }[] | undefined)[]} by the first byte of the message */
const TRANSLATED = Array.from({ length: 256 }, () => undefined);
for (const [prefix, units] of unitsByPrefix) {
  const bytes = Buffer.from(prefix);
  (TRANSLATED[bytes[0] ?? 0] ??= []).push({ prefix: bytes, units });
}

/** 1: a message that begins with this byte may carry a time; 'd' of English among them. */
const STARTS = Uint8Array.from(TRANSLATED, list => (list === undefined ? 0 : 1));
STARTS[DURA & 0xff] = 1;

/** Of the shortest one in any language, with one digit. */
const MIN_LENGTH = Math.min(
  'duration: 0 ms'.length,
  ...DURATIONS.map(([prefix, unit]) => Buffer.byteLength(prefix + unit) + 1),
);

/**
 * @param {Buffer} bytes
 * @param {number} at where the message begins
 * @param {number} end where it ends
 * @returns {number} milliseconds, the double nearest to the text; NaN: the message carries no time
 */
export function readDuration(bytes, at, end) {
  if (end - at < MIN_LENGTH || STARTS[bytes[at]] === 0) return NaN;
  if (
    (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) === DURA &&
    (bytes[at + 4] | (bytes[at + 5] << 8) | (bytes[at + 6] << 16) | (bytes[at + 7] << 24)) === TION &&
    (bytes[at + 8] | (bytes[at + 9] << 8)) === COLON_SPACE
  ) {
    return readTime(bytes, at + ENGLISH_LENGTH, end, ENGLISH_UNITS);
  }
  const list = TRANSLATED[bytes[at]];
  if (list === undefined) return NaN;
  for (let index = 0; index < list.length; index += 1) {
    const { prefix, units } = list[index];
    if (at + prefix.length < end && matches(bytes, at, prefix)) {
      const value = readTime(bytes, at + prefix.length, end, units);
      if (!Number.isNaN(value)) return value;
    }
  }
  return NaN;
}

/**
 * @param {Buffer} bytes
 * @param {number} first where the number begins
 * @param {number} end
 * @param {Buffer[]} units one of which must follow it
 * @returns {number} NaN: no number, or another unit
 */
function readTime(bytes, first, end, units) {
  let value = 0;
  let p = first;
  let digit = 0;
  for (; p < end && (digit = bytes[p] - ZERO) >= 0 && digit <= 9; p += 1) value = value * 10 + digit;
  if (p === first) return NaN;
  let decimals = 0;
  if (p < end && bytes[p] === DOT) {
    const point = p;
    for (p += 1; p < end && (digit = bytes[p] - ZERO) >= 0 && digit <= 9; p += 1) {
      value = value * 10 + digit;
    }
    decimals = p - point - 1;
    if (decimals === 0) return NaN;
  }
  if (!unitFollows(bytes, p, end, units)) return NaN;
  if (p - first > EXACT_DIGITS) return Number(bytes.toString('latin1', first, p));
  // Both operands are exact, so the quotient is the double nearest to the text.
  return decimals === 0 ? value : value / POWERS[decimals];
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} end
 * @param {Buffer[]} units
 * @returns {boolean} whether there is a unit that ends there: a space, a comma or nothing follows it
 */
function unitFollows(bytes, at, end, units) {
  for (let index = 0; index < units.length; index += 1) {
    const unit = units[index];
    const after = at + unit.length;
    if (after > end || !matches(bytes, at, unit)) continue;
    if (after === end || bytes[after] === SPACE || bytes[after] === COMMA) return true;
  }
  return false;
}
