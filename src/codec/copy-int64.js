/**
 * int8 and timestamptz fields of COPY BINARY without a BigInt, which would cost an allocation a field.
 * A double holds 53 bits, so what may need more is computed in parts whose products and sums stay below that.
 * All write eight bytes, big-endian, at an index the caller made room for.
 */

const TWO_16 = 2 ** 16;
const TWO_32 = 2 ** 32;
const ZERO = 0x30;
/** PostgreSQL's epoch, 2000-01-01, in seconds since 1970. */
export const POSTGRES_EPOCH_SECONDS = 946_684_800;
/** Digits of the lower part of writeDecimal(). */
const LOWER_DIGITS = 9;
/** Digits of the largest int8. */
const MAX_DIGITS = 19;

/**
 * @param {DataView} to
 * @param {number} at
 * @param {number} value an integer that a double holds exactly
 */
export function writeInt64(to, at, value) {
  const high = Math.floor(value / TWO_32);
  to.setInt32(at, high);
  to.setInt32(at + 4, value - high * TWO_32);
}

/**
 * Writes seconds x 10^6 + microseconds as int64. Split at 16 bits: from the year 2285 on a double would round it.
 * @param {DataView} to
 * @param {number} at
 * @param {number} seconds
 * @param {number} microseconds 0..999999
 */
export function writeMicroseconds(to, at, seconds, microseconds) {
  const upperSeconds = Math.floor(seconds / TWO_16);
  const lower = (seconds - upperSeconds * TWO_16) * 1e6 + microseconds;
  const carry = Math.floor(lower / TWO_16);
  const upper = upperSeconds * 1e6 + carry;
  const high = Math.floor(upper / TWO_16);
  to.setInt32(at, high);
  to.setInt32(at + 4, (upper - high * TWO_16) * TWO_16 + lower - carry * TWO_16);
}

/**
 * @param {DataView} to
 * @param {number} at
 * @param {number} ms whole milliseconds since 1970-01-01: written as microseconds since 2000-01-01, as in timestamptz
 */
export function writeMilliseconds(to, at, ms) {
  const seconds = Math.floor(ms / 1000);
  writeMicroseconds(to, at, seconds - POSTGRES_EPOCH_SECONDS, (ms - seconds * 1000) * 1000);
}

/**
 * Writes an integer that a double does not hold, without a BigInt: a x 10^9 + b with a split at 16 bits, so that
 * every product and sum below is exact.
 * @param {DataView} to
 * @param {number} at
 * @param {Uint8Array} bytes
 * @param {number} first its first digit
 * @param {number} end after its last digit
 * @param {boolean} negative
 * @returns {boolean} false when it does not fit into 64 bits
 */
export function writeDecimal(to, at, bytes, first, end, negative) {
  while (first < end - LOWER_DIGITS && bytes[first] === ZERO) first += 1;
  if (end - first > MAX_DIGITS) return false;
  let a = 0;
  let b = 0;
  const last = Math.max(first, end - LOWER_DIGITS);
  for (; first < last; first += 1) a = a * 10 + bytes[first] - ZERO;
  for (; first < end; first += 1) b = (b * 10 + bytes[first] - ZERO) | 0;
  const aHigh = Math.floor(a / TWO_16);
  const upper = aHigh * 1e9;
  const upperHigh = Math.floor(upper / TWO_16);
  const lower = (upper - upperHigh * TWO_16) * TWO_16 + (a - aHigh * TWO_16) * 1e9 + b;
  const carry = Math.floor(lower / TWO_32);
  let high = upperHigh + carry;
  let low = lower - carry * TWO_32;
  if (high > 0x7fffffff && !(negative && high === 0x80000000 && low === 0)) return false;
  if (negative) {
    high = low === 0 ? -high : -high - 1;
    low = low === 0 ? 0 : TWO_32 - low;
  }
  to.setInt32(at, high);
  to.setInt32(at + 4, low);
  return true;
}
