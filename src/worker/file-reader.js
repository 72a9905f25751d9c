/**
 * What a stream of log files does with the frames of its follower: which file is open, which are known and how far,
 * what was lost. One attempt to read begins with begin() and ends with the next one or reset().
 * Throws FOLLOWER_PROTOCOL for what a follower never says, FOLLOWER_FAILED when it gives up.
 */
import { PgsluiceError } from '../base/errors.js';
import { FrameDecoder } from '../codec/frames.js';
import { followerCommand, followerInput } from '../follower/index.js';
import { FileLimits } from './file-limits.js';
import { LogFile, NO_SUM } from './log-file.js';

/** @typedef {import('../codec/frames.js').Frame} Frame */
/** @typedef {import('../storage/positions.js').FilePosition} FilePosition */

/**
 * What a reader needs from its stream.
 * @typedef {object} ReaderHost
 * @property {import('../ipc/messages.js').StreamSpec} spec
 * @property {import('./parser-for.js').StreamContext} context
 * @property {import('../ipc/messages.js').StreamStatus} status
 * @property {(work: (sink: import('../codec/row-sink.js').RowSink) => void) => void} store rows go into the batch, counted
 * @property {() => void} touch the position has changed: it is part of the batch, which may be closed; not while storing
 * @property {(bytes: number, how: string) => void} loss something was lost, or may have been
 * @property {(frame: Frame) => void} onCommonFrame frames that are the same for every source
 * @property {Pick<import('./sparing-log.js').SparingLog, 'warn'>} log
 */

/**
 * What of a stream's state a batch commits; the rest is the stream's.
 * @typedef {Pick<import('../storage/batch.js').StreamAdvance, 'begun' | 'nextFileNo' | 'openFileNo' | 'files'>} Advance
 */

/**
 * @typedef {object} Reader
 * @property {(claim: import('../storage/positions.js').StreamClaim) => { command: string, input: string }} begin
 * @property {(chunk: Buffer) => void} write bytes of the follower; valid only during the call
 * @property {(now: number) => void} tick once a second; ms since the epoch
 * @property {() => Advance} takeAdvance what changed since the last time
 * @property {() => void} reset forgets everything uncommitted
 */

const TORN_RECORD_WAIT_MS = 10_000; // torn writes end within milliseconds, unless the writer was killed
const LAST_LINES_WAIT_MS = 1_000; // more lines of the last record of a file that has been left
// A server leaves one file of each format at a time with a record that may still be finished.
const LEFT_UNFINISHED_MAX = 64;

/** @implements {Reader} */
export class FileReader {
  #host;
  #limits = new FileLimits();
  #greeted = false;
  #begun = false;
  #nextFileNo = 1;
  /** of the file that was being read at the last commit, or is being read @type {number | null} */
  #openFileNo = null;
  /** it may have more than was read of it: it is being read, or was when reading ended @type {LogFile | null} */
  #exposed = null;
  /** files present on the host by inode @type {Map<string, LogFile>} */
  #files = new Map();
  /** @type {LogFile | null} */
  #open = null;
  /** left with an unfinished record, the first first @type {Set<LogFile>} */
  #unfinished = new Set();
  /** whose position differs from the committed one @type {Set<LogFile>} */
  #advanced = new Set();
  #decoder = this.#newDecoder();

  /** @param {ReaderHost} host */
  constructor(host) {
    this.#host = host;
  }

  /** @param {import('../storage/positions.js').StreamClaim} claim */
  begin(claim) {
    this.#greeted = false;
    this.#begun = claim.begun;
    this.#nextFileNo = claim.nextFileNo;
    this.#openFileNo = claim.openFileNo;
    this.#open = null;
    this.#unfinished.clear();
    this.#advanced.clear();
    this.#files = new Map(claim.files.map(position => [position.inode, this.#logFile(position)]));
    this.#exposed = [...this.#files.values()].find(file => file.fileNo === claim.openFileNo) ?? null;
    this.#decoder = this.#newDecoder();
    const { path, format, sudoUser, startAt } = this.#host.spec;
    // A stream that has not begun has only named what it skips: it names that again.
    const known = claim.begun ? claim.files.filter(file => file.offset > 0) : [];
    const from = claim.begun ? 'none' : startAt;
    return { command: followerCommand(sudoUser), input: followerInput({ path, format, from, known }) };
  }

