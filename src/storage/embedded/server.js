/**
 * The PostgreSQL that pgsluice runs by itself: <dataDir>/postgres, on a Unix socket in a directory of its own
 * with mode 0700, without TCP. pg_ctl starts it outside our process group, so it outlives a kill -9 of the
 * daemon and is found again by its socket. Used by the daemon and by commands, several of which may start and
 * stop it at the same time: there is no lock of ours, whoever loses waits for the server of whoever won.
 * Who called ensureRunning() holds a lease: a connection with a shared advisory lock, which its process gives
 * back however it ends. stop({ ifUnused }) shuts down only while it holds that lock alone.
 * Throws PgsluiceError EMBEDDED_FAILED, STORAGE_UNFIT or DIRECTORY_UNUSABLE.
 */
import { constants, mkdir, open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PgsluiceError } from '../../base/errors.js';
import { preparePrivateDirectory } from '../../base/private-directory.js';
import { findBinaries } from './binaries.js';
import { USER, ensureCluster, keyLine, writeSettings } from './cluster.js';
import {
  DATABASE,
  PORT,
  answers,
  createDatabase,
  isPassing,
  isUnused,
  newClient,
  takeLease,
} from './lease.js';
import { removeStaleLock, runningPostmaster } from './postmaster.js';
import {
  chooseAccount,
  dropOtherCopies,
  errorCode,
  reachableBinaries,
  requireAccess,
  run,
} from './run-as.js';
import { prepareLog, readLogSince, trimLog } from './server-log.js';

/** sizeof(sockaddr_un.sun_path) - 1, of Linux and of the BSDs. */
const SOCKET_PATH_MAX_BYTES = process.platform === 'linux' ? 107 : 103;
const POLL_MS = 50;
/** Crash recovery replays up to max_wal_size: minutes on a slow disk. */
const START_TIMEOUT_MS = 600_000;
const STOP_TIMEOUT_MS = 300_000;

/** The loser of two starts, and a start beside the last children of a postmaster that was killed. */
const TRY_AGAIN = /lock file ".*" already exists|lock file ".*" is empty|pre-existing shared memory block/;

