/**
 * How the follower of a journal is started: the remote command, and what is written to its stdin, as index.js does it
 * for files. What it answers is drawn in src/codec/journal-export.js. Throws USAGE on a name that is no unit's.
 */
import { PgsluiceError } from '../base/errors.js';
import { remoteShell } from './index.js';
import { shellProgram } from './shell-program.js';

const program = shellProgram('journal.sh');

/** How a stream names its source: journal:UNIT. */
const JOURNAL_PREFIX = 'journal:';

/** systemd.unit(5): the types of units whose processes write; a name without one is a service's. */
const UNIT_TYPES = /\.(service|scope|socket|mount|swap)$/;

/** systemd.unit(5): at most 255 of these characters. */
const UNIT_NAME = /^[A-Za-z0-9:_.\\@-]{1,255}$/;

/** One word; the decoder has seen to its form. */
const CURSOR = /^[!-~]{1,1024}$/;

/**
 * @typedef {object} JournalParameters
 * @property {string} unit as unitOf gives it
 * @property {'none' | 'end' | 'current' | 'start'} from where a new stream begins: after the newest entry, with the
 *   unit's last start, with the oldest entry; none: it has begun already
 * @property {string | null} cursor of the entry to go on from, JournalFile.seek; null: of the unit nothing was there
 * @property {string} [directory] of journal files instead of the host's own journal
 */

/**
 * The unit of a stream's path, with its type.
 * @param {string} path
 * @returns {string | null} null: the stream is not of a journal
 */
export function unitOf(path) {
  if (!path.startsWith(JOURNAL_PREFIX)) return null;
  const name = path.slice(JOURNAL_PREFIX.length);
  const unit = UNIT_TYPES.test(name) ? name : `${name}.service`;
  if (name === '' || !UNIT_NAME.test(unit)) {
    throw new PgsluiceError('USAGE', `${JSON.stringify(name)} is not the name of a systemd unit`);
  }
  return unit;
}

/**
 * @param {string | null} sudoUser run the follower as this user, by sudo without a password
 * @returns {string} the remote command
 */
export function journalCommand(sudoUser) {
  return remoteShell('pgsluice-journal', Buffer.byteLength(program), sudoUser);
}

/**
 * @param {JournalParameters} parameters
 * @returns {string} what to write to the follower's stdin
 */
export function journalInput({ unit, from, cursor, directory }) {
  if (!UNIT_NAME.test(unit)) throw new PgsluiceError('USAGE', `${JSON.stringify(unit)} is not a unit`);
  if (cursor !== null && !CURSOR.test(cursor)) {
    throw new PgsluiceError('USAGE', `${JSON.stringify(cursor)} is not a place in a journal`);
  }
  if (directory?.includes('\n')) throw new PgsluiceError('USAGE', 'a directory with a newline in its name');
  const lines = [`unit ${unit}`, `from ${from}`];
  if (cursor !== null) lines.push(`cursor ${cursor}`);
  if (directory !== undefined) lines.push(`directory ${directory}`);
  return `${program}${lines.join('\n')}\ngo\n`;
}
