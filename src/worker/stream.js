/**
 * One stream in a worker: claims its positions, opens a follower, turns its frames into rows of the batch, and starts
 * again after a failure. Modes, each left only through #enter:
 *   claiming    the positions are being read        -> connecting | waiting | stopped (fenced)
 *   connecting  a transport is being opened         -> reading | waiting
 *   reading     frames arrive                       -> waiting
 *   waiting     a back-off runs                     -> claiming
 *   stopped     for good: nothing is read any more; what was parsed is still committed
 * Every attempt to read has a number; news of an earlier attempt is ignored.
 */
import { PgsluiceError } from '../base/errors.js';
import { encodingNamed } from '../codec/encodings.js';
import { compileLinePrefix } from '../codec/line-prefix.js';
import { isTimeZone } from '../codec/time-zone.js';
import { unitOf } from '../follower/journal.js';
import { FileReader } from './file-reader.js';
import { JournalReader } from './journal-reader.js';
import { oneLine, SparingLog } from './sparing-log.js';
import { StreamBackoff } from './stream-backoff.js';

/** @typedef {import('../ipc/messages.js').StreamSpec} StreamSpec */
/** @typedef {import('../ipc/messages.js').StreamStatus} StreamStatus */
/** @typedef {import('../transport/fifo.js').ByteSource} ByteSource */
/** @typedef {import('../storage/positions.js').StreamClaim} StreamClaim */

/**
 * @typedef {object} SourceHandlers
 * @property {() => void} onOpen the follower was started: from now on silence counts
 * @property {(chunk: Buffer) => void} onChunk
 * @property {(error: Error | null) => void} onEnd
 */

/** @typedef {{ records: number, rejected: number, lostBytes: number, lostEvents: number }} Counts */

/**
 * What a stream needs from its worker.
 * @typedef {object} StreamHost
 * @property {import('./batcher.js').Batcher} batcher
 * @property {ReadonlyMap<string, number>} zones
 * @property {number} maxRecordBytes
 * @property {(streamId: number, epoch: number) => Promise<StreamClaim | null>} claim
 * @property {(spec: StreamSpec, attempt: number, follower: { command: string, input: string }, handlers: SourceHandlers) => ByteSource} open
 * @property {(stream: Stream) => void} onFenced
 * @property {import('../base/logger.js').Logger} log
 */

// Heartbeats come at most 5 s apart; ssh's own keepalive (20 s) comes first where the whole connection died, and says so.
const SILENCE_MAX_MS = 25_000;
// A follower that ends itself because the directory changed begins again at once, unless it has only just begun.
const RENEWED_AFTER_MS = 2_000;
// A turn of the event loop that one stream may fill before the others get theirs: libuv would read 2 MiB of it first.
const TURN_MS = 20;
const SETTINGS_MAX = 100; // times a follower says what the server's settings are; it does so once
const LOST_BYTES_MAX = 1e15; // of one report, a petabyte: what a host says must not overflow the sum

export class Stream {
  #spec;
  #host;
  #epoch;
  #reader;
  /** @type {ByteSource | null} */
  #source = null;
  #attempt = 0;
  #paused = false;
  /** milliseconds of this stream's work since the others had their turn */
  #turnMs = 0;
  /** in this attempt */
  #settingsTold = 0;
  #log;
  /** performance.now() of the last sign of life; 0: none is expected yet */
  #lastByteAt = 0;
  /** performance.now() of the first byte */
  #openedAt = 0;
  /** since takeAdvance */
  #parsed = { records: 0, rejected: 0 };
  /** since takeAdvance */
  #lost = { bytes: 0, events: 0 };
  /** shared by the parsers of all files @type {import('./parser-for.js').StreamContext} */
  #context;
  #backoff = new StreamBackoff();
  /** @type {NodeJS.Timeout | null} */
  #timer = null;

  /** @type {StreamStatus} */
  status;

