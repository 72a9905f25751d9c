/**
 * Which of the waiting records of a LineParser are done, and how far the file is dealt with. Records are written in the
 * order of their first lines, each when it is complete and all before it are; recordOffset is where the first one that
 * still waits begins. What waits is bounded: beyond maxWaitingBytes or MAX_WAITING_RECORDS all are completed as they are.
 * `at` is a file offset up to which all lines belong to records. Called with every line; throws nothing.
 */

/** @import { LineWindow } from './line-window.js' */
/** @import { RecordWriter } from './record-writer.js' */
/** @import { RowSink } from './row-sink.js' */
/** @import { WaitingRecords } from './waiting-records.js' */

const MAX_WAITING_RECORDS = 16_384;

export class RecordRelease {
  #records;
  #writer;
  #window;
  #maxWaitingBytes;

  /** what to commit: all before it is stored or rejected, nothing of what comes after */
  recordOffset;

  /**
   * @param {{ records: WaitingRecords, writer: RecordWriter, window: LineWindow }} parts of the parser
   * @param {{ offset: number, maxWaitingBytes: number }} options offset: in the file, of the first byte
   */
  constructor({ records, writer, window }, { offset, maxWaitingBytes }) {
    this.#records = records;
    this.#writer = writer;
    this.#window = window;
    this.#maxWaitingBytes = maxWaitingBytes;
    this.recordOffset = offset;
  }

  /**
   * Writes what may be written.
   * @param {number} at
   * @param {RowSink} out
   */
  advance(at, out) {
    const records = this.#records;
    if (records.count === 0) {
      if (at > this.recordOffset) this.recordOffset = at;
      return;
    }
    const releasable = records.releasable(at);
    if (releasable === 0) return;
    for (let index = 0; index < releasable; index += 1) {
      this.#writer.write(records, records.slotAt(index), this.#window, out);
    }
    this.recordOffset = releasable === records.count ? at : records.start[records.slotAt(releasable)];
    records.drop(releasable);
  }

  /**
   * @param {number} at
   * @param {RowSink} out
   */
  completeAll(at, out) {
    this.#records.completeAll();
    this.advance(at, out);
  }

  /**
   * Completes and writes all records but one; that one too if others lie within it.
   * @param {number} slot
   * @param {number} at
   * @param {RowSink} out
   * @returns {boolean} whether it is open, and the only one, and all bytes from its start to `at` are its own
   */
  isAlone(slot, at, out) {
    const records = this.#records;
    if (!records.isContiguous(slot, at)) {
      this.completeAll(at, out);
      return false;
    }
    records.completeAll(records.lastNumber());
    this.advance(at, out);
    return true;
  }

  /**
   * Keeps what waits within its limits before a label is added to a record.
   * @param {number} slot
   * @param {number} at where the label's line begins
   * @param {RowSink} out
   * @returns {boolean} whether the record is still open
   */
  keepsWaiting(slot, at, out) {
    // Otherwise it would depend on when this was last done, that is on how the bytes were cut.
    this.advance(at, out);
    if (at - this.recordOffset - this.#records.bytes[slot] <= this.#maxWaitingBytes) return true;
    return this.isAlone(slot, at, out);
  }

  /**
   * The same before a record begins.
   * @param {number} at where its first line begins
   * @param {RowSink} out
   */
  limit(at, out) {
    if (at - this.recordOffset > this.#maxWaitingBytes || this.#records.count >= MAX_WAITING_RECORDS)
      this.completeAll(at, out);
  }
}
