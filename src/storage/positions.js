/**
 * Claims a stream and reads its positions. Claiming raises the epoch, in a statement that waits for the stream's row:
 * a commit under the old epoch that is still running either ends first, and its positions are what is read here, or
 * finds the epoch gone and rolls back. So what is read here is final, whatever became of earlier workers.
 */

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
 */

/**
 * @typedef {object} StreamClaim
 * @property {number} epoch to commit with
 * @property {boolean} begun
 * @property {number} nextFileNo
 * @property {FilePosition[]} files present on the host as far as known
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
     RETURNING epoch, begun, next_file_no`,
    [streamId, epoch],
  );
  const row = claimed.rows[0];
  if (!row) return null;
  const files = await client.query(
    `SELECT file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum
       FROM pgsluice.file WHERE stream_id = $1 AND NOT gone ORDER BY file_no`,
    [streamId],
  );
  return {
    epoch: Number(row.epoch),
    begun: row.begun,
    nextFileNo: row.next_file_no,
    files: files.rows.map(file => ({
      fileNo: file.file_no,
      inode: file.inode,
      name: file.name,
      offset: Number(file.offset),
      headLength: file.head_length,
      headSum: Number(file.head_sum),
      tailLength: file.tail_length,
      tailSum: Number(file.tail_sum),
      gone: false,
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
