/**
 * The one transaction of the data path: COPY the records and the rejected bytes, then advance the positions of their
 * streams under their epochs, then COMMIT. Nothing else ever moves a position. When PostgreSQL refuses records
 * themselves, the transaction is made once more, and the guilty rows go to the rejected bytes (refusals.js).
 * Throws FencedError when a stream of the batch belongs to somebody else by now (nothing was stored), otherwise what
 * PostgreSQL or the connection threw: then the outcome may be unknown, and only a new claim tells the position.
 */
import { PgsluiceError } from '../base/errors.js';
import { copyIn } from './copy-in.js';
import { partitionName } from './partitions.js';
import { copyAllButRefused, mayBeRefusal } from './refusals.js';

// The sum of what hosts say they lost: they may say anything, and a bigint that overflows fails the batch of all.
const LOST_BYTES_MAX = 1e15;
// A worker that is stopped, or whose machine vanished, between its last statement and COMMIT holds the rows of its
// streams: nobody else could claim them. Before that a batch may wait long, for the one before it.
const IDLE_WITH_ROWS_MAX_MS = 15_000;

/** @typedef {import('../codec/copy-buffer.js').CopyBuffer} CopyBuffer */
/** @typedef {import('../codec/row-sink.js').CutRecord} CutRecord */
/** @typedef {import('./positions.js').FilePosition} FilePosition */

/**
 * What a batch says of one stream.
 * @typedef {object} StreamAdvance
 * @property {number} epoch
 * @property {boolean} begun
 * @property {number} nextFileNo
 * @property {number | null} openFileNo the file that is being read
 * @property {string | null} foundPrefix log_line_prefix as it was found from the lines
 * @property {number} lostBytes more than before
 * @property {number} lostEvents more than before
 * @property {number} records of the stream in the batch
 * @property {Map<number, FilePosition>} files by file number, those that changed
 */

/**
 * @typedef {object} BatchContent
 * @property {CopyBuffer} records
 * @property {CopyBuffer} rejected
 * @property {CutRecord[]} [cuts]
 * @property {Map<number, StreamAdvance>} streams
 * @property {number} [day] all records are of this day, which has a partition: they are copied into it without routing
 *   each of them
 * @property {boolean} [toDefault] some are of a day that has none
 */

/** @typedef {import('./refusals.js').Refused} Refused */

export class FencedError extends PgsluiceError {
  /** @param {number[]} streamIds that belong to somebody else by now @param {number} all streams of the batch */
  constructor(streamIds, all) {
    super(
      'FENCED',
      `${streamIds.length} of ${all} streams of a batch were assigned to another worker: nothing of the batch was stored`,
    );
    this.streamIds = streamIds;
  }
}

/**
 * @param {import('pg').Client} client outside of a transaction; after a failure it may still be in one
 * @param {BatchContent} batch
 * @param {() => Promise<void>} [turn] waited for between COPY and the positions: batches of the same streams may be
 *   copied side by side, but must advance one after another; when it rejects, nothing is stored
 * @returns {Promise<Refused | null>} the records that went to the rejected bytes; null: none
 */
export async function commitBatch(client, batch, turn = async () => {}) {
  const { records, day } = batch;
  const table = day === undefined ? 'record' : partitionName('record', day);
  const refusal = await transact(client, batch, turn, async () => {
    if (records.rows > 0) await copyIn(client, table, records.bytes());
    return null;
  });
  if (refusal === null) return null;
  /** @type {Refused | null} */
  let refused = null;
  const again = await transact(client, batch, turn, async () => {
    refused = await copyAllButRefused(client, table, records, batch.cuts ?? []);
    return refused;
  });
  // COMMIT refuses what no single row was refused for: nothing that can be told apart.
  if (again !== null) throw again;
  return refused;
}

/**
 * @param {import('pg').Client} client
 * @param {BatchContent} batch
 * @param {() => Promise<void>} turn
 * @param {() => Promise<Refused | null>} copyRecords
 * @returns {Promise<unknown>} null: committed; otherwise nothing was stored, because PostgreSQL may refuse some records
 */
async function transact(client, { rejected, cuts, streams, toDefault }, turn, copyRecords) {
  await client.query('BEGIN');
  // Positions, cuts and rejected bytes are our own: an error there is never the fault of a record.
  let storingRecords = true;
  try {
    // Somebody may be making a partition of such a day: COPY would route by what it knew when it began, and fail.
    if (toDefault) await client.query('LOCK TABLE pgsluice.record_default IN ROW EXCLUSIVE MODE');
    const refused = await copyRecords();
    storingRecords = false;
    if (rejected.rows > 0) await copyIn(client, 'reject', rejected.bytes());
    if (cuts && cuts.length > 0) await insertCuts(client, cuts);
    await turn();
    await client.query(`SET LOCAL idle_in_transaction_session_timeout = ${IDLE_WITH_ROWS_MAX_MS}`);
    await advance(client, streams, refused);
    storingRecords = true; // constraints that were deferred
    const { command } = await client.query('COMMIT');
    // PostgreSQL ends a transaction that had failed without an error.
    if (command !== 'COMMIT') throw new Error(`COMMIT was answered with ${command}`);
    return null;
  } catch (error) {
    const { code } = /** @type {{ code?: string }} */ (error);
    // Without a SQLSTATE the connection is gone; it is not waited for again.
    if (code !== undefined) await client.query('ROLLBACK').catch(() => {});
    if (storingRecords && mayBeRefusal(error)) return error;
    throw error;
  }
}

