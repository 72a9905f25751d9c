/**
 * How long a stream waits before it begins again, by what ended it: counts that do not touch each other.
 *   refused   an operator must act (host key, authentication): slowly at once, for hours if need be
 *   sessions  the server has no room for one more session (MaxSessions, MaxStartups): the connection is fine
 *   storage   it is away: asking it costs little, and all hosts wait for it
 *   usual     all else: unreachable, silent, the follower failed
 * Codes in, milliseconds out. Reads no clock.
 */
import { Backoff } from '../base/backoff.js';
import { isSshRefusal } from '../base/ssh-refusal.js';

const USUAL = { initialMs: 1_000, maxMs: 60_000, factor: 2, jitter: 0.2 };
const STORAGE = { initialMs: 1_000, maxMs: 10_000, factor: 2, jitter: 0.5 };
const SESSIONS = { initialMs: 5_000, maxMs: 120_000, factor: 2, jitter: 0.4 };
const REFUSED = { initialMs: 30_000, maxMs: 600_000, factor: 2, jitter: 0.2 };
const SETTLED_MS = 10_000; // a stream that has read this long begins its back-off anew

export class StreamBackoff {
  #usual = new Backoff(USUAL);
  #storage = new Backoff(STORAGE);
  #sessions = new Backoff(SESSIONS);
  #refused = new Backoff(REFUSED);

  /** @param {import('../base/errors.js').ErrorCode} code @returns {number} milliseconds */
  next(code) {
    if (isSshRefusal(code)) return this.#refused.next();
    if (code === 'STORAGE_UNREACHABLE') return this.#storage.next();
    return (code === 'SSH_SESSION_REFUSED' ? this.#sessions : this.#usual).next();
  }

  /** It was connected and has read. @param {number} readMs for so long */
  hasRead(readMs) {
    this.#refused.reset();
    this.#sessions.reset();
    if (readMs <= SETTLED_MS) return;
    this.#usual.reset();
    this.#storage.reset();
  }
}
