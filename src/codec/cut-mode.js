/**
 * What LineParser does while a record goes by that is longer than the limit: takes the lines that belong to it, hashes
 * them, keeps the beginning, and writes that as a row marked as cut. begin() starts it, read() goes on with what is in
 * the window; when it says that the record is over, `at` is where the next line begins. Throws nothing.
 */
import { UNFINISHED } from './csvlog-structure.js';
import { CutRecord } from './cut-record.js';
import { CSVLOG, MESSAGE } from './waiting-records.js';

/** @import { CsvlogScanner } from './csvlog-structure.js' */
/** @import { GrowingHash } from './cut-record.js' */
/** @import { LineMatcher } from './line-matcher.js' */
/** @import { LineWindow } from './line-window.js' */
/** @import { RecordWriter } from './record-writer.js' */
/** @import { RowContext, RowSink } from './row-sink.js' */
/** @import { WaitingRecords } from './waiting-records.js' */

const LF = 0x0a;
const TAB = 0x09;

/**
 * @typedef {object} Parts of the parser, shared with it
 * @property {RowContext} context
 * @property {LineWindow} window
 * @property {LineMatcher} matcher
 * @property {WaitingRecords} records the cut one is the only one, if it is a MESSAGE
 * @property {CsvlogScanner} scanner stands in the row, if it is a CSVLOG
 * @property {RecordWriter} writer
 * @property {GrowingHash} hash
 */

export class CutMode {
  #parts;
  #maxRecordBytes;
  #keptBytes;
  #headBytes;
  /** @type {CutRecord | null} */
  #cut = null;
  /** the end of a line has not come yet */
  #inLine = false;
  /** it ends where its csv does, not with its line */
  #isCsv = false;
  /** file offset up to which the end of the line at `at` was looked for */
  #searched = 0;

  /** file offset after what was taken */
  at = 0;

  /**
   * @param {Parts} parts
   * @param {{ maxRecordBytes: number, keptBytes: number, headBytes: number }} limits headBytes: so much of a line
   *   tells what it is
   */
  constructor(parts, { maxRecordBytes, keptBytes, headBytes }) {
    this.#parts = parts;
    this.#maxRecordBytes = maxRecordBytes;
    this.#keptBytes = keptBytes;
    this.#headBytes = headBytes;
  }

  /** @returns {boolean} whether its last line has not ended yet */
  get inLine() {
    return this.#inLine;
  }

  /** @returns {boolean} whether a quiet host means that it is over */
  get endsWhenQuiet() {
    return !this.#inLine && this.#cut?.kind === MESSAGE;
  }

  /**
   * @param {number} kind
   * @param {number} at index of the record's first byte
   * @param {number} end up to where its bytes are there
   * @param {boolean} inLine its last line goes on behind them
   */
  begin(kind, at, end, inLine) {
    const { window, hash } = this.#parts;
    const { bytes, base } = window;
    this.#cut = new CutRecord(kind, base + at, bytes.subarray(at, end), this.#keptBytes, hash);
    this.#inLine = inLine;
    this.#isCsv = kind === CSVLOG;
    this.at = this.#searched = base + end;
  }

  /**
   * Takes what belongs to the record.
   * @param {boolean} ended the last line has no newline
   * @returns {boolean} whether the record is over
   */
  read(ended) {
    const { window, scanner } = this.#parts;
    const { bytes, base } = window;
    const { length } = bytes;
    const cut = /** @type {CutRecord} */ (this.#cut);
    for (;;) {
      const at = this.at - base;
      if (this.#inLine && at < length) {
        const end = this.#isCsv ? scanner.scan(bytes, at) : bytes.indexOf(LF, at) + 1 || UNFINISHED;
        const stop = end >= 0 ? end : end === UNFINISHED ? length : scanner.brokenAt;
        cut.add(bytes, at, stop);
        this.at = this.#searched = base + stop;
        this.#inLine = end < 0;
        if (this.#isCsv && end !== UNFINISHED) {
          // What is no csv any more ends with its line.
          this.#isCsv = false;
          if (this.#inLine) continue;
        }
      }
      if (this.#inLine && !ended) return false;
      if (cut.kind === MESSAGE && !this.#inLine) {
        const belongs = this.#belongs(this.at - base, ended);
        if (belongs === null) return false;
        if (belongs) {
          this.#inLine = true;
          continue;
        }
      }
      this.#inLine = false;
      return true;
    }
  }

  /**
   * @param {number} at where a line begins
   * @param {boolean} ended
   * @returns {boolean | null} whether the line belongs to the record; null: that needs more bytes
   */
  #belongs(at, ended) {
    const { window, matcher, records } = this.#parts;
    const { bytes, base } = window;
    const { length } = bytes;
    if (at === length) return ended ? false : null;
    if (bytes[at] === TAB) return true;
    const head = Math.min(this.#headBytes, this.#maxRecordBytes);
    let lineEnd = bytes.indexOf(LF, Math.max(at, this.#searched - base));
    if (lineEnd < 0) {
      this.#searched = base + length;
      if (length - at <= this.#maxRecordBytes && !ended) return null;
      lineEnd = length;
    }
    const slot = records.slotAt(0);
    const headEnd = lineEnd - at < this.#maxRecordBytes ? Math.min(lineEnd, at + this.#headBytes) : at + head;
    if (!matcher.match(bytes, at, headEnd) || matcher.part <= records.lastPart[slot]) return false;
    if (matcher.processOf(bytes) !== records.process[slot]) return false;
    records.lastPart[slot] = matcher.part;
    return true;
  }

  /**
   * Writes what is kept of it.
   * @param {RowSink} out
   */
  finish(out) {
    const { records, writer, context } = this.#parts;
    const { streamId, fileNo } = context;
    const cut = /** @type {CutRecord} */ (this.#cut);
    const { kind, offset, length } = cut;
    writer.writeCut(kind, records, records.slotAt(0), cut.beginning, cut.view, offset, out);
    out.cut({ streamId, fileNo, offset, length, sha256: cut.sha256() });
    if (kind === MESSAGE) {
      records.completeAll();
      records.drop(records.count);
    }
    this.#cut = null;
  }
}
