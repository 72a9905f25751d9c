/**
 * Finds out which log_line_prefix a text log is written with, while it is read. LineParser asks wants() at a line that
 * holds a message behind an unknown prefix; then no line from there on is dealt with until look() has seen enough of
 * the lines after it. What is found goes to the Prefixes that the files of a stream share. The same bytes give the
 * same prefix however they are cut; but quiet() and end() of the parser ask with what there is.
 * Work is bounded: after a search in vain the next begins as many bytes later as were looked at, at least twice as
 * many as the last time, up to MAX_PAUSE_BYTES.
 */
import { findLinePrefix } from './find-prefix.js';
import { holdsMessage, withKnownWord } from './line-kinds.js';
import { compileLinePrefix } from './line-prefix.js';

/** @import { LinePrefix } from './line-prefix.js' */

/**
 * @typedef {object} Prefixes what is known of log_line_prefix, shared by the files of a stream
 * @property {LinePrefix | null} current null: not known
 * @property {boolean} given by the user: then no other is looked for
 * @property {LinePrefix[]} [former] prefixes that were current: after a reload processes go over one by one, and a
 *   server may be put back
 */

const LF = 0x0a;
const TAB = 0x09;

/** Looked at before a prefix is chosen. */
const SAMPLE_BYTES = 64 * 1024;
/** Lines that no known prefix fits, after which the prefix was changed. */
const OTHER_LINES = 20;
/** A part of a sample is not made smaller than this. */
const FEWEST_LINES = 6;
const MAX_PAUSE_BYTES = 1024 * 1024;
const MAX_FORMER = 3;

export class PrefixSearch {
  #prefixes;
  /** file offset that the next search may begin at */
  #from = -Infinity;
  #pauseBytes = 0;
  /** of the search under way: up to where lines were looked at, and those that hold messages: start, end, ... */
  #lookedTo = 0;
  /** @type {number[]} */
  #lines = [];

  /** @param {Prefixes} prefixes */
  constructor(prefixes) {
    this.#prefixes = prefixes;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} at where a line begins that no known prefix fits
   * @param {number} end of it
   * @param {number} offset of the line in the file
   * @returns {boolean} whether a search begins with this line
   */
  wants(bytes, at, end, offset) {
    if (this.#prefixes.given || offset < this.#from || !holdsMessage(bytes, at, end)) return false;
    this.#lookedTo = offset;
    this.#lines.length = 0;
    return true;
  }

  /**
   * @param {Buffer} bytes
   * @param {number} at where the search began
   * @param {number} base file offset of the first of the bytes
   * @param {boolean} now choose with what there is
   * @param {(bytes: Buffer, at: number, end: number) => boolean} isKnown whether a known prefix fits the line
   * @returns {boolean} false: more bytes are needed
   */
  look(bytes, at, base, now, isKnown) {
    const start = base + at;
    const some = this.#prefixes.current !== null;
    let from = this.#lookedTo - base;
    let enough = now || bytes.length - at >= SAMPLE_BYTES;
    for (;;) {
      const end = bytes.indexOf(LF, from);
      if (end < 0 || end + 1 - at > SAMPLE_BYTES) break;
      if (bytes[from] !== TAB && holdsMessage(bytes, from, end) && !isKnown(bytes, from, end)) {
        this.#lines.push(base + from, base + end + 1);
        enough ||= some && this.#lines.length === 2 * OTHER_LINES;
      }
      from = end + 1;
      if (some && this.#lines.length === 2 * OTHER_LINES) break;
    }
    this.#lookedTo = base + from;
    if (!enough) return false;
    this.#choose(bytes, base, Math.max(this.#lookedTo, start + 1), start);
    return true;
  }

  /**
   * @param {Buffer} bytes
   * @param {number} base
   * @param {number} end file offset
   * @param {number} start file offset
   */
  #choose(bytes, base, end, start) {
    const lines = this.#lines;
    let found = null;
    // A sample may hold the lines of several prefixes, one after the other: then its beginning has the first.
    for (let count = lines.length / 2; count > 0 && found === null; count >>>= 1) {
      const parts = [];
      for (let index = 0; index < 2 * count; index += 2) {
        parts.push(withKnownWord(bytes.subarray(lines[index] - base, lines[index + 1] - base)));
      }
      found = findLinePrefix(Buffer.concat(parts));
      if (found !== null) end = lines[2 * count - 1];
      if (count <= FEWEST_LINES) break;
    }
    lines.length = 0;
    if (found === null) {
      this.#pauseBytes = Math.min(Math.max(2 * this.#pauseBytes, end - start), MAX_PAUSE_BYTES);
      this.#from = end + this.#pauseBytes;
      return;
    }
    this.#pauseBytes = 0;
    this.#from = end;
    useFirst(this.#prefixes, compileLinePrefix(found.text));
  }
}

/**
 * Makes a prefix the current one; the one that was becomes a former one.
 * @param {Prefixes} prefixes
 * @param {LinePrefix} prefix
 */
export function useFirst(prefixes, prefix) {
  const former = (prefixes.former ?? []).filter(({ text }) => text !== prefix.text);
  if (prefixes.current !== null && prefixes.current.text !== prefix.text) former.unshift(prefixes.current);
  prefixes.former = former.slice(0, MAX_FORMER);
  prefixes.current = prefix;
}
