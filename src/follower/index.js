/**
 * How the follower is started: the remote command, and what is written to its stdin.
 * The command is short and the same for every stream; the program and its parameters travel on stdin, so that any
 * login shell can run the command, nothing of a stream is ever a shell word, and `ps` on the host stays readable.
 *   command: exec sh -c 'eval "$(dd bs=1 count=N)"' pgsluice-follower      dd never reads a byte too many from the pipe
 *   stdin  : N bytes of program, then a line a parameter, then "go"
 */
import { PgsluiceError } from '../base/errors.js';
import { shellProgram } from './shell-program.js';

const program = shellProgram('follower.sh');

/**
 * A file that was read before, as the follower proves it.
 * @typedef {object} KnownFile
 * @property {string} inode decimal
 * @property {number} offset bytes up to which its records are committed
 * @property {number} headLength bytes of the head under headSum
 * @property {number} headSum POSIX cksum of [0, headLength)
 * @property {number} tailLength
 * @property {number} tailSum POSIX cksum of [offset - tailLength, offset)
 * @property {string} name its last name in the directory
 * @property {boolean} gone it was not there when it was last looked for
 * @property {number | null} doneSize of a compressed file that is dealt with: its size in bytes
 */

/**
 * @typedef {object} FollowerParameters
 * @property {string} path absolute: a PostgreSQL data directory, a log directory, or one file
 * @property {import('../base/log-format.js').LogFormat} format which files of a directory are followed
 * @property {'none' | 'end' | 'current' | 'start'} from where a new stream begins; none: it has begun already
 * @property {KnownFile[]} known
 */

/**
 * @param {string | null} sudoUser run the follower as this user, by sudo without a password
 * @returns {string} the remote command
 */
export function followerCommand(sudoUser) {
  return remoteShell('pgsluice-follower', Buffer.byteLength(program), sudoUser);
}

/**
 * @param {FollowerParameters} parameters
 * @returns {string} what to write to the follower's stdin
 */
export function followerInput({ path, format, from, known }) {
  const lines = [`path ${path}`, `format ${format}`, `from ${from}`];
  for (const line of lines) assertOneLine(line);
  for (const file of known) {
    const { inode, offset, headLength, headSum, tailLength, tailSum, name, gone, doneSize } = file;
    lines.push(`known ${inode} K ${offset} ${headLength} ${headSum} ${tailLength} ${tailSum} ./${name}`);
    if (gone) lines.push(`gone ${inode}`);
    if (doneSize !== null) lines.push(`done ${inode}/${doneSize}`);
  }
  return `${program}${lines.join('\n')}\ngo\n`;
}

/**
 * @param {string} label shown by ps on the host; a plain word
 * @param {number} programBytes length of the program that comes first on stdin
 * @param {string | null} sudoUser
 */
export function remoteShell(label, programBytes, sudoUser) {
  const shell = `sh -c 'eval "$(dd bs=1 count=${programBytes} 2>/dev/null)"' ${label}`;
  if (sudoUser === null) return `exec ${shell}`;
  if (!isUserName(sudoUser)) throw new PgsluiceError('USAGE', `"${sudoUser}" is not a user name for sudo`);
  return `exec sudo -n -u ${sudoUser} ${shell}`;
}

/**
 * User names as useradd(8) accepts them; such a name is never a shell word's end or an option.
 * @param {string} name
 */
export function isUserName(name) {
  return /^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$/.test(name) && !name.endsWith('$');
}

/** @param {string} line */
function assertOneLine(line) {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(line)) {
    throw new PgsluiceError('USAGE', `a path may not contain control characters: ${JSON.stringify(line)}`);
  }
}
