/**
 * One log file of a stream as the worker knows it: its identity, its parser while it is being read, and what is
 * needed to prove it to the next follower. Pure apart from what the parser writes into the sink.
 */
import { posixCksum } from '../codec/cksum.js';
import { CsvlogParser } from '../codec/csvlog.js';

/** @typedef {import('../storage/positions.js').FilePosition} FilePosition */
/** @typedef {import('../codec/csvlog.js').RowSink} RowSink */

const PROOF_BYTES = 512; // of head and of tail, as the follower takes them

export class LogFile {
  /** null while nothing of the file is in memory @type {CsvlogParser | null} */
  #parser = null;
  #parserOptions;
  /** the first bytes of a file that is read from its start, until PROOF_BYTES of them are there @type {Buffer | null} */
  #head = null;
  /** the last bytes before recordOffset */
  #tail = Buffer.alloc(0);
  #tailIsNew = false;
  #position;

  /** ms since the epoch when the follower went on to another file; 0 while it is the open one */
  leftAt = 0;

  /**
   * @param {FilePosition} position as committed, or of a new file
   * @param {{ streamId: number, zones: ReadonlyMap<string, number>, maxRecordBytes: number }} parserOptions
   */
  constructor(position, parserOptions) {
    this.#position = position;
    this.#parserOptions = parserOptions;
    if (position.offset === 0) this.#head = Buffer.alloc(0);
  }

  get inode() {
    return this.#position.inode;
  }

  get fileNo() {
    return this.#position.fileNo;
  }

  get name() {
    return this.#position.name;
  }

  set name(name) {
    this.#position.name = name;
  }

  /** Offset of the next byte the follower will send. */
  get offset() {
    return this.#parser?.offset ?? this.#position.offset;
  }

  /** Bytes of an unfinished record. */
  get pendingBytes() {
    return this.#parser?.pendingBytes ?? 0;
  }

  /**
   * @param {Buffer} chunk the bytes at `offset`; a view, valid only during the call
   * @param {RowSink} sink
   */
  write(chunk, sink) {
    const { fileNo, offset } = this.#position;
    this.#parser ??= new CsvlogParser({ ...this.#parserOptions, fileNo, offset });
    const chunkOffset = this.#parser.offset;
    if (this.#head && this.#head.length < PROOF_BYTES) {
      this.#head = Buffer.concat([this.#head, chunk.subarray(0, PROOF_BYTES - this.#head.length)]);
    }
    this.#parser.write(chunk, sink);
    const end = this.#parser.recordOffset - chunkOffset;
    if (end > 0) {
      this.#tail = Buffer.from(chunk.subarray(Math.max(0, end - PROOF_BYTES), end));
      this.#tailIsNew = true;
    }
  }

  /**
   * Nothing more will come for the unfinished record.
   * @param {RowSink} sink
   */
  end(sink) {
    if (!this.#parser || this.#parser.pendingBytes === 0) return;
    this.#parser.end(sink);
    // The bytes were in earlier chunks: without a proof of the tail the head has to do.
    this.#tail = Buffer.alloc(0);
    this.#tailIsNew = true;
  }

  /** The host has lost the end of the file: it goes on at `offset`. @param {number} offset */
  shrinkTo(offset) {
    this.#parser = null;
    this.#position = { ...this.#position, offset, tailLength: 0, tailSum: posixCksum(Buffer.alloc(0)) };
  }

  /** Whether it is no longer there; it may come back. */
  get gone() {
    return this.#position.gone;
  }

  set gone(gone) {
    this.#position.gone = gone;
  }

  /** Gives back the parser's memory while nothing is pending. */
  rest() {
    if (!this.#parser || this.#parser.pendingBytes > 0) return;
    this.#position = this.position();
    this.#parser = null;
  }

  /** @returns {FilePosition} what to commit together with all rows written so far */
  position() {
    const position = { ...this.#position };
    if (this.#parser) position.offset = this.#parser.recordOffset;
    if (this.#head && position.headLength < PROOF_BYTES) {
      position.headLength = Math.min(this.#head.length, position.offset);
      position.headSum = posixCksum(this.#head.subarray(0, position.headLength));
    }
    if (this.#tailIsNew) {
      position.tailLength = this.#tail.length;
      position.tailSum = posixCksum(this.#tail);
    }
    return position;
  }
}
