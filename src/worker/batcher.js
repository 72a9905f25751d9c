/**
 * Collects what all streams of a worker parsed into batches, and commits batches while the next one fills.
 * In: rows through `sink`, the streams that advanced through `touch`. Out: committed transactions (storage/batch.js).
 * A batch is closed when it holds maxBatchBytes (less while the storage is slow: batch-size.js), maxBatchDelayMs after
 * its first bytes, or when nothing has come for QUIET_MS and no other batch is on its way: then waiting would gain
 * nothing. Up to PIPELINE closed batches are on their way, each on its own connection: their COPYs run side by side,
 * their positions are advanced and committed strictly in order, so there is never a hole before a position. While all
 * are on their way and the next is full, `full` is true and readers pause: memory holds PIPELINE + 1 batches, never
 * more.
 * With a redactor, secrets are taken out of rows as they come, at the latest when their batch is closed.
 * Rows that PostgreSQL refuses go to the rejected bytes; rows of a stream that belongs to somebody else are taken out.
 * After any other failure nothing in memory is trusted: all batches are dropped and onFailure makes every stream resume
 * from its committed position; the next batches go one at a time.
 */
import { CopyBuffer } from '../codec/copy-buffer.js';
import { encodeRejected } from '../codec/copy-rejected.js';
import { dropStreams } from '../codec/copy-rows.js';
import { addRedactions, noRedactions } from '../codec/redact.js';
import { commitBatch, FencedError } from '../storage/batch.js';
import { cutConnection, endConnection } from '../storage/connect.js';
import { BatchSize } from './batch-size.js';
import { NeededPartitions } from './needed-partitions.js';

/** @typedef {import('./stream.js').Stream} Stream */
/** @typedef {import('../storage/batch.js').StreamAdvance} StreamAdvance */
/** @typedef {import('../storage/batch.js').Refused} Refused */
/** @typedef {import('./stream.js').Counts} Counts */
/** @typedef {Map<Stream, { advance: StreamAdvance, stored: Counts }>} Advances */

// One backend copies slower than a worker parses, and waits for the disk at every commit. Measured on 2 cores, seconds
// for 379 MB: 1: 5.2, 2: 3.8, 3: 3.6, 4: 3.4.
const PIPELINE = 4;
// After a failure, so many batches are committed one at a time. With somebody's unique index two batches that run side by
// side can wait for each other where PostgreSQL cannot see it, until lock_timeout ends one.
const SINGLE_FILE_BATCHES = 64;
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
    this.redactions = noRedactions();
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

  /** Of any owner that the stream had. @param {number} streamId */
  holds(streamId) {
    return [...this.streams].some(stream => stream.streamId === streamId);
  }

  /** @param {ReadonlySet<number>} streamIds */
  drop(streamIds) {
    dropStreams(this.records, streamIds);
    dropStreams(this.rejected, streamIds);
    this.cuts = this.cuts.filter(({ streamId }) => !streamIds.has(streamId));
  }

  clear() {
    this.records.reset();
    this.rejected.reset();
    this.redacted = 0;
    this.redactions = noRedactions();
    this.days.clear();
    this.cuts = [];
    this.streams.clear();
  }
}

export class Batcher {
  #settings;
  #size;
  #connect;
  #redactor;
  #onRoom;
  #onFailure;
  #onRefused;
  #onFenced;
  /** filling @type {Batch} */
  #batch;
  /** empty @type {Batch[]} */
  #spare = [];
  /** on their way, the oldest first @type {{ batch: Batch, done: Promise<void> }[]} */
  #closed = [];
  /** connections that are not in use @type {import('pg').Client[]} */
  #idle = [];
  /** connections that are @type {Set<import('pg').Client>} */
  #busy = new Set();
  /** raised by a failure: what began before it ends in nothing */
  #generation = 0;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;
  /** runs again from the last bytes @type {NodeJS.Timeout} */
  #quiet;
  /** the delay has passed, or somebody waits: close the batch as soon as there is a place for it */
  #due = false;
  #partitions = new NeededPartitions();
  /** batches to be committed one at a time */
  #singleFile = 0;

