/**
 * Sizes, durations and bit rates as people write them, and back.
 * In: text from a configuration file, the environment or a command line; for sizes and bit rates also a plain
 * number. Out: whole bytes, whole milliseconds, whole bits per second. The arithmetic is exact: text that
 * does not come to a whole number is refused, and what format* writes, parse* reads back to the same number.
 * Throws CONFIG_INVALID with a message that names the value and what is accepted.
 * Unit names are exact in case, because 'Mb' could be meant as megabits and 'M' as minutes or months.
 */

import { PgsluiceError } from './errors.js';
import { showValue } from './show-value.js';

/** IEC 80000-13: kB is 1000 bytes, KiB is 1024 (unlike PostgreSQL's own settings, where kB is 1024). */
const SIZE_UNITS = new Map([
  ['B', 1],
  ['kB', 1e3],
  ['KiB', 2 ** 10],
  ['MB', 1e6],
  ['MiB', 2 ** 20],
  ['GB', 1e9],
  ['GiB', 2 ** 30],
  ['TB', 1e12],
  ['TiB', 2 ** 40],
]);

const DURATION_UNITS = new Map([
  ['ms', 1],
  ['s', 1000],
  ['min', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
]);

const BITRATE_UNITS = new Map([
  ['bit/s', 1],
  ['kbit/s', 1e3],
  ['Mbit/s', 1e6],
  ['Gbit/s', 1e9],
]);

const SIZE_ACCEPTED =
  'a number of bytes, or a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as "64MiB"';
const DURATION_ACCEPTED = 'a number with ms, s, min, h or d, such as "500ms", "5min" or "7d"';
const BITRATE_ACCEPTED =
  'a number of bits per second, or a number with bit/s, kbit/s, Mbit/s or Gbit/s, such as "50Mbit/s"';

/** Longer text is a mistake, and must not become a long computation. */
const MAX_QUANTITY_LENGTH = 40;

/**
 * @param {string | number} value '64MiB', '1GB', '512', 512
 * @returns {number} bytes
 */
export function parseSize(value) {
  return parseQuantity(value, SIZE_UNITS, 1, 'size in whole bytes', SIZE_ACCEPTED);
}

/**
 * @param {number} bytes a whole number, not negative
 * @returns {string} in the largest unit that is exact: 67108864 -> '64MiB', 1000000000 -> '1GB', 513 -> '513B'
 */
export function formatSize(bytes) {
  return formatQuantity(bytes, SIZE_UNITS);
}

/**
 * A number without a unit is refused, except 0: it could be seconds as well as milliseconds.
 * @param {string | number} value '500ms', '1s', '5min', '1h', '7d'
 * @returns {number} milliseconds
 */
export function parseDuration(value) {
  return parseQuantity(value, DURATION_UNITS, 0, 'duration in whole milliseconds', DURATION_ACCEPTED);
}

/**
 * @param {number} ms whole milliseconds, not negative
 * @returns {string} in the largest unit that is exact: 60000 -> '1min', 1500 -> '1500ms'
 */
export function formatDuration(ms) {
  return formatQuantity(ms, DURATION_UNITS);
}

/**
 * @param {string | number} value '50Mbit/s', '800kbit/s', '0', 1000000
 * @returns {number} bits per second
 */
export function parseBitrate(value) {
  return parseQuantity(value, BITRATE_UNITS, 1, 'bit rate in whole bits per second', BITRATE_ACCEPTED);
}

/**
 * @param {number} bitsPerSecond a whole number, not negative
 * @returns {string} in the largest unit that is exact: 1000000 -> '1Mbit/s'
 */
export function formatBitrate(bitsPerSecond) {
  return formatQuantity(bitsPerSecond, BITRATE_UNITS);
}

/**
 * @param {unknown} value
 * @param {Map<string, number>} units
 * @param {number} plainUnit what a number without a unit counts; 0 when only 0 may stand alone
 * @param {string} what
 * @param {string} accepted
 * @returns {number}
 */
function parseQuantity(value, units, plainUnit, what, accepted) {
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text === 'string' && text.length <= MAX_QUANTITY_LENGTH) {
    const match = /^(\d+)(?:\.(\d+))? ?([A-Za-z/]*)$/.exec(text);
    if (match !== null) {
      const [, whole = '', fraction = '', unitName = ''] = match;
      const isZero = /^0+$/.test(whole + fraction);
      const unit = unitName === '' ? (isZero ? 1 : plainUnit) : (units.get(unitName) ?? 0);
      // Integers throughout: 1.1 * 1e9 in floating point is not 1100000000.
      const scaled = BigInt(whole + fraction) * BigInt(unit);
      const divisor = 10n ** BigInt(fraction.length);
      const result = Number(scaled / divisor);
      if (unit !== 0 && scaled % divisor === 0n && Number.isSafeInteger(result)) return result;
    }
  }
  throw new PgsluiceError('CONFIG_INVALID', `${showValue(value)} is not a ${what}: accepted is ${accepted}`);
}

/**
 * @param {number} value
 * @param {Map<string, number>} units
 * @returns {string}
 */
function formatQuantity(value, units) {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`a quantity must be a whole number that is not negative, got ${value}`);
  }
  let best = '';
  // From the smallest, which is 1 and always exact, to the largest.
  for (const [name, unit] of units) {
    if (best === '' || (value !== 0 && value % unit === 0)) best = `${value / unit}${name}`;
  }
  return best;
}
