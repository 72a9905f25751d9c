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
import { Backoff } from '../base/backoff.js';
import { PgsluiceError } from '../base/errors.js';
import { FrameDecoder } from '../codec/frames.js';
import { posixCksum } from '../codec/cksum.js';
import { followerCommand, followerInput } from '../follower/index.js';
import { LogFile } from './log-file.js';

/** @typedef {import('../ipc/messages.js').StreamSpec} StreamSpec */
/** @typedef {import('../ipc/messages.js').StreamStatus} StreamStatus */
/** @typedef {import('../transport/fifo.js').ByteSource} ByteSource */
/** @typedef {import('../storage/positions.js').StreamClaim} StreamClaim */

/** @typedef {{ records: number, rejected: number }} Counts */

/**
 * What a stream needs from its worker.
 * @typedef {object} StreamHost
 * @property {import('./batcher.js').Batcher} batcher
 * @property {ReadonlyMap<string, number>} zones
 * @property {number} maxRecordBytes
 * @property {(streamId: number, epoch: number) => Promise<StreamClaim | null>} claim
 * @property {(spec: StreamSpec, attempt: number, follower: { command: string, input: string }, handlers: { onChunk: (chunk: Buffer) => void, onEnd: (error: Error | null) => void }) => ByteSource} open
 * @property {(stream: Stream) => void} onFenced
 * @property {import('../base/logger.js').Logger} log
 */

const SILENCE_MAX_MS = 30_000; // heartbeats come at most 5 s apart
const TORN_RECORD_WAIT_MS = 10_000; // torn writes end within milliseconds, unless the writer was killed
const BACKOFF = { initialMs: 1_000, maxMs: 60_000, factor: 2, jitter: 0.2 };
// PerSourcePenalties of sshd bans clients that keep failing: go slowly at once.
const BACKOFF_REFUSED = { initialMs: 30_000, maxMs: 600_000, factor: 2, jitter: 0.2 };
const SETTLED_MS = 10_000; // a stream that has read this long begins its back-off anew
const CONNECTING_MAX_MS = 300_000; // includes the wait for a turn when a whole fleet connects

export class Stream {
  #spec;
  #host;
  #epoch;
  #begun = false;
  #nextFileNo = 1;
  /** files present on the host by inode @type {Map<string, LogFile>} */
  #files = new Map();
  /** @type {LogFile | null} */
  #open = null;
  /** whose position differs from the committed one @type {Set<LogFile>} */
  #advanced = new Set();
  /** @type {ByteSource | null} */
  #source = null;
  #attempt = 0;
  #paused = false;
  #lastByteAt = 0;
  #openedAt = 0;
  /** since takeAdvance @type {Counts} */
  #parsed = { records: 0, rejected: 0 };
  #backoff = new Backoff(BACKOFF);
  #backoffRefused = new Backoff(BACKOFF_REFUSED);
  /** @type {NodeJS.Timeout | null} */
  #timer = null;

  /** @type {StreamStatus} */
  status;

  /** @param {StreamSpec} spec @param {StreamHost} host */
  constructor(spec, host) {
    this.#spec = spec;
    this.#host = host;
    this.#epoch = spec.epoch;
    this.status = {
      streamId: spec.streamId,
      mode: 'waiting',
      error: null,
      notice: null,
      file: null,
      bytes: 0,
      records: 0,
      rejected: 0,
      lagBytes: null,
      lastFrameAt: 0,
      clockSkewMs: 0,
      connects: 0,
    };
  }

  get streamId() {
    return this.#spec.streamId;
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
    this.#advanced.clear();
    this.#files.clear();
    this.#open = null;
    this.#parsed = { records: 0, rejected: 0 };
    if (this.status.mode !== 'stopped') this.#retryAfter(error);
  }

