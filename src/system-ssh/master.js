/**
 * One TCP connection: an `ssh -M -N` process and its control socket. Made and closed by the session pool.
 * start() ends when the socket accepts sessions, or with the error in ssh's own words. `gone` is fulfilled when
 * the process is no more, with the reason unless close() was called. The process ends with this one, however
 * this one ends: the shell that its LocalCommand leaves behind watches the master's stdin (ssh-config.js).
 */
import { PgsluiceError } from '../base/errors.js';
import { classifySshFailure } from './failure.js';
import { DIRECTORY_VARIABLE, READY, TARGET, masterConfig, sessionConfig } from './ssh-config.js';
import { startSsh } from './ssh-process.js';

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {import('./control-directory.js').ControlDirectory} ControlDirectory */

/** Enough for the largest message of ssh (a changed key, 1 KiB) after a login banner. */
const STDERR_KEPT_CHARS = 8192;

/**
 * ssh 9.2 only looks for a signal before it waits for packets: one that arrives in between is seen with the next
 * packet, or interrupts the wait when it is sent again.
 */
const TERMINATION_REPEAT_MS = 100;

/** A master that is stopped or stuck in a write gets no longer than this to end by itself. */
const TERMINATION_GRACE_MS = 5_000;

/** channels.c, channel_input_open_failure. */
const REFUSED_CHANNEL = /^channel \d+: open failed: .*$/gm;

/** How long the stderr of an ended master is waited for. */
const LAST_WORDS_MS = 500;

export class Master {
  #settings;
  #directory;
  #name;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #stderr = '';
  /** @type {PgsluiceError | undefined} why we ended it ourselves */
  #cause;
  #closing = false;
  #running = false;
  #ready = false;
  /** @type {PromiseWithResolvers<PgsluiceError | undefined>} */
  #gone = Promise.withResolvers();

  /** Sessions that hold a place on this connection: opened, or asked for and not yet answered. */
  occupied = 0;
  /** Whether the server ever opened a session here. */
  everOpened = false;
  /** Whether a session ever ended here: then the server may still count one that we do not. */
  everEnded = false;
  /** How many sessions at once this connection is used for. */
  limit;
  /** performance.now() before which it is not offered to sessions, after a refusal that says nothing about its limit. */
  restUntilMs = 0;
  /** Lines "channel N: open failed" so far: a forwarding has no other sign that the server refused it. */
  refusedChannels = 0;

  /**
   * @param {Settings} settings
   * @param {ControlDirectory} directory
   * @param {number} index unique in the directory
   */
  constructor(settings, directory, index) {
    this.#settings = settings;
    this.#directory = directory;
    this.#name = `m${index}`;
    this.limit = settings.maxSessions;
    this.controlPath = directory.file(this.#name);
    /** Configuration file of the processes that use this master. */
    this.sessionConfigPath = directory.file(`${this.#name}.session`);
  }

  get pid() {
    return this.#child?.pid;
  }

  /** The process runs and was not told to end. */
  get alive() {
    return this.#running && !this.#closing;
  }

  get ready() {
    return this.#ready && this.alive;
  }

  /** @returns {Promise<void>} rejects with a PgsluiceError once the process is gone */
  start() {
    let config;
    try {
      config = this.#directory.write(`${this.#name}.config`, masterConfig(this.#settings, this.controlPath));
      this.#directory.write(`${this.#name}.session`, sessionConfig(this.controlPath));
    } catch (cause) {
      const { message } = /** @type {Error} */ (cause);
      const error = new PgsluiceError(
        'DIRECTORY_UNUSABLE',
        `control directory ${this.#directory.path} cannot be written (${message}): make room`,
        { cause },
      );
      this.#gone.resolve(error);
      return Promise.reject(error);
    }
    return new Promise((resolve, reject) => {
      this.#running = true;
      const deadline = setTimeout(() => {
        const message = `${this.#settings.host} did not answer within ${this.#settings.connectTimeoutMs} ms`;
        this.#cause = new PgsluiceError('SSH_UNREACHABLE', message);
        this.close();
      }, this.#settings.connectTimeoutMs);
      this.#child = startSsh(
        this.#settings.program,
        ['-F', config, '-N', '-T', '--', TARGET],
        ['pipe', 'pipe', 'pipe'],
        { [DIRECTORY_VARIABLE]: this.#directory.path },
        ({ failure }) => {
          clearTimeout(deadline);
          this.#running = false;
          const { stderr } = this.#child ?? {};
          if (failure || !stderr || stderr.destroyed) {
            this.#ended(failure, reject);
            return;
          }
          // What ssh said last may still be in the pipe; a ProxyCommand that lives on may keep it open.
          const patience = setTimeout(() => stderr.destroy(), LAST_WORDS_MS);
          stderr.once('close', () => {
            clearTimeout(patience);
            this.#ended(failure, reject);
          });
        },
      );
      // EPIPE, ECONNRESET: the exit tells more.
      for (const pipe of [this.#child?.stdin, this.#child?.stdout, this.#child?.stderr])
        pipe?.on('error', () => {});
      this.#child?.stderr?.setEncoding('utf8').on('data', text => this.#hear(text));
      let heard = '';
      this.#child?.stdout?.setEncoding('utf8').on('data', text => {
        if (this.#ready) return;
        heard = (heard + text).slice(-2 * READY.length);
        if (!heard.includes(`${READY}\n`)) return;
        clearTimeout(deadline);
        this.#ready = true;
        // A banner and what else came with the login does not explain a later end.
        this.#stderr = '';
        resolve();
      });
    });
  }

  /** Always fulfilled. @returns {Promise<PgsluiceError | undefined>} */
  get gone() {
    return this.#gone.promise;
  }

  /** Ends the connection with all its sessions. `gone` tells when it is done. */
  close() {
    if (!this.alive) return;
    this.#closing = true;
    this.#child?.kill('SIGTERM');
    const again = setInterval(() => this.#child?.kill('SIGTERM'), TERMINATION_REPEAT_MS);
    const force = setTimeout(() => this.#child?.kill('SIGKILL'), TERMINATION_GRACE_MS);
    void this.gone.then(() => [again, force].forEach(clearTimeout));
  }

  /** @param {string} text */
  #hear(text) {
    // A line can arrive in two pieces: count in what is kept, where both are joined.
    const before = countRefusals(this.#stderr);
    const joined = this.#stderr + text;
    this.refusedChannels += countRefusals(joined) - before;
    this.#stderr = joined.slice(-STDERR_KEPT_CHARS);
  }

  /**
   * @param {PgsluiceError | undefined} failure
   * @param {(error: PgsluiceError) => void} reject
   */
  #ended(failure, reject) {
    const error = failure ?? this.#cause ?? this.#failure();
    if (!this.#ready) reject(error);
    this.#gone.resolve(this.#closing && !this.#cause ? undefined : error);
  }

  #failure() {
    // Refused channels have been reported to those who asked for them; here they would be taken for the cause.
    const { code, words } = classifySshFailure(
      this.#ready ? this.#stderr.replace(REFUSED_CHANNEL, '') : this.#stderr,
    );
    return new PgsluiceError(code, `SSH to ${this.#settings.host}: ${words}`);
  }
}

/** @param {string} text @returns {number} */
function countRefusals(text) {
  return text.match(REFUSED_CHANNEL)?.length ?? 0;
}
