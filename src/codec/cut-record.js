/**
 * A record that is longer than the limit, while it goes by: its beginning, its length and the SHA-256 of all its
 * bytes, in memory that does not grow. LineParser adds the bytes in order. And GrowingHash, which hashes a record ahead
 * while it only may become too long, so that no call has tens of megabytes to hash at once.
 */
import { createHash } from 'node:crypto';

/** Words are read across the end of the beginning. */
const SLACK_BYTES = 4;
/** Of what is new, so many times as many bytes are hashed in one call: it catches up and never takes long. */
const CATCH_UP = 4;
/** Longest character but one byte. */
const CHARACTER_TAIL = 3;

export class CutRecord {
  #hash;

  /** its first bytes, cut between two characters */
  beginning;
  view;
  /** bytes of it so far */
  length = 0;

  /**
   * @param {number} kind of record
   * @param {number} offset of the record in its file
   * @param {Buffer} bytes all that is there of it
   * @param {number} keptBytes at most so many of them are its beginning
   * @param {GrowingHash} growing may have hashed some of it already
   */
  constructor(kind, offset, bytes, keptBytes, growing) {
    this.kind = kind;
    this.offset = offset;
    const kept = endOfCharacters(bytes, Math.min(keptBytes, bytes.length));
    const memory = Buffer.allocUnsafeSlow(kept + SLACK_BYTES);
    bytes.copy(memory, 0, 0, kept);
    this.beginning = memory.subarray(0, kept);
    this.view = new DataView(memory.buffer, memory.byteOffset, memory.length);
    // What was thought to belong to it may have turned out not to.
    const ahead = growing.take(offset);
    const hashed = ahead !== null && ahead.length <= bytes.length ? ahead : null;
    this.#hash = hashed?.hash ?? createHash('sha256');
    this.length = hashed?.length ?? 0;
    this.add(bytes, this.length, bytes.length);
  }

  /**
   * @param {Buffer} bytes
   * @param {number} from
   * @param {number} to
   */
  add(bytes, from, to) {
    this.#hash.update(bytes.subarray(from, to));
    this.length += to - from;
  }

  /** @returns {Buffer} SHA-256 of the whole record; to be asked once */
  sha256() {
    return this.#hash.digest();
  }
}

export class GrowingHash {
  /** @type {import('node:crypto').Hash | null} */
  #hash = null;
  #start = 0;
  #end = 0;

  /**
   * @param {number} start file offset of the record
   * @param {number} end file offset of what seems to belong to it
   * @param {Buffer} bytes
   * @param {number} base file offset of the first of them
   * @param {number} newBytes that came since the last call
   */
  follow(start, end, bytes, base, newBytes) {
    if (this.#hash === null || this.#start !== start) {
      this.#hash = createHash('sha256');
      this.#start = this.#end = start;
    }
    const to = Math.min(end, this.#end + CATCH_UP * newBytes);
    if (to <= this.#end) return;
    this.#hash.update(bytes.subarray(this.#end - base, to - base));
    this.#end = to;
  }

  /**
   * @param {number} start file offset of a record
   * @returns {{ hash: import('node:crypto').Hash, length: number } | null} what was hashed of it; it is forgotten here
   */
  take(start) {
    const hash = this.#hash;
    this.#hash = null;
    return hash !== null && this.#start === start ? { hash, length: this.#end - start } : null;
  }

  forget() {
    this.#hash = null;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {number} end
 * @returns {number} `end`, or the place before the UTF-8 character that it would cut in two
 */
function endOfCharacters(bytes, end) {
  let start = end;
  while (start > 0 && end - start < CHARACTER_TAIL && (bytes[start] & 0xc0) === 0x80) start -= 1;
  // Bytes of another encoding look like the rest of a character that never began.
  return (bytes[start] & 0xc0) === 0xc0 ? start : end;
}
