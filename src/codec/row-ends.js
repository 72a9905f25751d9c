/**
 * The first and the last fields of a log row, the same for every format (copy-columns.js has the whole row):
 *   int16 31 | stream_id int4 | file_no int4 | file_offset int8 | 26 csvlog columns | duration_ms float8 | marks int8
 * marks is NULL for a record that is stored as it was written. Its bits:
 *   0..25   column i is not as it was written: a text is stored escaped (copy-escape.js); log_time is the time of
 *           arrival, session_start_time is NULL, because the log has no usable time there
 *   26      the record was longer than the limit: this is its beginning
 *   27      secrets were taken out (redact.js)
 *   32..47  the number of the translated word that error_severity was written as (languages.js); 0: English
 */
import { LOG_FIELDS } from './copy-columns.js';
import { writeInt64 } from './copy-int64.js';

/** Bit of marks: a record that is longer than the limit. */
export const CUT_BIT = 26;
/** Bit of marks: secrets were taken out. */
export const REDACTED_BIT = 27;

/** Bytes of the leading fields with their lengths. */
export const LEADING_BYTES = 2 + 8 + 8 + 12;

/**
 * @param {DataView} to has room
 * @param {number} o where the row begins
 * @param {number} streamId int4
 * @param {number} fileNo int4
 * @param {number} offset of the record in its file
 * @returns {number} where log_time's length goes
 */
export function writeLeadingFields(to, o, streamId, fileNo, offset) {
  to.setInt16(o, LOG_FIELDS);
  to.setInt32(o + 2, 4);
  to.setInt32(o + 6, streamId);
  to.setInt32(o + 10, 4);
  to.setInt32(o + 14, fileNo);
  to.setInt32(o + 18, 8);
  writeInt64(to, o + 22, offset);
  return o + LEADING_BYTES;
}

/**
 * @param {DataView} to has room
 * @param {number} o after query_id
 * @param {number} duration milliseconds; NaN: none
 * @param {number} marks bits 0..31
 * @param {number} severityWord bits 32..47
 * @returns {number} where the row ends
 */
export function writeTrailingFields(to, o, duration, marks, severityWord) {
  if (Number.isNaN(duration)) {
    to.setInt32(o, -1);
    o += 4;
  } else {
    to.setInt32(o, 8);
    to.setFloat64(o + 4, duration);
    o += 12;
  }
  if (marks === 0 && severityWord === 0) {
    to.setInt32(o, -1);
    return o + 4;
  }
  to.setInt32(o, 8);
  to.setInt32(o + 4, severityWord);
  to.setInt32(o + 8, marks);
  return o + 12;
}