/** @param {import('pg').Client} client @param {CutRecord[]} cuts a few: each stands for a huge record */
async function insertCuts(client, cuts) {
  await client.query(
    `INSERT INTO pgsluice.cut (stream_id, file_no, file_offset, length, sha256, received_at)
     SELECT v.*, now() FROM unnest($1::int[], $2::int[], $3::bigint[], $4::bigint[], $5::bytea[]) v`,
    [
      cuts.map(cut => cut.streamId),
      cuts.map(cut => cut.fileNo),
      cuts.map(cut => cut.offset),
      cuts.map(cut => cut.length),
      cuts.map(cut => cut.sha256),
    ],
  );
}

/** @param {import('pg').Client} client @param {Map<number, StreamAdvance>} streams @param {Refused | null} refused */
async function advance(client, streams, refused) {
  const ids = [...streams.keys()];
  const advances = [...streams.values()];
  const moved = await client.query({
    name: 'advance-streams',
    text: `UPDATE pgsluice.stream s
              SET begun = v.begun, next_file_no = v.next_file_no, open_file_no = v.open_file_no,
                  found_prefix = v.found_prefix,
                  lost_bytes = least(s.lost_bytes + v.lost_bytes, ${LOST_BYTES_MAX}), lost_events = s.lost_events + v.lost_events,
                  records = s.records + v.records, committed_at = now()
             FROM unnest($1::int[], $2::bigint[], $3::bool[], $4::int[], $5::int[], $6::text[],
                         $7::bigint[], $8::bigint[], $9::bigint[])
                  AS v(stream_id, epoch, begun, next_file_no, open_file_no, found_prefix, lost_bytes, lost_events,
                       records)
            WHERE s.stream_id = v.stream_id AND s.epoch = v.epoch
        RETURNING s.stream_id`,
    values: [
      ids,
      advances.map(a => a.epoch),
      advances.map(a => a.begun),
      advances.map(a => a.nextFileNo),
      advances.map(a => a.openFileNo),
      advances.map(a => a.foundPrefix),
      advances.map(a => a.lostBytes),
      advances.map(a => a.lostEvents),
      advances.map((a, index) => a.records - (refused?.rows.get(ids[index] ?? -1) ?? 0)),
    ],
  });
  if (moved.rowCount !== ids.length) {
    const ours = new Set(moved.rows.map(row => row.stream_id));
    throw new FencedError(
      ids.filter(id => !ours.has(id)),
      ids.length,
    );
  }
  const files = ids.flatMap((id, index) =>
    [...(advances[index]?.files.values() ?? [])].map(file => ({ id, file })),
  );
  if (files.length === 0) return;
  await client.query({
    name: 'advance-files',
    text: `INSERT INTO pgsluice.file AS file
             (stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum, gone_at,
              done_size, cursor)
           SELECT v.stream_id, v.file_no, v.inode, v.name, v."offset", v.head_length, v.head_sum, v.tail_length,
                  v.tail_sum, CASE WHEN v.gone THEN now() END, v.done_size, v.cursor
             FROM unnest($1::int[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::bigint[],
                         $8::int[], $9::bigint[], $10::bool[], $11::bigint[], $12::text[])
                  AS v(stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum, gone,
                       done_size, cursor)
           ON CONFLICT (stream_id, file_no) DO UPDATE
              SET inode = excluded.inode, name = excluded.name, "offset" = excluded."offset",
                  done_size = excluded.done_size, cursor = excluded.cursor,
                  head_length = excluded.head_length, head_sum = excluded.head_sum,
                  tail_length = excluded.tail_length, tail_sum = excluded.tail_sum,
                  gone_at = CASE WHEN excluded.gone_at IS NOT NULL THEN coalesce(file.gone_at, excluded.gone_at) END`,
    values: [
      files.map(({ id }) => id),
      files.map(({ file }) => file.fileNo),
      files.map(({ file }) => file.inode),
      files.map(({ file }) => file.name),
      files.map(({ file }) => file.offset),
      files.map(({ file }) => file.headLength),
      files.map(({ file }) => file.headSum),
      files.map(({ file }) => file.tailLength),
      files.map(({ file }) => file.tailSum),
      files.map(({ file }) => file.gone),
      files.map(({ file }) => file.doneSize),
      files.map(({ file }) => file.cursor),
    ],
  });
}
