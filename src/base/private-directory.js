/**
 * Makes a directory that nobody else can read, replace or move away: of this user (or of the account that is named),
 * no symbolic link, with exactly the given mode, and below directories that only root and this user can change.
 * /tmp and its like are fine above it, for there the sticky bit keeps others from renaming what is not theirs.
 * In: an absolute path. What is wrong is refused, never mended: somebody may have put it there.
 * Throws PgsluiceError DIRECTORY_UNUSABLE with the directory, the reason and what to do.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { PgsluiceError } from './errors.js';
import { printable } from './printable.js';

const STICKY = 0o1000;
const WRITE_GROUP = 0o020;
const WRITE_OTHERS = 0o002;

/**
 * @param {string} path absolute
 * @param {object} how
 * @param {number} how.mode
 * @param {string} how.option that names another directory, for messages
 * @param {number} [how.account] uid of another user to whom it may belong as well
 */
export function preparePrivateDirectory(path, { mode, option, account }) {
  const us = process.geteuid?.();
  const owners = us === undefined ? null : account === undefined ? [us] : [us, account];
  try {
    if (owners) checkAncestors(path, [0, ...owners]);
    mkdirSync(path, { recursive: true, mode });
    if (!lstatSync(path).isDirectory()) throw new Error('it is not a directory, or a symbolic link');
    // What is looked at is what is changed, and never something that a link points to.
    const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      const found = fstatSync(fd);
      if (owners && !owners.includes(found.uid)) throw new Error('it belongs to another user');
      // Closing it now would not take away what they have put into it; and it may be /tmp itself.
      if (owners && othersWrite(found)) throw new Error('others can write to it');
      if ((found.mode & 0o7777) !== mode) fchmodSync(fd, mode);
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    throw new PgsluiceError(
      'DIRECTORY_UNUSABLE',
      `${printable(path)} cannot be used (${/** @type {Error} */ (cause).message}): mend it, or name another with ${option}`,
      { cause },
    );
  }
}

/**
 * Whoever can write to a directory can rename what is in it, and so put his own in its place.
 * @param {string} path
 * @param {number[]} owners
 */
function checkAncestors(path, owners) {
  const trusted = [...owners, ...unmappedOwner()];
  for (const ancestor of ancestorsOf(path)) {
    const found = statSync(ancestor);
    if (!trusted.includes(found.uid)) {
      throw new Error(`${printable(ancestor)} above it belongs to another user`);
    }
    if (othersWrite(found) && (found.mode & STICKY) === 0) {
      throw new Error(`others can write to ${printable(ancestor)} above it and so replace it`);
    }
  }
}

/** @param {{ uid: number, gid: number, mode: number }} found */
function othersWrite({ uid, gid, mode }) {
  // A group with the number of its user holds nobody else (user private groups).
  return (mode & WRITE_OTHERS) !== 0 || ((mode & WRITE_GROUP) !== 0 && gid !== 0 && gid !== uid);
}

/** @param {string} path @returns {Set<string>} those that exist, by their names and where links lead */
function ancestorsOf(path) {
  const found = new Set();
  let parent = dirname(path);
  while (statSync(parent, { throwIfNoEntry: false }) === undefined) parent = dirname(parent);
  for (const start of [parent, realpathSync(parent)]) {
    for (let at = start; !found.has(at); at = dirname(at)) found.add(at);
  }
  return found;
}

/** @returns {number[]} in a user namespace the owner of all that belongs to nobody inside, root of the host included */
function unmappedOwner() {
  try {
    if (/^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'))) return [];
    return [Number(readFileSync('/proc/sys/kernel/overflowuid', 'utf8'))];
  } catch {
    return [];
  }
}
