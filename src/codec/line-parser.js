/**
 * The bytes of one text log, in any pieces -> COPY BINARY rows and rejected pieces, in the order of their first byte.
 * Formats: stderr with any log_line_prefix, jsonlog, plain lines; in stderr and auto each record is what it looks like,
 * since csvlog rows and JSON objects land in the .log file when log_destination is reloaded. Every byte belongs to
 * one row or rejected piece. recordOffset is only ever a cut point: no record has lines on both sides of it, so who
 * goes on there gets the rows that are missing. The result does not depend on how the bytes were cut, but quiet()
 * completes what only waits for more lines. Memory is bounded by twice maxRecordBytes, work is linear. Never throws.
 * Modes:
 *   LINES   at the beginning of a line (#at)         SEARCH  the line at #at waits for its prefix to be found
 *   CSVLOG  a csvlog row has begun at #at            CUT     within a record that is too long
 */
import { DEFAULT_MAX_REJECTED_BYTES } from './copy-rejected.js';
import { CsvlogScanner, UNFINISHED } from './csvlog-structure.js';
import { CutMode } from './cut-mode.js';
import { GrowingHash } from './cut-record.js';
import { LineMatcher } from './line-matcher.js';
import { LineWindow } from './line-window.js';
import { PrefixSearch } from './prefix-search.js';
import { RecordRelease } from './record-release.js';
import { RecordWriter } from './record-writer.js';
import { CSVLOG, JSONLOG, MESSAGE, TEXT, WaitingRecords } from './waiting-records.js';

/** @import { RowContext, RowSink } from './row-sink.js' */

/** @typedef {import('./prefix-search.js').Prefixes} Prefixes */

const LF = 0x0a;
const TAB = 0x09;

/** Far more than lie between the lines of one message. */
const WINDOW_BYTES = 64 * 1024;
/** Bounds memory, and what is read again after a restart. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** What a line is, is told by so much of it: names and host names are shorter. */
const HEAD_BYTES = 8192;
/** Pieces are no longer than this, as a rule. */
const PIECE_BYTES = 256 * 1024;
/** What a position is proven with when reading is resumed. */
const TAIL_BYTES = 512;
const NO_RECORD = -1;

const UNFINISHED_REASON = 'unfinished record at the end of the file';
const BROKEN_REASON = 'not csv: a quote that no csvlog row has there';

const LINES = 0;
const SEARCH = 1;
const IN_CSVLOG = 2;
const CUT = 3;

export class LineParser {
  #maxRecordBytes;
  #format;
  #matcher;
  #search;
  #writer;
  #window;
  #records;
  #scanner = new CsvlogScanner();
  #hash = new GrowingHash();
  #mode = LINES;
  /** file offset of the line, or of the csvlog row, that comes next; up to where its end was looked for */
  #at;
  #searched;
  #release;
  /** number of the record that the last line belongs to, if a line with a TAB may follow */
  #current = NO_RECORD;
  /** file offset of a line that begins like a csvlog row but is none, and why it is rejected */
  #notCsvlogAt = NaN;
  #notCsvlogReason = '';
  #cut;
  /** where quiet() last found an unfinished line */
  #quietOffset = NaN;

