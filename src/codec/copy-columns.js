/**
 * The columns of a stored log row, in the order of the table and of its COPY BINARY rows:
 *   int16 31 | stream_id int4 | file_no int4 | file_offset int8 | the 26 csvlog columns | duration_ms float8 | marks int8
 * The csvlog columns have the names and types of the manual's postgres_log (PostgreSQL manual, "Using CSV-Format
 * Log Output"). marks is NULL for most records (row-ends.js).
 */

/** Kinds of csvlog columns, small integers because the row encoder switches on them once a field. */
export const TEXT = 0;
export const TIME = 1;
export const INT4 = 2;
export const INT8 = 3;

/** @type {readonly (readonly [name: string, kind: number])[]} */
export const CSVLOG_COLUMNS = [
  ['log_time', TIME],
  ['user_name', TEXT],
  ['database_name', TEXT],
  ['process_id', INT4],
  ['connection_from', TEXT],
  ['session_id', TEXT],
  ['session_line_num', INT8],
  ['command_tag', TEXT],
  ['session_start_time', TIME],
  ['virtual_transaction_id', TEXT],
  ['transaction_id', INT8],
  ['error_severity', TEXT],
  ['sql_state_code', TEXT],
  ['message', TEXT],
  ['detail', TEXT],
  ['hint', TEXT],
  ['internal_query', TEXT],
  ['internal_query_pos', INT4],
  ['context', TEXT],
  ['query', TEXT],
  ['query_pos', INT4],
  ['location', TEXT],
  ['application_name', TEXT],
  ['backend_type', TEXT],
  ['leader_pid', INT4],
  ['query_id', INT8],
];

/** Indexes of csvlog columns. */
export const SEVERITY = 11;
/** duration_ms is read from it. */
export const MESSAGE = 13;

/** Fields before the first csvlog column. */
export const LEADING_FIELDS = 3;

/** Fields of a row of the log table. */
export const LOG_FIELDS = LEADING_FIELDS + CSVLOG_COLUMNS.length + 2;

/**
 * Bytes of a row besides the contents of its text fields, at most: the field count, 31 lengths, and every number and
 * time at full width are 214 (2 + 124 + 88). The rest is for the row encoder, which stores whole words and may be
 * a few bytes past the end of a text before it knows.
 */
export const ROW_OVERHEAD_BYTES = 256;

/**
 * Columns a csvlog row may have: 22 (8.3), 23 (9.0: application_name), 24 (13: backend_type), 26 (14: leader_pid
 * and query_id). Forks put columns in the middle, so any other count is not guessed at.
 * @param {number} columns
 * @returns {boolean}
 */
export function isCsvlogColumnCount(columns) {
  return columns === 26 || columns === 24 || columns === 23 || columns === 22;
}
