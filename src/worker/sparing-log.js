/**
 * The warnings of one stream in the daemon's log. What a host does decides how many there are, so they come from an
 * allowance: a burst, then one in a while, which says how many were left out. Messages and fields are made printable
 * here, for both hold what the host sent.
 */
import { printable } from '../base/printable.js';

const BURST = 20;
const ONE_IN_MS = 10_000;
const MESSAGE_MAX_CHARS = 1_000;

export class SparingLog {
  #log;
  #allowance = BURST;
  #filledAt = performance.now();
  #leftOut = 0;

  /** @param {import('../base/logger.js').Logger} log */
  constructor(log) {
    this.#log = log;
  }

  /**
   * @param {Record<string, string | number | undefined>} fields
   * @param {string} message
   */
  warn(fields, message) {
    const now = performance.now();
    this.#allowance = Math.min(BURST, this.#allowance + (now - this.#filledAt) / ONE_IN_MS);
    this.#filledAt = now;
    if (this.#allowance < 1) {
      this.#leftOut += 1;
      return;
    }
    this.#allowance -= 1;
    const shown = Object.fromEntries(
      Object.entries(fields).map(([key, value]) => [key, typeof value === 'string' ? oneLine(value) : value]),
    );
    const leftOut = this.#leftOut > 0 ? { warningsLeftOut: this.#leftOut } : {};
    this.#leftOut = 0;
    this.#log.warn({ ...shown, ...leftOut }, oneLine(message));
  }
}

/**
 * @param {string} text
 * @returns {string} of a bounded length, without what acts on a terminal
 */
export function oneLine(text) {
  const shown = printable(text.slice(0, MESSAGE_MAX_CHARS));
  return text.length > MESSAGE_MAX_CHARS ? `${shown}...` : shown;
}
