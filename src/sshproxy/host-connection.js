/**
 * The one SSH connection of a host, shared by its streams: made when the first session is asked for, made again after
 * it broke, ended when nobody has used it for a while. Its pace is also that of connections that others make to the
 * host. What authorized_keys lets us do is settled at login: after a denial the next session gets a connection of its
 * own, and the old one goes on until its sessions have ended.
 */
import { mkdirSync } from 'node:fs';
import { PgsluiceError } from '../base/errors.js';
import { isSshRefusal } from '../base/ssh-refusal.js';
import { Client } from '../system-ssh/index.js';
import { opensshConfig } from '../transport/openssh-config.js';
import { HostPace } from './host-pace.js';

/** @typedef {import('../ipc/messages.js').ErrorReport} ErrorReport */
/** @typedef {import('../ipc/messages.js').HostSpec} HostSpec */
/** @typedef {import('../system-ssh/client.js').MuxStream} MuxStream */
/** @typedef {import('../ipc/messages.js').ProxySettings} ProxySettings */

const IDLE_MS = 30_000;

export class HostConnection {
  #spec;
  #settings;
  #stats;
  /** @type {Promise<Client> | null} */
  #connecting = null;
  /** @type {Client | null} */
  #client = null;
  #sessions = 0;
  /** @type {WeakMap<Client, Promise<Error | null>>} */
  #ends = new WeakMap();
  /** by connection, also of old ones @type {Map<Client, number>} */
  #sessionsOf = new Map();
  /** @type {WeakMap<MuxStream, Client>} */
  #clientOf = new WeakMap();
  /** @type {NodeJS.Timeout | null} */
  #idleTimer = null;
  #ended = false;
  /** why the host does not let us in, as it said last @type {ErrorReport | null} */
  refusal = null;

  /**
   * @param {HostSpec} spec
   * @param {ProxySettings} settings
   * @param {import('./connect-gate.js').ConnectGate} gate
   * @param {{ connections: number, connects: number, failures: Record<string, number> }} stats
   */
  constructor(spec, settings, gate, stats) {
    this.#spec = spec;
    this.#settings = settings;
    this.pace = new HostPace(gate);
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
   * @returns {Promise<{ stream: MuxStream, connectionEnd: Promise<Error | null> }>}
   *   connectionEnd: fulfilled when the connection of the session has ended, with what it said
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
      this.#sessionsOf.set(client, (this.#sessionsOf.get(client) ?? 0) + 1);
      this.#clientOf.set(stream, client);
      stream.once('close', () => this.#sessionEnded(client));
      return { stream, connectionEnd: this.#ends.get(client) ?? Promise.resolve(null) };
    } catch (error) {
      this.#sessionEnded();
      throw error;
    }
  }

  /** How an attempt to connect went, whoever made it. @param {ErrorReport | null} error */
  tried(error) {
    this.refusal = error !== null && isSshRefusal(error.code) ? error : null;
    if (error !== null) this.#stats.failures[error.code] = (this.#stats.failures[error.code] ?? 0) + 1;
  }

  /** The server denied what this session asked for. @param {MuxStream} stream */
  denied(stream) {
    const client = this.#clientOf.get(stream);
    if (client === undefined || client !== this.#client) return;
    this.#client = null;
    this.#connecting = null;
    if (!this.#sessionsOf.has(client)) client.end();
  }

  end() {
    this.#ended = true;
    this.pace.end(new PgsluiceError('SSH_PROTOCOL', `${this.#spec.name}: the host was removed or changed`));
    for (const client of this.#sessionsOf.keys()) client.end();
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    this.#client?.end();
  }

  /** @param {Client} [client] if it had begun */
  #sessionEnded(client) {
    this.#sessions -= 1;
    if (client) {
      const left = (this.#sessionsOf.get(client) ?? 0) - 1;
      if (left > 0) this.#sessionsOf.set(client, left);
      else this.#sessionsOf.delete(client);
      if (left === 0 && client !== this.#client) client.end();
    }
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
    const turn = await this.pace.turn();
    this.#stats.connects += 1;
    const client = new Client();
    const { directory } = this.#settings;
    try {
      // Somebody may have cleaned up the runtime directory.
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      await new Promise((resolve, reject) => {
        client.once('ready', () => resolve(undefined));
        client.once('error', reject);
        client.once('close', () => reject(new PgsluiceError('SSH_PROTOCOL', 'the connection was closed')));
        client.connect({
          ...opensshConfig(this.#spec, this.#settings, directory),
          beforeConnection: () => this.pace.more(),
        });
      });
    } catch (error) {
      const known = named(this.#spec.name, error);
      this.tried({ code: known.code, message: known.message });
      turn.failed(known.code);
      throw known;
    }
    this.tried(null);
    turn.succeeded();
    this.#stats.connections += 1;
    this.#client = client;
    /** @type {Error | null} */
    let words = null;
    client.on('error', error => (words = named(this.#spec.name, error)));
    this.#ends.set(client, new Promise(resolve => client.once('close', () => resolve(words))));
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

/** @param {string} host @param {unknown} error @returns {PgsluiceError} with the host's name */
function named(host, error) {
  const { message } = /** @type {Error} */ (error);
  const code = error instanceof PgsluiceError ? error.code : 'SSH_PROTOCOL';
  return new PgsluiceError(code, `${host}: ${message}`, { cause: error });
}
