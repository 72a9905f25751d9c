/**
 * What a log_line_prefix said of a record -> columns of its COPY BINARY row. The values lie in the bytes of the log,
 * where `spans` says: from spans[f + 2 * field] + shift on, if the bit of the field (line-prefix-fields.js) is in
 * `present`; otherwise the column is NULL. Every function writes at o, for which there must be room, and returns the
 * index after what it wrote.
 */
import { writeInt4Digits, writeInt8Digits, writeNull, writeText } from './copy-fields.js';
import {
  APPLICATION_NAME,
  BACKEND_TYPE,
  DATABASE_NAME,
  isUnknownName,
  LEADER_PID,
  PROCESS_ID,
  QUERY_ID,
  USER_NAME,
} from './line-prefix-fields.js';

/**
 * user_name, database_name and process_id
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
export function writeProcess(bytes, view, spans, f, shift, present, target, to, o) {
  o = writeName(bytes, view, spans, f, USER_NAME, shift, present, target, to, o);
  o = writeName(bytes, view, spans, f, DATABASE_NAME, shift, present, target, to, o);
  return writeInt4Field(bytes, spans, f, PROCESS_ID, shift, present, to, o);
}

/**
 * application_name ... query_id
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
export function writeLastFields(bytes, view, spans, f, shift, present, target, to, o) {
  const name = spans[f + 2 * APPLICATION_NAME] + shift;
  const nameEnd = spans[f + 2 * APPLICATION_NAME + 1] + shift;
  if ((present & (1 << APPLICATION_NAME)) === 0) {
    o = writeNull(to, o);
  } else {
    // csvlog has an empty text where stderr has [unknown].
    const start = isUnknownName(bytes, name, nameEnd) ? nameEnd : name;
    o = writeText(bytes, view, start, nameEnd, target, to, o);
  }
  o = writeField(bytes, view, spans, f, BACKEND_TYPE, shift, present, target, to, o);
  o = writeInt4Field(bytes, spans, f, LEADER_PID, shift, present, to, o);
  return writeInt8Field(bytes, spans, f, QUERY_ID, shift, present, to, o);
}

/**
 * @param {Buffer} bytes
 * @param {DataView} view
 * @param {Int32Array} spans
 * @param {number} f where the fields of the record begin in spans
 * @param {number} field
 * @param {number} shift
 * @param {number} present
 * @param {Buffer} target
 * @param {DataView} to
 * @param {number} o
 */
export function writeField(bytes, view, spans, f, field, shift, present, target, to, o) {
  if ((present & (1 << field)) === 0) return writeNull(to, o);
  const at = f + 2 * field;
  return writeText(bytes, view, spans[at] + shift, spans[at + 1] + shift, target, to, o);
}

/**
 * @param {Buffer} bytes
 * @param {Int32Array} spans
 * @param {number} f
 * @param {number} field
 * @param {number} shift
 * @param {number} present
 * @param {DataView} to
 * @param {number} o
 */
function writeInt4Field(bytes, spans, f, field, shift, present, to, o) {
  if ((present & (1 << field)) === 0) return writeNull(to, o);
  const at = f + 2 * field;
  return writeInt4Digits(bytes, spans[at] + shift, spans[at + 1] + shift, to, o);
}

/**
 * @param {Buffer} bytes
 * @param {Int32Array} spans
 * @param {number} f
 * @param {number} field
 * @param {number} shift
 * @param {number} present
 * @param {DataView} to
 * @param {number} o
 */
export function writeInt8Field(bytes, spans, f, field, shift, present, to, o) {
  if ((present & (1 << field)) === 0) return writeNull(to, o);
  const at = f + 2 * field;
  return writeInt8Digits(bytes, spans[at] + shift, spans[at + 1] + shift, to, o);
}

/**
 * user_name or database_name: NULL for [unknown], as in csvlog.
 * @param {Buffer} bytes
 * @param {DataView} view
 * @param {Int32Array} spans
 * @param {number} f
 * @param {number} field
 * @param {number} shift
 * @param {number} present
 * @param {Buffer} target
 * @param {DataView} to
 * @param {number} o
 */
function writeName(bytes, view, spans, f, field, shift, present, target, to, o) {
  const start = spans[f + 2 * field] + shift;
  const end = spans[f + 2 * field + 1] + shift;
  if ((present & (1 << field)) === 0 || isUnknownName(bytes, start, end)) return writeNull(to, o);
  return writeText(bytes, view, start, end, target, to, o);
}
