/**
 * Rows that PostgreSQL will never take: within one transaction the batch is copied in portions, each under a savepoint,
 * and a portion that is refused is stored row by row (row-by-row.js). A refused row goes to the table of rejected bytes,
 * as a line of csvlog, because the bytes of its record are not at hand any more. No memory grows with them.
 * Only a refusal that is the data's own fault counts; everything else is thrown and takes all back. What tells:
 *   the class of the SQLSTATE        some are never the data's fault, some always are
 *   a COPY of no rows goes through   what refuses even that does not look at the data
 *   the row is refused again         after all the others of its portion, where the class does not tell
 */
import { DatabaseError } from 'pg';
import { CopyBuffer } from '../codec/copy-buffer.js';
import { rowToCsv } from '../codec/copy-csv.js';
import { encodeRejected } from '../codec/copy-rejected.js';
import { rowStarts } from '../codec/copy-rows.js';
import { copyIn } from './copy-in.js';
import { RowByRow } from './row-by-row.js';

/**
 * @typedef {object} Refused
 * @property {Map<number, number>} rows how many, by stream
 * @property {string} reason of the last one
 */

// Data exception, integrity constraint violation (somebody's CHECK or unique index), program limit exceeded (a value too
// large for somebody's index), and what somebody's trigger raised.
const DATA_FAULT = /^(22...|23...|54...|P0001)$/;
// A full disk, a lock, a missing privilege or table, another server, a cancel: these pass, or somebody mends them. What
// is in neither class is somebody's own (a trigger that raises it), or of PL/pgSQL.
const STORAGE_FAULT =
  /^(08|09|0A|0B|0F|0L|0P|0Z|24|25|26|28|2B|2D|2F|34|38|39|3B|3D|3F|40|42|53|55|57|58|72|F0|HV|XX)/;
// Rows that are stored row by row when one of them is refused; more where most of them are.
const PORTION_ROWS = 256;
const LARGE_PORTION_ROWS = 1024;
const PARTITION_CHECK = 'ExecPartitionCheckEmitError'; // of execMain.c: its SQLSTATE is 23514, as of any CHECK
const REJECTED_BYTES = 256 * 1024; // then they are sent
const NO_ROWS = Buffer.alloc(0);
const MESSAGE_MAX = 1000; // characters of PostgreSQL's message

/**
 * @param {unknown} error of a statement that stores records
 * @returns {boolean} whether the data may be at fault: copyAllButRefused finds out
 */
export function mayBeRefusal(error) {
  if (!(error instanceof DatabaseError) || error.code === undefined) return false;
  // A partition that is attached while a COPY runs makes rows wrong for the one that they were routed to.
  return error.routine !== PARTITION_CHECK && !STORAGE_FAULT.test(error.code);
}

/**
 * @param {import('pg').Client} client in a transaction
 * @param {string} table that refused them, of the schema pgsluice
 * @param {CopyBuffer} records
 * @param {readonly import('../codec/row-sink.js').CutRecord[]} cuts of records among them
 * @returns {Promise<Refused>}
 */
export async function copyAllButRefused(client, table, records, cuts) {
  const { buffer } = records;
  const starts = rowStarts(records);
  const rejected = new CopyBuffer(REJECTED_BYTES);
  /** @type {Refused} */
  const refused = { rows: new Map(), reason: '' };
  /** @type {RowByRow | null} */
  let rowByRow = null;

  async function sendRejected() {
    if (rejected.rows > 0) await copyIn(client, 'reject', rejected.bytes());
    rejected.reset();
  }

  // What is deferred to COMMIT would be raised where no row can be told.
  await client.query('SET CONSTRAINTS ALL IMMEDIATE');
  await copyIn(client, table, NO_ROWS);
  let mostAreRefused = false;
  for (let from = 0, to; from < records.rows; from = to) {
    to = Math.min(records.rows, from + (mostAreRefused ? LARGE_PORTION_ROWS : PORTION_ROWS));
    const rows = buffer.subarray(starts[from], starts[to]);
    if (!mostAreRefused && (await copyWhole(client, table, rows))) continue;
    rowByRow ??= await RowByRow.begin(client, table, { dataFault: DATA_FAULT, storageFault: STORAGE_FAULT });
    const guilty = await rowByRow.store(buffer, starts, from, to);
    mostAreRefused = guilty.length > (to - from) / 2;
    for (const { place, code, message } of guilty) {
      const row = rowToCsv(buffer, starts[place]);
      refused.reason = reject(rejected, row, cuts, { code, message });
      refused.rows.set(row.streamId, (refused.rows.get(row.streamId) ?? 0) + 1);
      if (rejected.length >= REJECTED_BYTES) await sendRejected();
    }
  }
  await rowByRow?.end();
  await sendRejected();
  return refused;
}

/**
 * @param {import('pg').Client} client
 * @param {string} table
 * @param {Buffer} rows
 * @returns {Promise<boolean>} false: nothing of them is stored, because some may be refused
 */
async function copyWhole(client, table, rows) {
  try {
    await copyIn(client, table, rows, {
      before: 'SAVEPOINT rows; ',
      after: '; RELEASE SAVEPOINT rows',
    });
    return true;
  } catch (error) {
    if (!mayBeRefusal(error)) throw error;
    await client.query('ROLLBACK TO SAVEPOINT rows; RELEASE SAVEPOINT rows');
    return false;
  }
}

/**
 * @param {CopyBuffer} rejected receives one row
 * @param {import('../codec/copy-csv.js').CsvOfRow} row
 * @param {readonly import('../codec/row-sink.js').CutRecord[]} cuts
 * @param {{ code: string, message: string }} error
 * @returns {string} the reason
 */
function reject(rejected, { streamId, fileNo, offset, marked, cut, csv }, cuts, { code, message }) {
  const why = `PostgreSQL refused it (${code}: ${message.slice(0, MESSAGE_MAX).toWellFormed()})`;
  const reason = `${why}; these are its columns as a row of csvlog${marked ? ', not all as they were written' : ''}`;
  const whole = cut
    ? cuts.find(one => one.streamId === streamId && one.fileNo === fileNo && one.offset === offset)
    : undefined;
  // All of it is kept: this is the only copy once the log is gone.
  encodeRejected(
    rejected,
    { streamId, fileNo, offset, length: whole?.length ?? csv.length, reason, bytes: csv },
    Date.now(),
    csv.length,
  );
  return why;
}