  /**
   * @param {RowContext & { offset: number, maxRecordBytes: number, maxRejectedBytes?: number,
   *   format: 'auto' | 'stderr' | 'jsonlog' | 'plain', prefixes: Prefixes, windowBytes?: number,
   *   maxWaitingBytes?: number }} options
   *   offset: where in the file the first byte lies, a cut point; maxRecordBytes: of a longer record the first
   *   maxRejectedBytes are stored; windowBytes: so many other bytes after its last line complete a record;
   *   maxWaitingBytes: so many wait at most, besides the record that grows, then all are completed
   */
  constructor({
    offset,
    maxRecordBytes,
    maxRejectedBytes = DEFAULT_MAX_REJECTED_BYTES,
    format,
    prefixes,
    windowBytes = WINDOW_BYTES,
    maxWaitingBytes = MAX_WAITING_BYTES,
    ...context
  }) {
    this.#maxRecordBytes = maxRecordBytes;
    const keptBytes = Math.min(maxRejectedBytes, maxRecordBytes);
    this.#format = format;
    this.#matcher = new LineMatcher(prefixes);
    this.#search = new PrefixSearch(prefixes);
    this.#writer = new RecordWriter(context, keptBytes);
    const usualBytes = maxRecordBytes + maxWaitingBytes + PIECE_BYTES;
    this.#window = new LineWindow(offset, format !== 'jsonlog', usualBytes);
    this.#records = new WaitingRecords(windowBytes);
    const parts = { records: this.#records, writer: this.#writer, window: this.#window };
    this.#release = new RecordRelease(parts, { offset, maxWaitingBytes });
    this.#cut = new CutMode(
      {
        ...parts,
        context,
        matcher: this.#matcher,
        scanner: this.#scanner,
        hash: this.#hash,
      },
      { maxRecordBytes, keptBytes, headBytes: HEAD_BYTES },
    );
    this.#at = this.#searched = offset;
  }

  /** @returns {number} the file offset of the next byte for write() */
  get offset() {
    return this.#window.end;
  }

  /** @returns {number} what to commit: all before it is stored or rejected, nothing of what comes after */
  get recordOffset() {
    return this.#release.recordOffset;
  }

  /** @returns {number} bytes in between */
  get pendingBytes() {
    return this.#window.end - this.#release.recordOffset;
  }

  /** @returns {number} the latest log_time stored, milliseconds since 1970; -Infinity before the first row */
  get maxLogTimeMs() {
    return this.#writer.maxLogTimeMs;
  }

  /** @returns {Uint8Array} the last bytes before recordOffset, at most TAIL_BYTES; fewer where they are not at hand */
  get tail() {
    const end = this.#release.recordOffset - this.#window.base;
    return this.#window.bytes.subarray(Math.max(0, end - TAIL_BYTES), Math.max(0, end));
  }

  /**
   * @param {Buffer} chunk the next bytes of the file; valid only during the call
   * @param {RowSink} out
   */
  write(chunk, out) {
    const needed = this.#mode === CUT ? this.#at : this.#release.recordOffset;
    this.#window.append(chunk, needed - TAIL_BYTES);
    this.#writer.begin();
    this.#parse(out, false, false);
    this.#followGrowing(chunk.length);
    this.#window.trim((this.#mode === CUT ? this.#at : this.#release.recordOffset) - TAIL_BYTES);
  }

