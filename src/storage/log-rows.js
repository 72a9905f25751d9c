/**
 * How rows of the log table are read by whoever reads its partitions one by one, at places that pgsluice.log cannot
 * name: the same columns, and the partitions with their sizes.
 */
import { CSVLOG_COLUMNS } from '../codec/copy-columns.js';

/** The columns of pgsluice.log, of a row r and what NAMES joins to it. */
export const COLUMNS = [
  'h.name AS host',
  's.path AS stream',
  ...CSVLOG_COLUMNS.map(([name]) => `r.${name}`),
  'r.duration_ms',
  'f.name AS file',
  'r.file_offset',
].join(', ');

export const NAMES = `JOIN pgsluice.stream s ON s.stream_id = r.stream_id
                 JOIN pgsluice.host h ON h.host_id = s.host_id
                 JOIN pgsluice.file f ON f.stream_id = r.stream_id AND f.file_no = r.file_no`;

/**
 * @typedef {object} BlockRange of a partition
 * @property {string} name
 * @property {number} from its first block
 * @property {number} [to] the block after its last; none: to the end
 */

/**
 * @param {BlockRange} range
 * @param {string} [columns]
 * @returns {string} a query of the rows there, which reads nothing else ("TID Range Scan", since PostgreSQL 14)
 */
export function rowsIn({ name, from, to }, columns = '*') {
  const before = to === undefined ? '' : ` AND ctid < '(${to},0)'`;
  return `SELECT ${columns} FROM ONLY pgsluice.${name} WHERE ctid >= '(${from},0)'${before}`;
}

/**
 * The partitions of pgsluice.record that have rows, the newest day first, those without a day last.
 * @param {import('pg').Client} client
 * @returns {Promise<{ name: string, blocks: number }[]>} blocks: its size now, also of what is not committed
 */
export async function loadPartitions(client) {
  const { rows } = await client.query(
    `SELECT name, blocks
       FROM (SELECT c.relname AS name, (pg_relation_size(c.oid) / current_setting('block_size')::int)::int AS blocks
               FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = 'pgsluice.record'::regclass) p
      WHERE blocks > 0
      ORDER BY name ~ '^record_[0-9]{8}$' DESC, name DESC`,
  );
  return rows;
}

/**
 * @template T
 * @param {import('pg').Client} client outside of a transaction
 * @param {() => Promise<T>} look all that it reads is of one moment
 * @returns {Promise<T>}
 */
export async function inSnapshot(client, look) {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  try {
    const seen = await look();
    await client.query('COMMIT');
    return seen;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
