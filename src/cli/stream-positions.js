/**
 * Reads where the streams of a host stand: the files that are known to be there and the bytes of them that are
 * committed. Counts no records: that could take as long as reading them.
 */

/**
 * @typedef {object} StreamPosition
 * @property {boolean} begun what `from` skips has been recorded
 * @property {string | null} committedAt ISO time of the last commit
 * @property {string | null} foundPrefix log_line_prefix as it was found from the lines
 * @property {number} lostBytes seen on the host and gone before they could be read
 * @property {number} lostEvents truncations and removals that may have taken unread bytes
 * @property {{ file: string, offset: number, inode: string }[]} files in the order in which they were found
 */

/**
 * @param {import('pg').Client} client
 * @param {number} hostId
 * @returns {Promise<Map<number, StreamPosition>>} by stream
 */
export async function loadPositions(client, hostId) {
  const { rows } = await client.query(
    `SELECT s.stream_id, s.begun, s.committed_at, s.found_prefix, s.lost_bytes, s.lost_events,
            coalesce(json_agg(json_build_object('file', f.name, 'offset', f."offset", 'inode', f.inode)
                              ORDER BY f.file_no) FILTER (WHERE f.stream_id IS NOT NULL), '[]') AS files
       FROM pgsluice.stream s
       LEFT JOIN pgsluice.file f ON f.stream_id = s.stream_id AND f.gone_at IS NULL
      WHERE s.host_id = $1
      GROUP BY s.stream_id`,
    [hostId],
  );
  return new Map(
    rows.map(row => [
      row.stream_id,
      {
        begun: row.begun,
        committedAt: row.committed_at?.toISOString() ?? null,
        foundPrefix: row.found_prefix,
        lostBytes: Number(row.lost_bytes),
        lostEvents: Number(row.lost_events),
        files: row.files,
      },
    ]),
  );
}
