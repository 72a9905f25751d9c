/**
 * Collects what all streams of a worker parsed into batches, and commits one batch while the next one fills.
 * In: rows through `sink`, the streams that advanced through `touch`. Out: committed transactions (storage/batch.js).
 * A batch is committed when it holds maxBatchBytes, or maxBatchDelayMs after its first bytes. While one is being
 * committed and the next is full, `full` is true and readers pause: memory holds two batches, never more.
 * After a failure nothing in memory is trusted: both batches are dropped and onFailure makes every stream resume from
 * its committed position.
 */
import { CopyBuffer } from '../codec/copy-buffer.js';
import { encodeRejected } from '../codec/copy-rejected.js';
import { commitBatch } from '../storage/batch.js';
import { dayOf, ensurePartition, hasPartition } from '../storage/partitions.js';

/** @typedef {import('./stream.js').Stream} Stream */

/** What one batch holds. */
class Batch {
  /** @param {number} sizeBytes */
  constructor(sizeBytes) {
    this.records = new CopyBuffer(sizeBytes);
    this.rejected = new CopyBuffer(64 * 1024);
    /** @type {Set<number>} */
    this.days = new Set();
    /** @type {Set<Stream>} */
    this.streams = new Set();
  }

  get bytes() {
    return this.records.length + this.rejected.length;
  }

  clear() {
    this.records.reset();
    this.rejected.reset();
    this.days.clear();
    this.streams.clear();
  }
}

export class Batcher {
  #settings;
  #connect;
  #onRoom;
  #onFailure;
  /** filling @type {Batch} */
  #batch;
  /** empty, or the one being committed @type {Batch} */
  #spare;
  /** @type {Promise<void> | null} */
  #committing = null;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;
  /** a delay has passed, or the end of the process is near: commit as soon as the last commit is done */
  #due = false;
  /** @type {import('pg').Client | null} */
  #client = null;
  /** partitions that are known to exist */
  #partitions = new Set();

  totals = { batches: 0, records: 0, rejected: 0, bytes: 0, commitSeconds: 0, failures: 0 };

  /**
   * @param {object} options
   * @param {{ maxBatchBytes: number, maxBatchDelayMs: number }} options.settings
   * @param {() => Promise<import('pg').Client>} options.connect a new connection to the storage
   * @param {() => void} options.onRoom there is room again after `full`
   * @param {(error: unknown) => void} options.onFailure everything uncommitted was dropped
   */
  constructor({ settings, connect, onRoom, onFailure }) {
    this.#settings = settings;
    this.#connect = connect;
    this.#onRoom = onRoom;
    this.#onFailure = onFailure;
    this.#batch = new Batch(settings.maxBatchBytes);
    this.#spare = new Batch(settings.maxBatchBytes);
    /** @type {import('../codec/csvlog.js').RowSink} */
    this.sink = {
      rows: this.#batch.records,
      days: this.#batch.days,
      reject: rejected => encodeRejected(this.#batch.rejected, rejected, Date.now()),
    };
  }

  /** True while the next batch is full and the last one is not committed yet. */
  get full() {
    return this.#committing !== null && this.#batch.bytes >= this.#settings.maxBatchBytes;
  }

  /** Nothing is waiting to be committed. */
  get idle() {
    return this.#committing === null && this.#batch.streams.size === 0;
  }

  /**
   * The stream has advanced: its position is part of the batch that is filling.
   * @param {Stream} stream
   */
  touch(stream) {
    this.#batch.streams.add(stream);
    if (this.#batch.bytes >= this.#settings.maxBatchBytes) this.#due = true;
    if (this.#due) this.#commitNext();
    else this.#timer ??= setTimeout(() => this.flush(), this.#settings.maxBatchDelayMs);
  }

  /** Rows in the batch that is filling. */
  get counts() {
    return { records: this.#batch.records.rows, rejected: this.#batch.rejected.rows };
  }

  /**
   * Resolves when nothing of the stream is uncommitted any more: stored, or dropped with its batch.
   * @param {Stream} stream that reads nothing meanwhile
   */
  async drain(stream) {
    while (this.#batch.streams.has(stream) || (this.#committing && this.#spare.streams.has(stream))) {
      this.flush();
      await this.#committing;
    }
  }

  /** Commits what there is as soon as possible. */
  flush() {
    this.#due = true;
    this.#commitNext();
  }

  /** Resolves when all that was there at the call is committed or has failed. */
  async settle() {
    while (!this.idle) {
      this.flush();
      await this.#committing;
    }
  }

  async close() {
    if (this.#timer) clearTimeout(this.#timer);
    await this.#client?.end().catch(() => {});
  }

  #commitNext() {
    if (this.#committing || this.#batch.streams.size === 0) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#due = false;
    const batch = this.#batch;
    this.#batch = this.#spare;
    this.#spare = batch;
    this.sink.rows = this.#batch.records;
    this.sink.days = this.#batch.days;
    const advances = new Map([...batch.streams].map(stream => [stream.streamId, stream.takeAdvance()]));
    this.#committing = this.#commit(batch, advances).then(
      () => this.#committed(batch),
      error => this.#failed(error),
    );
  }

  /**
   * @param {Batch} batch
   * @param {Map<number, import('../storage/batch.js').StreamAdvance>} streams
   */
  async #commit(batch, streams) {
    const client = (this.#client ??= await this.#connect());
    await this.#ensurePartitions(client, batch);
    const started = performance.now();
    await commitBatch(client, { records: batch.records, rejected: batch.rejected, streams });
    this.totals.commitSeconds += (performance.now() - started) / 1000;
    this.totals.batches += 1;
    this.totals.records += batch.records.rows;
    this.totals.rejected += batch.rejected.rows;
    this.totals.bytes += batch.bytes;
  }

  /** @param {import('pg').Client} client @param {Batch} batch */
  async #ensurePartitions(client, batch) {
    const today = dayOf(Date.now());
    if (batch.rejected.rows > 0) await this.#ensurePartition(client, 'reject', today);
    for (const day of batch.days) {
      if (hasPartition(day, today)) await this.#ensurePartition(client, 'record', day);
    }
  }

  /** @param {import('pg').Client} client @param {'record' | 'reject'} table @param {number} day */
  async #ensurePartition(client, table, day) {
    const key = `${table} ${day}`;
    if (this.#partitions.has(key)) return;
    await ensurePartition(client, table, day);
    this.#partitions.add(key);
  }

  /** @param {Batch} batch */
  #committed(batch) {
    const wasFull = this.full;
    this.#committing = null;
    for (const stream of batch.streams) stream.committed();
    batch.clear();
    if (this.#batch.bytes >= this.#settings.maxBatchBytes || this.#due) this.#commitNext();
    if (wasFull) this.#onRoom();
  }

  /** @param {unknown} error */
  #failed(error) {
    this.totals.failures += 1;
    this.#committing = null;
    this.#due = false;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    // A connection that failed in the middle of a COPY is not used again.
    const client = this.#client;
    this.#client = null;
    this.#partitions.clear();
    client?.end().catch(() => {});
    this.#batch.clear();
    this.#spare.clear();
    this.#onFailure(error);
    this.#onRoom();
  }
}
