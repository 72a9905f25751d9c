/**
 * A COPY BINARY row of the log table as a line of csvlog: the 26 columns, as PostgreSQL's own COPY reads them into the
 * manual's postgres_log. For rows that the storage refuses: what their columns were is kept as text. Times are UTC;
 * every text is quoted, so that an empty one is not NULL. Simple rather than fast.
 */
import { CSVLOG_COLUMNS, INT4, TEXT, TIME } from './copy-columns.js';
import { CUT_BIT, LEADING_BYTES } from './row-ends.js';

/** Unix time of PostgreSQL's epoch, 2000-01-01, in microseconds. */
const POSTGRES_EPOCH_US = 946_684_800_000_000n;
/** Days and times of a date come again after 400 years; Date ends in 275760, PostgreSQL in 294276. */
const CYCLE_YEARS = 400;
const CYCLE_US = 146_097n * 86_400_000_000n;
const CYCLES_BACK = 50;
const USUAL_ISO_LENGTH = '2026-11-20T16:08:00.123Z'.length; // years 1 to 9999
const DATE_MAX_US = 8_640_000_000_000_000_000n;

/**
 * @typedef {object} CsvOfRow
 * @property {number} streamId
 * @property {number} fileNo
 * @property {number} offset in the file
 * @property {boolean} marked not all columns are as they were written
 * @property {boolean} cut the beginning of a longer record
 * @property {Buffer} csv with its newline
 */

/**
 * @param {Buffer} buffer
 * @param {number} at where the row begins
 * @returns {CsvOfRow}
 */
export function rowToCsv(buffer, at) {
  /** one character a byte @type {string[]} */
  const values = [];
  let field = at + LEADING_BYTES;
  for (const [, kind] of CSVLOG_COLUMNS) {
    const length = buffer.readInt32BE(field);
    field += 4;
    values.push(length >= 0 ? valueOf(buffer, field, length, kind) : '');
    field += Math.max(0, length);
  }
  field += 4 + Math.max(0, buffer.readInt32BE(field)); // duration_ms, which is in message
  const marked = buffer.readInt32BE(field) >= 0;
  return {
    streamId: buffer.readInt32BE(at + 6),
    fileNo: buffer.readInt32BE(at + 14),
    offset: Number(buffer.readBigInt64BE(at + 22)),
    marked,
    cut: marked && (buffer.readInt32BE(field + 8) & (1 << CUT_BIT)) !== 0,
    csv: Buffer.from(`${values.join(',')}\n`, 'latin1'),
  };
}

/** @param {Buffer} buffer @param {number} at @param {number} length @param {number} kind @returns {string} */
function valueOf(buffer, at, length, kind) {
  if (kind === TEXT) return `"${buffer.toString('latin1', at, at + length).replaceAll('"', '""')}"`;
  if (kind === TIME) return timeText(buffer.readBigInt64BE(at));
  return String(kind === INT4 ? buffer.readInt32BE(at) : buffer.readBigInt64BE(at));
}

/**
 * @param {bigint} postgresUs microseconds since 2000-01-01 UTC
 * @returns {string} 2026-11-20 16:08:00.123 UTC
 */
function timeText(postgresUs) {
  let us = postgresUs + POSTGRES_EPOCH_US;
  const cycles = us > DATE_MAX_US ? CYCLES_BACK : 0;
  us -= BigInt(cycles) * CYCLE_US;
  const subMs = ((us % 1000n) + 1000n) % 1000n;
  const micros = subMs === 0n ? '' : String(subMs).padStart(3, '0');
  const date = new Date(Number((us - subMs) / 1000n));
  const iso = date.toISOString();
  const year = date.getUTCFullYear() + cycles * CYCLE_YEARS;
  if (cycles === 0 && year > 0 && iso.length === USUAL_ISO_LENGTH)
    return `${iso.slice(0, 10)} ${iso.slice(11, -1)}${micros} UTC`;
  const digits = String(year > 0 ? year : 1 - year).padStart(4, '0');
  const [, rest = ''] = /^[+-]?\d+-(.*)Z$/.exec(iso) ?? [];
  return `${digits}-${rest.replace('T', ' ')}${micros} UTC${year > 0 ? '' : ' BC'}`;
}
