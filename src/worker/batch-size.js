/**
 * How large a batch may be: as batch.max_bytes says, or less while the storage is slow. All that is on its way is stored
 * before what comes next, so what one stream sends in masses is what the others wait for; smaller batches keep that wait
 * short. Pure.
 */

const SLOW_MS = 500; // from closing to COMMIT, with up to four batches before it
const FAST_MS = 250;
const SHRINK = 0.7;
const GROW = 1.25;
const LEAST_BYTES = 1024 * 1024; // below, a commit costs more than what it stores

export class BatchSize {
  #most;

  /** bytes at which a batch is closed */
  bytes;

  /** @param {number} maxBytes batch.max_bytes */
  constructor(maxBytes) {
    this.#most = maxBytes;
    this.bytes = maxBytes;
  }

  /**
   * @param {number} bytes of a batch that was stored
   * @param {number} ms between its closing and its end
   */
  stored(bytes, ms) {
    // What a batch of a few records takes tells nothing about full ones, unless it waited for them.
    if (ms > SLOW_MS) this.bytes = Math.max(Math.min(LEAST_BYTES, this.#most), this.bytes * SHRINK);
    else if (ms < FAST_MS && bytes >= this.bytes) this.bytes = Math.min(this.#most, this.bytes * GROW);
  }
}
