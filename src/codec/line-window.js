/**
 * The bytes of a file that a line parser still needs, as one piece: from a little before the first record that is not
 * done up to the last byte that came. Appending copies each byte once; the rest moves only when half of the memory can
 * be had back, so the cost stays linear. Indexes into `bytes` are valid until the next append(); index + base is an
 * offset in the file. It also remembers up to where the bytes may be more than plain storable text.
 */
import { isStorable } from './copy-escape.js';

const LF = 0x0a;
const SMALL_BYTES = 1024;
/** Memory that is kept, and how much of it must be free to give it back. */
const IDLE_BYTES = 4 * 1024;
const LARGE_BYTES = 4 * 1024 * 1024;
const SHRINK_ABOVE = 4;
/** Words are read across the end. */
const SLACK_BYTES = 8;
/** The last step to the limit is at most to so many times as much. */
const LAST_GROWTH = 16;
/** Past the limit, which pieces of any size may lead to, memory grows by this part of it. */
const GROWTH_PART = 4;
const NOTHING = Buffer.alloc(0);

export class LineWindow {
  #memory = NOTHING;
  #usualBytes;
  /** file offset up to which whole lines were looked at for #suspectEnd */
  #checked;

  /** what is there: a view, replaced by append() and trim() */
  bytes = NOTHING;
  /** of the same bytes and SLACK_BYTES more */
  view = new DataView(new ArrayBuffer(SLACK_BYTES));
  /** file offset of the first of them */
  base;
  /** lines that begin before this file offset may hold bytes that cannot be stored as they are */
  suspectEnd = -Infinity;

  /**
   * @param {number} offset where in the file the first byte will lie
   * @param {boolean} checks whether suspectEnd is wanted
   * @param {number} usualBytes more than that are not needed at a time, unless pieces are very large
   */
  constructor(offset, checks, usualBytes) {
    this.base = offset;
    this.#usualBytes = usualBytes + SLACK_BYTES;
    this.#checked = checks ? offset : Infinity;
  }

  /** @returns {number} file offset after the last byte */
  get end() {
    return this.base + this.bytes.length;
  }

  /**
   * @param {Buffer} chunk is copied
   * @param {number} keepFrom file offset: bytes before it may go
   */
  append(chunk, keepFrom) {
    const { length } = this.bytes;
    const memory = this.#memory;
    if (length + chunk.length + SLACK_BYTES > memory.length) {
      const from = Math.max(0, keepFrom - this.base);
      const kept = length - from;
      const needed = kept + chunk.length + SLACK_BYTES;
      if (kept > memory.length / 2 || needed > memory.length) {
        this.#memory = Buffer.allocUnsafeSlow(Math.max(needed, this.#grownBytes(), SMALL_BYTES));
      }
      memory.copy(this.#memory, 0, from, length);
      this.base += from;
      this.#show(kept);
    }
    const at = this.bytes.length;
    chunk.copy(this.#memory, at);
    this.#show(at + chunk.length);
    this.#check(at + chunk.lastIndexOf(LF) + 1);
  }

  /** The file has ended: its last line may have no newline. */
  checkRest() {
    this.#check(this.bytes.length);
  }

  /**
   * Gives memory back when much more is held than needed.
   * @param {number} keepFrom file offset: bytes before it may go
   * @param {boolean} [idle] nothing more is expected soon
   */
  trim(keepFrom, idle = false) {
    const memory = this.#memory;
    if (memory.length <= (idle ? IDLE_BYTES : LARGE_BYTES)) return;
    const from = Math.max(0, keepFrom - this.base);
    const kept = this.bytes.length - from;
    if (kept > memory.length / SHRINK_ABOVE) return;
    this.#memory = Buffer.allocUnsafeSlow(Math.max(2 * kept, SMALL_BYTES) + SLACK_BYTES);
    memory.copy(this.#memory, 0, from, from + kept);
    this.base += from;
    this.#show(kept);
  }

  /** @returns {number} size of the memory that comes next */
  #grownBytes() {
    const { length } = this.#memory;
    const usual = this.#usualBytes;
    if (length >= usual) return length + Math.ceil(length / GROWTH_PART);
    // Doubled, then at once to the limit: memory that is not written to yet costs nothing, a copy costs both sizes.
    return length * LAST_GROWTH > usual ? usual : length * 2;
  }

  /** @param {number} length */
  #show(length) {
    const memory = this.#memory;
    this.bytes = memory.subarray(0, length);
    if (this.view.buffer !== memory.buffer || this.view.byteOffset !== memory.byteOffset) {
      this.view = new DataView(memory.buffer, memory.byteOffset, memory.length);
    }
  }

  /** @param {number} to index after a line */
  #check(to) {
    const from = this.#checked - this.base;
    if (to <= from) return;
    this.#checked = this.base + to;
    if (!isStorable(this.bytes.subarray(Math.max(from, 0), to))) this.suspectEnd = this.#checked;
  }
}