  /**
   * The host has looked again and nothing more was there: what is complete but for lines that might follow is so now.
   * While a line is unfinished somebody is writing: then only when nothing has come since the last call.
   * @param {RowSink} out
   */
  quiet(out) {
    this.#writer.begin();
    this.#parse(out, true, false);
    const unfinished = this.#at < this.#window.end || (this.#mode === CUT && this.#cut.inLine);
    if (unfinished && this.#quietOffset !== this.#window.end) {
      this.#quietOffset = this.#window.end;
      return;
    }
    if (this.#mode !== CUT) this.#completeAll(out);
    else if (this.#cut.endsWhenQuiet) this.#finishCut(out);
    if (this.pendingBytes === 0) this.#forget();
  }

  /**
   * The file has ended for good.
   * @param {RowSink} out
   */
  end(out) {
    this.#writer.begin();
    this.#window.checkRest();
    this.#parse(out, true, true);
    this.#completeAll(out);
    this.#forget();
  }

  /**
   * @param {RowSink} out
   * @param {boolean} now a prefix is chosen with what there is
   * @param {boolean} ended the last line has no newline
   */
  #parse(out, now, ended) {
    for (;;) {
      const mode = this.#mode;
      if (mode === LINES) this.#readLines(out, ended);
      else if (mode === CUT) this.#continueCut(out, ended);
      else if (mode === IN_CSVLOG) this.#continueCsvlog(out, ended);
      else this.#continueSearch(now);
      if (this.#mode === mode && (mode !== SEARCH || !now)) return;
    }
  }

  /**
   * LINES: deals with all whole lines, unless the mode changes.
   * @param {RowSink} out
   * @param {boolean} ended
   */
  #readLines(out, ended) {
    const { bytes, base } = this.#window;
    const { length } = bytes;
    const maxRecordBytes = this.#maxRecordBytes;
    const format = this.#format;
    const withPrefix = format === 'auto' || format === 'stderr';
    const records = this.#records;
    const matcher = this.#matcher;
    let at = this.#at - base;
    let lineEnd = at < length ? bytes.indexOf(LF, Math.max(at, this.#searched - base)) : -1;
    while (at < length) {
      let next = lineEnd + 1;
      if (lineEnd < 0) {
        if (!ended && length - at <= maxRecordBytes) {
          this.#searched = base + length;
          break;
        }
        lineEnd = next = length;
      }
      this.#at = base + at;
      if (next - at > maxRecordBytes) {
        this.#beginLongLine(at, bytes[next - 1] === LF ? next : -1, out);
        return;
      }
      if (!withPrefix) {
        this.#writeLine(format === 'plain' ? TEXT : JSONLOG, at, next, out);
      } else if (bytes[at] === TAB && this.#current !== NO_RECORD) {
        const slot = records.openSlot(this.#current);
        if (records.bytes[slot] + next - at > maxRecordBytes) {
          if (this.#isAlone(slot, base + at, out)) {
            records.addLine(slot, base + lineEnd, base + next, next - at);
            this.#beginCut(MESSAGE, records.start[slot] - base, next, false);
            return;
          }
          continue;
        }
        records.addLine(slot, base + lineEnd, base + next, next - at);
      } else if (matcher.match(bytes, at, Math.min(lineEnd, at + HEAD_BYTES))) {
        this.#addPart(at, lineEnd, next, out);
        if (this.#mode === CUT) return;
      } else {
        this.#current = NO_RECORD;
        const kind = matcher.kindOf(bytes, at, Math.min(lineEnd, at + HEAD_BYTES));
        if (kind === CSVLOG) {
          if (this.#at !== this.#notCsvlogAt) {
            this.#beginCsvlog();
            return;
          }
          this.#completeAll(out);
          this.#writer.reject(bytes.subarray(at, next), base + at, next - at, this.#notCsvlogReason, out);
          at = next;
          this.#release.recordOffset = base + at;
          if (at < length) lineEnd = bytes.indexOf(LF, at);
          continue;
        }
        if (kind === TEXT && this.#search.wants(bytes, at, lineEnd, base + at)) {
          this.#mode = SEARCH;
          return;
        }
        this.#writeLine(kind, at, next, out);
      }
      at = next;
      if (at < length) lineEnd = bytes.indexOf(LF, at);
    }
    this.#at = base + at;
    this.#release.advance(base + at, out);
  }

  /**
   * A line that matched: a message, or one more part of one.
   * @param {number} at
   * @param {number} lineEnd
   * @param {number} next
   * @param {RowSink} out
   */
  #addPart(at, lineEnd, next, out) {
    const records = this.#records;
    const matcher = this.#matcher;
    const { base, bytes } = this.#window;
    const start = base + at;
    const { part } = matcher;
    const process = matcher.processOf(bytes);
    const open = records.openOf(process, start);
    if (open !== NO_RECORD) {
      const slot = records.openSlot(open);
      if (part > records.lastPart[slot] && this.#release.keepsWaiting(slot, start, out)) {
        const tooLong = records.bytes[slot] + next - at > this.#maxRecordBytes;
        if (!tooLong || this.#isAlone(slot, start, out)) {
          records.addPart(slot, part, base + matcher.textAt, base + lineEnd, base + next, next - at);
          this.#current = open;
          if (tooLong) this.#beginCut(MESSAGE, records.start[slot] - base, next, false);
          return;
        }
      }
      records.complete(open);
    }
    this.#release.advance(start, out);
    this.#release.limit(start, out);
    this.#pushMessage(at, lineEnd, next, process);
  }

  /**
   * Begins a record with the line that matched.
   * @param {number} at
   * @param {number} lineEnd
   * @param {number} next
   * @param {number} process
   */
  #pushMessage(at, lineEnd, next, process) {
    const records = this.#records;
    const matcher = this.#matcher;
    const { base } = this.#window;
    const slot = records.push(MESSAGE, base + at, base + next);
    records.own(process);
    records.origin[slot] = base;
    matcher.copyTo(records, slot, at);
    records.addPart(slot, matcher.part, base + matcher.textAt, base + lineEnd, base + next, 0);
    this.#current = records.lastNumber();
  }

  /**
   * A line, or a csvlog row, that is a record of its own.
   * @param {number} kind
   * @param {number} at
   * @param {number} next
   * @param {RowSink} out
   */
  #writeLine(kind, at, next, out) {
    const { base } = this.#window;
    const records = this.#records;
    this.#current = NO_RECORD;
    if (records.count > 0) {
      this.#release.advance(base + at, out);
      this.#release.limit(base + at, out);
    }
    if (records.count > 0) {
      records.push(kind, base + at, base + next);
    } else {
      this.#writer.writeLines(kind, this.#window, at, next, out);
      this.#release.recordOffset = base + next;
    }
  }

  /** @param {boolean} now */
  #continueSearch(now) {
    const { bytes, base } = this.#window;
    const isKnown = (/** @type {Buffer} */ line, /** @type {number} */ at, /** @type {number} */ end) =>
      this.#matcher.match(line, at, Math.min(end, at + HEAD_BYTES));
    if (this.#search.look(bytes, this.#at - base, base, now, isKnown)) this.#mode = LINES;
  }

  /**
   * IN_CSVLOG: looks for the end of the row. A row that is not csv is rejected up to the end of its first line.
   * @param {RowSink} out
   * @param {boolean} ended
   */
  #continueCsvlog(out, ended) {
    const { bytes, base } = this.#window;
    const at = this.#at - base;
    // Not further: whether a row is too long or no csv must not depend on how much of it is there.
    const limit = Math.min(bytes.length, at + this.#maxRecordBytes);
    const end = this.#scanner.scan(bytes.subarray(0, limit), this.#searched - base);
    if (end === UNFINISHED) {
      this.#searched = base + limit;
      if (bytes.length > limit) {
        this.#completeAll(out);
        this.#beginCut(CSVLOG, at, limit, true);
        return;
      }
      if (!ended) return;
    }
    this.#mode = LINES;
    if (end >= 0) {
      this.#writeLine(CSVLOG, at, end, out);
      this.#at = this.#searched = base + end;
      return;
    }
    this.#notCsvlogAt = this.#searched = this.#at;
    this.#notCsvlogReason = end === UNFINISHED ? UNFINISHED_REASON : BROKEN_REASON;
  }

  /**
   * Begins a record of a line that is too long, or makes the record that it belongs to one.
   * @param {number} at
   * @param {number} next after its newline; -1: that has not come yet
   * @param {RowSink} out
   */
  #beginLongLine(at, next, out) {
    const { bytes, base } = this.#window;
    const records = this.#records;
    const end = next < 0 ? bytes.length : next;
    const headEnd = at + Math.min(HEAD_BYTES, this.#maxRecordBytes);
    const inLine = next < 0;
    let kind = this.#format === 'plain' ? TEXT : JSONLOG;
    if (this.#format === 'auto' || this.#format === 'stderr') {
      const matcher = this.#matcher;
      if (bytes[at] === TAB && this.#current !== NO_RECORD) {
        const slot = records.openSlot(this.#current);
        if (this.#isAlone(slot, base + at, out)) {
          records.addLine(slot, base + end, base + end, end - at);
          this.#beginCut(MESSAGE, records.start[slot] - base, end, inLine);
          return;
        }
        kind = TEXT;
      } else if (matcher.match(bytes, at, headEnd)) {
        const { part, textAt } = matcher;
        const process = matcher.processOf(bytes);
        const open = records.openOf(process, base + at);
        const slot = open === NO_RECORD ? -1 : records.openSlot(open);
        if (slot >= 0 && part > records.lastPart[slot] && this.#isAlone(slot, base + at, out)) {
          records.addPart(slot, part, base + textAt, base + end, base + end, end - at);
          this.#beginCut(MESSAGE, records.start[slot] - base, end, inLine);
          return;
        }
        this.#completeAll(out);
        this.#pushMessage(at, end, end, process);
        this.#beginCut(MESSAGE, at, end, inLine);
        return;
      } else {
        kind = matcher.kindOf(bytes, at, headEnd);
      }
    }
    if (kind === CSVLOG && this.#at !== this.#notCsvlogAt) {
      this.#beginCsvlog();
      return;
    }
    this.#completeAll(out);
    this.#beginCut(kind === CSVLOG ? TEXT : kind, at, end, inLine);
  }

  /** A csvlog row seems to begin with the line that comes next. */
  #beginCsvlog() {
    this.#mode = IN_CSVLOG;
    this.#searched = this.#at;
    this.#current = NO_RECORD;
    this.#scanner.reset();
  }

  /**
   * As RecordRelease.isAlone().
   * @param {number} slot
   * @param {number} at
   * @param {RowSink} out
   */
  #isAlone(slot, at, out) {
    const isAlone = this.#release.isAlone(slot, at, out);
    if (!isAlone) this.#current = NO_RECORD;
    return isAlone;
  }

  /**
   * @param {number} kind
   * @param {number} at index of the record's first byte
   * @param {number} end up to where its bytes are there
   * @param {boolean} inLine its last line goes on behind them
   */
  #beginCut(kind, at, end, inLine) {
    this.#cut.begin(kind, at, end, inLine);
    this.#mode = CUT;
    this.#at = this.#cut.at;
  }

