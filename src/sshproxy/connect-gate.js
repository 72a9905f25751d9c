/**
 * Lets at most `rate` callers a second through: a restart of the daemon must not be a storm for the fleet, nor for
 * this machine, where every connection costs a key exchange. Evenly spaced, in order; callers whose last attempt
 * failed come after all others, so that a thousand hosts that are down do not delay those that are up.
 */
export class ConnectGate {
  #intervalMs;
  #nextAt = 0;
  /** @type {Set<() => void>} */
  #first = new Set();
  /** @type {Set<() => void>} */
  #retries = new Set();
  /** @type {NodeJS.Timeout | null} */
  #timer = null;

  /** @param {number} rate a second */
  constructor(rate) {
    this.#intervalMs = 1000 / rate;
  }

  /**
   * @param {object} caller
   * @param {boolean} caller.retry its last attempt failed
   * @param {AbortSignal} caller.signal it wants no turn any more
   * @returns {Promise<void>} fulfilled when it is the caller's turn; rejects with the signal's reason
   */
  turn({ retry, signal }) {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const queue = retry ? this.#retries : this.#first;
      const leave = () => {
        queue.delete(pass);
        reject(signal.reason);
      };
      const pass = () => {
        queue.delete(pass);
        signal.removeEventListener('abort', leave);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      queue.add(pass);
      this.#serve();
    });
  }

  #serve() {
    if (this.#timer) return;
    const [next] = this.#first.size > 0 ? this.#first : this.#retries;
    if (!next) return;
    const now = performance.now();
    if (now >= this.#nextAt) {
      this.#nextAt = now + this.#intervalMs;
      next();
      this.#serve();
      return;
    }
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.#serve();
      },
      Math.ceil(this.#nextAt - now),
    );
  }
}
