/**
 * Where the records of a text log become rows: the encoder for the record's format, the days and the latest time of
 * what was stored, and what is rejected. LineParser calls it in the order of the file. It keeps no bytes.
 */
import { CsvlogRowEncoder } from './csvlog-row.js';
import { CsvlogScanner } from './csvlog-structure.js';
import { JsonlogRowEncoder } from './jsonlog-row.js';
import { StderrRowEncoder } from './stderr-row.js';
import { CSVLOG, JSONLOG, MESSAGE, STRIDE } from './waiting-records.js';

/** @import { LineWindow } from './line-window.js' */
/** @import { RowContext, RowSink } from './row-sink.js' */
/** @import { WaitingRecords } from './waiting-records.js' */

const LF = 0x0a;
const CR = 0x0d;
/** Where log_time stands in a line of jsonlog: behind {"timestamp":" */
const JSONLOG_TIME_AT = 14;

export class RecordWriter {
  #context;
  #maxRejectedBytes;
  #stderr;
  /** made when they are needed: most files have one format @type {JsonlogRowEncoder | null} */
  #jsonlog = null;
  /** @type {CsvlogRowEncoder | null} */
  #csvlog = null;
  #scanner = new CsvlogScanner();
  #lastDay = NaN;

  /** the latest log_time stored, milliseconds since 1970 */
  maxLogTimeMs = -Infinity;

  /**
   * @param {RowContext} context
   * @param {number} maxRejectedBytes
   */
  constructor(context, maxRejectedBytes) {
    this.#context = context;
    this.#maxRejectedBytes = maxRejectedBytes;
    this.#stderr = new StderrRowEncoder(context);
  }

  /** The caller may have emptied its sink: days are told again. */
  begin() {
    this.#lastDay = NaN;
  }

  /**
   * @param {WaitingRecords} records
   * @param {number} slot
   * @param {LineWindow} window has all bytes of the record
   * @param {RowSink} out
   */
  write(records, slot, window, out) {
    const kind = records.kind[slot];
    const start = records.start[slot];
    if (kind !== MESSAGE) {
      this.writeLines(kind, window, start - window.base, records.end[slot] - window.base, out);
      return;
    }
    const { bytes, view, base } = window;
    const encoder = this.#stderr;
    const suspicious = start < window.suspectEnd;
    encoder.encodeMessage(
      bytes,
      view,
      base,
      bytes.length,
      records,
      slot,
      out.rows,
      out.receivedAtMs,
      suspicious,
      false,
    );
    this.#stored(encoder.logDay, encoder.logTimeMs, out);
  }

  /**
   * A record of any kind but MESSAGE.
   * @param {number} kind
   * @param {LineWindow} window
   * @param {number} at
   * @param {number} end after its newline, if it has one
   * @param {RowSink} out
   */
  writeLines(kind, window, at, end, out) {
    const { bytes, view } = window;
    const offset = window.base + at;
    if (kind === JSONLOG) {
      this.#jsonlog ??= new JsonlogRowEncoder(this.#context);
      const lineEnd = bytes[end - 1] === LF ? end - 1 : end;
      if (this.#jsonlog.encode(bytes, view, at, lineEnd, offset, out.rows, out.receivedAtMs)) {
        this.#stored(this.#jsonlog.logDay, this.#jsonlog.logTimeMs, out);
      } else {
        this.reject(bytes.subarray(at, end), offset, end - at, this.#jsonlog.reason(), out);
      }
    } else if (kind === CSVLOG) {
      this.#writeCsvlog(bytes.subarray(at, end), offset, offset < window.suspectEnd, out);
    } else {
      let lineEnd = bytes[end - 1] === LF ? end - 1 : end;
      if (lineEnd > at && lineEnd < end && bytes[lineEnd - 1] === CR) lineEnd -= 1;
      const suspicious = offset < window.suspectEnd;
      this.#stderr.encodeText(
        bytes,
        view,
        at,
        lineEnd,
        offset,
        out.rows,
        out.receivedAtMs,
        suspicious,
        false,
        -1,
      );
      this.#stored(this.#stderr.logDay, this.#stderr.logTimeMs, out);
    }
  }

  /**
   * The beginning of a record that is too long.
   * @param {number} kind
   * @param {WaitingRecords} records
   * @param {number} slot of a MESSAGE
   * @param {Buffer} bytes its beginning
   * @param {DataView} view of the same bytes, at least four longer
   * @param {number} offset
   * @param {RowSink} out
   */
  writeCut(kind, records, slot, bytes, view, offset, out) {
    const encoder = this.#stderr;
    const { length } = bytes;
    const { rows, receivedAtMs } = out;
    if (kind === MESSAGE && textStart(records, slot) <= length) {
      encoder.encodeMessage(bytes, view, offset, length, records, slot, rows, receivedAtMs, true, true);
    } else {
      const timeAt = kind === CSVLOG ? 0 : kind === JSONLOG ? JSONLOG_TIME_AT : -1;
      encoder.encodeText(bytes, view, 0, length, offset, rows, receivedAtMs, true, true, timeAt);
    }
    this.#stored(encoder.logDay, encoder.logTimeMs, out);
  }

  /**
   * @param {Buffer} bytes the beginning
   * @param {number} offset
   * @param {number} length of all
   * @param {string} reason
   * @param {RowSink} out
   */
  reject(bytes, offset, length, reason, out) {
    const { streamId, fileNo } = this.#context;
    const kept = bytes.subarray(0, this.#maxRejectedBytes);
    out.reject({ streamId, fileNo, offset, length, reason, bytes: kept });
  }

  /**
   * @param {Buffer} record
   * @param {number} offset
   * @param {boolean} suspicious
   * @param {RowSink} out
   */
  #writeCsvlog(record, offset, suspicious, out) {
    this.#csvlog ??= new CsvlogRowEncoder(this.#context);
    const view = new DataView(record.buffer, record.byteOffset, record.length);
    if (
      this.#csvlog.encode(record, view, 0, offset, out.rows, suspicious, out.receivedAtMs) === record.length
    ) {
      this.#stored(this.#csvlog.logDay, this.#csvlog.logTimeMs, out);
      return;
    }
    this.#scanner.reset();
    this.#scanner.scan(record, 0);
    this.reject(record, offset, record.length, this.#csvlog.reason(record, this.#scanner.columns), out);
  }

  /**
   * @param {number} logDay
   * @param {number} logTimeMs
   * @param {RowSink} out
   */
  #stored(logDay, logTimeMs, out) {
    if (logDay !== this.#lastDay) {
      this.#lastDay = logDay;
      out.days.add(logDay);
    }
    if (logTimeMs > this.maxLogTimeMs) this.maxLogTimeMs = logTimeMs;
  }
}

/**
 * @param {WaitingRecords} records
 * @param {number} slot of a MESSAGE
 * @returns {number} where the text of its first part begins, counted from the record
 */
function textStart({ parts, spans, origin, start }, slot) {
  const first = 31 - Math.clz32(parts[slot] & -parts[slot]);
  return spans[slot * STRIDE + 2 * first] + origin[slot] - start[slot];
}