  /** There is room in the batch again. */
  resume() {
    if (!this.#paused) return;
    this.#paused = false;
    this.#lastByteAt = Date.now();
    this.#source?.resume();
  }

  /**
   * The state to commit together with all rows given to the sink so far, and what they count.
   * @returns {{ advance: import('../storage/batch.js').StreamAdvance, stored: Counts }}
   */
  takeAdvance() {
    const files = new Map([...this.#advanced].map(file => [file.fileNo, file.position()]));
    const advance = { epoch: this.#epoch, begun: this.#begun, nextFileNo: this.#nextFileNo, files };
    const stored = this.#parsed;
    this.#advanced.clear();
    this.#parsed = { records: 0, rejected: 0 };
    return { advance, stored };
  }

  /** What takeAdvance gave is stored. @param {Counts} stored */
  committed({ records, rejected }) {
    this.status.records += records;
    this.status.rejected += rejected;
  }

  /** Once a second: a silent connection, records that will not be finished. @param {number} now ms since the epoch */
  tick(now) {
    if (this.status.mode !== 'reading' && this.status.mode !== 'connecting') return;
    for (const file of this.#files.values()) {
      if (file.leftAt > 0 && file.pendingBytes > 0 && now - file.leftAt > TORN_RECORD_WAIT_MS) {
        this.#finish(file);
      }
    }
    const limitMs = this.status.mode === 'reading' ? SILENCE_MAX_MS : CONNECTING_MAX_MS;
    if (!this.#paused && now - this.#lastByteAt > limitMs) {
      this.#retryAfter(
        new PgsluiceError(
          'SSH_PROTOCOL',
          `${this.#spec.host.name}: nothing came for ${limitMs / 1000} s, not even a heartbeat`,
        ),
      );
    }
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
    this.#begun = claim.begun;
    this.#nextFileNo = claim.nextFileNo;
    this.#open = null;
    this.#advanced.clear();
    this.#files = new Map(claim.files.map(position => [position.inode, this.#logFile(position)]));
    this.#enter('connecting');
    this.status.connects += 1;
    this.#paused = false;
    this.#openedAt = 0;
    this.#lastByteAt = Date.now();
    const decoder = new FrameDecoder(
      frame => this.#onFrame(frame),
      bytes => this.#onBytes(bytes),
    );
    const attempt = this.#attempt;
    // A stream that has not begun has only named what it skips: it names that again.
    const known = claim.begun ? claim.files.filter(file => file.offset > 0) : [];
    const from = claim.begun ? 'none' : this.#spec.startAt;
    try {
      const { path, suffix, sudoUser } = this.#spec;
      const follower = {
        command: followerCommand(sudoUser),
        input: followerInput({ path, suffix, from, known }),
      };
      this.#source = this.#host.open(this.#spec, attempt, follower, {
        onChunk: chunk => {
          if (attempt === this.#attempt) this.#onChunk(decoder, chunk);
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

  /** @param {FrameDecoder} decoder @param {Buffer} chunk */
  #onChunk(decoder, chunk) {
    this.#lastByteAt = Date.now();
    if (this.status.mode === 'connecting') {
      this.#enter('reading');
      this.#openedAt = this.#lastByteAt;
      this.status.error = null;
    }
    try {
      decoder.write(chunk);
    } catch (error) {
      this.#retryAfter(/** @type {Error} */ (error));
      return;
    }
    if (this.#host.batcher.full && this.status.mode === 'reading') {
      this.#paused = true;
      this.#source?.pause();
    }
  }

  /** @param {Uint8Array} bytes */
  #onBytes(bytes) {
    if (!this.#open) throw new PgsluiceError('FOLLOWER_PROTOCOL', 'bytes came before the name of their file');
    const chunk = /** @type {Buffer} */ (bytes);
    this.status.bytes += chunk.length;
    const { batcher } = this.#host;
    const { records, rejected } = batcher.counts;
    this.#open.write(chunk, batcher.sink);
    this.#parsed.records += batcher.counts.records - records;
    this.#parsed.rejected += batcher.counts.rejected - rejected;
    this.#advance(this.#open);
  }

  /** @param {import('../codec/frames.js').Frame} frame */
  #onFrame(frame) {
    this.status.lastFrameAt = this.#lastByteAt;
    switch (frame.type) {
      case 'hello':
        if (frame.version !== 1)
          throw new PgsluiceError('FOLLOWER_PROTOCOL', `follower protocol ${frame.version}`);
        return;
      case 'skip': {
        const { inode, name, offset, headLength, headSum, tailLength, tailSum } = frame;
        const file = this.#newFile({ inode, name, offset, headLength, headSum, tailLength, tailSum });
        this.#advance(file);
        return;
      }
      case 'begun':
        this.#begun = true;
        this.#host.batcher.touch(this);
        return;
      case 'file':
        this.#onFileFrame(frame);
        return;
      case 'heartbeat':
        this.status.lagBytes = Math.max(0, frame.size - frame.offset) + frame.behind;
        this.status.clockSkewMs = frame.clock * 1000 - this.#lastByteAt;
        if (frame.behind === 0 && this.#open) this.status.notice = null;
        return;
      case 'gone': {
        const file = this.#files.get(frame.inode);
        if (!file || file === this.#open || file.gone) return;
        this.#finish(file);
        file.gone = true;
        this.#advance(file);
        return;
      }
      case 'waiting':
        this.status.notice = `${frame.code}: ${frame.text}`;
        return;
      default:
        throw new PgsluiceError(
          'FOLLOWER_FAILED',
          `${this.#spec.host.name}: the follower gave up: ${frame.text}`,
        );
    }
  }

  /** @param {import('../codec/frames.js').FileFrame} frame */
  #onFileFrame(frame) {
    const now = Date.now();
    if (this.#open) {
      this.#open.leftAt = now;
      this.#open.rest();
    }
    let file = this.#files.get(frame.inode);
    if (frame.state === 'new') {
      if (frame.offset !== 0)
        throw new PgsluiceError('FOLLOWER_PROTOCOL', 'a new file that does not begin at 0');
      if (!file || file.offset > 0) {
        if (file) this.#replace(file);
        const sum = posixCksum(Buffer.alloc(0));
        const { inode, name } = frame;
        file = this.#newFile({
          inode,
          name,
          offset: 0,
          headLength: 0,
          headSum: sum,
          tailLength: 0,
          tailSum: sum,
        });
      }
    } else if (file && frame.state === 'shrunk' && frame.offset < file.offset) {
      this.#host.log.warn(
        { file: frame.name, from: file.offset, to: frame.offset },
        'a log file lost its end: what was read of it is stored, reading goes on at its present end',
      );
      file.shrinkTo(frame.offset);
    } else if (!file || file.offset !== frame.offset) {
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        `${frame.name} at ${frame.offset}, expected ${file ? file.offset : 'a known file'}`,
      );
    }
    file.leftAt = 0;
    file.gone = false;
    file.name = frame.name;
    this.#open = file;
    this.status.file = frame.name;
    this.#advance(file);
  }

  /** @param {Omit<import('../storage/positions.js').FilePosition, 'fileNo' | 'gone'>} identity */
  #newFile(identity) {
    const file = this.#logFile({ ...identity, fileNo: this.#nextFileNo, gone: false });
    this.#nextFileNo += 1;
    this.#files.set(identity.inode, file);
    return file;
  }

  /** @param {import('../storage/positions.js').FilePosition} position */
  #logFile(position) {
    const { zones, maxRecordBytes } = this.#host;
    return new LogFile(position, { streamId: this.streamId, zones, maxRecordBytes });
  }

