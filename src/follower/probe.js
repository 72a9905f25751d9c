/**
 * The probe: how it is started on a host, and what its answer means. Pure but for reading probe.sh at load.
 * In: the bytes it wrote, from a host that may be hostile: at most PROBE_MAX_BYTES may be given. Out: facts.
 * Throws PgsluiceError FOLLOWER_PROTOCOL for whatever is not exactly the protocol. One fact a line, text last:
 *   V 1 CLOCK | U SYSTEM | N USER | T TOOL (missing) ... | then for each log  L PATH  and of it
 *   K data|directory|file|journal|other|hidden|missing | N VERSION | J DESTINATION | D DIRECTORY
 *   Y readable|empty|denied|missing|tool|failed WHY (of a journal)
 *   Z LOG_TIMEZONE | P LOG_LINE_PREFIX (of its configuration files)
 *   F csv|json|log COUNT BYTES UNREADABLE, and of those M MTIME SIZE NAME (newest) | O HEX (how the newest begins)
 *   X read|search MODE PATH (permission missing), XO OWNER, XG GROUP: of those files, or, before F, of the place
 *   last  E
 * Text is as the host sent it: show it through printable().
 */
import { PgsluiceError } from '../base/errors.js';
import { showValue } from '../base/show-value.js';
import { remoteShell } from './index.js';
import { shellProgram } from './shell-program.js';

const program = shellProgram('probe.sh');

/** Far more than the logs of a host need (a log is 26 KB with its sample), far less than a host could send. */
export const PROBE_MAX_BYTES = 1_048_576;

/** What probe.sh reads of a log: sample_max. */
const SAMPLE_MAX_BYTES = 8192;

/** Tools that the follower needs are fewer; clusters of one host that run at once hardly more. */
const TOOLS_MAX = 64;
const DISCOVERED_MAX = 256;

const KINDS = /** @type {const} */ (['data', 'directory', 'file', 'journal', 'other', 'hidden', 'missing']);
const JOURNAL_STATES = /** @type {const} */ (['readable', 'empty', 'denied', 'missing', 'tool', 'failed']);

/** @typedef {typeof KINDS[number]} LogKind */
/**
 * @typedef {object} JournalFacts
 * @property {typeof JOURNAL_STATES[number]} state empty: nothing of the unit; denied: to this user; missing: there are
 *   no journal files; tool: no journalctl; failed: journalctl did
 * @property {string} text what journalctl said, of failed
 */
/** @typedef {{ need: 'read' | 'search', mode: string, path: string, owner: string, group: string }} Denied */

/**
 * @typedef {object} FileFacts files of one kind, by their names
 * @property {number} count
 * @property {number} bytes
 * @property {number} unreadable
 * @property {{ name: string, size: number, modifiedAt: number } | null} newest modifiedAt: Unix time in s
 * @property {Buffer | null} sample the first bytes of the newest that has any
 * @property {Denied | null} denied one of those that cannot be read
 */

/**
 * @typedef {object} LogFacts
 * @property {string} path
 * @property {LogKind} kind other: neither file nor directory; hidden: behind a directory that cannot be searched
 * @property {string | null} version of PostgreSQL, as PG_VERSION has it
 * @property {string[]} destinations of current_logfiles
 * @property {string | null} directory where the log files are
 * @property {string | null} timeZone log_timezone in the server's configuration files
 * @property {string | null} linePrefix log_line_prefix there
 * @property {Record<'csv' | 'json' | 'log', FileFacts>} files by their names
 * @property {JournalFacts | null} journal of kind journal; what the unit wrote is a sample of files.log
 * @property {Denied | null} denied of the place itself
 */

/** @typedef {{ clock: number, system: string, user: string, missingTools: string[], logs: LogFacts[] }} ProbeFacts */

/**
 * @param {string | null} sudoUser
 * @returns {string} the remote command
 */
export function probeCommand(sudoUser) {
  return remoteShell('pgsluice-probe', Buffer.byteLength(program), sudoUser);
}

/**
 * @param {{ logs: readonly string[], discover: boolean }} wanted paths without control characters; discover: also
 *   the data directories of running clusters
 * @returns {string} what to write to the probe's stdin
 */
export function probeInput({ logs, discover }) {
  const lines = [...logs.map(path => `log ${path}`), ...(discover ? ['discover'] : []), 'go'];
  for (const line of lines) {
    if (/\p{Cc}/u.test(line))
      throw new PgsluiceError('USAGE', `a path holds a control character: ${showValue(line)}`);
  }
  return `${program}${lines.join('\n')}\n`;
}

/**
 * @param {Buffer} bytes all that the probe wrote
 * @param {{ logs: readonly string[], discover: boolean }} wanted as given to probeInput
 * @returns {ProbeFacts} logs: those that were asked for, in their order, then what was discovered
 */