  /** @param {StreamSpec} spec @param {StreamHost} host */
  constructor(spec, host) {
    this.#spec = spec;
    this.#host = host;
    this.#epoch = spec.epoch;
    this.#log = new SparingLog(host.log);
    const { zones, maxRecordBytes } = host;
    const { streamId, timeZone, format, linePrefix } = spec;
    // Checked when it was given; by another version perhaps.
    const prefix = linePrefix === null ? null : prefixOf(linePrefix);
    this.#context = {
      streamId,
      zones,
      timeZone,
      decoderOf: decoders(spec),
      maxRecordBytes,
      format,
      prefixes: { current: prefix, given: prefix !== null },
    };
    this.status = {
      streamId: spec.streamId,
      epoch: spec.epoch,
      mode: 'waiting',
      error: null,
      notice: null,
      file: null,
      bytes: 0,
      records: 0,
      rejected: 0,
      lostBytes: 0,
      lostEvents: 0,
      timeZone: spec.timeZone,
      linePrefix: spec.linePrefix,
      lagBytes: null,
      lastFrameAt: 0,
      clockSkewMs: 0,
      connects: 0,
    };
    /** @type {import('./file-reader.js').ReaderHost} */
    const readerHost = {
      spec,
      context: this.#context,
      status: this.status,
      store: work => this.#store(work),
      touch: () => host.batcher.touch(this),
      loss: (bytes, how) => this.#loss(bytes, how),
      onCommonFrame: frame => this.#onCommonFrame(frame),
      log: this.#log,
    };
    this.#reader = unitOf(spec.path) === null ? new FileReader(readerHost) : new JournalReader(readerHost);
  }

  get streamId() {
    return this.#spec.streamId;
  }

  /** Of its assignment; what it claims since is later. */
  get assignedEpoch() {
    return this.#spec.epoch;
  }

  start() {
    this.#start();
  }

  /** Reads no more. What was parsed so far stays in the batch. */
  stop() {
    this.#closeSource();
    if (this.#timer) clearTimeout(this.#timer);
    this.#enter('stopped');
  }

  /** Forgets everything uncommitted and resumes from the committed positions: the batch was dropped. @param {Error} error */
  reset(error) {
    this.#reader.reset();
    this.#parsed = { records: 0, rejected: 0 };
    this.#lost = { bytes: 0, events: 0 };
    if (this.status.mode !== 'stopped') this.#retryAfter(error);
  }

  /** There is room in the batch again. */
  resume() {
    if (!this.#paused) return;
    this.#paused = false;
    this.#lastByteAt = performance.now();
    this.#source?.resume();
  }

  /**
   * The state to commit together with all rows given to the sink so far, and what they count.
   * @returns {{ advance: import('../storage/batch.js').StreamAdvance, stored: Counts }}
   */
  takeAdvance() {
    const { given, current } = this.#context.prefixes;
    const advance = {
      epoch: this.#epoch,
      ...this.#reader.takeAdvance(),
      foundPrefix: given ? null : (current?.text ?? null),
      lostBytes: this.#lost.bytes,
      lostEvents: this.#lost.events,
      records: this.#parsed.records,
    };
    const stored = { ...this.#parsed, lostBytes: this.#lost.bytes, lostEvents: this.#lost.events };
    this.#parsed = { records: 0, rejected: 0 };
    this.#lost = { bytes: 0, events: 0 };
    this.status.linePrefix = current?.text ?? null;
    return { advance, stored };
  }

  /** The host refuses us: it was another stream that tried. @param {number} attempt @param {import('../ipc/messages.js').ErrorReport} error */
  refused(attempt, { code, message }) {
    if (attempt === this.#attempt && this.status.mode === 'connecting')
      this.status.error = { code, message: oneLine(message) };
  }

  /** What takeAdvance gave is stored. @param {Counts} stored */
  committed({ records, rejected, lostBytes, lostEvents }) {
    this.status.records += records;
    this.status.rejected += rejected;
    this.status.lostBytes += lostBytes;
    this.status.lostEvents += lostEvents;
  }

  /** Once a second: a silent connection, records that will not be finished. @param {number} now performance.now() */
  tick(now) {
    if (this.status.mode !== 'reading' && this.status.mode !== 'connecting') return;
    this.#reader.tick(now);
    if (this.#paused || this.#lastByteAt === 0 || now - this.#lastByteAt <= SILENCE_MAX_MS) return;
    this.#retryAfter(
      new PgsluiceError(
        'SSH_PROTOCOL',
        `${this.#spec.host.name}: nothing came for ${SILENCE_MAX_MS / 1000} s, not even a heartbeat`,
      ),
    );
  }

  /** @param {StreamStatus['mode']} mode */
  #enter(mode) {
    this.status.mode = mode;
  }

  #start() {
    this.#timer = null;
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#enter('claiming');
    // What the last attempt read must be stored before the positions are read.
    const claiming = this.#host.batcher.drain(this).then(() => this.#host.claim(this.streamId, this.#epoch));
    claiming.then(
      claim => {
        // The claim counts even if nobody waits for it any more: the next one is made under its epoch.
        if (claim) this.#epoch = Math.max(this.#epoch, claim.epoch);
        if (attempt === this.#attempt && this.status.mode === 'claiming') this.#claimed(claim);
      },
      error => {
        if (attempt === this.#attempt && this.status.mode === 'claiming') this.#retryAfter(error);
      },
    );
  }

  /** @param {StreamClaim | null} claim */
  #claimed(claim) {
    if (!claim) {
      this.stop();
      this.#host.onFenced(this);
      return;
    }
    this.#epoch = claim.epoch;
    const { prefixes } = this.#context;
    if (!prefixes.given && claim.foundPrefix !== null) prefixes.current = prefixOf(claim.foundPrefix);
    this.#enter('connecting');
    this.status.connects += 1;
    this.#paused = false;
    this.#openedAt = 0;
    this.#settingsTold = 0;
    // Until the follower runs, the transport has limits of its own; waiting for a turn to connect has none.
    this.#lastByteAt = 0;
    const attempt = this.#attempt;
    try {
      const follower = this.#reader.begin(claim);
      this.#source = this.#host.open(this.#spec, attempt, follower, {
        onOpen: () => {
          if (attempt === this.#attempt) this.#lastByteAt = performance.now();
        },
        onChunk: chunk => {
          if (attempt === this.#attempt) this.#onChunk(chunk);
        },
        onEnd: error => {
          if (attempt !== this.#attempt) return;
          this.#retryAfter(
            error ?? new PgsluiceError('FOLLOWER_FAILED', `${this.#spec.host.name}: the follower ended`),
          );
        },
      });
    } catch (error) {
      this.#retryAfter(/** @type {Error} */ (error));
    }
  }

  /** @param {Buffer} chunk */
  #onChunk(chunk) {
    this.#lastByteAt = performance.now();
    this.status.lastFrameAt = Date.now();
    if (this.status.mode === 'connecting') {
      this.#enter('reading');
      this.#openedAt = this.#lastByteAt;
      this.status.error = null;
    }
    const began = performance.now();
    try {
      this.#reader.write(chunk);
    } catch (error) {
      this.#retryAfter(/** @type {Error} */ (error));
      return;
    }
    if (this.#host.batcher.full && this.status.mode === 'reading') {
      this.#paused = true;
      this.#source?.pause();
      return;
    }
    this.#turnMs += performance.now() - began;
    if (this.#turnMs >= TURN_MS) this.#giveWay();
  }

  /** All others that have something to do come first. */
  #giveWay() {
    const attempt = this.#attempt;
    this.#turnMs = 0;
    this.#source?.pause();
    setImmediate(() => {
      if (attempt === this.#attempt && !this.#paused) this.#source?.resume();
    });
  }

  /** Counts what goes into the batch. @param {(sink: import('../codec/row-sink.js').RowSink) => void} work */
  #store(work) {
    const { batcher } = this.#host;
    const { records, rejected } = batcher.counts;
    try {
      batcher.store(work);
    } finally {
      this.#parsed.records += batcher.counts.records - records;
      this.#parsed.rejected += batcher.counts.rejected - rejected;
    }
  }

  /** Frames that are the same for every source. @param {import('../codec/frames.js').Frame} frame */
  #onCommonFrame(frame) {
    switch (frame.type) {
      case 'hello':
        if (frame.version !== 1)
          throw new PgsluiceError('FOLLOWER_PROTOCOL', `follower protocol ${frame.version}`);
        return;
      case 'heartbeat':
        this.status.lagBytes = Math.max(0, frame.size - frame.offset) + frame.behind;
        this.status.clockSkewMs = frame.clock * 1000 - this.status.lastFrameAt;
        return;
      case 'zone':
        this.#countSetting();
        if (this.#spec.timeZone === null && isTimeZone(frame.name)) {
          this.#context.timeZone = frame.name;
          this.status.timeZone = frame.name;
        }
        return;
      case 'prefix':
        this.#countSetting();
        // What the lines themselves have told is known better.
        this.#context.prefixes.current ??= prefixOf(frame.text);
        return;
      case 'waiting':
        this.status.notice = oneLine(`${frame.code}: ${frame.text}`);
        return;
      case 'failed':
        if (RENEWALS.has(frame.code) && performance.now() - this.#openedAt > RENEWED_AFTER_MS) {
          throw new Renewal(frame.text);
        }
        throw new PgsluiceError(
          'FOLLOWER_FAILED',
          `${this.#spec.host.name}: the follower gave up: ${frame.text}`,
        );
      default:
        throw new PgsluiceError('FOLLOWER_PROTOCOL', `an unexpected frame: ${frame.type}`);
    }
  }

  /**
   * Something was lost, or may have been: counted with the next commit.
   * @param {number} bytes known to be lost
   * @param {string} how
   */
  #loss(bytes, how) {
    this.#lost.bytes = Math.min(LOST_BYTES_MAX, this.#lost.bytes + bytes);
    this.#lost.events += 1;
    this.#log.warn({ bytes: bytes > 0 ? bytes : undefined }, `log bytes may be lost: ${how}`);
    this.#host.batcher.touch(this);
  }

  #countSetting() {
    this.#settingsTold += 1;
    if (this.#settingsTold > SETTINGS_MAX)
      throw new PgsluiceError('FOLLOWER_PROTOCOL', 'the settings of the server are told without end');
  }

  #closeSource() {
    this.#attempt += 1;
    this.#source?.close();
    this.#source = null;
    if (this.#openedAt > 0) this.#backoff.hasRead(performance.now() - this.#openedAt);
    this.#openedAt = 0;
  }

  /** @param {Error} error */
  #retryAfter(error) {
    this.#closeSource();
    this.#paused = false;
    if (this.status.mode === 'stopped') return;
    if (this.#timer) clearTimeout(this.#timer);
    if (error instanceof Renewal) {
      this.#host.log.info(`the follower begins again: ${error.message}`);
      this.#start();
      return;
    }
    const code = error instanceof PgsluiceError ? error.code : 'SSH_PROTOCOL';
    const delayMs = this.#backoff.next(code);
    this.status.error = { code, message: oneLine(error.message) };
    this.#enter('waiting');
    this.#log.warn({ code, retryInMs: Math.round(delayMs) }, error.message);
    this.#timer = setTimeout(() => this.#start(), delayMs);
  }
}

/** The follower ended because it must be told anew what to read: nothing failed. */
class Renewal extends Error {}
const RENEWALS = new Set(['renew', 'moved']);

/** @param {StreamSpec} spec @returns {(databaseName: string | null) => import('../codec/row-sink.js').Decoder | null} */
function decoders({ encoding, encodings }) {
  const fallback = encoding === null ? null : (encodingNamed(encoding)?.decode ?? null);
  // Names come as the bytes of the log, one character a byte.
  const byDatabase = new Map(
    Object.entries(encodings).map(([database, name]) => [
      Buffer.from(database).toString('latin1'),
      encodingNamed(name)?.decode ?? null,
    ]),
  );
  return database => {
    const own = database === null ? undefined : byDatabase.get(database);
    return own === undefined ? fallback : own;
  };
}

/** @param {string} text as a host says @returns {import('../codec/line-prefix.js').LinePrefix | null} */
function prefixOf(text) {
  try {
    return compileLinePrefix(text);
  } catch {
    return null;
  }
}
