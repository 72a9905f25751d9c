/**
 * A record of a stderr log, put together from its parts -> one COPY BINARY row of the log table, as csvlog would have
 * given it (PostgreSQL, elog.c send_message_to_server_log() against csvlog.c). And a line that is no message -> a row
 * with that text. Called by LineParser for each record in the order of the file; straight from bytes to bytes. It
 * always writes a row: what a prefix does not have is NULL, a time that cannot be read is the time of arrival, marked.
 *   message " at character N" -> internal_query_pos beside a QUERY part, else query_pos; for LOG only beside a
 *   QUERY or STATEMENT part: a LOG message without may be a statement of the client that ends like that
 *   "42P01: message" -> sql_state_code beside a LOCATION part: log_error_verbosity is verbose then
 *   BACKTRACE, for which csvlog has no column, goes to the end of context
 */
import { MESSAGE as MESSAGE_COLUMN, ROW_OVERHEAD_BYTES } from './copy-columns.js';
import { escapeRow, isStorable } from './copy-escape.js';
import {
  copyLines,
  writeInt4,
  writeLines,
  writeNull,
  writeNulls,
  writeText,
  writeTime,
} from './copy-fields.js';
import {
  APPLICATION_NAME,
  BACKEND_TYPE,
  COMMAND_TAG,
  CONNECTION_FROM,
  DATABASE_NAME,
  LEADER_PID,
  LOG_TIME,
  QUERY_ID,
  SESSION_ID,
  SESSION_LINE_NUM,
  SESSION_START_TIME,
  SQL_STATE_CODE,
  TRANSACTION_ID,
  VIRTUAL_TRANSACTION_ID,
  writeConnectionFrom,
} from './line-prefix-fields.js';
import { splitLegacyPosition } from './legacy-words.js';
import { readDuration } from './duration.js';
import { positionNumber, severityTag, splitPosition } from './languages.js';
import { TimeReader } from './log-time.js';
import { writeField, writeInt8Field, writeLastFields, writeProcess } from './prefix-columns.js';
import { RecordTime } from './record-time.js';
import { CUT_BIT, writeLeadingFields, writeTrailingFields } from './row-ends.js';
import {
  BACKTRACE_PART,
  CONTEXT_PART,
  DETAIL_PART,
  FIELDS_AT,
  HINT_PART,
  LOCATION_PART,
  MESSAGE_PART,
  PARTS,
  QUERY_PART,
  STATEMENT_PART,
  STRIDE,
} from './waiting-records.js';

/** @import { CopyBuffer } from './copy-buffer.js' */
/** @import { RowContext } from './row-sink.js' */
/** @import { WaitingRecords } from './waiting-records.js' */

const SPACE = 0x20;
const COLON = 0x3a;
const ZERO = 0x30;
const NINE = 0x39;
const UPPER_A = 0x41;
const UPPER_L = 0x4c;
const UPPER_Z = 0x5a;
/** ":  " behind the word of a severity */
const SEVERITY_END_BYTES = 3;
const STATE_BYTES = 5;
const BACKTRACE_LABEL = Buffer.from('\nBACKTRACE:  ');
/** Columns that a line without a prefix, or a message without other parts, leaves NULL. */
const COLUMNS_FROM_DETAIL_TO_QUERY = 6;
/** connection_from ... transaction_id, which a short prefix has none of; likewise application_name ... query_id */
const SESSION_COLUMNS = 7;
const SESSION_FIELDS =
  (1 << CONNECTION_FROM) |
  (1 << SESSION_ID) |
  (1 << SESSION_LINE_NUM) |
  (1 << COMMAND_TAG) |
  (1 << SESSION_START_TIME) |
  (1 << VIRTUAL_TRANSACTION_ID) |
  (1 << TRANSACTION_ID);
const LAST_COLUMNS = 4;
const LAST_FIELDS = (1 << APPLICATION_NAME) | (1 << BACKEND_TYPE) | (1 << LEADER_PID) | (1 << QUERY_ID);
const COLUMNS_BEFORE_MESSAGE = MESSAGE_COLUMN - 1;
const COLUMNS_AFTER_MESSAGE = 25 - MESSAGE_COLUMN;

