/**
 * The authorized_keys line with which a key can run the programs of this directory for the given logs, and nothing else.
 * Its forced command reads as many bytes of stdin as the program has that the client's command names (its last word is
 * taken as one of a few words, and is otherwise not used), compares their SHA-256 with the pinned one, and only then
 * evaluates them; pgsluice_allowed tells the program what it may read (allowed.sh). Pure but for the programs' files.
 *   restrict,command="exec sh -c '...'" TYPE BASE64 COMMENT      format: sshd(8), AUTHORIZED_KEYS FILE FORMAT
 * sshd runs it by the user's login shell, of which only these are asked: exec, and quotes ' around a text without
 * quotes ', "!" (csh), newlines and double backslashes (fish). Throws NOT_SUPPORTED when the line becomes too long.
 */
import { createHash } from 'node:crypto';
import { PgsluiceError } from '../base/errors.js';
import { isUserName } from './index.js';
import { shellProgram } from './shell-program.js';

/** The limit of OpenSSH before 7.7. */
const MAX_LINE_BYTES = 8191;

/** What stands for itself in every quote that a path is in; anything else is written as octal for printf's %b. */
const PLAIN = /[A-Za-z0-9/._@:+=,-]/;

/** The last word of the remote commands: see remoteShell(). */
const LABELS = { follower: 'pgsluice-follower', journal: 'pgsluice-journal', probe: 'pgsluice-probe' };

/**
 * @param {object} what
 * @param {string} what.key 'type base64'
 * @param {readonly string[]} what.paths of the streams, journal:UNIT among them; at least one
 * @param {string | null} what.sudoUser
 * @param {string} what.comment plain words
 * @returns {string} ASCII, without a newline
 */
export function authorizedKeysLine({ key, paths, sudoUser, comment }) {
  if (paths.length === 0) throw new PgsluiceError('USAGE', 'there is no log that could be allowed');
  const command = forcedCommand(paths, sudoUser);
  const line = `restrict,command="${command.replaceAll('"', String.raw`\"`)}" ${key} ${comment}`;
  if (line.length > MAX_LINE_BYTES) {
    throw new PgsluiceError(
      'NOT_SUPPORTED',
      `the line would have ${line.length} bytes, which is more than every sshd takes (${MAX_LINE_BYTES}): let the host have fewer logs, a directory instead of its files`,
    );
  }
  return line;
}

/**
 * @param {readonly string[]} paths
 * @param {string | null} sudoUser
 */
function forcedCommand(paths, sudoUser) {
  if (sudoUser === null) return `exec sh -c '${gate('$SSH_ORIGINAL_COMMAND', paths)}'`;
  if (!isUserName(sudoUser)) throw new PgsluiceError('USAGE', `"${sudoUser}" is not a user name for sudo`);
  // sudo leaves the environment behind: the client's command goes as an argument.
  const again = `exec sudo -n -u ${sudoUser} sh -c "$0" pgsluice "$SSH_ORIGINAL_COMMAND"`;
  return `exec sh -c '${again}' '${gate('$1', paths)}'`;
}

/**
 * @param {string} asked where the client's command is
 * @param {readonly string[]} paths
 * @returns {string} a program for any POSIX sh
 */
function gate(asked, paths) {
  const names = /** @type {(keyof typeof LABELS)[]} */ (['probe']);
  if (paths.some(path => path.startsWith('journal:'))) names.push('journal');
  if (paths.some(path => !path.startsWith('journal:'))) names.push('follower');
  return [
    'LC_ALL=C; export LC_ALL',
    'no() { echo "pgsluice denies: $1" >&2; exit 77; }',
    `case ${asked} in ${names.map(pinned).join(' ')} *) no "authorized_keys lets this key run pgsluice and nothing else";; esac`,
    'command -v sha256sum >/dev/null || no "sha256sum is missing on this host"',
    'p=$(dd bs=1 count=$n 2>/dev/null)',
    'case $(printf %s "$p" | sha256sum) in "$h "*) ;; *) no "authorized_keys allows another version of the follower";; esac',
    `pgsluice_allowed=$(printf %b "${paths.map(plain).join(String.raw`\n`)}")`,
    'eval "$p"',
  ].join('; ');
}

/** @param {keyof typeof LABELS} name */
function pinned(name) {
  const program = shellProgram(`${name}.sh`);
  // $(...) takes the newline at its end away.
  const hash = createHash('sha256').update(program.slice(0, -1)).digest('hex');
  // No ${x##* }, which takes a shell a minute for a command of 100 KB.
  return `*" ${LABELS[name]}") n=${Buffer.byteLength(program)} h=${hash};;`;
}

/** @param {string} path */
function plain(path) {
  return Array.from(Buffer.from(path), byte => {
    const character = String.fromCharCode(byte);
    return PLAIN.test(character) ? character : String.raw`\0${byte.toString(8).padStart(3, '0')}`;
  }).join('');
}
