/**
 * Removes what is known of files that are gone for ever. pgsluice.log names the file of each record, so a row of
 * pgsluice.file stays as long as a record may need it; a stream itself looks back one day (positions.js), so what is
 * removed here was of no use for telling a file that comes back. A worker that still has it in memory writes it anew.
 */

// A record is stored before its file is gone, in a partition of a day that is not far ahead of the day then. The clocks
// of host, worker and storage may differ.
const AHEAD_DAYS_MAX = 7;

/**
 * @param {import('pg').Client} client
 * @param {string} oldest the first day whose partition may still have records, 2026-11-20
 * @returns {Promise<number>} how many were removed
 */
export async function removeGoneFiles(client, oldest) {
  // Times that have no day of their own say nothing of when they were stored.
  const others = await client.query(
    `SELECT i.inhrelid::regclass::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent IN ('pgsluice.record'::regclass, 'pgsluice.reject'::regclass) AND c.relname !~ '_[0-9]{8}$'`,
  );
  const unused = others.rows.map(
    ({ name }) =>
      `AND NOT EXISTS (SELECT FROM ${name} r WHERE r.stream_id = f.stream_id AND r.file_no = f.file_no)`,
  );
  const removed = await client.query(
    `WITH removed AS (
       DELETE FROM pgsluice.file f USING pgsluice.stream s JOIN pgsluice.host h USING (host_id)
        WHERE s.stream_id = f.stream_id AND (h.removed_at IS NOT NULL OR s.open_file_no IS DISTINCT FROM f.file_no)
          AND coalesce(h.removed_at, f.gone_at) < $1::date - ${AHEAD_DAYS_MAX}
          AND (f.records_until IS NULL OR f.records_until < $1::date) ${unused.join(' ')}
       RETURNING f.stream_id, f.file_no),
     cut AS (DELETE FROM pgsluice.cut c USING removed r WHERE c.stream_id = r.stream_id AND c.file_no = r.file_no)
     SELECT count(*)::int AS count FROM removed`,
    [oldest],
  );
  return removed.rows[0].count;
}