  totals = {
    batches: 0,
    records: 0,
    rejected: 0,
    bytes: 0,
    commitSeconds: 0,
    failures: 0,
    redacted: noRedactions(),
  };
  /** why the last batch was not stored, until one is @type {{ error: unknown, at: number } | null} */
  failure = null;

  /**
   * @param {object} options
   * @param {{ maxBatchBytes: number, maxBatchDelayMs: number }} options.settings
   * @param {() => Promise<import('pg').Client>} options.connect a new connection to the storage
   * @param {import('../codec/redact.js').Redactor | null} options.redactor null: everything is stored as it is
   * @param {() => void} options.onRoom there is room, perhaps again after `full`
   * @param {(error: unknown) => void} options.onFailure everything uncommitted was dropped
   * @param {(refused: Refused) => void} options.onRefused records of a batch went to the rejected bytes
   * @param {(stream: Stream, error: FencedError) => void} options.onFenced what was uncommitted of it was dropped
   */
  constructor({ settings, connect, redactor, onRoom, onFailure, onRefused, onFenced }) {
    this.#settings = settings;
    this.#size = new BatchSize(settings.maxBatchBytes);
    this.#connect = connect;
    this.#redactor = redactor;
    this.#onRoom = onRoom;
    this.#onFailure = onFailure;
    this.#onRefused = onRefused;
    this.#onFenced = onFenced;
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
    return !this.#hasPlace && this.#batch.bytes >= this.#size.bytes;
  }

