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
 * @returns {Promise<import('pg').Client>} connected; its times are UTC
 */
export async function connectStorage(options) {
  const client = new Client({
    application_name: 'pgsluice',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    ...options,
  });
  // A lost connection shows in the query that runs, or in the next one: without a listener it would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    // Text and times are written as pgsluice means them, whatever the database's defaults are.
    await client.query(`SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET statement_timeout = 0`);
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    throw storageError(error);
  }
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
