/**
 * A lease on the embedded PostgreSQL: a connection that holds a shared advisory lock for as long as its
 * process uses the server; the server takes it back however that process ends. It does not keep the process
 * alive. Whoever can turn the shared lock into the exclusive one is the last user, and may shut down.
 */
import { Client, escapeIdentifier } from 'pg';
import { USER } from './cluster.js';
import { errorCode } from './run-as.js';

export const DATABASE = 'pgsluice';
/** The socket is alone in its directory, so the port is only a part of its name. */
export const PORT = 5432;
const CONNECT_TIMEOUT_MS = 10_000;
const LEASE_NAME = 'pgsluice embedded';
/** Two-key advisory lock, "pgsl" and 1; shared: in use, exclusive: being shut down. */
const LEASE_LOCK = '1885827948, 1';
/** SQLSTATEs of a server that starts, goes down or is full, and what a connection that it cut off says. */
const PASSING = new Set(['57P01', '57P02', '57P03', '53300', 'ECONNRESET', 'EPIPE', 'EAGAIN']);
/** What pg says, without a code, when the connection ends or stalls before it is ready. */
const PASSING_MESSAGE = /connection terminated|not queryable|timeout expired/i;

/**
 * @param {string} host
 * @param {string} database
 */
export function newClient(host, database) {
  const connection = { host, port: PORT, user: USER, database, ssl: false };
  return new Client({
    ...connection,
    application_name: LEASE_NAME,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
}

/**
 * @param {string} host
 * @throws {Error} of pg, unless the database is there now or the server ends
 */
export async function createDatabase(host) {
  const client = newClient(host, 'postgres');
  client.on('error', () => {}); // the query fails as well
  try {
    await client.connect();
    await client.query(`CREATE DATABASE ${escapeIdentifier(DATABASE)} TEMPLATE template0`);
  } catch (error) {
    // 42P04, or 23505 when both got that far: another caller has made it. A server that ends is met again.
    if (!['42P04', '23505'].includes(errorCode(error)) && !isPassing(error)) throw error;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Waits while the server is being shut down, and fails with it.
 * @param {Client} client
 */
export async function takeLease(client) {
  await client.query(`SELECT pg_advisory_lock_shared(${LEASE_LOCK})`);
  holdProcess(client, false);
}

/**
 * @param {Client} client a lease
 * @returns {Promise<boolean>}
 */
export async function answers(client) {
  holdProcess(client, true);
  try {
    await client.query('SELECT 1');
    return true;
  } catch {
    return false;
  } finally {
    holdProcess(client, false);
  }
}

/**
 * Whether an open connection keeps the process from ending; needed while an answer is awaited.
 * @param {Client} client pg has ref() and unref(), its types have not
 * @param {boolean} held
 */
function holdProcess(client, held) {
  const method = Reflect.get(client, held ? 'ref' : 'unref');
  if (typeof method === 'function') method.call(client);
}

/**
 * @param {unknown} error
 * @returns {boolean} whether to connect again: the server starts, goes down or is full
 */
export function isPassing(error) {
  const code = errorCode(error);
  return PASSING.has(code) || (code === '' && error instanceof Error && PASSING_MESSAGE.test(error.message));
}

/**
 * Turns our lease into the exclusive lock, which new leases then wait for until the server is down.
 * @param {Client} lease
 * @returns {Promise<boolean>} false: somebody uses the server, or it is down
 */
export async function isUnused(lease) {
  holdProcess(lease, true);
  try {
    await lease.query(`SELECT pg_advisory_unlock_shared(${LEASE_LOCK})`);
    // Other leases are seen by their locks: counting them would let two that stop at once both stay away.
    const { rows } = await lease.query(
      `SELECT pg_try_advisory_lock(${LEASE_LOCK}) AND NOT EXISTS (
         SELECT FROM pg_stat_activity
         WHERE application_name LIKE 'pgsluice%' AND application_name <> $1 AND pid <> pg_backend_pid()
       ) AS unused`,
      [LEASE_NAME],
    );
    return rows[0].unused === true;
  } catch {
    return false;
  }
}
