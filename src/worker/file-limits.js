/**
 * How many files a host may make a stream know. A follower names each file once, and a server begins a few a second at
 * the very most; a host that lies names as many as it can, and each costs memory here and a row of pgsluice.file for
 * ever. New ones are paid from an allowance that survives reconnecting, and fills up again slowly.
 * Throws FOLLOWER_PROTOCOL: the stream waits, and no other is touched.
 */
import { PgsluiceError } from '../base/errors.js';

// A directory that nobody cleans, a rotation every second for five hours; 600 bytes of memory a file.
export const FILES_MAX = 20_000;
const NEW_FILES_PER_SECOND = 2;

export class FileLimits {
  #allowance = FILES_MAX;
  #filledAt = performance.now();

  /**
   * Another file is named.
   * @param {number} known files of the stream, this one not counted
   */
  take(known) {
    if (known >= FILES_MAX) {
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        `the host names more than ${FILES_MAX} log files: remove old ones, or follow fewer with --log`,
      );
    }
    const now = performance.now();
    this.#allowance = Math.min(
      FILES_MAX,
      this.#allowance + ((now - this.#filledAt) / 1000) * NEW_FILES_PER_SECOND,
    );
    this.#filledAt = now;
    if (this.#allowance < 1) {
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        `the host names more than ${NEW_FILES_PER_SECOND} new log files a second, without end: no server writes so many`,
      );
    }
    this.#allowance -= 1;
  }
}
