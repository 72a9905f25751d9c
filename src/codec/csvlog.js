/**
 * The bytes of one csvlog file, in any pieces -> COPY BINARY rows and rejected pieces, in the order of the file.
 * Every byte given to write() is accounted for exactly once: as part of a stored row, as part of a rejected piece, or
 * as pending. The result does not depend on how the bytes were cut. Memory is bounded by maxRecordBytes, work is
 * linear in the bytes. Nothing in the input makes it throw.
 * Modes, each a way to read the bytes that come next:
 *   BETWEEN  nothing is pending
 *   WITHIN   a record has begun; its bytes are in #pending, the scanner stands at its end. A record longer than
 *            maxRecordBytes keeps only its beginning there, which is stored, marked as cut, when its end is found
 *   BROKEN   the bytes in #pending are not csv; waiting for a newline that a row follows
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { CSVLOG_COLUMNS, isCsvlogColumnCount } from './copy-columns.js';
import { DEFAULT_MAX_REJECTED_BYTES } from './copy-rejected.js';
import { CsvlogRowEncoder } from './csvlog-row.js';
import {
  BROKEN as NOT_CSV,
  closeRecord,
  CsvlogScanner,
  findRowStart,
  UNFINISHED,
} from './csvlog-structure.js';
import { CUT_BIT } from './row-ends.js';

/** @import { RowContext, RowSink } from './row-sink.js' */

const LF = 0x0a;

const BETWEEN = 0;
const WITHIN = 1;
const BROKEN = 2;

/** Room for the usual unfinished record; more than LARGE is given back when the record is done. */
const SMALL_PENDING_BYTES = 1024;
const LARGE_PENDING_BYTES = 64 * 1024;
/** The last step of what is pending is by so much. */
const LAST_GROWTH = 4;
/** From here on a record is hashed as it comes: it may be cut, and hashing all of it at once would block. */
const HASHED_ABOVE_BYTES = 1024 * 1024;
const NOTHING = Buffer.alloc(0);
/** What a position is proven with when reading is resumed. */
const TAIL_BYTES = 512;

const UNFINISHED_REASON = 'unfinished record at the end of the file';
const BROKEN_REASON = 'not csv: a quote that no csvlog row has there';

export class CsvlogParser {
  #streamId;
  #fileNo;
  #maxRecordBytes;
  #maxRejectedBytes;
  #encoder;
  #scanner = new CsvlogScanner();
  #mode = BETWEEN;
  /** The beginning of what is pending; all of it unless it is longer than maxRecordBytes. */
  #pending = NOTHING;
  #kept = 0;
  /** BROKEN: bytes of #pending in which no row begins. */
  #searched = 0;
  #recordOffset;
  #offset;
  #maxLogTimeMs = -Infinity;
  #tail = NOTHING;
  /** of a long record @type {import('node:crypto').Hash | null} */
  #hash = null;

  /**
   * @param {RowContext & { offset: number, maxRecordBytes: number, maxRejectedBytes?: number }} options offset: where
   *   in the file the first byte lies, a record begins there; of a record longer than maxRecordBytes the beginning is
   *   stored, maxRejectedBytes of it; so much is also handed on of a rejected piece
   */
  constructor({ offset, maxRecordBytes, maxRejectedBytes = DEFAULT_MAX_REJECTED_BYTES, ...context }) {
    this.#streamId = context.streamId;
    this.#fileNo = context.fileNo;
    this.#recordOffset = offset;
    this.#offset = offset;
    this.#maxRecordBytes = maxRecordBytes;
    this.#maxRejectedBytes = Math.min(maxRejectedBytes, maxRecordBytes);
    this.#encoder = new CsvlogRowEncoder(context);
  }

  /** @returns {number} the file offset of the next byte for write() */
  get offset() {
    return this.#offset;
  }

  /** @returns {number} the file offset of the first byte that is neither stored nor rejected: what to commit */
  get recordOffset() {
    return this.#recordOffset;
  }

  /** @returns {number} bytes in between; those in memory are at most maxRecordBytes and a few */
  get pendingBytes() {
    return this.#offset - this.#recordOffset;
  }