  /** Its inode serves another file now. @param {LogFile} file */
  #replace(file) {
    this.#finish(file);
    file.gone = true;
    this.#files.delete(file.inode);
    this.#advance(file);
  }

  /** Its unfinished record will stay unfinished. @param {LogFile} file */
  #finish(file) {
    const pending = file.pendingBytes;
    if (pending === 0) return;
    file.end(this.#host.batcher.sink);
    this.#parsed.rejected += 1;
    this.#host.log.warn(
      { file: file.name, bytes: pending },
      'a log file ends with an unfinished record: kept as rejected',
    );
    this.#advance(file);
  }

  /** @param {LogFile} file */
  #advance(file) {
    this.#advanced.add(file);
    this.#host.batcher.touch(this);
  }

  #closeSource() {
    this.#attempt += 1;
    this.#source?.close();
    this.#source = null;
    if (this.#openedAt > 0 && Date.now() - this.#openedAt > SETTLED_MS) this.#backoff.reset();
    if (this.#openedAt > 0) this.#backoffRefused.reset();
    this.#openedAt = 0;
  }

  /** @param {Error} error */
  #retryAfter(error) {
    this.#closeSource();
    this.#paused = false;
    if (this.status.mode === 'stopped') return;
    const code = error instanceof PgsluiceError ? error.code : 'SSH_PROTOCOL';
    const refused =
      code === 'SSH_AUTH_REFUSED' || code === 'SSH_HOST_KEY_CHANGED' || code === 'SSH_HOST_KEY_UNKNOWN';
    const delayMs = (refused ? this.#backoffRefused : this.#backoff).next();
    this.status.error = { code, message: error.message };
    this.#enter('waiting');
    this.#host.log.warn({ code, retryInMs: Math.round(delayMs) }, error.message);
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), delayMs);
  }
}
