/**
 * Claims a stream and reads its positions. Claiming raises the epoch, in a statement that waits for the stream's row:
 * a commit under the old epoch that is still running either ends first, and its positions are what is read here, or
 * finds the epoch gone and rolls back. So what is read here is final, whatever became of earlier workers.
 */

const GONE_KEPT = `interval '1 day'`; // a file that comes back within it is known again
const GONE_MAX = 5000; // of them: every known file is sent to the follower, 70 bytes each

/**
 * @typedef {object} FilePosition
 * @property {number} fileNo
 * @property {string} inode
 * @property {string} name
 * @property {number} offset bytes up to which records are committed
 * @property {number} headLength
 * @property {number} headSum
 * @property {number} tailLength
 * @property {number} tailSum
 * @property {boolean} gone
 * @property {number | null} doneSize of a compressed file that is dealt with for ever: its size in bytes
 * @property {string | null} cursor of a journal: what journalctl goes on after
 */

/**
 * @typedef {object} StreamClaim
 * @property {number} epoch to commit with
 * @property {boolean} begun
 * @property {number} nextFileNo
 * @property {number | null} openFileNo the file that was being read
 * @property {string | null} foundPrefix log_line_prefix as it was found from the lines
 * @property {FilePosition[]} files the follower must know: present on the host, or gone not long ago
 */

/**
 * @param {import('pg').Client} client
 * @param {number} streamId
 * @param {number} epoch the claimant's, from the assignment or its last claim
 * @returns {Promise<StreamClaim | null>} null when the stream has been assigned anew or removed since
 */
export async function claimStream(client, streamId, epoch) {
  const claimed = await client.query(
    `UPDATE pgsluice.stream SET epoch = epoch + 1 WHERE stream_id = $1 AND epoch = $2
     RETURNING epoch, begun, next_file_no, open_file_no, found_prefix`,
    [streamId, epoch],
  );
  const row = claimed.rows[0];
  if (!row) return null;
  const files = await client.query(
    // An inode that has served several files is the last one's.
    `SELECT DISTINCT ON (inode) file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum,
            gone_at IS NOT NULL AS gone, done_size, cursor
       FROM (SELECT * FROM pgsluice.file WHERE stream_id = $1 AND gone_at IS NULL
              UNION ALL
             (SELECT * FROM pgsluice.file WHERE stream_id = $1 AND gone_at > now() - ${GONE_KEPT}
               ORDER BY gone_at DESC LIMIT $2)) files
      ORDER BY inode, file_no DESC`,
    [streamId, GONE_MAX],
  );
  return {
    epoch: Number(row.epoch),
    begun: row.begun,
    nextFileNo: row.next_file_no,
    openFileNo: row.open_file_no,
    foundPrefix: row.found_prefix,
    files: files.rows.map(file => ({
      fileNo: file.file_no,
      inode: file.inode,
      name: file.name,
      offset: Number(file.offset),
      headLength: file.head_length,
      headSum: Number(file.head_sum),
      tailLength: file.tail_length,
      tailSum: Number(file.tail_sum),
      gone: file.gone,
      doneSize: file.done_size === null ? null : Number(file.done_size),
      cursor: file.cursor,
    })),
  };
}

/**
 * Assigns streams anew: whoever held them before cannot commit any more.
 * @param {import('pg').Client} client
 * @param {number[]} streamIds
 * @returns {Promise<Map<number, number>>} epoch by stream
 */
export async function raiseEpochs(client, streamIds) {
  const result = await client.query(
    'UPDATE pgsluice.stream SET epoch = epoch + 1 WHERE stream_id = ANY($1) RETURNING stream_id, epoch',
    [streamIds],
  );
  return new Map(result.rows.map(row => [row.stream_id, Number(row.epoch)]));
}
