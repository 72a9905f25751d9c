/**
 * What a cluster's lock files say about its server, and whether that is still true.
 * A pid alone proves nothing: after a reboot or in a new container it belongs to somebody else, and as a
 * zombie it answers to kill(0) for ever. PostgreSQL would refuse to start in these cases. A postmaster's
 * working directory is its data directory, so /proc tells; elsewhere a living pid is believed.
 * Nothing here starts or ends a server.
 */
import { readFile, readlink, realpath, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from './run-as.js';

/**
 * @typedef {object} Postmaster
 * @property {number} pid
 * @property {number} port
 * @property {string} socketDir '' until the server has opened its socket
 * @property {string} status 'starting', 'ready', 'stopping', 'standby'; '' very early
 */

/** An empty lock file is one being written, or the trace of a crash or a full disk; PostgreSQL refuses both. */
const EMPTY_LOCK_MAX_AGE_MS = 10_000;

/**
 * The running server of a cluster. Source of the format: PostgreSQL's src/include/utils/pidfile.h (lines
 * pid, data directory, start time, port, socket directory, listen address, shared memory, status).
 * @param {string} clusterDir
 * @returns {Promise<Postmaster | undefined>} undefined: none runs
 */
export async function runningPostmaster(clusterDir) {
  const text = await readFile(path.join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const [pid, , , port, socketDir, , , status] = text.split('\n').map(line => line.trim());
  // In a single-user server's file the pid is negative.
  if (!(Number(pid) > 0) || !(await worksIn(Number(pid), clusterDir))) return undefined;
  return { pid: Number(pid), port: Number(port), socketDir: socketDir ?? '', status: status ?? '' };
}

/**
 * Removes a lock file (postmaster.pid, .s.PGSQL.5432.lock) whose pid now belongs to another program.
 * A pid that is free is left to PostgreSQL, which checks shared memory as well. Should two callers get here
 * at once and one remove the other's fresh file, shared memory still keeps the second server from starting.
 * @param {string} lockFile line 1 is a pid, line 2 a data directory
 */
export async function removeStaleLock(lockFile) {
  const text = await readFile(lockFile, 'utf8').catch(() => undefined);
  if (text === undefined) return;
  const [pid, dataDirectory] = text.split('\n');
  if (text.trim() === '') {
    const written = await stat(lockFile).then(
      ({ mtimeMs }) => mtimeMs,
      () => Date.now(),
    );
    if (Date.now() - written < EMPTY_LOCK_MAX_AGE_MS) return;
  } else if (!pidExists(Math.abs(Number(pid))) || (await worksIn(Math.abs(Number(pid)), dataDirectory))) {
    return;
  }
  if ((await readFile(lockFile, 'utf8').catch(() => undefined)) === text) {
    await unlink(lockFile).catch(() => undefined);
  }
}

/**
 * @param {number} pid
 * @param {string} directory
 */
async function worksIn(pid, directory) {
  if (process.platform !== 'linux') return pidExists(pid);
  const wanted = await realpath(directory).catch(() => undefined);
  if (wanted === undefined) return false;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  // Empty for a zombie, and for a process that is just ending: that one still has a directory.
  if (commandLine === '') return false;
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
  if (cwd !== undefined) return cwd === wanted;
  // Root without CAP_SYS_PTRACE, as in a container, may not read another user's cwd, but its arguments.
  const args = commandLine.split('\0');
  const named = args[args.indexOf('-D') + 1] ?? '';
  return args.includes('-D') && (await realpath(named).catch(() => undefined)) === wanted;
}

/**
 * @param {number} pid
 * @returns {boolean} also for a zombie
 */
export function pidExists(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}
