/**
 * The last records of some streams, without an index: partitions are read backwards, the newest first, until there are
 * enough. What is told is sorted by log_time, but which records are the last ones is decided by where they are stored:
 * a log that was read late is among them.
 */
import { COLUMNS, loadPartitions, NAMES, rowsIn } from './log-rows.js';

const STEP_BLOCKS = 4096; // 32 MiB
const BLOCKS_MAX = 131_072; // 1 GiB; then fewer records are told

/**
 * @param {import('pg').Client} client
 * @param {object} options
 * @param {number[]} options.streamIds
 * @param {readonly string[] | null} options.severities those of error_severity that are told; null: all
 * @param {number} options.count
 * @returns {Promise<string[]>} each a JSON object with the columns of pgsluice.log, in the order of log_time
 */
export async function lastRecords(client, { streamIds, severities, count }) {
  if (count === 0 || streamIds.length === 0) return [];
  /** @type {[time: number, json: string][]} */
  const found = [];
  let blocks = 0;
  for (const partition of await loadPartitions(client)) {
    for (let to = partition.blocks; to > 0; to -= STEP_BLOCKS) {
      const from = Math.max(0, to - STEP_BLOCKS);
      const { rows } = await client.query({
        text: `SELECT extract(epoch FROM l.log_time)::float8, row_to_json(l)::text
                 FROM (SELECT ${COLUMNS} FROM (${rowsIn({ name: partition.name, from, to })}) r ${NAMES}
                        WHERE r.stream_id = ANY($1) AND ($2::text[] IS NULL OR r.error_severity = ANY($2))
                        ORDER BY r.log_time DESC, r.stream_id DESC, r.file_no DESC, r.file_offset DESC
                        LIMIT $3) l`,
        values: [streamIds, severities, count],
        rowMode: 'array',
      });
      for (const [time, json] of rows) found.push([time, json]);
      blocks += to - from;
      if (found.length >= count || blocks >= BLOCKS_MAX) return inOrder(found, count);
    }
  }
  return inOrder(found, count);
}

/** @param {[time: number, json: string][]} found the last first @param {number} count */
function inOrder(found, count) {
  const sorted = found.toReversed().toSorted(([a], [b]) => a - b);
  return sorted.slice(-count).map(([, json]) => json);
}