  /** @param {Buffer} chunk */
  write(chunk) {
    this.#decoder.write(chunk);
  }

  /** @returns {Advance} */
  takeAdvance() {
    const files = new Map([...this.#advanced].map(file => [file.fileNo, file.position()]));
    this.#advanced.clear();
    return { begun: this.#begun, nextFileNo: this.#nextFileNo, openFileNo: this.#openFileNo, files };
  }

  reset() {
    this.#advanced.clear();
    this.#unfinished.clear();
    this.#files.clear();
    this.#open = null;
    this.#exposed = null;
  }

  /** Records that will not be finished. @param {number} now performance.now() */
  tick(now) {
    for (const file of this.#files.values()) {
      if (file.leftAt === 0 || file.pendingBytes === 0) continue;
      if (now - file.leftAt > LAST_LINES_WAIT_MS) this.#quiet(file);
      if (now - file.leftAt > TORN_RECORD_WAIT_MS) this.#finish(file);
    }
  }

  #newDecoder() {
    return new FrameDecoder(
      frame => this.#onFrame(frame),
      (bytes, offset) => this.#onBytes(bytes, offset),
    );
  }

  /** @param {Uint8Array} bytes @param {number} offset of the first of them */
  #onBytes(bytes, offset) {
    if (!this.#open) throw new PgsluiceError('FOLLOWER_PROTOCOL', 'bytes came before the name of their file');
    const chunk = /** @type {Buffer} */ (bytes);
    const file = this.#open;
    if (offset !== file.offset) {
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        `bytes at ${offset} of ${file.name}, expected ${file.offset}`,
      );
    }
    this.#host.status.bytes += chunk.length;
    this.#host.store(sink => file.write(chunk, sink));
    this.#advance(file);
  }

  /** Nothing more is in the file now. @param {LogFile} file */
  #quiet(file) {
    let advanced = false;
    this.#host.store(sink => (advanced = file.quiet(sink)));
    if (advanced) this.#advance(file);
  }

