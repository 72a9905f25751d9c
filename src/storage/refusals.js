/**
 * Rows that PostgreSQL will never take, found by halves: within one transaction a range is copied under a savepoint,
 * and a range that is refused is copied again in two halves, down to the single row. That one goes to the table of
 * rejected bytes, as a line of csvlog, because the bytes of its record are not at hand any more. k guilty rows of n cost
 * about 2 k log2(n / k) COPYs; no memory grows with them.
 * Only a refusal that is the data's own fault counts (isRefusal); everything else is thrown and takes all back.
 */
import { CopyBuffer } from '../codec/copy-buffer.js';
import { rowToCsv } from '../codec/copy-csv.js';
import { encodeRejected } from '../codec/copy-rejected.js';
import { rowStarts } from '../codec/copy-rows.js';
import { copyIn } from './copy-in.js';

/**
 * @typedef {object} Refused
 * @property {Map<number, number>} rows how many, by stream
 * @property {string} reason of the last one
 */

// Data exception, integrity constraint violation (somebody's CHECK or unique index), program limit exceeded (a value too
// large for somebody's index), and what somebody's trigger raised. A full disk, a lock, a missing privilege are not.
const DATA_FAULT = /^(?:22|23|54)...$|^P0001$/;
const PARTITION_CHECK = 'ExecPartitionCheckEmitError'; // of execMain.c: its SQLSTATE is 23514, as of any CHECK
const REJECTED_BYTES = 64 * 1024; // then they are sent
const MESSAGE_MAX = 1000; // characters of PostgreSQL's message

/**
 * @param {unknown} error of a statement that stores records
 * @returns {boolean} whether the data are at fault: they would be refused again
 */
export function isRefusal(error) {
  const { code, routine } = /** @type {{ code?: unknown, routine?: unknown }} */ (error);
  // A partition that is attached while a COPY runs makes rows wrong for the one that they were routed to.
  if (routine === PARTITION_CHECK) return false;
  return typeof code === 'string' && DATA_FAULT.test(code);
}

/**
 * @param {import('pg').Client} client in a transaction
 * @param {CopyBuffer} records
 * @param {readonly import('../codec/row-sink.js').CutRecord[]} cuts of records among them
 * @returns {Promise<Refused>}
 */
export async function copyAllButRefused(client, records, cuts) {
  const { buffer } = records;
  const starts = rowStarts(records);
  const rejected = new CopyBuffer(REJECTED_BYTES);
  /** @type {Refused} */
  const refused = { rows: new Map(), reason: '' };

  async function sendRejected() {
    if (rejected.rows > 0) await copyIn(client, 'reject', rejected.bytes());
    rejected.reset();
  }

  /** @param {number} from row @param {number} to row after the last */
  async function copyRange(from, to) {
    try {
      const rows = buffer.subarray(starts[from], starts[to]);
      await copyIn(client, 'record', rows, {
        before: 'SAVEPOINT rows; ',
        after: '; RELEASE SAVEPOINT rows',
      });
      return;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      await client.query('ROLLBACK TO SAVEPOINT rows; RELEASE SAVEPOINT rows');
      if (to - from === 1) {
        const row = rowToCsv(buffer, starts[from]);
        refused.reason = reject(rejected, row, cuts, /** @type {Error & { code: string }} */ (error));
        refused.rows.set(row.streamId, (refused.rows.get(row.streamId) ?? 0) + 1);
      }
    }
    if (rejected.length >= REJECTED_BYTES) await sendRejected();
    if (to - from === 1) return;
    const middle = (from + to) >>> 1;
    await copyRange(from, middle);
    await copyRange(middle, to);
  }

  // What is deferred to COMMIT would be raised where no row can be told.
  await client.query('SET CONSTRAINTS ALL IMMEDIATE');
  await copyRange(0, records.rows);
  await sendRejected();
  return refused;
}

/**
 * @param {CopyBuffer} rejected receives one row
 * @param {import('../codec/copy-csv.js').CsvOfRow} row
 * @param {readonly import('../codec/row-sink.js').CutRecord[]} cuts
 * @param {Error & { code: string }} error
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
