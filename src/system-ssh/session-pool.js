/**
 * Which session goes over which connection. A server allows a number of sessions on one connection (MaxSessions
 * in sshd_config, 10 by default); when all are in use another connection is opened, and closed again after its
 * last session. What the server refuses teaches the real number; a refused session moves to another connection,
 * and fails with SSH_SESSION_REFUSED when even a fresh one refuses its first. Policy only: connections and
 * processes are made by the two functions given. Every request ends in open() or fail(), exactly once.
 */
import { PgsluiceError } from '../base/errors.js';

/** @typedef {import('./master.js').Master} Master */
/**
 * @typedef {object} SessionRequest
 * @property {string} command
 * @property {import('node:child_process').StdioOptions} stdio
 * @property {(stream: import('./mux-stream.js').MuxStream) => void} open
 * @property {(error: PgsluiceError) => void} fail
 */

/**
 * @typedef {object} SessionEvents
 * @property {(stream: import('./mux-stream.js').MuxStream) => void} opened
 * @property {(error: PgsluiceError) => void} failed instead of opened
 * @property {() => void} gone after either
 */

/** A connection on which a session lingers that we have ended gets this long before it is asked again. */
const REST_AFTER_REFUSAL_MS = 10_000;

export class SessionPool {
  /** @type {Master[]} that accept sessions; the first is the connection itself and is never closed here */
  #masters = [];
  #connecting = 0;
  /** @type {SessionRequest[]} */
  #queue = [];
  #budget;
  #startMaster;
  #startSession;
  /** @type {PgsluiceError | undefined} */
  #closed;

  /**
   * @param {number} maxSessions
   * @param {() => Promise<Master>} startMaster rejects with a PgsluiceError
   * @param {(master: Master, request: SessionRequest, events: SessionEvents) => void} startSession
   */
  constructor(maxSessions, startMaster, startSession) {
    this.#budget = maxSessions;
    this.#startMaster = startMaster;
    this.#startSession = startSession;
  }

  /** @param {Master} master that has become ready */
  add(master) {
    master.limit = Math.min(master.limit, this.#budget);
    this.#masters.push(master);
    this.#serve();
  }

  /** @param {Master} master that is gone */
  remove(master) {
    this.#masters = this.#masters.filter(other => other !== master);
  }

  /** @param {SessionRequest} request */
  request(request) {
    if (this.#closed) {
      request.fail(this.#closed);
      return;
    }
    this.#queue.push(request);
    this.#serve();
  }

  /** Fails what waits; nothing is started any more. @param {PgsluiceError} error */
  close(error) {
    this.#closed ??= error;
    for (const request of this.#queue.splice(0)) request.fail(error);
  }

  #serve() {
    if (this.#closed) return;
    for (const master of this.#masters) {
      while (hasRoom(master)) {
        const request = this.#queue.shift();
        if (!request) break;
        this.#start(master, request);
      }
    }
    while (this.#queue.length > this.#connecting * this.#budget) void this.#connect();
    if (this.#queue.length > 0) return;
    for (const master of this.#masters.slice(1)) {
      if (master.occupied > 0) continue;
      this.remove(master);
      master.close();
    }
  }

  async #connect() {
    this.#connecting += 1;
    let master;
    try {
      master = await this.#startMaster();
    } catch (error) {
      this.#connecting -= 1;
      // Those that it was opened for. Trying again at once would be a loop against a server that refuses us.
      const refusal =
        error instanceof PgsluiceError ? error : new PgsluiceError('SSH_PROTOCOL', String(error));
      for (const request of this.#queue.splice(0, this.#budget)) request.fail(refusal);
      this.#serve();
      return;
    }
    this.#connecting -= 1;
    this.add(master);
  }

  /** @param {Master} master @param {SessionRequest} request */
  #start(master, request) {
    master.occupied += 1;
    let opened = false;
    /** @type {PgsluiceError | undefined} */
    let failure;
    this.#startSession(master, request, {
      opened: stream => {
        opened = true;
        master.everOpened = true;
        request.open(stream);
      },
      failed: error => {
        failure = error;
      },
      gone: () => {
        master.occupied -= 1;
        if (opened) master.everEnded = true;
        else if (failure) this.#failed(master, request, failure);
        this.#serve();
      },
    });
  }

  /** @param {Master} master @param {SessionRequest} request @param {PgsluiceError} error */
  #failed(master, request, error) {
    const fresh = !master.everOpened && master.occupied === 0;
    if (error.code !== 'SSH_SESSION_REFUSED' || fresh || this.#closed) {
      request.fail(error);
      return;
    }
    if (master.everEnded) {
      // The server may still count a command that outlives the session: no evidence of its limit.
      master.restUntilMs = performance.now() + REST_AFTER_REFUSAL_MS;
    } else {
      this.#budget = Math.min(this.#budget, Math.max(1, master.occupied));
      for (const each of this.#masters) each.limit = Math.min(each.limit, this.#budget);
    }
    this.#queue.unshift(request);
  }
}

/** @param {Master} master */
function hasRoom(master) {
  return master.ready && master.occupied < master.limit && performance.now() >= master.restUntilMs;
}
