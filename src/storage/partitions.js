/**
 * Daily partitions (UTC) of the two partitioned tables: pgsluice.record by log_time, pgsluice.reject by received_at.
 * A day is the number of days since 1970-01-01. Rows of days that have no partition go to the default one and move
 * when their day is made, so no time a host can write makes a batch fail, or makes partitions without end.
 */
import { PgsluiceError } from '../base/errors.js';

// A batch may hold a lock while it waits for the batch before it, which waits behind whoever wants that lock: the
// server sees no deadlock there, so nobody here waits for long.
const LOCK_MAX_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';
const PARTITION_LOCK = 0x7067_7370; // 'pgsp'
const DAY_MS = 86_400_000;
const DAYS_AHEAD = 3; // so that a weekend without a daemon is bridged
const DAYS_BACK_MAX = 3660; // ten years of old logs with --from start; older times stay in the default partition

/** @typedef {'record' | 'reject'} PartitionedTable */

/** @param {number} ms since the epoch */
export const dayOf = ms => Math.floor(ms / DAY_MS);

/** @param {number} day @returns {string} 2026-11-20 */
const dateOf = day => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** @param {PartitionedTable} table @param {number} day @returns {string} without the schema */
export const partitionName = (table, day) => `${table}_${dateOf(day).replaceAll('-', '')}`;

/**
 * Whether a record of this day gets a partition of its own.
 * @param {number} day
 * @param {number} today
 */
export const hasPartition = (day, today) => day >= today - DAYS_BACK_MAX && day <= today + DAYS_AHEAD;

/**
 * @param {import('pg').Client} client outside of a transaction
 * @param {PartitionedTable} table
 * @param {number} day
 * @returns {Promise<boolean>} false: the default partition is in use; rows of the day go there until it is tried again
 */
export async function ensurePartition(client, table, day) {
  const name = partitionName(table, day);
  const key = table === 'record' ? 'log_time' : 'received_at';
  const from = `'${dateOf(day)} 00:00:00+00'`;
  const to = `'${dateOf(day + 1)} 00:00:00+00'`;
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL lock_timeout = ${LOCK_MAX_MS}`);
    await client.query('SELECT pg_advisory_xact_lock($1)', [PARTITION_LOCK]);
    const exists = await client.query('SELECT to_regclass($1) IS NOT NULL AS exists', [`pgsluice.${name}`]);
    if (!exists.rows[0].exists) {
      // CREATE and ATTACH, not CREATE ... PARTITION OF: the latter would wait for every running COPY.
      // Somebody's CHECK on the table must be there before: ATTACH refuses a partition without it.
      await client.query(`CREATE TABLE pgsluice.${name} (LIKE pgsluice.${table} INCLUDING CONSTRAINTS)`);
      await client.query(`LOCK TABLE pgsluice.${table}_default IN ACCESS EXCLUSIVE MODE`);
      await client.query(
        `WITH moved AS (DELETE FROM pgsluice.${table}_default WHERE ${key} >= ${from} AND ${key} < ${to} RETURNING *)
         INSERT INTO pgsluice.${name} SELECT * FROM moved`,
      );
      await client.query(
        `ALTER TABLE pgsluice.${table} ATTACH PARTITION pgsluice.${name} FOR VALUES FROM (${from}) TO (${to})`,
      );
    }
    await client.query('COMMIT');
    return true;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/** @param {unknown} error */
const isLockTimeout = error => error instanceof Error && 'code' in error && error.code === LOCK_NOT_AVAILABLE;

/**
 * Makes the partitions of the coming days, drops those of days past retention.
 * @param {import('pg').Client} client
 * @param {number} now ms since the epoch
 * @param {number} retentionDays
 * @returns {Promise<{ dropped: string[] }>}
 */
export async function maintainPartitions(client, now, retentionDays) {
  const today = dayOf(now);
  const dropped = [];
  for (const table of /** @type {PartitionedTable[]} */ (['record', 'reject'])) {
    for (let day = today - 1; day <= today + DAYS_AHEAD; day += 1) await ensurePartition(client, table, day);
    const partitions = await client.query(
      `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass($1) AND c.relname ~ $2`,
      [`pgsluice.${table}`, `^${table}_[0-9]{8}$`],
    );
    for (const { relname } of partitions.rows) {
      if (dayOfPartition(relname) >= today - retentionDays) continue;
      if (await dropPartition(client, relname)) dropped.push(relname);
    }
  }
  return { dropped };
}

/**
 * @param {import('pg').Client} client
 * @param {string} name
 * @returns {Promise<boolean>} false: the table is in use; the next maintenance tries again
 */
async function dropPartition(client, name) {
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL lock_timeout = ${LOCK_MAX_MS}`);
    await client.query(`DROP TABLE IF EXISTS pgsluice.${name}`);
    await client.query('COMMIT');
    return true;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/** @param {string} name record_20261120 */
function dayOfPartition(name) {
  const digits = name.slice(-8);
  const ms = Date.parse(`${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6)}T00:00:00Z`);
  if (Number.isNaN(ms)) throw new PgsluiceError('STORAGE_UNFIT', `${name} is not a daily partition`);
  return dayOf(ms);
}
