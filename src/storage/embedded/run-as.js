/**
 * PostgreSQL refuses to run as root. As an ordinary user everything here is a no-op: the account is undefined
 * and programs run as the caller. As root, an existing unprivileged account is chosen, programs are spawned
 * with its uid and gid (libuv drops the supplementary groups whenever it changes either), and the binaries
 * are copied once to a place that the account can reach when they lie below a closed directory.
 * Reachability is asked of the kernel, by a probe that runs as the account: mode bits alone would miss ACLs
 * and noexec mounts. Throws PgsluiceError EMBEDDED_FAILED or DIRECTORY_UNUSABLE.
 */
import { spawn } from 'node:child_process';
import { chmod, cp, lstat, mkdtemp, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { PgsluiceError } from '../../base/errors.js';

/** @typedef {{ uid: number, gid: number }} Account the uid and gid that PostgreSQL runs with */
/** @typedef {import('./binaries.js').Binaries} Binaries */

/** In this order: made for us, made for PostgreSQL, there everywhere. */
const ACCOUNT_NAMES = ['pgsluice', 'postgres', 'nobody'];
const COPY_PREFIX = 'postgres-binaries-';
const PART = '.part-';
/** A copy takes a second: one hour is far beyond any that still goes on. */
const PART_MAX_AGE_MS = 3_600_000;

/**
 * @param {string} [clusterDir] when this directory exists its owner is the account: accounts made later must
 *   not change who owns the data
 * @returns {Promise<Account | undefined>} undefined: run as the caller
 * @throws {PgsluiceError} EMBEDDED_FAILED as root on a machine without any of the accounts
 */
export async function chooseAccount(clusterDir) {
  if (process.geteuid?.() !== 0) return undefined;
  const owner = clusterDir && (await stat(clusterDir).catch(ifAbsent(undefined)));
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  for (const name of ACCOUNT_NAMES) {
    // `id` and not /etc/passwd: accounts also live in LDAP and the like.
    const [uid, gid] = await Promise.all(['-u', '-g'].map(option => run('id', [option, '--', name])));
    if (uid.code === 0 && gid.code === 0 && Number(uid.stdout) > 0) {
      return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
    }
  }
  throw new PgsluiceError(
    'EMBEDDED_FAILED',
    `PostgreSQL does not run as root and there is no account ${ACCOUNT_NAMES.join(', ')}: ` +
      'create one (useradd --system pgsluice), or run pgsluice as an ordinary user',
  );
}

/**
 * Runs a program to its end, with a small environment: PG* variables of the caller must not reach it.
 * @param {string} program
 * @param {string[]} args
 * @param {Account} [account]
 * @returns {Promise<{ code: number | null, stdout: string, stderr: string }>} code null: ended by a signal
 * @throws {NodeJS.ErrnoException} when it cannot be started at all
 */
export function run(program, args, account) {
  return new Promise((resolve, reject) => {
    // cwd: the caller's directory may be closed to the account.
    const child = spawn(program, args, {
      ...account,
      cwd: '/',
      env: childEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', text => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
    child.once('error', reject);
    child.once('close', code => resolve({ code, stdout, stderr }));
  });
}

/** @returns {NodeJS.ProcessEnv} what PostgreSQL's programs are given; LC_ALL keeps their messages in English */
export function childEnvironment() {
  return { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C' };
}

/**
 * Makes sure that the account can enter a directory and, if so asked, make files in it.
 * @param {'enter' | 'write'} access
 * @param {string} directory absolute
 * @param {Account | undefined} account undefined: the caller itself
 * @param {string} option the option that moves it elsewhere, for the message
 * @throws {PgsluiceError} DIRECTORY_UNUSABLE, which names the parent that is closed
 */
export async function requireAccess(access, directory, account, option) {
  const parents = [];
  for (let at = directory; at !== path.dirname(at); at = path.dirname(at)) parents.unshift(at);
  const probe =
    'access=$1; shift; for d; do [ -x "$d" ] || { printf "cannot enter %s" "$d"; exit; }; done; ' +
    '[ "$access" = enter ] || [ -w "$d" ] || printf "cannot write to %s" "$d"';
  const { stdout } = await run('/bin/sh', ['-c', probe, 'sh', access, ...parents], account);
  if (stdout === '') return;
  const who = account ? `uid ${account.uid}, which PostgreSQL runs as,` : 'this user';
  throw new PgsluiceError(
    'DIRECTORY_UNUSABLE',
    `${directory} cannot hold the embedded PostgreSQL: ${who} ${stdout}; change its mode, or set ${option}`,
  );
}

/**
 * The same programs at a place where the account can run them: where they are, or a copy in
 * <copyParent>/postgres-binaries-<version>, made once and put in place by a rename.
 * @param {Binaries} binaries
 * @param {Account | undefined} account
 * @param {string} copyParent a directory that the account can enter; the caller owns it
 * @returns {Promise<Binaries>}
 * @throws {PgsluiceError} EMBEDDED_FAILED when neither can be run
 */
export async function reachableBinaries(binaries, account, copyParent) {
  if (!account || (await canRun(binaries, account))) return binaries;
  if (binaries.root) {
    const copy = path.join(copyParent, `${COPY_PREFIX}${binaries.version}`);
    const moved = (/** @type {string} */ file) => path.join(copy, 'bin', path.basename(file));
    const copied = {
      ...binaries,
      root: copy,
      initdb: moved(binaries.initdb),
      pg_ctl: moved(binaries.pg_ctl),
      postgres: moved(binaries.postgres),
    };
    if (!(await lstat(copy).catch(ifAbsent(undefined)))) await copyTree(binaries.root, copy);
    if (await canRun(copied, account)) return copied;
  }
  throw new PgsluiceError(
    'EMBEDDED_FAILED',
    `uid ${account.uid}, which PostgreSQL runs as, cannot run ${binaries.postgres}: open the directories above ` +
      `it (chmod o+x), and see that ${copyParent} is not mounted noexec`,
  );
}

/**
 * Removes copies made for other versions. Only for a caller that has just started a server: then nothing runs
 * from them.
 * @param {string} copyParent
 * @param {Binaries} inUse
 */
export async function dropOtherCopies(copyParent, inUse) {
  for (const name of await readdir(copyParent)) {
    const copy = path.join(copyParent, name);
    if (!name.startsWith(COPY_PREFIX) || copy === inUse.root) continue;
    // A young part belongs to a copy that is being made, an old one was left behind by a kill.
    const made = (await stat(copy).catch(ifAbsent(undefined)))?.mtimeMs ?? 0;
    if (name.includes(PART) && Date.now() - made < PART_MAX_AGE_MS) continue;
    await rm(copy, { recursive: true, force: true });
  }
}

/**
 * @param {Binaries} binaries
 * @param {Account} account
 */
async function canRun({ postgres, initdb, root }, account) {
  // initdb fails late and obscurely when share/ is closed, so one of its files is tried as well.
  const script = '"$1" --version && "$2" --version && { [ -z "$3" ] || [ -r "$3" ]; }';
  const sample = root ? path.join(root, 'share', 'postgresql', 'postgres.bki') : '';
  return (await run('/bin/sh', ['-c', script, 'sh', postgres, initdb, sample], account)).code === 0;
}

/**
 * @param {string} from
 * @param {string} to does not exist, or is being made by someone else just now
 */
async function copyTree(from, to) {
  const part = await mkdtemp(`${to}${PART}`);
  try {
    await cp(await realpath(from), part, { recursive: true, verbatimSymlinks: true });
    // The sources may have been installed under umask 077.
    await chmod(part, 0o755);
    for (const entry of await readdir(part, { recursive: true, withFileTypes: true })) {
      const file = path.join(entry.parentPath, entry.name);
      if (entry.isDirectory()) await chmod(file, 0o755);
      else if (entry.isFile()) await chmod(file, (await stat(file)).mode & 0o100 ? 0o755 : 0o644);
    }
    await rename(part, to);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    // Somebody else has put the same copy there first.
    if (!['ENOTEMPTY', 'EEXIST'].includes(errorCode(error))) throw error;
  }
}

/**
 * @param {unknown} error
 * @returns {string} the errno name or SQLSTATE that an error carries, '' without one
 */
export function errorCode(error) {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/**
 * @template T
 * @param {T} value
 * @returns {(error: NodeJS.ErrnoException) => T}
 */
function ifAbsent(value) {
  return error => {
    if (error.code === 'ENOENT') return value;
    throw error;
  };
}