export function parseProbe(bytes, { logs, discover }) {
  const lines = bytes.toString('utf8').split('\n');
  if (lines.pop() !== '' || lines.at(-1) !== 'E')
    throw garbage(lines.at(-1) ?? '', 'the answer is incomplete');
  lines.pop();
  // Taking from the end is cheap, from the beginning it is not.
  lines.reverse();
  /** @type {ProbeFacts} */
  const facts = {
    clock: Number(take(lines, /^V 1 (\d{1,15})$/)[1]),
    system: '',
    user: '',
    missingTools: [],
    logs: [],
  };
  facts.system = take(lines, /^U (.*)$/)[1];
  facts.user = take(lines, /^N (.+)$/)[1];
  while (lines.at(-1)?.startsWith('T ') && facts.missingTools.length < TOOLS_MAX)
    facts.missingTools.push(take(lines, /^T (.+)$/)[1]);
  while (lines.length > 0) {
    const line = lines.pop() ?? '';
    if (facts.logs.length === logs.length + DISCOVERED_MAX) throw garbage(line, 'too many logs');
    if (!line.startsWith('L ')) throw garbage(line, 'a log was expected');
    facts.logs.push(parseLog(line.slice(2), lines));
  }
  const asked = logs.every((path, index) => facts.logs[index]?.path === path);
  if (!asked || (!discover && facts.logs.length !== logs.length)) {
    throw new PgsluiceError('FOLLOWER_PROTOCOL', 'the probe answered for other logs than it was asked for');
  }
  return facts;
}

/**
 * @param {string} path
 * @param {string[]} lines the rest, reversed; those of this log are taken away
 * @returns {LogFacts}
 */
function parseLog(path, lines) {
  const said = lines.pop();
  const kind = KINDS.find(each => said === `K ${each}`);
  if (kind === undefined) throw garbage(path, 'a kind was expected for');
  /** @type {LogFacts} */
  const log = {
    path,
    kind,
    version: null,
    destinations: [],
    directory: null,
    timeZone: null,
    linePrefix: null,
    files: { csv: noFiles(), json: noFiles(), log: noFiles() },
    journal: null,
    denied: null,
  };
  /** @type {Section} */
  const section = { files: null, sample: [] };
  for (let line = lines.at(-1); line !== undefined && !line.startsWith('L '); line = lines.at(-1)) {
    lines.pop();
    readFact(log, section, line);
  }
  endSection(section);
  return log;
}

/** @typedef {{ files: FileFacts | null, sample: Buffer[] }} Section the lines after an F */

/** @param {Section} section */
function endSection(section) {
  if (section.files && section.sample.length > 0) section.files.sample = Buffer.concat(section.sample);
  section.sample = [];
}

/** @returns {FileFacts} */
function noFiles() {
  return { count: 0, bytes: 0, unreadable: 0, newest: null, sample: null, denied: null };
}

/** @param {LogFacts} log @param {Section} section @param {string} line */
function readFact(log, section, line) {
  const [, tag = '', text = ''] = /^([A-Z]{1,2}) (.*)$/.exec(line) ?? [];
  /** @param {RegExp} pattern */
  const fields = pattern => {
    const match = pattern.exec(text);
    if (match === null) throw garbage(line, 'not understood');
    return match;
  };
  const place = section.files ?? log;
  if (tag === 'N') log.version = text;
  else if (tag === 'Z') log.timeZone = text;
  else if (tag === 'P') log.linePrefix = text;
  else if (tag === 'J') log.destinations.push(text);
  else if (tag === 'D') log.directory = text;
  else if (tag === 'Y') {
    const [, state, why = ''] = fields(/^([a-z]+) (.*)$/);
    const known = JOURNAL_STATES.find(each => each === state);
    if (known === undefined) throw garbage(line, 'not understood');
    log.journal = { state: known, text: why };
  } else if (tag === 'XO' && place.denied) place.denied.owner = text;
  else if (tag === 'XG' && place.denied) place.denied.group = text;
  else if (tag === 'F') {
    const [, suffix, count, bytes, unreadable] = fields(/^(csv|json|log) (\d{1,15}) (\d{1,15}) (\d{1,15})$/);
    endSection(section);
    section.files = log.files[/** @type {'csv'} */ (suffix)];
    Object.assign(section.files, {
      count: Number(count),
      bytes: Number(bytes),
      unreadable: Number(unreadable),
    });
  } else if (tag === 'M' && section.files) {
    const [, modifiedAt, size, name = ''] = fields(/^(-?\d{1,12}) (\d{1,15}) (.+)$/);
    section.files.newest = { name, size: Number(size), modifiedAt: Number(modifiedAt) };
  } else if (tag === 'X') {
    const [, need, mode = '', path = ''] = fields(/^(read|search) ([0-7]{0,5}) (.+)$/);
    place.denied = { need: need === 'read' ? 'read' : 'search', mode, path, owner: '', group: '' };
  } else if (tag === 'O' && section.files) {
    const [hex] = fields(/^[0-9a-f]{2}(?: [0-9a-f]{2}){0,15}$/);
    if (section.sample.length === SAMPLE_MAX_BYTES / 16)
      throw garbage(line, 'more of a file than was asked for');
    section.sample.push(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
  } else throw garbage(line, 'not understood');
}

/**
 * @param {string[]} lines the rest, reversed; the next is taken away
 * @param {RegExp} pattern
 * @returns {RegExpExecArray}
 */
function take(lines, pattern) {
  const line = lines.pop() ?? '';
  const match = pattern.exec(line);
  if (match === null) throw garbage(line, 'not understood');
  return match;
}

/** @param {string} line @param {string} what @returns {PgsluiceError} */
function garbage(line, what) {
  return new PgsluiceError(
    'FOLLOWER_PROTOCOL',
    `the probe's answer is not usable (${what}: ${showValue(line)}): a login shell that prints something of its own disturbs it`,
  );
}
