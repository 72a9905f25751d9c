/**
 * The waiting time before the next attempt of something that failed: it doubles (or grows by `factor`) up to a
 * ceiling, and a random part spreads many that failed together, so that they do not come back together.
 * In: settings, and optionally a source of randomness. Out: milliseconds to wait.
 * It holds no timer and reads no clock: the caller waits, and calls reset() after a success.
 * Throws RangeError for settings that make no sense.
 */

/**
 * @typedef {object} BackoffSettings
 * @property {number} initialMs ceiling of the first wait, more than 0
 * @property {number} maxMs ceiling of every wait, at least initialMs
 * @property {number} [factor] by how much the ceiling grows with each call, at least 1 (default 2)
 * @property {number} [jitter] the share of a wait that is random, 0 to 1 (default 0.5)
 * @property {() => number} [random] a number of [0, 1), as Math.random (the default)
 */

export class Backoff {
  #initialMs;
  #maxMs;
  #factor;
  #jitter;
  #random;
  /** The ceiling of the next wait. */
  #ceilingMs;

  /** @param {BackoffSettings} settings */
  constructor({ initialMs, maxMs, factor = 2, jitter = 0.5, random = Math.random }) {
    if (!(initialMs > 0 && Number.isFinite(initialMs))) throw new RangeError('initialMs must be more than 0');
    if (!(maxMs >= initialMs && Number.isFinite(maxMs)))
      throw new RangeError('maxMs must be at least initialMs');
    if (!(factor >= 1 && Number.isFinite(factor))) throw new RangeError('factor must be at least 1');
    if (!(jitter >= 0 && jitter <= 1)) throw new RangeError('jitter must be between 0 and 1');
    this.#initialMs = initialMs;
    this.#maxMs = maxMs;
    this.#factor = factor;
    this.#jitter = jitter;
    this.#random = random;
    this.#ceilingMs = initialMs;
  }

  /**
   * The n-th call since the start or the last reset() has the ceiling
   *   c = min(maxMs, initialMs * factor ** (n - 1))
   * and returns a whole number between c * (1 - jitter) and c, at least 1: with jitter 0 exactly c, with
   * jitter 1 anything up to c, with the default between half of c and c. It never ends and never overflows:
   * once c has reached maxMs it stays there.
   * @returns {number} milliseconds to wait before the next attempt
   */
  next() {
    const ceilingMs = this.#ceilingMs;
    this.#ceilingMs = Math.min(this.#maxMs, ceilingMs * this.#factor);
    return Math.max(1, Math.round(ceilingMs * (1 - this.#jitter * this.#random())));
  }

  /** The attempt succeeded: the next failure waits for the initial time again. */
  reset() {
    this.#ceilingMs = this.#initialMs;
  }
}
