/**
 * Daily partitions (UTC) of the two partitioned tables: pgsluice.record by log_time, pgsluice.reject by received_at.
 * A day is the number of days since 1970-01-01. Rows of days that have no partition go to the default one and move
 * when their day is made: no time a host can write makes a batch fail, or makes partitions without end.
 */
import { PgsluiceError } from '../base/errors.js';
import { removeGoneFiles } from './gone-files.js';

// A batch may hold a lock while it waits for the batch before it, which waits behind whoever wants that lock: the
// server sees no deadlock there, so nobody here waits for long.
const LOCK_MAX_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';
const PARTITION_LOCK = 0x7067_7370; // 'pgsp'
const DAY_MS = 86_400_000;
const DAYS_AHEAD = 3; // so that a weekend without a daemon is bridged
const DAYS_BACK_MAX = 3660; // ten years of old logs with --from start; older times go to the default one first
const DAYS_PARTED_MAX = 100; // days of the default partition that get theirs in one maintenance
const FIRST_DAY = '0001-01-01'; // before it, no server writes a log

/** @typedef {'record' | 'reject'} PartitionedTable */

const TABLES = /** @type {const} */ (['record', 'reject']);

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
export function ensurePartition(client, table, day) {
  return locked(client, async () => {
    const name = partitionName(table, day);
    const exists = await client.query('SELECT to_regclass($1) IS NOT NULL AS exists', [`pgsluice.${name}`]);
    if (exists.rows[0].exists) return;
    await createPartition(client, table, name);
    await fillAndAttach(client, table, name, day);
  });
}

/**
 * @param {import('pg').Client} client in a transaction
 * @param {PartitionedTable} table
 * @param {string} name
 */
async function createPartition(client, table, name) {
  // CREATE and ATTACH, not CREATE ... PARTITION OF: the latter would wait for every running COPY.
  // Somebody's CHECK on the table must be there before: ATTACH refuses a partition without it.
  await client.query(`CREATE TABLE pgsluice.${name} (LIKE pgsluice.${table} INCLUDING CONSTRAINTS)`);
  await client.query(`LOCK TABLE pgsluice.${table}_default IN ACCESS EXCLUSIVE MODE`);
}

/**
 * @param {import('pg').Client} client in a transaction
 * @param {PartitionedTable} table
 * @param {string} name of a table that was made
 * @param {number} day
 */
async function fillAndAttach(client, table, name, day) {
  const key = table === 'record' ? 'log_time' : 'received_at';
  const [from, to] = [`'${dateOf(day)} 00:00:00+00'`, `'${dateOf(day + 1)} 00:00:00+00'`];
  await client.query(
    `WITH moved AS (DELETE FROM pgsluice.${table}_default WHERE ${key} >= ${from} AND ${key} < ${to} RETURNING *),
          stored AS (INSERT INTO pgsluice.${name} SELECT * FROM moved RETURNING stream_id, file_no)
     UPDATE pgsluice.file f SET records_until = greatest(f.records_until, ${to}::date)
       FROM (SELECT DISTINCT stream_id, file_no FROM stored) s
      WHERE f.stream_id = s.stream_id AND f.file_no = s.file_no`,
  );
  await client.query(
    `ALTER TABLE pgsluice.${table} ATTACH PARTITION pgsluice.${name} FOR VALUES FROM (${from}) TO (${to})`,
  );
}

/**
 * @param {import('pg').Client} client outside of a transaction
 * @param {() => Promise<void>} work on partitions, alone, in a transaction that waits for nobody long
 * @returns {Promise<boolean>} false: somebody uses what is needed, and nothing was done
 */
async function locked(client, work) {
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL lock_timeout = ${LOCK_MAX_MS}`);
    await client.query('SELECT pg_advisory_xact_lock($1)', [PARTITION_LOCK]);
    await work();
    await client.query('COMMIT');
    return true;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    if (/** @type {{ code?: string }} */ (error).code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}

/**
 * Makes the partitions of the coming days.
 * @param {import('pg').Client} client
 * @param {number} now ms since the epoch
 */
export async function makePartitions(client, now) {
  const today = dayOf(now);
  for (const table of TABLES) {
    for (let day = today - 1; day <= today + DAYS_AHEAD; day += 1) await ensurePartition(client, table, day);
  }
}

/**
 * Drops the partitions of days past retention, and forgets the files that no record names any more. A clock that is
 * wrong makes it drop what should stay.
 * @param {import('pg').Client} client
 * @param {number} now ms since the epoch
 * @param {number} retentionDays
 * @returns {Promise<{ dropped: string[], forgottenFiles: number }>}
 */
export async function applyRetention(client, now, retentionDays) {
  const today = dayOf(now);
  const dropped = [];
  let oldest = today - retentionDays;
  await partDefault(client, today);
  for (const table of TABLES) {
    for (const { name, day } of await dailyPartitions(client, table)) {
      if (day >= today - retentionDays) continue;
      if (await locked(client, () => drop(client, name))) dropped.push(name);
      else oldest = Math.min(oldest, day);
    }
  }
  return { dropped, forgottenFiles: await removeGoneFiles(client, dateOf(oldest)) };
}

/**
 * Rows of the default partition that came while their own could not be made, or whose day is too long ago to have one:
 * each day gets its own now, and is kept or dropped as a whole.
 * @param {import('pg').Client} client
 * @param {number} today
 */
async function partDefault(client, today) {
  const { rows } = await client.query(
    `SELECT DISTINCT (log_time AT TIME ZONE 'UTC')::date - date '1970-01-01' AS day FROM pgsluice.record_default
      WHERE log_time >= '${FIRST_DAY}' AND log_time < $1::date LIMIT ${DAYS_PARTED_MAX}`,
    [dateOf(today + DAYS_AHEAD + 1)],
  );
  for (const { day } of rows) await ensurePartition(client, 'record', day);
}

/**
 * @param {import('pg').Client} client
 * @param {PartitionedTable} table
 * @returns {Promise<{ name: string, day: number }[]>}
 */
async function dailyPartitions(client, table) {
  const { rows } = await client.query(
    `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = to_regclass($1) AND c.relname ~ $2`,
    [`pgsluice.${table}`, `^${table}_[0-9]{8}$`],
  );
  return rows.map(({ relname }) => ({ name: relname, day: dayOfPartition(relname) }));
}

/** @param {import('pg').Client} client in a transaction @param {string} name */
async function drop(client, name) {
  await client.query(`DROP TABLE IF EXISTS pgsluice.${name}`);
}

/** @param {string} name record_20261120 */
function dayOfPartition(name) {
  const digits = name.slice(-8);
  const ms = Date.parse(`${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6)}T00:00:00Z`);
  if (Number.isNaN(ms)) throw new PgsluiceError('STORAGE_UNFIT', `${name} is not a daily partition`);
  return dayOf(ms);
}
