/**
 * What a log file holds, told by its first record. Bytes in, a word out; pure.
 * PostgreSQL begins a file at the beginning of a record, so its first bytes are enough. Format: "Using CSV-Format
 * Log Output" in the manual: fields separated by commas, quoted by '"', which is doubled inside; no header.
 */

/** Column counts that csvlog has had: 8.3, 9.0, 13, 14 and later. */
export const CSVLOG_COLUMN_COUNTS = [22, 23, 24, 26];

/** log_time with milliseconds and an abbreviation of a zone, never quoted. */
const CSVLOG_START = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Za-z0-9+:-]{1,16},/;

const COMMA = 0x2c;
const QUOTE = 0x22;
const NEWLINE = 0x0a;

/** @typedef {{ format: 'csvlog' | 'jsonlog' | 'text', columns: number | null }} FirstRecord */

/**
 * @param {Buffer} sample the first bytes of a file, at least one
 * @returns {FirstRecord} columns: of csvlog; null when the record does not end within the sample
 */
export function describeFirstRecord(sample) {
  if (CSVLOG_START.test(sample.toString('latin1', 0, 64))) {
    return { format: 'csvlog', columns: countColumns(sample) };
  }
  return { format: sample.toString('latin1', 0, 2) === '{"' ? 'jsonlog' : 'text', columns: null };
}

/** @param {Buffer} sample @returns {number | null} */
function countColumns(sample) {
  let columns = 1;
  let quoted = false;
  for (const byte of sample) {
    // A doubled quote leaves and enters again.
    if (byte === QUOTE) quoted = !quoted;
    else if (!quoted && byte === COMMA) columns += 1;
    else if (!quoted && byte === NEWLINE) return columns;
  }
  return null;
}
