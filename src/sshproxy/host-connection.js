/**
 * The one SSH connection of a host, shared by its streams: made when the first session is asked for, made again after
 * it broke, ended when nobody has used it for a while. A connection that failed is not tried again before its
 * back-off has passed, however many streams ask.
 */
import { Backoff } from '../base/backoff.js';
import { PgsluiceError } from '../base/errors.js';
import { Client } from '../system-ssh/index.js';
import { opensshConfig } from '../transport/openssh-config.js';

/** @typedef {import('../ipc/messages.js').HostSpec} HostSpec */
/** @typedef {import('../ipc/messages.js').ProxySettings} ProxySettings */

const IDLE_MS = 30_000;
const BACKOFF = { initialMs: 500, maxMs: 30_000, factor: 2, jitter: 0.2 };

export class HostConnection {
  #spec;
  #settings;
  #gate;
  #stats;
  /** @type {Promise<Client> | null} */
  #connecting = null;
  /** @type {Client | null} */
  #client = null;
  #sessions = 0;
  #backoff = new Backoff(BACKOFF);
  #notBefore = 0;
  /** @type {NodeJS.Timeout | null} */
  #idleTimer = null;
  #ended = false;

  /**
   * @param {HostSpec} spec
   * @param {ProxySettings} settings
   * @param {import('./connect-gate.js').ConnectGate} gate
   * @param {{ connections: number, connects: number, failures: Record<string, number> }} stats
   */
  constructor(spec, settings, gate, stats) {
    this.#spec = spec;
    this.#settings = settings;
    this.#gate = gate;
    this.#stats = stats;
  }

  /** Whether the inventory still says the same of the host. @param {HostSpec} spec */
  serves(spec) {
    return !this.#ended && JSON.stringify(spec) === JSON.stringify(this.#spec);
  }

  /**
   * Runs a command in a session whose stdout is a descriptor.
   * @param {string} command
   * @param {number} stdout given to ssh; the caller closes its own
   * @returns {Promise<import('../system-ssh/client.js').MuxStream>}
   */
  async exec(command, stdout) {
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
    this.#sessions += 1;
    try {
      const client = await this.#connect();
      const stream = await new Promise((resolve, reject) => {
        client.exec(command, { stdio: ['pipe', stdout, 'pipe'] }, (error, opened) => {
          if (error) reject(error);
          else resolve(opened);
        });
      });
      stream.once('close', () => this.#sessionEnded());
      return stream;
    } catch (error) {
      this.#sessionEnded();
      throw error;
    }
  }

  end() {
    this.#ended = true;
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    this.#client?.end();
  }

  #sessionEnded() {
    this.#sessions -= 1;
    if (this.#sessions === 0 && !this.#ended) {
      this.#idleTimer = setTimeout(() => {
        this.#client?.end();
        this.#client = null;
        this.#connecting = null;
      }, IDLE_MS);
    }
  }

  /** @returns {Promise<Client>} */
  #connect() {
    this.#connecting ??= this.#connectNow();
    const connecting = this.#connecting;
    connecting.catch(() => {
      if (this.#connecting === connecting) this.#connecting = null;
    });
    return connecting;
  }

  /** @returns {Promise<Client>} */
  async #connectNow() {
    const waitMs = this.#notBefore - performance.now();
    if (waitMs > 0) await new Promise(resolve => setTimeout(resolve, waitMs));
    await this.#gate.turn();
    if (this.#ended)
      throw new PgsluiceError('SSH_PROTOCOL', `${this.#spec.name}: the host was removed or changed`);
    this.#stats.connects += 1;
    const client = new Client();
    try {
      await new Promise((resolve, reject) => {
        client.once('ready', () => resolve(undefined));
        client.once('error', reject);
        client.once('close', () => reject(new PgsluiceError('SSH_PROTOCOL', 'the connection was closed')));
        client.connect(opensshConfig(this.#spec, this.#settings, this.#settings.directory));
      });
    } catch (error) {
      const code = error instanceof PgsluiceError ? error.code : 'SSH_PROTOCOL';
      this.#stats.failures[code] = (this.#stats.failures[code] ?? 0) + 1;
      this.#notBefore = performance.now() + this.#backoff.next();
      throw error instanceof PgsluiceError
        ? new PgsluiceError(error.code, `${this.#spec.name}: ${error.message}`, { cause: error })
        : error;
    }
    this.#backoff.reset();
    this.#stats.connections += 1;
    this.#client = client;
    client.on('error', () => {}); // its sessions end, and say so
    client.once('close', () => {
      this.#stats.connections -= 1;
      if (this.#client !== client) return;
      this.#client = null;
      this.#connecting = null;
    });
    if (this.#ended) client.end();
    return client;
  }
}