  /**
   * CUT: takes what belongs to the record.
   * @param {RowSink} out
   * @param {boolean} ended
   */
  #continueCut(out, ended) {
    const isOver = this.#cut.read(ended);
    this.#at = this.#cut.at;
    if (isOver) this.#finishCut(out);
  }

  /** @param {RowSink} out */
  #finishCut(out) {
    this.#cut.finish(out);
    this.#mode = LINES;
    this.#current = NO_RECORD;
    this.#release.recordOffset = this.#searched = this.#at;
  }

  /**
   * Hashes ahead what may become a record that is too long.
   * @param {number} newBytes
   */
  #followGrowing(newBytes) {
    const { bytes, base, end } = this.#window;
    if (end - this.#release.recordOffset <= this.#maxRecordBytes / 2) return;
    // While a prefix is looked for the window holds lines that belong to other records.
    if (this.#mode === CUT || this.#mode === SEARCH) return;
    const records = this.#records;
    let start = this.#at;
    let known = end;
    const slot = this.#current === NO_RECORD || this.#mode !== LINES ? -1 : records.openSlot(this.#current);
    if (slot >= 0 && records.isContiguous(slot, start)) {
      const at = start - base;
      const isShort = end - start < Math.min(HEAD_BYTES, this.#maxRecordBytes);
      const head = at + HEAD_BYTES;
      if (isShort) known = start;
      if (
        isShort ||
        bytes[at] === TAB ||
        (this.#matcher.match(bytes, at, head) && this.#matcher.part > records.lastPart[slot])
      )
        start = records.start[slot];
    }
    if (known - start > this.#maxRecordBytes / 2) this.#hash.follow(start, known, bytes, base, newBytes);
  }

  /** @param {RowSink} out */
  #completeAll(out) {
    this.#release.completeAll(this.#at, out);
    this.#current = NO_RECORD;
  }

  #forget() {
    this.#window.trim(this.#window.end - TAIL_BYTES, true);
    this.#records.shrink();
    this.#hash.forget();
  }
}
