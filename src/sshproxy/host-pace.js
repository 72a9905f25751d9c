/**
 * When a host may be connected to, by whichever transport: not before the back-off of its last failure, at the rate
 * of the whole fleet, and one attempt at a time until one has succeeded, however many streams ask. Each turn is a
 * ticket whose outcome must be told, once; those of attempts that began before the last failure count as one with it.
 * Refusals that an operator must mend are tried slowly at once: sshd's PerSourcePenalties bans clients that keep
 * failing, for all hosts behind one address.
 */
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '../base/backoff.js';
import { isSshRefusal } from '../base/ssh-refusal.js';

/** @typedef {import('../base/errors.js').ErrorCode} ErrorCode */
/** @typedef {{ succeeded: () => void, failed: (code: ErrorCode) => void, abandoned: () => void }} Turn */

const BACKOFF = { initialMs: 500, maxMs: 30_000, factor: 2, jitter: 0.2 };
const BACKOFF_REFUSED = { initialMs: 30_000, maxMs: 600_000, factor: 2, jitter: 0.2 };

export class HostPace {
  #gate;
  #backoff = new Backoff(BACKOFF);
  #backoffRefused = new Backoff(BACKOFF_REFUSED);
  #notBefore = 0;
  #proven = false;
  #failures = 0;
  /** the attempt whose outcome the others wait for @type {PromiseWithResolvers<void> | null} */
  #trial = null;
  #ending = new AbortController();

  /** @param {import('./connect-gate.js').ConnectGate} gate */
  constructor(gate) {
    this.#gate = gate;
    setMaxListeners(0, this.#ending.signal);
  }

  /**
   * @param {AbortSignal} [signal] the caller wants it no more
   * @returns {Promise<Turn>} rejects with the signal's reason, or that of end()
   */
  async turn(signal) {
    const either = signal ? AbortSignal.any([signal, this.#ending.signal]) : this.#ending.signal;
    for (;;) {
      either.throwIfAborted();
      const waitMs = this.#notBefore - performance.now();
      if (waitMs > 0) await until(either, sleep(waitMs, undefined, { signal: either }));
      else if (this.#trial) await until(either, this.#trial.promise);
      else break;
    }
    const ticket = this.#ticket();
    try {
      await this.#gate.turn({ retry: this.#failures > 0 && !this.#proven, signal: either });
      return ticket;
    } catch (error) {
      ticket.abandoned();
      throw error;
    }
  }

  /** Another connection to a host that is connected. */
  more() {
    return this.#gate.turn({ retry: false, signal: this.#ending.signal });
  }

  /** The host is gone, or reached in another way now: nobody waits any more. @param {Error} reason */
  end(reason) {
    this.#ending.abort(reason);
  }

  /** @returns {Turn} */
  #ticket() {
    const trial = this.#proven ? null : Promise.withResolvers();
    if (trial) this.#trial = /** @type {PromiseWithResolvers<void>} */ (trial);
    const begunAfter = this.#failures;
    let told = false;
    /** @param {() => void} effect */
    const once = effect => {
      if (told) return;
      told = true;
      effect();
      if (this.#trial === trial) this.#trial = null;
      trial?.resolve(undefined);
    };
    return {
      succeeded: () =>
        once(() => {
          this.#proven = true;
          this.#notBefore = 0;
          this.#backoff.reset();
          this.#backoffRefused.reset();
        }),
      failed: code =>
        once(() => {
          if (this.#failures !== begunAfter) return;
          this.#failures += 1;
          this.#proven = false;
          const backoff = isSshRefusal(code) ? this.#backoffRefused : this.#backoff;
          this.#notBefore = performance.now() + backoff.next();
        }),
      abandoned: () => once(() => {}),
    };
  }
}

/**
 * @param {AbortSignal} signal
 * @param {Promise<void>} wait
 */
async function until(signal, wait) {
  /** @type {PromiseWithResolvers<void>} */
  const left = Promise.withResolvers();
  const leave = () => left.resolve();
  signal.addEventListener('abort', leave, { once: true });
  await Promise.race([wait.catch(() => {}), left.promise]);
  signal.removeEventListener('abort', leave);
}
