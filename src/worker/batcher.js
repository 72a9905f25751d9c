/**
 * Collects what all streams of a worker parsed into batches, and commits batches while the next one fills.
 * In: rows through `sink`, the streams that advanced through `touch`. Out: committed transactions (storage/batch.js).
 * A batch is closed when it holds maxBatchBytes, maxBatchDelayMs after its first bytes, or when nothing has come for
 * QUIET_MS and no other batch is on its way: then waiting would gain nothing. Up to PIPELINE closed
 * batches are on their way, each on its own connection: their COPYs run side by side, their positions are advanced
 * and committed strictly in order, so there is never a hole before a position. While all are on their way and the
 * next is full, `full` is true and readers pause: memory holds PIPELINE + 1 batches, never more.
 * With a redactor, secrets are taken out of rows as they come, at the latest when their batch is closed.
 * After a failure nothing in memory is trusted: all batches are dropped and onFailure makes every stream resume from
 * its committed position.
 */
import { CopyBuffer } from '../codec/copy-buffer.js';
import { encodeRejected } from '../codec/copy-rejected.js';
import { commitBatch } from '../storage/batch.js';
import { NeededPartitions } from './needed-partitions.js';

/** @typedef {import('./stream.js').Stream} Stream */
/** @typedef {import('../storage/batch.js').StreamAdvance} StreamAdvance */

// One backend copies slower than a worker parses, and waits for the disk at every commit. Measured on 2 cores, seconds
// for 379 MB: 1: 5.2, 2: 3.8, 3: 3.6, 4: 3.4.
const PIPELINE = 4;
const QUIET_MS = 50; // a follower that is behind sends more within a few milliseconds
const CHUNK_SLACK_BYTES = 1024 * 1024; // a batch is closed after the chunk that filled it
const REJECTED_BYTES = 64 * 1024;

/** What one batch holds. */
class Batch {
  /** @param {number} sizeBytes */
  constructor(sizeBytes) {
    this.records = new CopyBuffer(sizeBytes + CHUNK_SLACK_BYTES);
    this.rejected = new CopyBuffer(REJECTED_BYTES);
    /** bytes of records that secrets were taken out of */
    this.redacted = 0;
    /** @type {Set<number>} */
    this.days = new Set();
    /** @type {import('../codec/row-sink.js').CutRecord[]} */
    this.cuts = [];
    /** @type {Set<Stream>} */
    this.streams = new Set();
  }

  get bytes() {
    return this.records.length + this.rejected.length;
  }

  clear() {
    this.records.reset();
    this.rejected.reset();
    this.redacted = 0;
    this.days.clear();
    this.cuts = [];
    this.streams.clear();
  }
}

export class Batcher {
  #settings;
  #connect;
  #redactor;
  #onRoom;
  #onFailure;
  /** filling @type {Batch} */
  #batch;
  /** empty @type {Batch[]} */
  #spare = [];
  /** on their way, the oldest first @type {{ batch: Batch, done: Promise<void> }[]} */
  #closed = [];
  /** connections that are not in use @type {import('pg').Client[]} */
  #clients = [];
  /** raised by a failure: what began before it ends in nothing */
  #generation = 0;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;
  /** runs again from the last bytes @type {NodeJS.Timeout} */
  #quiet;
  /** the delay has passed, or somebody waits: close the batch as soon as there is a place for it */
  #due = false;
  #partitions = new NeededPartitions();

  totals = { batches: 0, records: 0, rejected: 0, bytes: 0, commitSeconds: 0, failures: 0 };

