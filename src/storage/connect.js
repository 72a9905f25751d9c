/**
 * Connections to the storage, wherever it is: the embedded PostgreSQL or the one of storage.url.
 * Errors are coded: STORAGE_UNREACHABLE for all that may pass by itself, STORAGE_UNFIT for what an operator must mend.
 */
import { join } from 'node:path';
import { Client } from 'pg';
import { PgsluiceError } from '../base/errors.js';
import { redactUrl } from '../base/redact-url.js';
import { EmbeddedPostgres } from './embedded/server.js';
import { urlWithPassword } from './password-file.js';

/** @typedef {import('../config/load.js').Config} Config */

const CONNECT_TIMEOUT_MS = 10_000;
const FIRST_ANSWER_TIMEOUT_MS = 12_000; // from the beginning
const END_TIMEOUT_MS = 2_000;
const KEEPALIVE_IDLE_MS = 10_000; // Node asks every second then, ten times
/** What a session needs whatever the defaults of server, database and role are. */
const SETTINGS = {
  client_encoding: 'UTF8',
  timezone: 'UTC',
  default_transaction_isolation: 'read committed', // a claim must see the position that it waited for
  statement_timeout: '0',
  transaction_timeout: '0',
  // Somebody's lock or index must not stop the intake without a word: the batch fails, says why, and comes again.
  lock_timeout: '30s',
  // A worker that was stopped, or whose host is gone, must not keep its streams' rows locked.
  idle_in_transaction_session_timeout: '10min',
  idle_session_timeout: '0',
  tcp_keepalives_idle: '30',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '60000',
};
const SESSION = { names: Object.keys(SETTINGS), values: Object.values(SETTINGS) };
// Those that this version of PostgreSQL has.
const SET_SESSION = `SELECT set_config(v.name, v.value, false)
  FROM unnest($1::text[], $2::text[]) v(name, value) JOIN pg_catalog.pg_settings s ON s.name = lower(v.name)`;
// SQLSTATE classes and codes that no waiting mends: wrong password or role, no such database, no permission.
const UNFIT = /^(28...|3D000|42501)$/;

// What pg says before the server can: it has nothing to answer with.
const NO_PASSWORD = /client password must be a (?:non-empty )?string/;

/**
 * A storage that is known to be there.
 * @typedef {object} Storage
 * @property {import('pg').ClientConfig} options for connectStorage; hold the password: never log them
 * @property {string} where for messages
 * @property {EmbeddedPostgres | null} embedded
 * @property {boolean} started this process started the embedded server
 */

/**
 * Finds the storage; the embedded one is started if it does not run.
 * @param {Config} config
 * @returns {Promise<Storage>}
 */
export async function openStorage(config) {
  const { url, passwordFile } = config.storage;
  if (url === 'embedded') {
    const { dataDir, runtimeDir } = config.daemon;
    const embedded = new EmbeddedPostgres({ dataDir, socketDir: join(runtimeDir, 'storage') });
    const { host, port, user, database, started } = await embedded.ensureRunning();
    return {
      options: { host, port, user, database },
      where: `the embedded PostgreSQL in ${dataDir}`,
      embedded,
      started,
    };
  }
  // Without a password here pg looks for PGPASSWORD, PGPASSFILE and ~/.pgpass, as libpq does.
  const options = { connectionString: passwordFile === null ? url : urlWithPassword(url, passwordFile) };
  return { options, where: redactUrl(url), embedded: null, started: false };
}

/**
 * The command is done with the storage: an embedded server that it started ends, unless somebody else uses it by now.
 * @param {Storage} storage
 */
export async function closeStorage({ embedded, started }) {
  if (embedded && started) await embedded.stop({ ifUnused: true });
}

/**
 * @param {import('pg').ClientConfig} options
 * @returns {Promise<import('pg').Client>} connected; its times are UTC, it waits for no lock longer than 30 s, and a
 *   host that is gone ends it within half a minute. A storage that is there and says nothing: see endWhenSilent.
 */
export async function connectStorage(options) {
  const client = new Client({
    application_name: 'pgsluice',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_IDLE_MS,
    ...options,
  });
  // A lost connection shows in the query that runs, or in the next one: without a listener it would end the process.
  client.on('error', () => {});
  // connectionTimeoutMillis ends with the server's greeting; a server that is stopped may be silent later.
  const timer = setTimeout(() => cutConnection(client), FIRST_ANSWER_TIMEOUT_MS);
  try {
    await client.connect();
    const { names, values } = SESSION;
    await client.query(SET_SESSION, [names, values]);
    return client;
  } catch (error) {
    cutConnection(client);
    throw storageError(error);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Ends a connection without a word: what hangs in it, and what it still had to send, is given up at once.
 * @param {import('pg').Client} client
 */
export function cutConnection(client) {
  client.connection.stream.destroy();
  client.end().catch(() => {});
}

/**
 * Ends a connection that nothing runs on. Never rejects, never hangs.
 * @param {import('pg').Client} client
 */
export async function endConnection(client) {
  const timer = setTimeout(() => cutConnection(client), END_TIMEOUT_MS);
  await client.end().catch(() => {});
  clearTimeout(timer);
}

/**
 * @param {unknown} error whatever pg or the socket threw
 * @returns {PgsluiceError}
 */
export function storageError(error) {
  if (error instanceof PgsluiceError) return error;
  const { message, code } = /** @type {Error & { code?: string }} */ (error);
  const unfit = typeof code === 'string' && UNFIT.test(code);
  if (NO_PASSWORD.test(message)) {
    const what = 'storage: it asks for a password and there is none: set storage.password_file';
    return new PgsluiceError('STORAGE_UNFIT', what, { cause: error });
  }
  const text = message === '' && code ? code : message;
  return new PgsluiceError(unfit ? 'STORAGE_UNFIT' : 'STORAGE_UNREACHABLE', `storage: ${text}`, {
    cause: error,
  });
}
