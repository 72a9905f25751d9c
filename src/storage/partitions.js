/**
 * Daily partitions (UTC) of the two partitioned tables: pgsluice.record by log_time, pgsluice.reject by received_at.
 * A day is the number of days since 1970-01-01. Rows of days that have no partition go to the default one and move
 * when their day is made, those of long ago to one of their own (record_before_DAY): no time a host can write makes a
 * batch fail, or makes partitions without end.
 */
import { PgsluiceError } from '../base/errors.js';
import { removeGoneFiles } from './gone-files.js';

// A batch may hold a lock while it waits for the batch before it, which waits behind whoever wants that lock: the
// server sees no deadlock there, so nobody here waits for long.
const LOCK_MAX_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';
const RANGES_OVERLAP = '42P17'; // a clock that was set back: rows of the day have a place already
const PARTITION_LOCK = 0x7067_7370; // 'pgsp'
const DAY_MS = 86_400_000;
const DAYS_AHEAD = 3; // so that a weekend without a daemon is bridged
const DAYS_BACK_MAX = 3660; // ten years of old logs with --from start; older times have one partition together
const DAYS_PARTED_MAX = 100; // days of the default partition that get theirs in one maintenance

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
export function ensurePartition(client, table, day) {
  return locked(client, async () => {
    const name = partitionName(table, day);
    const exists = await client.query('SELECT to_regclass($1) IS NOT NULL AS exists', [`pgsluice.${name}`]);
    if (exists.rows[0].exists) return;
    await createPartition(client, table, name);
    await fillAndAttach(client, table, name, dateOf(day), dateOf(day + 1));
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
 * @param {string | null} from its first day; null: any
 * @param {string} to the day after its last
 */
async function fillAndAttach(client, table, name, from, to) {
  const key = table === 'record' ? 'log_time' : 'received_at';
  const at = (/** @type {string} */ date) => `'${date} 00:00:00+00'`;
  const since = from === null ? 'true' : `${key} >= ${at(from)}`;
  await client.query(
    `WITH moved AS (DELETE FROM pgsluice.${table}_default WHERE ${since} AND ${key} < ${at(to)} RETURNING *),
          stored AS (INSERT INTO pgsluice.${name} SELECT * FROM moved RETURNING stream_id, file_no)
     UPDATE pgsluice.file f SET records_until = greatest(f.records_until, '${to}')
       FROM (SELECT DISTINCT stream_id, file_no FROM stored) s
      WHERE f.stream_id = s.stream_id AND f.file_no = s.file_no`,
  );
  await client.query(
    `ALTER TABLE pgsluice.${table} ATTACH PARTITION pgsluice.${name}
       FOR VALUES FROM (${from === null ? 'MINVALUE' : at(from)}) TO (${at(to)})`,
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
    const { code } = /** @type {{ code?: string }} */ (error);
    if (code === LOCK_NOT_AVAILABLE || code === RANGES_OVERLAP) return false;
    throw error;
  }
}

/**
 * Makes the partitions of the coming days and of days in the default one, drops those of days past retention, and
 * forgets the files that no record names any more.
 * @param {import('pg').Client} client
 * @param {number} now ms since the epoch
 * @param {number} retentionDays
 * @returns {Promise<{ dropped: string[], forgottenFiles: number }>}
 */
export async function maintainPartitions(client, now, retentionDays) {
  const today = dayOf(now);
  const dropped = [];
  let oldest = today - retentionDays;
  for (const table of /** @type {PartitionedTable[]} */ (['record', 'reject'])) {
    for (let day = today - 1; day <= today + DAYS_AHEAD; day += 1) await ensurePartition(client, table, day);
    if (table === 'record') await partDefault(client, today);
    for (const { name, day } of await dailyPartitions(client, table)) {
      if (day >= today - retentionDays) continue;
      if (await locked(client, () => drop(client, name))) dropped.push(name);
      else oldest = Math.min(oldest, day);
    }
  }
  const past = Math.min(oldest, today - Math.max(DAYS_BACK_MAX, retentionDays)) - 1;
  dropped.push(...(await renewPast(client, past)));
  return { dropped, forgottenFiles: await removeGoneFiles(client, dateOf(oldest)) };
}

/**
 * Rows that came while their partition could not be made, and whose day nobody has written to since.
 * @param {import('pg').Client} client
 * @param {number} today
 */
async function partDefault(client, today) {
  const { rows } = await client.query(
    `SELECT DISTINCT (log_time AT TIME ZONE 'UTC')::date - date '1970-01-01' AS day FROM pgsluice.record_default
      WHERE log_time >= $1::date AND log_time < $2::date LIMIT ${DAYS_PARTED_MAX}`,
    [dateOf(today - DAYS_BACK_MAX), dateOf(today + DAYS_AHEAD + 1)],
  );
  for (const { day } of rows) await ensurePartition(client, 'record', day);
}

/**
 * Times before all days that get a partition have one together, which is dropped as soon as something is in it: it is
 * past retention by then. Every day it reaches one day further.
 * @param {import('pg').Client} client
 * @param {number} before the day that it ends before
 * @returns {Promise<string[]>} what was dropped with rows in it
 */
async function renewPast(client, before) {
  const name = `record_before_${partitionName('record', before).slice(-8)}`;
  const { rows } = await client.query(
    `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'pgsluice.record'::regclass AND c.relname ~ '^record_before_[0-9]{8}$'`,
  );
  const old = rows[0]?.relname;
  const isUsed =
    old !== undefined && ((await client.query(`SELECT FROM pgsluice.${old} LIMIT 1`)).rowCount ?? 0) > 0;
  if (!isUsed && old === name) return [];
  const renewed = await locked(client, async () => {
    // The order of batches: first the default partition, then the table.
    await client.query('LOCK TABLE pgsluice.record_default IN ACCESS EXCLUSIVE MODE');
    if (old !== undefined) await drop(client, old);
    await createPartition(client, 'record', name);
    await fillAndAttach(client, 'record', name, null, dateOf(before));
  });
  return renewed && isUsed ? [old] : [];
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
