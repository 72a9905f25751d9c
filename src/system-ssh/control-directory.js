/**
 * The private directory of one connection: control sockets, ssh_config files, the logs of session processes.
 * It is made 0700 under the caller's controlDirectory, or under XDG_RUNTIME_DIR or the system's temporary
 * directory, and removed with everything in it. A session's log is written by ssh itself (-E), so that its
 * words never mix with the remote command's stderr; inotify tells when it grows.
 * Throws PgsluiceError DIRECTORY_UNUSABLE. All calls are synchronous: they touch a few hundred bytes.
 */
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { PgsluiceError } from '../base/errors.js';

/** ssh appends 17 characters while it binds the socket, and sun_path holds 107. */
const CONTROL_PATH_MAX_BYTES = 90;

/** After a file of it went: who removes a directory begins with its files. */
const CHECK_MS = 500;

/** Room for the largest name that becomes a ControlPath. */
const LONGEST_SOCKET_NAME = 'm9999';

export class ControlDirectory {
  /** @type {Map<string, () => void>} listeners by file name */
  #listeners = new Map();
  /** @type {import('node:fs').FSWatcher} */
  #watcher;
  /** @type {NodeJS.Timeout | undefined} */
  #check;

  /**
   * @param {string | undefined} parent
   * @param {(error: PgsluiceError) => void} onError the kernel stopped telling about changes, or somebody removed it
   */
  constructor(parent, onError) {
    this.path = makeDirectory(parent);
    try {
      this.#watcher = watch(this.path, (_event, name) => {
        const listener = this.#listeners.get(String(name));
        if (listener) listener();
        // The kernel tells that the directory itself is gone only when no process has a socket of it any more.
        else this.#check ??= setTimeout(() => this.#exists(onError), CHECK_MS).unref();
      });
    } catch (cause) {
      rmSync(this.path, { recursive: true, force: true });
      throw unusable(this.path, `cannot be watched (${reason(cause)})`, cause);
    }
    this.#watcher.on('error', cause =>
      onError(unusable(this.path, `is no longer watched (${reason(cause)})`, cause)),
    );
  }

  /** @param {(error: PgsluiceError) => void} onError */
  #exists(onError) {
    this.#check = undefined;
    if (!existsSync(this.path)) onError(unusable(this.path, 'was removed'));
  }

  /** @param {string} name @returns {string} */
  file(name) {
    return join(this.path, name);
  }

  /** @param {string} name @param {string} text @returns {string} its path */
  write(name, text) {
    const path = this.file(name);
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    return path;
  }

  /** @param {string} name @returns {string} '' while it does not exist */
  read(name) {
    try {
      return readFileSync(this.file(name), 'utf8');
    } catch {
      return '';
    }
  }

  /** Calls the listener whenever the file changes, until it is removed. @param {string} name @param {() => void} listener */
  onChange(name, listener) {
    this.#listeners.set(name, listener);
  }

  /** @param {string} name */
  ignoreChanges(name) {
    this.#listeners.delete(name);
  }

  /** @param {string} name */
  remove(name) {
    this.#listeners.delete(name);
    tidy(() => unlinkSync(this.file(name)));
  }

  close() {
    this.#listeners.clear();
    this.#watcher.close();
    clearTimeout(this.#check);
    tidy(() => rmSync(this.path, { recursive: true, force: true }));
  }
}

/**
 * Removes what nobody needs any more. Somebody may have been faster, or put something else in its place: names are not
 * used again, so what is left does no harm, and it is called where nobody could catch an error.
 * @param {() => void} remove
 */
function tidy(remove) {
  try {
    remove();
  } catch {
    // see above
  }
}

/** @param {string | undefined} parent @returns {string} */
function makeDirectory(parent) {
  const base = parent === undefined ? defaultParent() : checkedParent(resolve(parent));
  // mkdtemp adds six characters.
  const longest = join(base, 's-XXXXXX', LONGEST_SOCKET_NAME);
  if (Buffer.byteLength(longest) > CONTROL_PATH_MAX_BYTES) {
    throw unusable(
      base,
      `is too long for control sockets (${CONTROL_PATH_MAX_BYTES} bytes with their names): use a shorter one`,
    );
  }
  if (longest.includes('"') || longest.includes('${') || /\p{Cc}|\\/u.test(longest)) {
    throw unusable(base, 'has a character in its name that an ssh_config file cannot hold: use another');
  }
  try {
    return mkdtempSync(join(base, 's-'));
  } catch (cause) {
    throw unusable(base, `cannot be written (${reason(cause)})`, cause);
  }
}

/** @returns {string} */
function defaultParent() {
  const runtime = process.env.XDG_RUNTIME_DIR;
  if (runtime) {
    try {
      return checkedParent(resolve(runtime));
    } catch {
      // A stale XDG_RUNTIME_DIR of another user is common after su; the directory below is as private.
    }
  }
  return resolve(tmpdir());
}

/** @param {string} path absolute @returns {string} */
function checkedParent(path) {
  let info;
  try {
    info = lstatSync(path);
  } catch (cause) {
    throw unusable(path, `cannot be used (${reason(cause)})`, cause);
  }
  if (info.isSymbolicLink()) throw unusable(path, 'is a symbolic link: name the directory itself');
  if (!statSync(path).isDirectory()) throw unusable(path, 'is not a directory');
  if (process.getuid && info.uid !== process.getuid()) throw unusable(path, 'belongs to another user');
  if ((info.mode & 0o077) !== 0) throw unusable(path, 'is accessible to others: chmod 700 it');
  return path;
}

/** @param {string} path @param {string} what @param {unknown} [cause] */
function unusable(path, what, cause) {
  return new PgsluiceError('DIRECTORY_UNUSABLE', `control directory ${path} ${what}`, { cause });
}

/** @param {unknown} cause @returns {string} */
function reason(cause) {
  return cause instanceof Error
    ? (/** @type {NodeJS.ErrnoException} */ (cause).code ?? cause.message)
    : String(cause);
}
