/**
 * Mechanism: keeps one child process running. Policy (what the child is for) is elsewhere.
 * A child that ends is started again: at once if it had lived a while, with a growing delay if it died young, so a
 * child that cannot work throttles itself and not the machine. One that says nothing any more is ended: it hangs, and
 * what it read would not be read by anybody.
 */
import { fork } from 'node:child_process';
import { Backoff } from '../base/backoff.js';
import { isKnown, nameOf } from '../ipc/known-messages.js';

const YOUNG_MS = 10_000;
const SILENT_MAX_MS = 120_000; // reports come every second; a child that was stopped for a minute goes on where it was
const SILENT_TICKS = 10;
const DISCONNECTED_MAX_MS = 5_000; // a child without a channel ends by itself; one that hangs is of no use
const BACKOFF = { initialMs: 500, maxMs: 30_000, factor: 2, jitter: 0.2 };

/**
 * @template To
 * @template From
 */
export class ChildProcess {
  #options;
  /** @type {import('node:child_process').ChildProcess | null} */
  #child = null;
  #backoff = new Backoff(BACKOFF);
  /** @type {NodeJS.Timeout | null} */
  #timer = null;
  #stopping = false;
  /** @type {() => void} */
  #onGone = () => {};

  restarts = 0;

  /**
   * @param {object} options
   * @param {string} options.name for the log
   * @param {URL} options.program
   * @param {string[]} options.execArgv V8 flags
   * @param {import('../ipc/known-messages.js').Messages} options.messages that it may send
   * @param {() => void} options.onStart the process is there: configure it
   * @param {(message: From) => void} options.onMessage
   * @param {number} [options.silentMaxMs] after which a child that sends nothing is ended
   * @param {(how: string) => void} options.onExit it is gone; it will be started again unless it was stopped
   * @param {import('../base/logger.js').Logger} options.log
   */
  constructor(options) {
    this.#options = options;
  }

  get pid() {
    return this.#child?.pid ?? null;
  }

  start() {
    const { name, program, execArgv, messages, onStart, onMessage, onExit, log } = this.#options;
    const { silentMaxMs = SILENT_MAX_MS } = this.#options;
    const startedAt = performance.now();
    const child = fork(program, [name], {
      execArgv,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    let silentTicks = 0;
    // Counted and not measured: after a standstill of our own, what was sent meanwhile is heard before the next tick.
    const watch = setInterval(() => {
      silentTicks += 1;
      if (silentTicks <= SILENT_TICKS) return;
      log.error(`${name} has said nothing for ${silentMaxMs / 1000} s: it is ended`);
      child.kill('SIGKILL');
    }, silentMaxMs / SILENT_TICKS);
    let gone = false;
    /** @param {string} how */
    const ended = how => {
      if (gone) return;
      gone = true;
      clearInterval(watch);
      this.#child = null;
      this.#onGone();
      onExit(how);
      if (this.#stopping) return;
      this.restarts += 1;
      if (performance.now() - startedAt > YOUNG_MS) this.#backoff.reset();
      const delayMs = this.#backoff.next();
      log.error({ retryInMs: Math.round(delayMs) }, `${name} ${how}: it is started again`);
      this.#timer = setTimeout(() => this.start(), delayMs);
    };
    child.on('message', message => {
      silentTicks = 0;
      if (isKnown(messages, message)) onMessage(/** @type {From} */ (message));
      else log.warn(`a message of ${name} is not understood: ${nameOf(message)}`);
    });
    child.on('disconnect', () => {
      const timer = setTimeout(() => child.kill('SIGKILL'), DISCONNECTED_MAX_MS);
      child.once('exit', () => clearTimeout(timer));
    });
    child.on('error', error => ended(`could not be started (${error.message})`));
    child.on('exit', (code, signal) =>
      ended(signal ? `was ended by ${signal}` : `ended with exit code ${code}`),
    );
    onStart();
  }

  /** @param {To} message lost if the process is not there, as is everything the process knew */
  send(message) {
    const child = this.#child;
    if (child?.connected)
      child.send(/** @type {import('node:child_process').Serializable} */ (message), () => {});
  }

  /**
   * @param {To} stopMessage
   * @param {number} limitMs after which it is killed
   */
  async stop(stopMessage, limitMs) {
    this.#stopping = true;
    if (this.#timer) clearTimeout(this.#timer);
    const child = this.#child;
    if (!child) return;
    const gone = new Promise(resolve => {
      this.#onGone = () => resolve(undefined);
    });
    this.send(stopMessage);
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
    await gone;
    clearTimeout(timer);
  }
}