  get #hasPlace() {
    return this.#singleFile > 0 ? this.#closed.length === 0 : this.#spare.length > 0;
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
    if (this.#due || this.#batch.bytes >= this.#size.bytes) {
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
   * Resolves when nothing of the stream is uncommitted any more, whoever read it: stored, or dropped with its batch.
   * @param {Stream} stream that reads nothing meanwhile
   */
  async drain({ streamId }) {
    for (;;) {
      if (this.#batch.holds(streamId)) this.flush();
      else if (!this.#closed.some(({ batch }) => batch.holds(streamId))) return;
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
    await Promise.all(this.#idle.map(endConnection));
  }

  #closeBatch() {
    const next = this.#batch.streams.size > 0 && this.#hasPlace ? this.#spare.pop() : undefined;
    if (!next) return;
    if (this.#singleFile > 0) this.#singleFile -= 1;
    this.#stopTimer();
    this.#redact();
    const batch = this.#batch;
    this.#batch = next;
    this.sink.rows = next.records;
    this.sink.days = next.days;
    const advances = new Map([...batch.streams].map(stream => [stream, stream.takeAdvance()]));
    const generation = this.#generation;
    const closedAt = performance.now();
    const previous = this.#closed.at(-1)?.done ?? Promise.resolve();
    const done = this.#commit(batch, advances, previous).then(
      ({ refused, fenced }) => {
        if (generation !== this.#generation) return;
        this.#size.stored(batch.bytes, performance.now() - closedAt);
        this.#committed(batch, advances, refused, fenced);
      },
      async error => {
        // What the batches before store is stored, and counted.
        await previous;
        if (generation === this.#generation) this.#failed(error);
      },
    );
    this.#closed.push({ batch, done });
  }

  /** What was parsed since the last time; the work goes on in the next batch if this one is closed in between. */
  #redact() {
    if (this.#redactor === null) return;
    const { records, redacted, redactions } = this.#batch;
    if (records.length > redacted) this.#redactor.redact(records, redacted, redactions);
    this.#batch.redacted = records.length;
  }

  /**
   * @param {Batch} batch
   * @param {Advances} advances those of fenced streams are taken out
   * @param {Promise<void>} previous fulfilled when the batch before has been dealt with
   * @returns {Promise<{ refused: Refused | null, fenced: FencedError | null }>}
   */
  async #commit(batch, advances, previous) {
    const generation = this.#generation;
    const turn = async () => {
      await previous;
      if (generation !== this.#generation) throw new Error('the batch before was not stored');
    };
    const partitions = this.#partitions.takeTurn();
    /** @type {import('pg').Client | null} */
    let client = null;
    try {
      client = this.#idle.pop() ?? (await this.#connect());
      this.#busy.add(client);
      await partitions.before;
      if (generation !== this.#generation) throw new Error('the batch before was not stored');
      const where = await this.#partitions.ensure(client, {
        days: batch.days,
        rejected: batch.rejected.rows > 0,
      });
      partitions.done();
      const started = performance.now();
      /** @type {FencedError | null} */
      let fenced = null;
      /** @type {Refused | null} */
      let refused = null;
      while (advances.size > 0) {
        const streams = new Map([...advances].map(([stream, { advance }]) => [stream.streamId, advance]));
        const { records, rejected, cuts } = batch;
        try {
          refused = await commitBatch(client, { records, rejected, cuts, streams, ...where }, turn);
          break;
        } catch (error) {
          if (!(error instanceof FencedError)) throw error;
          fenced = error;
          // An epoch that is gone never comes back: the others' records go on without these.
          const gone = new Set(error.streamIds);
          for (const stream of advances.keys()) if (gone.has(stream.streamId)) advances.delete(stream);
          batch.drop(gone);
        }
      }
      this.totals.commitSeconds += (performance.now() - started) / 1000;
      this.#idle.push(client);
      return { refused, fenced };
    } catch (error) {
      partitions.done();
      // A connection that failed in the middle of a COPY is not used again, and what it still sends is of no use.
      if (client) cutConnection(client);
      throw error;
    } finally {
      if (client) this.#busy.delete(client);
    }
  }

  /**
   * @param {Batch} batch the oldest of those on their way
   * @param {Advances} advances
   * @param {Refused | null} refused
   * @param {FencedError | null} fenced
   */
  #committed(batch, advances, refused, fenced) {
    this.#closed.shift();
    const refusedRows = [...(refused?.rows.values() ?? [])].reduce((sum, rows) => sum + rows, 0);
    this.failure = null;
    this.totals.batches += 1;
    this.totals.records += batch.records.rows - refusedRows;
    this.totals.rejected += batch.rejected.rows + refusedRows;
    this.totals.bytes += batch.bytes;
    addRedactions(this.totals.redacted, batch.redactions);
    for (const [stream, { stored }] of advances) {
      const { records, rejected, ...lost } = stored;
      const mine = refused?.rows.get(stream.streamId) ?? 0;
      stream.committed({ records: records - mine, rejected: rejected + mine, ...lost });
    }
    const gone = [...batch.streams].filter(stream => !advances.has(stream));
    batch.clear();
    this.#spare.push(batch);
    if (this.#due || this.#batch.bytes >= this.#size.bytes) this.#closeBatch();
    else if (this.#batch.streams.size > 0) this.#quiet.refresh();
    if (refused) this.#onRefused(refused);
    if (fenced) for (const stream of gone) this.#onFenced(stream, fenced);
    // Whoever paused did so by the size that a batch had then.
    if (!this.full) this.#onRoom();
  }

  /** @param {unknown} error */
  #failed(error) {
    this.#generation += 1;
    this.totals.failures += 1;
    this.failure = { error, at: Date.now() };
    this.#singleFile = SINGLE_FILE_BATCHES;
    this.#stopTimer();
    this.#partitions.forget();
    // What ended one connection has most likely ended the others; those that hang would hold their batches.
    for (const client of [...this.#idle, ...this.#busy]) cutConnection(client);
    this.#idle = [];
    // The buffers of batches on their way may still be in use by their sockets: they are left to the collector.
    for (const _ of this.#closed) this.#spare.push(new Batch(this.#settings.maxBatchBytes));
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
