/**
 * A growable buffer that collects COPY BINARY rows for one batch.
 * Encoders ask for room with ensure(), write straight into `buffer`/`view` from `length` on, and then move `length`
 * and `rows`; a row that turns out wrong is undone by not moving them. The caller sends COPY_HEADER before the
 * first batch of a COPY and COPY_TRAILER after the last. Memory is kept between batches, because allocating and
 * faulting in megabytes a second costs more than encoding into them.
 */

/**
 * Format: PostgreSQL manual, COPY, "Binary Format".
 *   'PGCOPY\n\xff\r\n\0' | int32 flags = 0 | int32 header extension length = 0
 */
export const COPY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');

/** An int16 field count of -1. */
export const COPY_TRAILER = Buffer.from([0xff, 0xff]);

/** Past this many times the configured size the memory goes back when the batch is done: one huge record is rare. */
const SHRINK_ABOVE = 4;

const DEFAULT_SIZE_BYTES = 1024 * 1024;

export class CopyBuffer {
  #sizeBytes;

  /** @param {number} [sizeBytes] what a usual batch needs */
  constructor(sizeBytes = DEFAULT_SIZE_BYTES) {
    this.#sizeBytes = sizeBytes;
    /** @type {Buffer} replaced by ensure() and reset(): never keep it across them */
    this.buffer = Buffer.allocUnsafeSlow(sizeBytes);
    /** @type {DataView} of the same memory */
    this.view = viewOf(this.buffer);
    /** bytes written */
    this.length = 0;
    /** complete rows in them */
    this.rows = 0;
  }

  /**
   * Makes room for `count` more bytes after `length`. Grows by doubling, so that appending stays linear.
   * @param {number} count
   */
  ensure(count) {
    const needed = this.length + count;
    if (needed <= this.buffer.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.buffer.length * 2));
    this.buffer.copy(grown, 0, 0, this.length);
    this.buffer = grown;
    this.view = viewOf(grown);
  }

  /** @returns {Buffer} the rows so far: a view, valid until the next ensure() or reset() */
  bytes() {
    return this.buffer.subarray(0, this.length);
  }

  /** Forgets the rows. The caller must be done with bytes(): the memory is written again. */
  reset() {
    this.length = 0;
    this.rows = 0;
    if (this.buffer.length <= this.#sizeBytes * SHRINK_ABOVE) return;
    this.buffer = Buffer.allocUnsafeSlow(this.#sizeBytes);
    this.view = viewOf(this.buffer);
  }
}

/**
 * @param {Buffer} buffer
 * @returns {DataView}
 */
function viewOf(buffer) {
  return new DataView(buffer.buffer, buffer.byteOffset, buffer.length);
}