  /** @returns {Uint8Array} the last bytes before recordOffset, at most TAIL_BYTES; fewer where they are not at hand */
  get tail() {
    return this.#tail;
  }

  /** @returns {number} the latest log_time stored, milliseconds since 1970; -Infinity before the first row */
  get maxLogTimeMs() {
    return this.#maxLogTimeMs;
  }

  /**
   * @param {Buffer} chunk the next bytes of the file; valid only during the call
   * @param {RowSink} out
   */
  write(chunk, out) {
    const begun = this.#recordOffset;
    const chunkOffset = this.#offset;
    this.#take(chunk, out);
    if (this.#recordOffset === begun) return;
    const end = Math.max(0, this.#recordOffset - chunkOffset);
    this.#tail = Buffer.from(chunk.subarray(Math.max(0, end - TAIL_BYTES), end));
  }

  /**
   * @param {Buffer} chunk
   * @param {RowSink} out
   */
  #take(chunk, out) {
    const begun = this.pendingBytes;
    this.#offset += chunk.length;
    const at = this.#mode === WITHIN ? this.#continueRecord(chunk, begun, out) : 0;
    if (at === chunk.length) return;
    if (this.#mode === BROKEN && this.#kept > 0) {
      this.#keep(chunk, at, chunk.length);
      const pending = this.#pending.subarray(0, this.#kept);
      // Looks at the new bytes alone: what is pending may be long, and has been searched.
      const row = this.#skipBroken(pending, 0, out);
      if (this.#mode === BROKEN) this.#keepRest(pending, row);
      else this.#parse(pending, row, out);
    } else {
      this.#parse(chunk, at, out);
    }
  }

  /** A csvlog record says itself where it ends: that nothing more has come changes nothing. */
  quiet() {}

  /**
   * The file has ended for good: what is pending is rejected.
   * @param {RowSink} out
   */
  end(out) {
    // The bytes were in earlier chunks.
    if (this.pendingBytes > 0) this.#tail = NOTHING;
    const reason = this.#mode === BROKEN ? BROKEN_REASON : UNFINISHED_REASON;
    if (this.pendingBytes > 0)
      this.#reject(this.#pending.subarray(0, this.#kept), this.pendingBytes, reason, out);
    this.#mode = BETWEEN;
    this.#forget();
  }

  /**
   * WITHIN: looks for the end of the record that has begun.
   * @param {Buffer} chunk
   * @param {number} begun bytes of the record before the chunk
   * @param {RowSink} out
   * @returns {number} how much of the chunk is dealt with
   */
  #continueRecord(chunk, begun, out) {
    const end = this.#scanner.scan(chunk, 0);
    const used = end >= 0 ? end : end === NOT_CSV ? this.#scanner.brokenAt : chunk.length;
    const length = begun + used;
    const tooLong = length > this.#maxRecordBytes;
    if (length > HASHED_ABOVE_BYTES || tooLong) {
      this.#hash ??= createHash('sha256').update(this.#pending.subarray(0, this.#kept));
      this.#hash.update(chunk.subarray(0, used));
    }
    if (!tooLong) this.#keep(chunk, 0, used);
    else if (this.#kept < this.#maxRejectedBytes)
      this.#keep(chunk, 0, Math.min(used, this.#maxRejectedBytes - this.#kept));
    else if (this.#kept > this.#maxRejectedBytes) this.#keepOnly(this.#maxRejectedBytes);
    if (end === UNFINISHED) return used;

    const record = this.#pending.subarray(0, this.#kept);
    if (tooLong && end >= 0) {
      this.#storeCut(record, length, out);
    } else if (tooLong) {
      this.#reject(record, length, this.#tooLongReason(), out);
    } else if (
      end >= 0 &&
      this.#storeRows(record, viewOf(record), 0, isSuspicious(record, 0), out) !== length
    ) {
      this.#reject(record, length, this.#encoder.reason(record, this.#scanner.columns), out);
    }
    this.#mode = end >= 0 ? BETWEEN : BROKEN;
    this.#searched = 0;
    if (tooLong || end >= 0) this.#forget();
    return used;
  }

  /**
   * Stores the beginning of a whole record that is too long, and what is to be known of the rest.
   * @param {Buffer} beginning
   * @param {number} length of the record
   * @param {RowSink} out
   */
  #storeCut(beginning, length, out) {
    const kept = beginning.subarray(0, this.#maxRejectedBytes);
    const record = isCsvlogColumnCount(this.#scanner.columns)
      ? closeRecord(kept, CSVLOG_COLUMNS.length)
      : null;
    const offset = this.#recordOffset;
    const sha256 = (this.#hash ?? createHash('sha256').update(beginning)).digest();
    this.#hash = null;
    this.#encoder.marks = 1 << CUT_BIT;
    const rows = out.rows.rows;
    if (record) this.#storeRows(record, viewOf(record), 0, isSuspicious(record, 0), out, Infinity);
    this.#encoder.marks = 0;
    if (out.rows.rows === rows) {
      this.#reject(kept, length, this.#tooLongReason(), out);
      return;
    }
    this.#recordOffset = offset + length;
    out.cut({ streamId: this.#streamId, fileNo: this.#fileNo, offset, length, sha256 });
  }

  /**
   * BETWEEN or BROKEN: deals with all of `bytes`, which come next after what is accounted for.
   * @param {Buffer} bytes the caller's chunk, or all of #pending
   * @param {number} at
   * @param {RowSink} out
   */
  #parse(bytes, at, out) {
    // Only whole lines are looked at, so a character that the end of the chunk cuts makes nothing suspicious.
    const rows = bytes.subarray(0, bytes.lastIndexOf(LF) + 1);
    const view = viewOf(rows);
    const suspicious = isSuspicious(rows, at);
    for (;;) {
      if (this.#mode === BROKEN) {
        at = this.#skipBroken(bytes, at, out);
        if (this.#mode === BROKEN) break;
      }
      at = this.#storeRows(rows, view, at, suspicious, out);
      if (at === bytes.length) break;
      at = this.#judge(bytes, at, out);
      if (this.#mode === WITHIN) break;
    }
    this.#keepRest(bytes, at);
  }

  /**
   * @param {Buffer} rows ends with a newline, or is empty
   * @param {DataView} view
   * @param {number} at
   * @param {boolean} suspicious
   * @param {RowSink} out
   * @param {number} [maxBytes] of a record
   * @returns {number} the index after the last row stored: the next record is unfinished, too long or not a row
   */
  #storeRows(rows, view, at, suspicious, out, maxBytes = this.#maxRecordBytes) {
    const encoder = this.#encoder;
    const copy = out.rows;
    let lastDay = NaN;
    while (at < rows.length) {
      const length = copy.length;
      const end = encoder.encode(rows, view, at, this.#recordOffset, copy, suspicious, out.receivedAtMs);
      if (end < 0) break;
      if (end - at > maxBytes) {
        copy.length = length;
        copy.rows -= 1;
        break;
      }
      if (encoder.logDay !== lastDay) {
        lastDay = encoder.logDay;
        out.days.add(lastDay);
      }
      if (encoder.logTimeMs > this.#maxLogTimeMs) this.#maxLogTimeMs = encoder.logTimeMs;
      this.#recordOffset += end - at;
      at = end;
    }
    return at;
  }

  /**
   * Finds out why no row was stored from `at` on, and rejects it or changes the mode.
   * @param {Buffer} bytes
   * @param {number} at
   * @param {RowSink} out
   * @returns {number} where to go on
   */
  #judge(bytes, at, out) {
    this.#scanner.reset();
    const end = this.#scanner.scan(bytes, at);
    if (end === UNFINISHED) {
      this.#mode = WITHIN;
      return at;
    }
    if (end === NOT_CSV) {
      this.#mode = BROKEN;
      this.#searched = 0;
    }
    const stop = end === NOT_CSV ? this.#scanner.brokenAt : end;
    const tooLong = stop - at > this.#maxRecordBytes;
    if (end === NOT_CSV && !tooLong) return at;
    if (tooLong && end >= 0) {
      this.#storeCut(bytes.subarray(at, stop), stop - at, out);
      return stop;
    }
    const reason = tooLong ? this.#tooLongReason() : this.#encoder.reason(bytes, this.#scanner.columns);
    this.#reject(bytes.subarray(at, stop), stop - at, reason, out);
    return stop;
  }

  /**
   * BROKEN: rejects up to the next row, in pieces of maxRecordBytes if it is far.
   * @param {Buffer} bytes
   * @param {number} at where the broken bytes begin
   * @param {RowSink} out
   * @returns {number} where to go on: at a row in mode BETWEEN, or in mode BROKEN at what has to wait for more bytes
   */
  #skipBroken(bytes, at, out) {
    for (;;) {
      const limit = at + this.#maxRecordBytes;
      const found = findRowStart(bytes, at + this.#searched, limit);
      const stop = found < 0 ? ~found : found;
      if (found < 0 && stop < limit) {
        this.#searched = stop - at;
        return at;
      }
      this.#reject(bytes.subarray(at, stop), stop - at, BROKEN_REASON, out);
      this.#searched = 0;
      at = stop;
      if (found >= 0) {
        this.#mode = BETWEEN;
        return at;
      }
    }
  }

  /**
   * @param {Buffer} bytes the beginning of the piece
   * @param {number} length its true length
   * @param {string} reason
   * @param {RowSink} out
   */
  #reject(bytes, length, reason, out) {
    out.reject({
      streamId: this.#streamId,
      fileNo: this.#fileNo,
      offset: this.#recordOffset,
      length,
      reason,
      bytes: bytes.subarray(0, this.#maxRejectedBytes),
    });
    this.#recordOffset += length;
  }

  #tooLongReason() {
    return `record longer than ${this.#maxRecordBytes} bytes`;
  }

  /**
   * Makes bytes[at..] what is pending.
   * @param {Buffer} bytes a chunk, or #pending itself
   * @param {number} at
   */
  #keepRest(bytes, at) {
    const length = bytes.length - at;
    const tooLong = length > this.#maxRecordBytes && this.#mode === WITHIN;
    if (tooLong) this.#hash = createHash('sha256').update(bytes.subarray(at));
    const kept = tooLong ? this.#maxRejectedBytes : length;
    if (bytes.buffer === this.#pending.buffer) {
      if (at > 0) this.#pending.copyWithin(0, at, at + kept);
      this.#kept = kept;
    } else {
      this.#kept = 0;
      this.#keep(bytes, at, at + kept);
    }
    if (kept === 0) this.#forget();
  }

  /**
   * Appends bytes[from..to) to what is pending. Doubling keeps it linear for pieces of any size.
   * @param {Buffer} bytes
   * @param {number} from
   * @param {number} to
   */
  #keep(bytes, from, to) {
    const needed = this.#kept + to - from;
    if (needed > this.#pending.length) {
      // Doubled, then at once to the limit: memory that is not written to yet costs nothing, a copy costs both sizes.
      const doubled = Math.max(needed, this.#pending.length * 2, SMALL_PENDING_BYTES);
      const size =
        doubled * LAST_GROWTH > this.#maxRecordBytes ? Math.max(needed, this.#maxRecordBytes) : doubled;
      const grown = Buffer.allocUnsafeSlow(size);
      this.#pending.copy(grown, 0, 0, this.#kept);
      this.#pending = grown;
    }
    bytes.copy(this.#pending, this.#kept, from, to);
    this.#kept = needed;
  }

  /**
   * Keeps the beginning of what is pending and gives the rest of the memory back.
   * @param {number} length
   */
  #keepOnly(length) {
    const beginning = Buffer.allocUnsafeSlow(length);
    this.#pending.copy(beginning, 0, 0, length);
    this.#pending = beginning;
    this.#kept = length;
  }

  #forget() {
    this.#kept = 0;
    this.#hash = null;
    if (this.#pending.length > LARGE_PENDING_BYTES) this.#pending = NOTHING;
  }
}

/**
 * @param {Buffer} bytes
 * @param {number} from
 * @returns {boolean} whether PostgreSQL would refuse some of bytes[from..] as text
 */
function isSuspicious(bytes, from) {
  const looked = bytes.subarray(from);
  return !isUtf8(looked) || looked.includes(0);
}

/**
 * @param {Buffer} bytes
 * @returns {DataView}
 */
function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
