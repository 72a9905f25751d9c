/**
 * Which log_line_prefix a stderr log will be read with, and whether it fits. Pure. In: the beginning of the log, what
 * was given, what is configured. Out: the prefix and where it comes from, in the order the worker prefers: given,
 * configured if it fits, found from the lines; and what is wrong with it, as a line for a person.
 */
import { findLinePrefix } from '../codec/find-prefix.js';
import { NONE, labelAt, severityAt } from '../codec/languages.js';
import { holdsMessage } from '../codec/line-kinds.js';
import { compileLinePrefix } from '../codec/line-prefix.js';

const NEWLINE = 0x0a;
const TAB = 0x09;

const ASK = 'give it with --line-prefix, as "SHOW log_line_prefix" says it';

/**
 * @typedef {object} AssessedPrefix
 * @property {string | null} text
 * @property {'given' | 'configured' | 'found' | null} from
 * @property {string} [problem]
 * @property {string} [note]
 */

/**
 * @param {string} name of the file, for messages
 * @param {Buffer | null} sample null: nothing was written yet
 * @param {string | null} given
 * @param {string | null} configured as the host sent it
 * @returns {AssessedPrefix}
 */
export function assessPrefix(name, sample, given, configured) {
  const lines = sample === null ? [] : linesOf(sample);
  const messages = lines.filter(line => line[0] !== TAB && holdsMessage(line, 0, line.length));
  if (given !== null) {
    if (messages.length === 0 || fits(given, messages)) return { text: given, from: 'given' };
    return {
      text: given,
      from: 'given',
      problem: `log_line_prefix '${given}' fits no line of ${name}: ${ASK}`,
    };
  }
  if (configured !== null && (messages.length === 0 || fits(configured, messages)))
    return { text: configured, from: 'configured' };
  if (messages.length === 0) {
    if (lines.length === 0) return { text: null, from: null };
    const note = `no line of ${name} looks like PostgreSQL's: each is stored as a record of its own`;
    return { text: null, from: null, note };
  }
  const found = sample === null ? null : findLinePrefix(sample);
  if (found !== null) return { text: found.text, from: 'found' };
  if (configured !== null) {
    const problem = `log_line_prefix '${configured}' of the configuration fits no line of ${name}: ${ASK}`;
    return { text: configured, from: 'configured', problem };
  }
  return {
    text: null,
    from: null,
    problem: `no log_line_prefix could be found from the lines of ${name}: ${ASK}`,
  };
}

/** @param {Buffer} sample @returns {Buffer[]} its whole lines */
function linesOf(sample) {
  /** @type {Buffer[]} */
  const lines = [];
  for (let at = 0, end = sample.indexOf(NEWLINE); end !== -1; at = end + 1, end = sample.indexOf(NEWLINE, at))
    lines.push(sample.subarray(at, end));
  return lines;
}

/** @param {string} text @param {Buffer[]} lines @returns {boolean} whether a message follows it in some line */
function fits(text, lines) {
  let prefix;
  try {
    prefix = compileLinePrefix(text);
  } catch {
    return false; // of a configuration file: what cannot be read back is rather found
  }
  return lines.some(line => {
    const after = prefix.match(line, 0, line.length, isMessage);
    return after !== -1 && isMessage(line, after, line.length);
  });
}

/** @type {import('../codec/line-prefix.js').IsMessage} */
function isMessage(bytes, at, end) {
  return severityAt(bytes, at, end) >= 0 || labelAt(bytes, at, end) !== NONE;
}
