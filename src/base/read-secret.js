/**
 * Reads a file that holds a secret, by PostgreSQL's own rule for ssl_key_file: a regular file that belongs to this
 * user and is closed to all others, or that belongs to root and is at most readable by a group (0640), which is how
 * a service gets a secret that it cannot change.
 * In: a path, and the option or word that names it. Out: its bytes.
 * Throws PgsluiceError FILE_UNREADABLE, or FILE_EXPOSED when others may read or replace what is in it.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { PgsluiceError } from './errors.js';
import { printable } from './printable.js';

/** A certificate's key or a list of passwords is a few KiB. */
const MAX_BYTES = 1024 * 1024;

/** Group and others; all but that a group reads it. */
const CLOSED = 0o077;
const CLOSED_OF_ROOT = 0o037;

/**
 * @param {string} path
 * @param {string} what names it in messages, such as 'http.auth_file'
 * @returns {Buffer}
 */
export function readSecret(path, what) {
  const shown = `${what} ${printable(path)}`;
  let fd;
  try {
    // A FIFO would wait for its writer.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw unreadable(shown, /** @type {NodeJS.ErrnoException} */ (cause).code ?? String(cause), cause);
  }
  try {
    // Asked of the open file, so that what is read is what was looked at.
    const { uid, mode, size } = fstatSync(fd);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw unreadable(shown, 'it is not a regular file');
    if (size > MAX_BYTES) throw unreadable(shown, `it has more than ${MAX_BYTES} bytes`);
    const us = process.geteuid?.();
    if (us !== undefined && uid !== us && uid !== 0) {
      throw exposed(`${shown} belongs to another user: make it the property of this one`);
    }
    if (us !== undefined && (mode & (uid === us ? CLOSED : CLOSED_OF_ROOT)) !== 0) {
      const octal = (mode & 0o7777).toString(8).padStart(4, '0');
      throw exposed(`${shown} can be read or changed by others (mode ${octal}): chmod 600 it`);
    }
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** @param {string} message */
function exposed(message) {
  return new PgsluiceError('FILE_EXPOSED', message);
}

/** @param {string} shown @param {string} why @param {unknown} [cause] */
function unreadable(shown, why, cause) {
  return new PgsluiceError('FILE_UNREADABLE', `${shown} cannot be read: ${why}`, { cause });
}