  /** @param {Frame} frame */
  #onFrame(frame) {
    if ((frame.type === 'hello') === this.#greeted) {
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        `${frame.type} where ${this.#greeted ? 'a frame' : 'hello'} was expected`,
      );
    }
    switch (frame.type) {
      case 'hello':
        this.#greeted = true;
        this.#host.onCommonFrame(frame);
        return;
      case 'skip': {
        const { inode, name, offset, headLength, headSum, tailLength, tailSum } = frame;
        const file = this.#newFile({ inode, name, offset, headLength, headSum, tailLength, tailSum });
        this.#advance(file);
        return;
      }
      case 'quiet':
        if (this.#open && this.#open.offset === frame.offset) this.#quiet(this.#open);
        return;
      case 'copied':
        this.#onCopied(frame);
        return;
      case 'done': {
        const file = this.#files.get(frame.inode);
        if (!file) throw new PgsluiceError('FOLLOWER_PROTOCOL', `${frame.inode} is done, but not known`);
        this.#finish(file);
        file.done(frame.size);
        this.#advance(file);
        return;
      }
      case 'lost':
        this.#host.loss(frame.bytes, `${frame.name} was removed before it was read`);
        return;
      case 'begun':
        this.#begun = true;
        this.#host.touch();
        return;
      case 'file':
        this.#onFileFrame(frame);
        return;
      case 'gone': {
        const file = this.#files.get(frame.inode);
        if (!file || file === this.#open || file.gone) return;
        this.#finish(file);
        file.gone = true;
        this.#mayLose(file, 'removed while it was not watched');
        this.#advance(file);
        return;
      }
      case 'heartbeat':
        if (frame.behind === 0 && this.#open) this.#host.status.notice = null;
        this.#host.onCommonFrame(frame);
        return;
      default:
        this.#host.onCommonFrame(frame);
    }
  }

  /** @param {import('../codec/frames.js').FileFrame} frame */
  #onFileFrame(frame) {
    if (this.#open) {
      this.#open.leftAt = performance.now();
      this.#open.rest();
      if (this.#open.pendingBytes > 0) {
        this.#unfinished.delete(this.#open);
        this.#unfinished.add(this.#open);
        this.#boundUnfinished();
      }
    }
    let file = this.#files.get(frame.inode);
    if (frame.state === 'new') {
      if (frame.offset !== 0)
        throw new PgsluiceError('FOLLOWER_PROTOCOL', 'a new file that does not begin at 0');
      if (!file || file.offset > 0) {
        if (file) this.#replace(file);
        const { inode, name } = frame;
        const nothing = { headLength: 0, headSum: NO_SUM, tailLength: 0, tailSum: NO_SUM };
        file = this.#newFile({ inode, name, offset: 0, ...nothing });
      }
    } else if (file && frame.state === 'shrunk' && frame.offset < file.offset) {
      this.#host.log.warn(
        { file: frame.name, from: file.offset, to: frame.offset },
        'a log file lost its end: what was read of it is stored, reading goes on at its present end',
      );
      this.#mayLose(file, 'cut to fewer bytes');
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
    this.#exposed = file;
    this.#openFileNo = file.fileNo;
    this.#host.status.file = frame.name;
    this.#advance(file);
  }

  /** Files that were left with an unfinished record hold it in memory: together no more than one record may have. */
  #boundUnfinished() {
    const { maxRecordBytes } = this.#host.context;
    const inMemory = (/** @type {LogFile} */ file) => Math.min(file.pendingBytes, maxRecordBytes);
    const unfinished = [...this.#unfinished].filter(file => file.leftAt > 0 && file.pendingBytes > 0);
    let bytes = unfinished.reduce((sum, file) => sum + inMemory(file), 0);
    this.#unfinished = new Set(unfinished);
    for (const [index, file] of unfinished.entries()) {
      const left = unfinished.length - index;
      if (left <= LEFT_UNFINISHED_MAX && bytes <= maxRecordBytes) return;
      bytes -= inMemory(file);
      this.#finish(file);
      this.#unfinished.delete(file);
    }
  }

  /** What is known of a file is true of another one now. @param {import('../codec/frames.js').CopiedFrame} frame */
  #onCopied({ inode, copy, name }) {
    const file = this.#files.get(inode);
    if (!file)
      throw new PgsluiceError('FOLLOWER_PROTOCOL', `${name} is said to be a copy of an unknown file`);
    const overwritten = this.#files.get(copy);
    if (overwritten && overwritten !== file) this.#replace(overwritten);
    this.#files.delete(inode);
    file.inode = copy;
    this.#files.set(copy, file);
    // What is only compressed is not written to meanwhile.
    if (!name.endsWith('.gz'))
      this.#mayLose(file, 'copied and truncated: what was written in between is unknown');
    file.gone = false;
    file.name = name;
    if (file === this.#open) this.#open = null;
    this.#advance(file);
  }

  /** What was written to a file after it was last read is not there any more. @param {LogFile} file @param {string} how */
  #mayLose(file, how) {
    if (file !== this.#exposed) return;
    this.#exposed = null;
    this.#host.loss(0, `${file.name} was ${how}, after ${file.offset} bytes of it were read`);
  }

  /** @param {Omit<import('../storage/positions.js').FilePosition, 'fileNo' | 'gone' | 'doneSize' | 'cursor'>} identity */
  #newFile(identity) {
    this.#limits.take(this.#files.size);
    const rest = { fileNo: this.#nextFileNo, gone: false, doneSize: null, cursor: null };
    const file = this.#logFile({ ...identity, ...rest });
    this.#nextFileNo += 1;
    this.#files.set(identity.inode, file);
    return file;
  }

  /** @param {import('../storage/positions.js').FilePosition} position */
  #logFile(position) {
    return new LogFile(position, this.#host.context);
  }

  /** Its inode serves another file now. @param {LogFile} file */
  #replace(file) {
    this.#finish(file);
    this.#mayLose(file, 'truncated or replaced');
    file.gone = true;
    this.#files.delete(file.inode);
    this.#advance(file);
  }

  /** Its unfinished record will stay unfinished. @param {LogFile} file */
  #finish(file) {
    this.#quiet(file);
    const pending = file.pendingBytes;
    if (pending === 0) return;
    this.#host.store(sink => file.end(sink));
    this.#host.log.warn({ file: file.name, bytes: pending }, 'a log file ends with an unfinished record');
    this.#advance(file);
  }

  /** @param {LogFile} file */
  #advance(file) {
    this.#advanced.add(file);
    this.#host.touch();
  }
}
