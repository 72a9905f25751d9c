/**
 * Gives a command the storage, with its schema as this program knows it, and gives the storage back afterwards: an
 * embedded server that was started for the command ends with it.
 * Throws the coded errors of the storage; the server's own errors become STORAGE_UNREACHABLE or STORAGE_UNFIT.
 */
import { PgsluiceError } from '../base/errors.js';
import { closeStorage, connectStorage, openStorage, storageError } from '../storage/connect.js';
import { migrate } from '../storage/migrate.js';

/** @typedef {{ client: import('pg').Client, where: string, from: number, to: number }} OpenStorage from and to: of migrate */

/** Five letters and digits, of which system error codes such as EPIPE have no digit. */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/** What pg says when the connection goes under a query. */
const LOST_MESSAGE = /^Connection terminated|^Client has encountered a connection error/;
const LOST_CODES = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT']);

/**
 * SQLSTATEs that may pass by themselves: read-only (a standby), and the classes connection, rollback, resources, not in
 * state, operator, system.
 */
const PASSING = /^(?:08|25006|40|53|55|57|58)/;

/**
 * @template T
 * @param {import('./context.js').Context} context
 * @param {(storage: OpenStorage) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withStorage(context, work) {
  const storage = await openStorage(context.config);
  const close = context.onExit(() => closeStorage(storage));
  try {
    const client = await connect(storage);
    const disconnect = context.onExit(() => client.end());
    try {
      const { from, to } = await migrate(client);
      return await work({ client, where: storage.where, from, to });
    } catch (error) {
      throw coded(error, storage.where);
    } finally {
      await disconnect().catch(() => {});
    }
  } finally {
    await close();
  }
}

/** @param {import('../storage/connect.js').Storage} storage */
async function connect({ options, where }) {
  try {
    return await connectStorage({ ...options, application_name: 'pgsluice command' });
  } catch (error) {
    const { code, message } = storageError(error);
    const hint = code === 'STORAGE_UNREACHABLE' ? 'start it' : 'mend it';
    throw new PgsluiceError(code, `${message} (${where}): ${hint}, or name another with storage.url`, {
      cause: error,
    });
  }
}

/** @param {unknown} error @param {string} where @returns {unknown} */
function coded(error, where) {
  if (error instanceof PgsluiceError || !(error instanceof Error)) return error;
  const code = 'code' in error ? String(error.code) : '';
  const message = `storage: ${error.message} (${where})`;
  if (SQLSTATE.test(code)) {
    const kind = PASSING.test(code) ? 'STORAGE_UNREACHABLE' : 'STORAGE_UNFIT';
    return new PgsluiceError(kind, message, { cause: error });
  }
  const lost = LOST_CODES.has(code) || LOST_MESSAGE.test(error.message);
  return lost ? new PgsluiceError('STORAGE_UNREACHABLE', message, { cause: error }) : error;
}