const LOG_TIME_MARK = 1 << LOG_TIME;
/** Parts that a position may refer to. */
const POSITION_PARTS = (1 << QUERY_PART) | (1 << STATEMENT_PART);

const START_TIME_MARK = 1 << SESSION_START_TIME;
const CUT_MARK = 1 << CUT_BIT;

export class StderrRowEncoder {
  #streamId;
  #fileNo;
  #decoderOf;
  #time;
  #startTime;
  /** of the row that is being written */
  #starts = new Int32Array(PARTS);
  #ends = new Int32Array(PARTS);
  #partBytes = 0;
  #hasStartTime = false;
  #isLog = false;

  /** log_time of the last row encoded: UTC days since 1970-01-01, and milliseconds since then */
  logDay = 0;
  logTimeMs = 0;

  /** @param {RowContext} context */
  constructor({ streamId, fileNo, zones, timeZone = null, decoderOf }) {
    this.#streamId = streamId;
    this.#fileNo = fileNo;
    this.#decoderOf = decoderOf;
    this.#time = new RecordTime({ zones, timeZone });
    this.#startTime = new TimeReader({ zones, timeZone, ordered: false });
  }

  /**
   * @param {Buffer} bytes what is behind the record may be left over; four bytes more can be read
   * @param {DataView} view of the same bytes, at least four longer
   * @param {number} base file offset of the first of them
   * @param {number} limit index after the last byte that may be used: parts behind it are as if not there
   * @param {WaitingRecords} records
   * @param {number} slot of a MESSAGE record
   * @param {CopyBuffer} out receives the row
   * @param {number} receivedAtMs for a record without a time
   * @param {boolean} suspicious the bytes may hold a NUL or be invalid UTF-8
   * @param {boolean} cut this is the beginning of a record that is too long
   */
  encodeMessage(bytes, view, base, limit, records, slot, out, receivedAtMs, suspicious, cut) {
    const { spans } = records;
    const at = slot * STRIDE;
    const shift = records.origin[slot] - base;
    const f = at + FIELDS_AT;
    const present = records.present[slot];
    const lineStart = records.start[slot] - base;
    const firstPart = 31 - Math.clz32(records.parts[slot] & -records.parts[slot]);
    const prefixEnd = spans[at + 2 * firstPart] + shift;
    const parts = this.#findParts(spans, at, records.parts[slot], shift, limit);
    // A prefix holds each byte in one field at most, but for %r and %h and times twice.
    const room = ROW_OVERHEAD_BYTES + BACKTRACE_LABEL.length + 2 * Math.max(0, prefixEnd - lineStart);
    out.ensure(room + this.#partBytes);
    const storable =
      !suspicious ||
      (this.#arePartsStorable(bytes, parts) &&
        isStorable(bytes.subarray(lineStart, Math.min(prefixEnd, limit))));
    const target = out.buffer;
    const to = out.view;
    const multiLine = records.multiLine[slot];

    let o = writeLeadingFields(to, out.length, this.#streamId, this.#fileNo, records.start[slot]);
    const time = this.#time;
    let marks = time.ofPrefix(bytes, view, spans, f, shift, present, receivedAtMs) ? 0 : LOG_TIME_MARK;
    if (cut) marks |= CUT_MARK;
    const { seconds, microseconds } = time;
    o = writeTime(to, o, seconds, microseconds);
    o = writeProcess(bytes, view, spans, f, shift, present, target, to, o);
    if ((present & SESSION_FIELDS) === 0) {
      o = writeNulls(to, o, SESSION_COLUMNS);
    } else {
      o = this.#writeSession(bytes, view, spans, f, shift, present, target, to, o);
      if ((present & START_TIME_MARK) !== 0 && !this.#hasStartTime) marks |= START_TIME_MARK;
    }

    let word = 0;
    let duration = NaN;
    let position = 0;
    if ((parts & (1 << MESSAGE_PART)) === 0) {
      o = writeNull(to, o);
      o = writeField(bytes, view, spans, f, SQL_STATE_CODE, shift, present, target, to, o);
      o = writeNull(to, o);
    } else {
      word = records.severity[slot];
      const severity = this.#starts[MESSAGE_PART] - records.severityBytes[slot];
      o = this.#writeState(bytes, view, spans, f, shift, present, parts, severity, word, target, to, o);
      if (!this.#isLog || (parts & POSITION_PARTS) !== 0) {
        position = this.#splitPosition(bytes, spans, f, shift, present, storable);
      }
      const message = o + 4;
      o = this.#writePart(bytes, view, parts, multiLine, MESSAGE_PART, target, to, o);
      duration = readDuration(target, message, o);
    }

    if (parts === 1 << MESSAGE_PART) {
      // Most records have a message alone.
      o = writeNulls(to, o, COLUMNS_FROM_DETAIL_TO_QUERY);
      o = position > 0 ? writeInt4(to, o, position) : writeNull(to, o);
      o = writeNull(to, o);
    } else {
      o = this.#writeOtherParts(bytes, view, parts, multiLine, position, target, to, o);
    }
    o =
      (present & LAST_FIELDS) === 0
        ? writeNulls(to, o, LAST_COLUMNS)
        : writeLastFields(bytes, view, spans, f, shift, present, target, to, o);
    this.#finish(out, o, duration, marks, word, seconds, microseconds, storable);
  }

  /**
   * Sets #starts, #ends and #partBytes.
   * @param {Int32Array} spans
   * @param {number} at where those of the record begin
   * @param {number} parts that it has
   * @param {number} shift
   * @param {number} limit
   * @returns {number} parts that it has before the limit
   */
  #findParts(spans, at, parts, shift, limit) {
    let found = 0;
    let partBytes = 0;
    for (let left = parts; left !== 0; left &= left - 1) {
      const part = 31 - Math.clz32(left & -left);
      const start = spans[at + 2 * part] + shift;
      if (start > limit) continue;
      const end = Math.min(spans[at + 2 * part + 1] + shift, limit);
      this.#starts[part] = start;
      this.#ends[part] = end;
      partBytes += end - start;
      found |= 1 << part;
    }
    this.#partBytes = partBytes;
    return found;
  }

  /**
   * @param {Buffer} bytes
   * @param {number} parts
   */
  #arePartsStorable(bytes, parts) {
    for (let part = 0; part < PARTS; part += 1) {
      if ((parts & (1 << part)) === 0) continue;
      if (!isStorable(bytes.subarray(this.#starts[part], this.#ends[part]))) return false;
    }
    return true;
  }

  /**
   * connection_from ... transaction_id; sets #hasStartTime.
   * @param {Buffer} bytes
   * @param {DataView} view
   * @param {Int32Array} spans
   * @param {number} f
   * @param {number} shift
   * @param {number} present
   * @param {Buffer} target
   * @param {DataView} to
   * @param {number} o
   */
  #writeSession(bytes, view, spans, f, shift, present, target, to, o) {
    if ((present & (1 << CONNECTION_FROM)) === 0) {
      o = writeNull(to, o);
    } else {
      const from = spans[f + 2 * CONNECTION_FROM] + shift;
      const fromEnd = spans[f + 2 * CONNECTION_FROM + 1] + shift;
      const end = writeConnectionFrom(bytes, from, fromEnd, target, o + 4);
      to.setInt32(o, end - o - 4);
      o = end;
    }
    o = writeField(bytes, view, spans, f, SESSION_ID, shift, present, target, to, o);
    o = writeInt8Field(bytes, spans, f, SESSION_LINE_NUM, shift, present, to, o);
    o = writeField(bytes, view, spans, f, COMMAND_TAG, shift, present, target, to, o);
    const reader = this.#startTime;
    this.#hasStartTime =
      (present & (1 << SESSION_START_TIME)) !== 0 &&
      reader.read(bytes, view, spans[f + 2 * SESSION_START_TIME] + shift) >= 0;
    o = this.#hasStartTime ? writeTime(to, o, reader.seconds, reader.microseconds) : writeNull(to, o);
    o = writeField(bytes, view, spans, f, VIRTUAL_TRANSACTION_ID, shift, present, target, to, o);
    return writeInt8Field(bytes, spans, f, TRANSACTION_ID, shift, present, to, o);
  }

  /**
   * error_severity and sql_state_code; sets #isLog, and #starts to behind a state that begins the message.
   * @param {Buffer} bytes
   * @param {DataView} view
   * @param {Int32Array} spans
   * @param {number} f
   * @param {number} shift
   * @param {number} present
   * @param {number} parts
   * @param {number} severity where its word stands
   * @param {number} word number of it
   * @param {Buffer} target
   * @param {DataView} to
   * @param {number} o
   */
  #writeState(bytes, view, spans, f, shift, present, parts, severity, word, target, to, o) {
    const start = this.#starts[MESSAGE_PART];
    if (word === 0) {
      o = writeText(bytes, view, severity, start - SEVERITY_END_BYTES, target, to, o);
      this.#isLog = bytes[severity] === UPPER_L;
    } else {
      const tag = severityTag(word);
      to.setInt32(o, tag.length);
      o += 4;
      for (let index = 0; index < tag.length; index += 1) target[o + index] = tag[index];
      o += tag.length;
      this.#isLog = tag[0] === UPPER_L;
    }
    const verbose =
      (parts & (1 << LOCATION_PART)) !== 0 && beginsWithState(bytes, start, this.#ends[MESSAGE_PART]);
    if (verbose) this.#starts[MESSAGE_PART] = start + STATE_BYTES + 2;
    if ((present & (1 << SQL_STATE_CODE)) !== 0) {
      const state = spans[f + 2 * SQL_STATE_CODE] + shift;
      return writeText(bytes, view, state, state + STATE_BYTES, target, to, o);
    }
    return verbose ? writeText(bytes, view, start, start + STATE_BYTES, target, to, o) : writeNull(to, o);
  }

  /**
   * Takes the position off the end of the message: sets #ends.
   * @param {Buffer} bytes
   * @param {Int32Array} spans
   * @param {number} f
   * @param {number} shift
   * @param {number} present
   * @param {boolean} storable
   * @returns {number} it; 0: there is none
   */
  #splitPosition(bytes, spans, f, shift, present, storable) {
    const start = this.#starts[MESSAGE_PART];
    const end = this.#ends[MESSAGE_PART];
    const textEnd = splitPosition(bytes, start, end);
    if (textEnd >= 0) {
      this.#ends[MESSAGE_PART] = textEnd;
      return positionNumber(bytes, textEnd, end);
    }
    if (storable || this.#decoderOf === undefined) return 0;
    const database = spans[f + 2 * DATABASE_NAME] + shift;
    const name =
      (present & (1 << DATABASE_NAME)) === 0
        ? null
        : bytes.toString('latin1', database, spans[f + 2 * DATABASE_NAME + 1] + shift);
    const decode = this.#decoderOf(name);
    const legacy = decode ? splitLegacyPosition(bytes, start, end, decode) : null;
    if (legacy === null) return 0;
    this.#ends[MESSAGE_PART] = legacy.textEnd;
    return legacy.position;
  }

  /**
   * detail ... location
   * @param {Buffer} bytes
   * @param {DataView} view
   * @param {number} parts
   * @param {number} multiLine
   * @param {number} position
   * @param {Buffer} target
   * @param {DataView} to
   * @param {number} o
   */
  #writeOtherParts(bytes, view, parts, multiLine, position, target, to, o) {
    o = this.#writePart(bytes, view, parts, multiLine, DETAIL_PART, target, to, o);
    o = this.#writePart(bytes, view, parts, multiLine, HINT_PART, target, to, o);
    o = this.#writePart(bytes, view, parts, multiLine, QUERY_PART, target, to, o);
    const internal = position > 0 && (parts & (1 << QUERY_PART)) !== 0;
    o = internal ? writeInt4(to, o, position) : writeNull(to, o);
    const context = o;
    o = this.#writePart(bytes, view, parts, multiLine, CONTEXT_PART, target, to, o);
    if ((parts & (1 << BACKTRACE_PART)) !== 0) {
      const content = context + 4;
      for (let index = o === content ? 1 : 0; index < BACKTRACE_LABEL.length; index += 1, o += 1) {
        target[o] = BACKTRACE_LABEL[index];
      }
      const end = this.#ends[BACKTRACE_PART];
      o = copyLines(bytes, view, this.#starts[BACKTRACE_PART], end, target, to, o);
      to.setInt32(context, o - content);
    }
    o = this.#writePart(bytes, view, parts, multiLine, STATEMENT_PART, target, to, o);
    o = position > 0 && !internal ? writeInt4(to, o, position) : writeNull(to, o);
    return this.#writePart(bytes, view, parts, multiLine, LOCATION_PART, target, to, o);
  }

  /**
   * A line that is no message of PostgreSQL, or the beginning of something too long: message alone is not NULL.
   * @param {Buffer} bytes
   * @param {DataView} view of the same bytes, at least four longer
   * @param {number} at
   * @param {number} end
   * @param {number} offset of `at` in the file
   * @param {CopyBuffer} out
   * @param {number} receivedAtMs
   * @param {boolean} suspicious
   * @param {boolean} cut
   * @param {number} timeAt where the log_time stands; -1: nowhere
   */
  encodeText(bytes, view, at, end, offset, out, receivedAtMs, suspicious, cut, timeAt) {
    out.ensure(end - at + ROW_OVERHEAD_BYTES);
    const target = out.buffer;
    const to = out.view;
    const storable = !suspicious || isStorable(bytes.subarray(at, end));
    let marks = cut ? CUT_MARK : 0;
    let o = writeLeadingFields(to, out.length, this.#streamId, this.#fileNo, offset);
    const time = this.#time;
    if (!time.at(bytes, view, timeAt, receivedAtMs)) marks |= LOG_TIME_MARK;
    const { seconds, microseconds } = time;
    o = writeTime(to, o, seconds, microseconds);
    o = writeNulls(to, o, COLUMNS_BEFORE_MESSAGE);
    o = writeText(bytes, view, at, end, target, to, o);
    o = writeNulls(to, o, COLUMNS_AFTER_MESSAGE);
    this.#finish(out, o, NaN, marks, 0, seconds, microseconds, storable);
  }

  /**
   * @param {Buffer} bytes
   * @param {DataView} view
   * @param {number} parts
   * @param {number} multiLine
   * @param {number} part
   * @param {Buffer} target
   * @param {DataView} to
   * @param {number} o
   */
  #writePart(bytes, view, parts, multiLine, part, target, to, o) {
    if ((parts & (1 << part)) === 0) return writeNull(to, o);
    const start = this.#starts[part];
    const end = this.#ends[part];
    return (multiLine & (1 << part)) === 0
      ? writeText(bytes, view, start, end, target, to, o)
      : writeLines(bytes, view, start, end, target, to, o);
  }

  /**
   * @param {CopyBuffer} out
   * @param {number} o after query_id
   * @param {number} duration
   * @param {number} marks
   * @param {number} word
   * @param {number} seconds
   * @param {number} microseconds
   * @param {boolean} storable
   */
  #finish(out, o, duration, marks, word, seconds, microseconds, storable) {
    o = writeTrailingFields(out.view, o, duration, marks, word);
    if (!storable) o = escapeRow(out, o, this.#decoderOf);
    out.length = o;
    out.rows += 1;
    this.logDay = Math.floor(seconds / 86_400);
    this.logTimeMs = seconds * 1000 + microseconds / 1000;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {number} start
 * @param {number} end
 * @returns {boolean} whether `42P01: ` stands there
 */
function beginsWithState(bytes, start, end) {
  if (end - start < STATE_BYTES + 2) return false;
  for (let index = start; index < start + STATE_BYTES; index += 1) {
    const byte = bytes[index];
    if (!((byte >= ZERO && byte <= NINE) || (byte >= UPPER_A && byte <= UPPER_Z))) return false;
  }
  return bytes[start + STATE_BYTES] === COLON && bytes[start + STATE_BYTES + 1] === SPACE;
}
