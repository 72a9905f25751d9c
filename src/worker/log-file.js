/**
 * One log file of a stream as the worker knows it: its identity, its parser while it is being read, and what is
 * needed to prove it to the next follower. Pure apart from what the parser writes into the sink.
 */
import { posixCksum } from '../codec/cksum.js';
import { parserFor } from './parser-for.js';

/** @typedef {import('../storage/positions.js').FilePosition} FilePosition */
/** @typedef {import('../codec/row-sink.js').RowSink} RowSink */
/** @typedef {import('./parser-for.js').FileContext} FileContext */

const PROOF_BYTES = 512; // of head and of tail, as the follower takes them
const NO_BYTES = Buffer.alloc(0);
export const NO_SUM = posixCksum(NO_BYTES);

export class LogFile {
  /** null while nothing of the file is in memory @type {import('./parser-for.js').LogParser | null} */
  #parser = null;
  #context;
  /** the first bytes of a file that is read from its start, until PROOF_BYTES of them are there @type {Buffer | null} */
  #head = null;
  #position;

  /** performance.now() when the follower went on to another file; 0 while it is the open one */
  leftAt = 0;

  /**
   * @param {FilePosition} position as committed, or of a new file
   * @param {FileContext} context
   */
  constructor(position, context) {
    this.#position = position;
    this.#context = context;
    if (position.offset === 0) this.#head = NO_BYTES;
  }

  get inode() {
    return this.#position.inode;
  }

  /** Its bytes were found in another file: a copy, or what became of it when it was compressed. */
  set inode(inode) {
    this.#position.inode = inode;
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

  /** Bytes of unfinished records. */
  get pendingBytes() {
    return this.#parser?.pendingBytes ?? 0;
  }

  /**
   * @param {Buffer} chunk the bytes at `offset`; a view, valid only during the call
   * @param {RowSink} sink
   */
  write(chunk, sink) {
    const { fileNo, offset, name } = this.#position;
    this.#parser ??= parserFor(name, { ...this.#context, fileNo, offset });
    if (this.#head && this.#head.length < PROOF_BYTES) {
      this.#head = Buffer.concat([this.#head, chunk.subarray(0, PROOF_BYTES - this.#head.length)]);
    }
    this.#parser.write(chunk, sink);
  }

  /**
   * The host has looked again and there was nothing more: what only waited for more lines is complete.
   * @param {RowSink} sink
   * @returns {boolean} whether that made a difference
   */
  quiet(sink) {
    if (!this.#parser || this.#parser.pendingBytes === 0) return false;
    const before = this.#parser.recordOffset;
    this.#parser.quiet(sink);
    return this.#parser.recordOffset !== before;
  }

  /**
   * Nothing more will come for the unfinished record.
   * @param {RowSink} sink
   */
  end(sink) {
    if (this.#parser && this.#parser.pendingBytes > 0) this.#parser.end(sink);
  }

  /** The host has lost the end of the file: it goes on at `offset`. @param {number} offset */
  shrinkTo(offset) {
    this.#parser = null;
    this.#position = { ...this.#position, offset, tailLength: 0, tailSum: NO_SUM };
  }

  /** Whether it is no longer there; it may come back. */
  get gone() {
    return this.#position.gone;
  }

  set gone(gone) {
    this.#position.gone = gone;
  }

  /** A compressed file of this size is dealt with for ever. @param {number} size */
  done(size) {
    this.#position.doneSize = size;
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
    if (this.#parser && this.#parser.recordOffset !== position.offset) {
      position.offset = this.#parser.recordOffset;
      const tail = this.#parser.tail;
      position.tailLength = tail.length;
      position.tailSum = posixCksum(tail);
    }
    if (this.#head && position.headLength < PROOF_BYTES) {
      position.headLength = Math.min(this.#head.length, position.offset);
      position.headSum = posixCksum(this.#head.subarray(0, position.headLength));
    }
    return position;
  }
}