  /**
   * @param {object} options
   * @param {{ maxBatchBytes: number, maxBatchDelayMs: number }} options.settings
   * @param {() => Promise<import('pg').Client>} options.connect a new connection to the storage
   * @param {import('../codec/redact.js').Redactor | null} options.redactor null: everything is stored as it is
   * @param {() => void} options.onRoom there is room again after `full`
   * @param {(error: unknown) => void} options.onFailure everything uncommitted was dropped
   */
  constructor({ settings, connect, redactor, onRoom, onFailure }) {
    this.#settings = settings;
    this.#connect = connect;
    this.#redactor = redactor;
    this.#onRoom = onRoom;
    this.#onFailure = onFailure;
    this.#quiet = setTimeout(() => {
      if (this.#closed.length === 0) this.flush();
    }, QUIET_MS);
    this.#batch = new Batch(settings.maxBatchBytes);
    for (let n = 0; n < PIPELINE; n += 1) this.#spare.push(new Batch(settings.maxBatchBytes));
    /** @type {import('../codec/row-sink.js').RowSink} */
    this.sink = {
      rows: this.#batch.records,
      days: this.#batch.days,
      receivedAtMs: 0,
      reject: rejected =>
        encodeRejected(
          this.#batch.rejected,
          redactor === null ? rejected : redactor.redactRejected(rejected),
          Date.now(),
        ),
      cut: cut => this.#batch.cuts.push(cut),
    };
  }

  /** True while the next batch is full and there is no place for it. */
  get full() {
    return this.#spare.length === 0 && this.#batch.bytes >= this.#settings.maxBatchBytes;
  }

  /** Rows in the batch that is filling. */
  get counts() {
    return { records: this.#batch.records.rows, rejected: this.#batch.rejected.rows };
  }

  /**
   * Takes rows in.
   * @param {(sink: import('../codec/row-sink.js').RowSink) => void} work
   */
  store(work) {
    this.sink.receivedAtMs = Date.now();
    work(this.sink);
    this.#redact();
  }

  /**
   * The stream has advanced: its position is part of the batch that is filling.
   * @param {Stream} stream
   */
  touch(stream) {
    this.#batch.streams.add(stream);
    if (this.#due || this.#batch.bytes >= this.#settings.maxBatchBytes) {
      this.#closeBatch();
    } else {
      this.#timer ??= setTimeout(() => this.flush(), this.#settings.maxBatchDelayMs);
      this.#quiet.refresh();
    }
  }

  /** Commits what there is as soon as possible. */
  flush() {
    this.#due = true;
    this.#closeBatch();
  }

  /**
   * Resolves when nothing of the stream is uncommitted any more: stored, or dropped with its batch.
   * @param {Stream} stream that reads nothing meanwhile
   */
  async drain(stream) {
    for (;;) {
      if (this.#batch.streams.has(stream)) this.flush();
      else if (!this.#closed.some(({ batch }) => batch.streams.has(stream))) return;
      await this.#closed.at(-1)?.done;
    }
  }

  /** Resolves when all that was there is committed, or has failed. Nothing may be read meanwhile. */
  async settle() {
    while (this.#closed.length > 0 || this.#batch.streams.size > 0) {
      this.flush();
      await this.#closed.at(-1)?.done;
    }
  }

  async close() {
    if (this.#timer) clearTimeout(this.#timer);
    clearTimeout(this.#quiet);
    await Promise.all(this.#clients.map(client => client.end().catch(() => {})));
  }

  #closeBatch() {
    const next = this.#batch.streams.size > 0 ? this.#spare.pop() : undefined;
    if (!next) return;
    this.#stopTimer();
    this.#redact();
    const batch = this.#batch;
    this.#batch = next;
    this.sink.rows = next.records;
    this.sink.days = next.days;
    const advances = new Map([...batch.streams].map(stream => [stream, stream.takeAdvance()]));
    const generation = this.#generation;
    const previous = this.#closed.at(-1)?.done ?? Promise.resolve();
    const done = this.#commit(batch, advances, previous).then(
      () => {
        if (generation === this.#generation) this.#committed(batch, advances);
      },
      error => {
        if (generation === this.#generation) this.#failed(error);
      },
    );
    this.#closed.push({ batch, done });
  }

  /** What was parsed since the last time; the work goes on in the next batch if this one is closed in between. */
  #redact() {
    if (this.#redactor === null) return;
    const { records, redacted } = this.#batch;
    if (records.length > redacted) this.#redactor.redact(records, redacted);
    this.#batch.redacted = records.length;
  }

  /**
   * @param {Batch} batch
   * @param {Map<Stream, { advance: StreamAdvance }>} advances
   * @param {Promise<void>} previous fulfilled when the batch before has been dealt with
   */
  async #commit(batch, advances, previous) {
    const generation = this.#generation;
    const partitions = this.#partitions.takeTurn();
    const client = await this.#client().catch(error => {
      partitions.done();
      throw error;
    });
    try {
      await partitions.before;
      const where = await this.#partitions.ensure(client, {
        days: batch.days,
        rejected: batch.rejected.rows > 0,
      });
      partitions.done();
      const started = performance.now();
      const streams = new Map([...advances].map(([stream, { advance }]) => [stream.streamId, advance]));
      await commitBatch(
        client,
        { records: batch.records, rejected: batch.rejected, cuts: batch.cuts, streams, ...where },
        async () => {
          await previous;
          if (generation !== this.#generation) throw new Error('the batch before was not stored');
        },
      );
      this.totals.commitSeconds += (performance.now() - started) / 1000;
    } catch (error) {
      partitions.done();
      // A connection that failed in the middle of a COPY is not used again.
      client.end().catch(() => {});
      throw error;
    }
    this.#clients.push(client);
  }

  /** @returns {Promise<import('pg').Client>} */
  async #client() {
    return this.#clients.pop() ?? this.#connect();
  }

  /** @param {Batch} batch the oldest of those on their way @param {Map<Stream, { stored: import('./stream.js').Counts }>} advances */
  #committed(batch, advances) {
    const wasFull = this.full;
    this.#closed.shift();
    this.totals.batches += 1;
    this.totals.records += batch.records.rows;
    this.totals.rejected += batch.rejected.rows;
    this.totals.bytes += batch.bytes;
    for (const [stream, { stored }] of advances) stream.committed(stored);
    batch.clear();
    this.#spare.push(batch);
    if (this.#due || this.#batch.bytes >= this.#settings.maxBatchBytes) this.#closeBatch();
    else if (this.#batch.streams.size > 0) this.#quiet.refresh();
    if (wasFull) this.#onRoom();
  }

  /** @param {unknown} error */
  #failed(error) {
    this.#generation += 1;
    this.totals.failures += 1;
    this.#stopTimer();
    this.#partitions.forget();
    // What ended one connection has most likely ended the others.
    for (const client of this.#clients) client.end().catch(() => {});
    this.#clients = [];
    // The buffers of batches on their way may still be in use by their sockets: they are left to the collector.
    this.#spare = [];
    for (let n = 0; n < PIPELINE; n += 1) this.#spare.push(new Batch(this.#settings.maxBatchBytes));
    this.#closed = [];
    this.#batch.clear();
    this.#onFailure(error);
    this.#onRoom();
  }

  #stopTimer() {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#due = false;
  }
}
