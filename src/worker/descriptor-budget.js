/**
 * How many file descriptors the streams of this process may use together. Some are kept for the storage, so that what
 * is read can be committed: without them every stream would read, fail to store, and begin again.
 * In: what the kernel allows this process (/proc/self/limits). Out: whether one more source fits.
 */
import { readFileSync } from 'node:fs';
import { PgsluiceError } from '../base/errors.js';

// Node itself about 25, the storage 6, a claim and what a follower's start needs for a moment.
const KEPT = 48;

export class DescriptorBudget {
  #limit;
  #used = 0;

  /** @param {number} [limit] descriptors that the process may have */
  constructor(limit = allowed()) {
    this.#limit = limit;
  }

  /**
   * @param {number} descriptors that a source needs
   * @param {string} host for the message
   * @returns {() => void} gives them back, once
   */
  take(descriptors, host) {
    if (this.#used + descriptors > this.#limit - KEPT) {
      throw new PgsluiceError(
        'DESCRIPTORS_SHORT',
        `${host}: no descriptors left for one more stream of this worker (${this.#limit} allowed): raise LimitNOFILE or "ulimit -n", or daemon.workers`,
      );
    }
    this.#used += descriptors;
    let taken = descriptors;
    return () => {
      this.#used -= taken;
      taken = 0;
    };
  }
}

/** @returns {number} RLIMIT_NOFILE; Node has raised it to what it may be */
function allowed() {
  try {
    const [, soft] =
      /^Max open files +(\d+|unlimited) /m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(soft) || Infinity;
  } catch {
    return Infinity;
  }
}