/** How long such a start is repeated. */
const TRY_AGAIN_MS = 60_000;
const TRY_AGAIN_DELAY_MS = 500;
/** pg_ctl hands its paths to /bin/sh in double quotes. */
const UNSAFE_IN_SHELL = /["$`\\\n]/;

const ABSENT = new Set(['ENOENT', 'ECONNREFUSED']);

/** @typedef {{ host: string, port: number, user: string, database: string }} Endpoint */

export class EmbeddedPostgres {
  /** @type {import('pg').Client | undefined} */
  #lease;
  /** @type {Promise<Endpoint & { started: boolean }> | undefined} */
  #starting;
  /** @type {unknown} why the last try to connect was in vain */
  #lastError;

  /**
   * @param {object} options
   * @param {string} options.dataDir pgsluice's data directory (made if missing)
   * @param {string} options.socketDir a directory for the socket alone; becomes 0700 and, as root, the property
   *   of the account that runs PostgreSQL
   * @param {Record<string, string>} [options.settings] of postgresql.conf, stronger than our defaults
   * @param {() => Promise<import('./binaries.js').Binaries>} [options.find] where the programs come from
   */
  constructor({ dataDir, socketDir, settings = {}, find = findBinaries }) {
    this.dataDir = path.resolve(dataDir);
    this.clusterDir = path.join(this.dataDir, 'postgres');
    this.logFile = path.join(this.dataDir, 'postgres.log');
    this.socketDir = path.resolve(socketDir);
    this.settings = settings;
    this.find = find;
  }

  /**
   * Finds or starts the server, makes the cluster and the database if they are missing, and takes a lease.
   * The lease does not keep the process alive. Call it again whenever the storage has become unreachable.
   * @returns {Promise<Endpoint & { started: boolean }>} started: by this call
   * @throws {PgsluiceError}
   */
  ensureRunning() {
    this.#starting ??= this.#ensureRunning()
      .catch(error => {
        if (error instanceof PgsluiceError) throw error;
        throw this.#failure(error instanceof Error ? error.message : String(error), error);
      })
      .finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  /**
   * Gives the lease back, and shuts the server down (fast). Close your own connections first.
   * @param {{ ifUnused?: boolean }} [options] ifUnused: only when nobody else holds a lease and no other client
   *   whose application_name starts with "pgsluice" is connected
   * @returns {Promise<boolean>} whether the server was shut down by this call
   * @throws {PgsluiceError} EMBEDDED_FAILED when it does not end
   */
  async stop({ ifUnused = false } = {}) {
    await this.#starting?.catch(() => undefined);
    const lease = this.#lease;
    try {
      if (ifUnused && !(lease && (await isUnused(lease)))) return false;
      return await this.#shutDown();
    } finally {
      this.#lease = undefined;
      await lease?.end().catch(() => undefined);
    }
  }

  /**
   * Keeps <dataDir>/postgres.log bounded: beyond 16 MiB it moves to postgres.log.1 and begins again. Every
   * start does this; a daemon calls it now and then.
   */
  trimLog() {
    return trimLog(this.logFile);
  }

  async #ensureRunning() {
    this.#checkPaths();
    let started = false;
    let socketDir = this.socketDir;
    let retryEnd = Infinity;
    for (const end = performance.now() + START_TIMEOUT_MS; performance.now() < end; await sleep(POLL_MS)) {
      const state = await this.#connect(socketDir);
      if (state === 'connected') {
        return { host: this.#lease?.host ?? socketDir, port: PORT, user: USER, database: DATABASE, started };
      }
      if (state === 'passing') continue;
      const postmaster = await runningPostmaster(this.clusterDir);
      if (!postmaster) {
        socketDir = this.socketDir;
        const failure = await this.#start();
        started = failure === undefined;
        if (failure) {
          retryEnd = Math.min(retryEnd, performance.now() + TRY_AGAIN_MS);
          if (performance.now() > retryEnd) throw failure;
          await sleep(TRY_AGAIN_DELAY_MS);
        }
      } else if (postmaster.status === 'ready' && !(await hasSocket(socketDir))) {
        // It listens elsewhere because runtime_dir has changed, or something has cleaned its socket away.
        if (socketDir !== postmaster.socketDir && (await hasSocket(postmaster.socketDir))) {
          socketDir = postmaster.socketDir;
        } else {
          await this.#shutDown();
        }
      }
    }
    const why = this.#lastError instanceof Error ? this.#lastError.message : 'no answer';
    throw this.#failure(
      `no connection after ${START_TIMEOUT_MS / 1000} s (${why}); try again`,
      this.#lastError,
    );
  }

  /**
   * One try to connect and to take the lease.
   * @param {string} host
   * @returns {Promise<'connected' | 'absent' | 'passing'>}
   */
  async #connect(host) {
    if (this.#lease) {
      // The backend of a postmaster that was killed may answer once more: the postmaster counts.
      const lease = this.#lease;
      if ((await runningPostmaster(this.clusterDir)) && (await answers(lease))) return 'connected';
      this.#lease = undefined;
      await lease.end().catch(() => undefined);
    }
    const client = newClient(host, DATABASE);
    client.on('error', () => {
      if (this.#lease === client) this.#lease = undefined;
    });
    try {
      await client.connect();
      await this.#requireOurCluster(client);
      await takeLease(client);
      this.#lease = client;
      return 'connected';
    } catch (error) {
      await client.end().catch(() => undefined);
      if (error instanceof PgsluiceError) throw error;
      this.#lastError = error;
      const code = errorCode(error);
      if (ABSENT.has(code)) return 'absent';
      if (code === '3D000') {
        await createDatabase(host);
        return 'passing';
      }
      if (isPassing(error)) return 'passing';
      if (code === 'EACCES') {
        throw new PgsluiceError(
          'DIRECTORY_UNUSABLE',
          `${host} belongs to another user: run pgsluice as the user of the daemon, or set daemon.runtime_dir`,
          { cause: error },
        );
      }
      throw error;
    }
  }

  /** @returns {Promise<PgsluiceError | undefined>} why not, when somebody else was faster or the last one lingers */
  async #start() {
    const account = await chooseAccount(this.clusterDir);
    const mode = account ? 0o711 : 0o700;
    const owner = account ? { account: account.uid } : {};
    preparePrivateDirectory(this.dataDir, { mode, option: 'daemon.data_dir', ...owner });
    await mkdir(path.dirname(this.socketDir), { recursive: true, mode });
    preparePrivateDirectory(this.socketDir, { mode: 0o700, option: 'daemon.runtime_dir', ...owner });
    if (account) await giveTo(account, this.socketDir);
    await requireAccess(account ? 'enter' : 'write', this.dataDir, account, 'daemon.data_dir');
    await requireAccess('write', this.socketDir, account, 'daemon.runtime_dir');
    const binaries = await reachableBinaries(await this.find(), account, this.dataDir);
    await ensureCluster(this.clusterDir, binaries, account);
    await writeSettings(this.clusterDir, binaries, account, this.socketDir, PORT, this.settings);
    await removeStaleLock(path.join(this.clusterDir, 'postmaster.pid'));
    await removeStaleLock(path.join(this.socketDir, `${socketName}.lock`));
    const before = await prepareLog(this.logFile, account);
    const timeout = String(START_TIMEOUT_MS / 1000);
    const args = ['start', '--silent', '-w', '-t', timeout, '-D', this.clusterDir, '-l', this.logFile];
    const { code, stdout, stderr } = await run(binaries.pg_ctl, args, account);
    if (code === 0) {
      await dropOtherCopies(this.dataDir, binaries);
      return undefined;
    }
    const tail = await readLogSince(this.logFile, before);
    const said = tail || stdout + stderr;
    const failure = this.#failure(keyLine(said), new Error(said));
    if (TRY_AGAIN.test(tail) || (await runningPostmaster(this.clusterDir))) return failure;
    throw failure;
  }

  /** @returns {Promise<boolean>} false: it did not run, or somebody else has ended it */
  async #shutDown() {
    const running = await runningPostmaster(this.clusterDir);
    if (!running) return false;
    const alreadyStopping = running.status === 'stopping';
    // SIGINT is pg_ctl's "fast": it needs neither the programs nor the account.
    try {
      process.kill(running.pid, 'SIGINT');
    } catch (error) {
      if (errorCode(error) !== 'ESRCH') throw this.#stuck(running.pid, error);
    }
    for (const end = performance.now() + STOP_TIMEOUT_MS; performance.now() < end; await sleep(POLL_MS)) {
      if ((await runningPostmaster(this.clusterDir))?.pid !== running.pid) {
        return !alreadyStopping;
      }
    }
    throw this.#stuck(running.pid);
  }

  #checkPaths() {
    if (UNSAFE_IN_SHELL.test(this.dataDir)) {
      throw new PgsluiceError(
        'DIRECTORY_UNUSABLE',
        `${JSON.stringify(this.dataDir)} has a character that pg_ctl cannot take (" $ \` \\): set daemon.data_dir`,
      );
    }
    const socket = path.join(this.socketDir, socketName);
    if (Buffer.byteLength(socket) <= SOCKET_PATH_MAX_BYTES) return;
    throw new PgsluiceError(
      'DIRECTORY_UNUSABLE',
      `The socket path ${socket} is longer than ${SOCKET_PATH_MAX_BYTES} bytes: set daemon.runtime_dir to a shorter one`,
    );
  }

  /** @param {import('pg').Client} client */
  async #requireOurCluster(client) {
    const { rows } = await client.query(`SELECT current_setting('data_directory') AS directory`);
    const theirs = String(rows[0].directory);
    const ours = await realpath(this.clusterDir).catch(() => this.clusterDir);
    if ((await realpath(theirs).catch(() => theirs)) === ours) return;
    throw new PgsluiceError(
      'DIRECTORY_UNUSABLE',
      `The PostgreSQL in ${this.socketDir} serves ${theirs} and not ${ours}: set daemon.runtime_dir to another directory`,
    );
  }

  /**
   * @param {number} pid
   * @param {unknown} [cause]
   */
  #stuck(pid, cause) {
    const message = `The embedded PostgreSQL (pid ${pid}) does not shut down; see ${this.logFile}`;
    return new PgsluiceError('EMBEDDED_FAILED', message, { cause });
  }

  /**
   * @param {string} what
   * @param {unknown} [cause]
   */
  #failure(what, cause) {
    const message = `The embedded PostgreSQL in ${this.clusterDir} did not start: ${what}; see ${this.logFile}`;
    return new PgsluiceError('EMBEDDED_FAILED', message, { cause });
  }
}

const socketName = `.s.PGSQL.${PORT}`;

/**
 * Never through a symbolic link: root does this in a directory of another account.
 * @param {import('./run-as.js').Account} account
 * @param {string} directory
 */
async function giveTo({ uid, gid }, directory) {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    if ((await handle.stat()).uid !== uid) await handle.chown(uid, gid);
  } finally {
    await handle.close();
  }
}

/** @param {string} directory */
async function hasSocket(directory) {
  return (
    directory !== '' && (await stat(path.join(directory, socketName)).catch(() => undefined)) !== undefined
  );
}
