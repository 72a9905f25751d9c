/**
 * The log_time of a record of a stderr log: as its prefix wrote it (%m, %t or %n), else the time of arrival. The answer
 * lies in `seconds` and `microseconds` until the next call; the methods say whether it is the record's own. Pure,
 * throws nothing.
 */
import { LOG_EPOCH, LOG_TIME } from './line-prefix-fields.js';
import { TimeReader } from './log-time.js';

/** @import { RowContext } from './row-sink.js' */

const DOT = 0x2e;
const ZERO = 0x30;
/** The end of the year 9999, as in log-time.js: longer digits of %n are no time. */
const MAX_SECONDS = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

export class RecordTime {
  #reader;

  /** since 1970-01-01 UTC, and of the last second */
  seconds = 0;
  microseconds = 0;

  /** @param {Pick<RowContext, 'zones' | 'timeZone'>} context */
  constructor({ zones, timeZone = null }) {
    this.#reader = new TimeReader({ zones, timeZone });
  }

  /**
   * @param {Buffer} bytes
   * @param {DataView} view of the same bytes
   * @param {Int32Array} spans where the values of the prefix lie, from f on (prefix-columns.js)
   * @param {number} f
   * @param {number} shift
   * @param {number} present
   * @param {number} receivedAtMs
   */
  ofPrefix(bytes, view, spans, f, shift, present, receivedAtMs) {
    if ((present & (1 << LOG_TIME)) !== 0)
      return this.at(bytes, view, spans[f + 2 * LOG_TIME] + shift, receivedAtMs);
    if ((present & (1 << LOG_EPOCH)) !== 0) {
      let seconds = 0;
      let p = spans[f + 2 * LOG_EPOCH] + shift;
      for (; bytes[p] !== DOT; p += 1) seconds = seconds * 10 + bytes[p] - ZERO;
      if (seconds <= MAX_SECONDS) {
        this.seconds = seconds;
        this.microseconds = readMilliseconds(bytes, p + 1) * 1000;
        return true;
      }
    }
    return this.#arrived(receivedAtMs);
  }

  /**
   * @param {Buffer} bytes
   * @param {DataView} view of the same bytes
   * @param {number} at where a time stands; -1: nowhere
   * @param {number} receivedAtMs
   */
  at(bytes, view, at, receivedAtMs) {
    const reader = this.#reader;
    if (at < 0 || reader.read(bytes, view, at) < 0) return this.#arrived(receivedAtMs);
    this.seconds = reader.seconds;
    this.microseconds = reader.microseconds;
    return true;
  }

  /** @param {number} receivedAtMs */
  #arrived(receivedAtMs) {
    this.seconds = Math.floor(receivedAtMs / 1000);
    this.microseconds = Math.round((receivedAtMs - this.seconds * 1000) * 1000);
    return false;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {number} p after the point of %n
 */
function readMilliseconds(bytes, p) {
  return (bytes[p] - ZERO) * 100 + (bytes[p + 1] - ZERO) * 10 + bytes[p + 2] - ZERO;
}
