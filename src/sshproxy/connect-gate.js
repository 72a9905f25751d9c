/**
 * Lets at most `rate` callers a second through, in order: a restart of the daemon must not be a storm for the fleet,
 * nor for this machine, where every connection costs a key exchange.
 */
export class ConnectGate {
  #intervalMs;
  #nextAt = 0;

  /** @param {number} rate a second */
  constructor(rate) {
    this.#intervalMs = 1000 / rate;
  }

  /** Resolves when it is the caller's turn. */
  async turn() {
    const now = performance.now();
    const at = Math.max(now, this.#nextAt);
    this.#nextAt = at + this.#intervalMs;
    if (at > now) await new Promise(resolve => setTimeout(resolve, at - now));
  }
}
