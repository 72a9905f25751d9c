/**
 * The conservation check: what pgsluice stored of a stream against PostgreSQL's own COPY of the same csv files.
 * The rows must be equal as multisets, in all 26 columns.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { from as copyFrom } from 'pg-copy-streams';

/** The table of the manual, "Using CSV-Format Log Output", without its key. */
const POSTGRES_LOG = `(
  log_time timestamp(3) with time zone, user_name text, database_name text, process_id integer, connection_from text,
  session_id text, session_line_num bigint, command_tag text, session_start_time timestamp with time zone,
  virtual_transaction_id text, transaction_id bigint, error_severity text, sql_state_code text, message text,
  detail text, hint text, internal_query text, internal_query_pos integer, context text, query text,
  query_pos integer, location text, application_name text, backend_type text, leader_pid integer, query_id bigint)`;

const COLUMNS = POSTGRES_LOG.slice(1, -1)
  .split(',')
  .map(column => column.trim().split(' ')[0])
  .join(', ');

/** @param {string} logDir @returns {Promise<string[]>} the csv files in it, absolute */
export async function csvFiles(logDir) {
  const names = await readdir(logDir);
  return names.filter(name => name.endsWith('.csv')).map(name => join(logDir, name));
}

/**
 * Waits until the positions of a stream say that all bytes of the files are committed. The files must not grow.
 * @param {import('pg').Client} storage
 * @param {string} host
 * @param {string} logDir
 * @param {number} limitMs
 */
export async function waitUntilDrained(storage, host, logDir, limitMs) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const sizes = await Promise.all((await csvFiles(logDir)).map(async file => (await stat(file)).size));
    const size = sizes.reduce((sum, bytes) => sum + bytes, 0);
    const { rows } = await storage.query(
      `SELECT coalesce(sum(f."offset"), 0)::bigint AS stored
         FROM pgsluice.file f JOIN pgsluice.stream USING (stream_id) JOIN pgsluice.host h USING (host_id)
        WHERE h.name = $1 AND f.gone_at IS NULL AND f.name LIKE '%.csv'`,
      [host],
    );
    const stored = Number(rows[0].stored);
    if (stored === size) return;
    if (Date.now() > deadline)
      throw new Error(`${host}: ${stored} of ${size} bytes are committed after ${limitMs / 1000} s`);
    await sleep(200);
  }
}

/**
 * @param {import('pg').Client} storage
 * @param {string} host
 * @param {string[]} files csv files
 * @returns {Promise<{ source: number, stored: number, missing: number, duplicated: number, rejected: number }>}
 *   duplicated: stored but not in the files, or more often than there
 */
export async function checkConservation(storage, host, files) {
  await storage.query(`DROP TABLE IF EXISTS conservation_source`);
  await storage.query(`CREATE TEMPORARY TABLE conservation_source ${POSTGRES_LOG}`);
  for (const file of files) {
    await pipeline(
      createReadStream(file),
      storage.query(copyFrom('COPY conservation_source FROM STDIN (FORMAT csv)')),
    );
  }
  const stored = `SELECT ${COLUMNS} FROM pgsluice.log WHERE host = '${host.replaceAll("'", "''")}'`;
  const { rows } = await storage.query(
    `SELECT (SELECT count(*) FROM conservation_source)::int AS source,
            (SELECT count(*) FROM (${stored}) s)::int AS stored,
            (SELECT count(*) FROM (TABLE conservation_source EXCEPT ALL (${stored})) m)::int AS missing,
            (SELECT count(*) FROM ((${stored}) EXCEPT ALL TABLE conservation_source) d)::int AS duplicated,
            (SELECT count(*) FROM pgsluice.rejected WHERE host = $1)::int AS rejected`,
    [host],
  );
  await storage.query('DROP TABLE conservation_source');
  return rows[0];
}

/**
 * What the transactions counted is what they stored.
 * @param {import('pg').Client} storage
 * @param {string} host
 */
export async function checkCounts(storage, host) {
  const { rows } = await storage.query(
    `SELECT s.path, s.records::int AS counted, count(r.stream_id)::int AS stored
       FROM pgsluice.host h JOIN pgsluice.stream s USING (host_id) LEFT JOIN pgsluice.record r USING (stream_id)
      WHERE h.name = $1 GROUP BY s.stream_id HAVING count(r.stream_id) <> s.records`,
    [host],
  );
  if (rows.length > 0) throw new Error(`${host}: records are miscounted: ${JSON.stringify(rows)}`);
}
