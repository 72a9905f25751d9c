/**
 * Judges what the probe found of one log: can it be followed, in which format and why, and if not, what is to be done.
 * Pure. In: facts from the host, and how the stream is to be read. Out: the `logs` entry of `host check --json`. Text in
 * it is as the host sent it.
 */
import { isTimeZone } from '../codec/time-zone.js';
import { unitOf } from '../follower/journal.js';
import { CSVLOG_COLUMN_COUNTS, describeFirstRecord } from '../follower/first-record.js';
import { assessPrefix } from './assess-prefix.js';
import { chooseFormat, formatsThere } from './choose-format.js';

/** @typedef {import('../follower/probe.js').LogFacts} LogFacts */
/** @typedef {import('../follower/probe.js').FileFacts} FileFacts */
/** @typedef {import('../base/log-format.js').LogFormat} LogFormat */
/** @typedef {import('../storage/inventory.js').StreamFields} StreamFields */
/** @typedef {{ user: string, sudo: boolean }} Reader who reads the logs there */
/** @typedef {ReturnType<typeof describeFirstRecord>} FirstRecord */

/**
 * @typedef {object} LogReport
 * @property {string} path
 * @property {'data directory' | 'log directory' | 'file' | 'journald' | 'missing' | 'unknown'} kind
 * @property {boolean} readable
 * @property {string | null} directory where the log files are
 * @property {string | null} unit of journald
 * @property {Exclude<LogFormat, 'auto'> | null} format that is read
 * @property {string | null} why this one
 * @property {number} files of this format
 * @property {number} bytes of those
 * @property {{ name: string, size: number, modifiedAt: string } | null} newest of those
 * @property {number | null} columns of csvlog
 * @property {string | null} linePrefix of stderr
 * @property {'given' | 'configured' | 'found' | null} linePrefixFrom --line-prefix, the server's configuration files,
 *   or the lines
 * @property {string | null} timeZone log_timezone
 * @property {'given' | 'configured' | null} timeZoneFrom --timezone, or the server's configuration files
 * @property {string | null} version of PostgreSQL
 * @property {string[]} problems why it cannot be read as it is wanted
 * @property {string[]} notes what may be read wrongly
 */

/** @type {Record<LogFacts['kind'], LogReport['kind']>} */
const KINDS = {
  data: 'data directory',
  directory: 'log directory',
  file: 'file',
  journal: 'journald',
  missing: 'missing',
  other: 'unknown',
  hidden: 'unknown',
};

const ENABLE =
  'name the file that its stderr goes to, or journal:UNIT, as --log; or set logging_collector = on in postgresql.conf and restart PostgreSQL';

/** A log of which nothing was said. @type {StreamFields} */
export const ANY_LOG = { format: 'auto', linePrefix: null, timeZone: null, encoding: null, encodings: {} };

/** A time whose zone needs no name: an offset, or what means one offset everywhere. */
const CLEAR_TIME = /\d\d:\d\d:\d\d(?:\.\d{3})? (?:UTC|GMT|[+-]\d\d)/;

/** Larger times make no Date. */
const DATE_MAX_MS = 8.64e15;

const NEWLINE = 0x0a;

/**
 * @param {LogFacts} facts
 * @param {Reader} reader
 * @param {StreamFields} wanted
 * @returns {LogReport}
 */
export function assessLog(facts, reader, wanted) {
  const { path, kind, directory, version } = facts;
  const { format, why, files } = chooseFormat(facts, wanted.format);
  const first = files.sample === null ? null : describeFirstRecord(files.sample);
  const name = files.newest?.name ?? path;
  const problems = [...problemsOfPlace(facts, files, reader)];
  /** @type {string[]} */
  const notes = [];
  const readable = problems.length === 0;
  if (readable) problems.push(...problemsOfContent(facts, format, first, name, wanted));
  const prefix =
    format === 'stderr' ? assessPrefix(name, files.sample, wanted.linePrefix, facts.linePrefix) : null;
  if (readable && prefix?.problem) problems.push(prefix.problem);
  if (prefix?.note) notes.push(prefix.note);
  const zone = assessZone(facts, files, format, wanted);
  if (zone.problem) problems.push(zone.problem);
  if (zone.note) notes.push(zone.note);
  if (!isUtf8(files.sample) && wanted.encoding === null && Object.keys(wanted.encodings).length === 0) {
    notes.push(
      `${name} has text that is not UTF-8: say its encoding with --encoding NAME, or DATABASE=NAME; else it is stored with \\x escapes`,
    );
  }
  const { newest } = files;
  return {
    path,
    kind: KINDS[kind],
    readable,
    directory,
    unit: kind === 'journal' ? unitOf(path) : null,
    format,
    why,
    files: files.count,
    bytes: files.bytes,
    newest: newest && { name: newest.name, size: newest.size, modifiedAt: isoTime(newest.modifiedAt) },
    columns: format === 'csvlog' ? (first?.columns ?? null) : null,
    linePrefix: prefix?.text ?? null,
    linePrefixFrom: prefix?.from ?? null,
    timeZone: zone.name,
    timeZoneFrom: zone.from,
    version,
    problems,
    notes,
  };
}

/** @param {LogFacts} facts @param {FileFacts} files @param {Reader} reader @returns {string[]} */
function problemsOfPlace(facts, files, reader) {
  const { path, kind, journal } = facts;
  const denied = facts.denied ?? files.denied;
  if (denied !== null) return [missingPermission(denied, files, reader)];
  if (kind === 'missing') return [`${path} does not exist: correct the path, or create it`];
  if (kind === 'other') return [`${path} is neither a file nor a directory`];
  if (kind === 'hidden') return [`${path} cannot be seen by ${reader.user}`];
  if (kind === 'journal') return problemsOfJournal(journal, reader);
  return [];
}

/**
 * @param {import('../follower/probe.js').Denied} denied
 * @param {FileFacts} files
 * @param {Reader} reader
 * @returns {string}
 */
function missingPermission({ need, mode, path, owner, group }, files, { user, sudo }) {
  const isFile = need === 'read' && files.unreadable > 0;
  const what = isFile
    ? `${files.unreadable} of ${files.count} log files cannot be read by ${user}, such as ${path}`
    : `${path} cannot be ${need === 'read' ? 'listed' : 'entered'} by ${user}`;
  const whose = `${owner}:${group}, mode ${mode}`;
  const asOwner = sudo ? `--sudo with a user who may` : `--sudo ${owner}`;
  const inGroup = isFile
    ? `put ${user} into group ${group} and set log_file_mode = 0640`
    : `put ${user} into group ${group} and let the group in (chmod g+rx; initdb --allow-group-access for a data directory)`;
  return `${what} (${whose}): ${inGroup}, or use ${asOwner}`;
}

/** @param {LogFacts['journal']} journal @param {Reader} reader @returns {string[]} */
function problemsOfJournal(journal, { user, sudo }) {
  switch (journal?.state) {
    case 'readable':
    case 'empty':
      return [];
    case 'denied':
      return [
        `the journal cannot be read by ${user}: put ${user} into group systemd-journal, or use --sudo with ${sudo ? 'a user who may' : 'one who is in it'}`,
      ];
    case 'missing':
      return ['there are no journal files: is systemd-journald running?'];
    case 'tool':
      return ['journalctl is missing there: it comes with systemd'];
    default:
      return [`journalctl failed: ${journal?.text ?? 'it said nothing'}`];
  }
}

/**
 * @param {LogFacts} facts
 * @param {LogReport['format']} format
 * @param {FirstRecord | null} first
 * @param {string} name
 * @param {StreamFields} wanted
 * @returns {string[]}
 */
function problemsOfContent({ directory, path, files, journal }, format, first, name, wanted) {
  if (journal?.state === 'empty') {
    return [
      `the journal has nothing of ${unitOf(path)}: is that its unit? "systemctl list-units 'postgres*'" shows them`,
    ];
  }
  if (format === null) return [`no log files in ${directory ?? path}: ${ENABLE}`];
  const there = formatsThere(files);
  const isLacking = wanted.format === format && format !== 'plain' && !there.includes(format);
  if (directory !== null && isLacking && there.length > 0) {
    return [
      `no ${format} in ${directory}, only ${there.join(', ')}: use --format auto, or add ${format} to log_destination`,
    ];
  }
  if (first === null || (format !== 'csvlog' && format !== 'jsonlog')) return [];
  if (first.format !== format) {
    const remedy =
      wanted.format === 'auto' ? 'name its format with --format' : 'use --format auto, or name another';
    return [`${name} holds ${first.format}, not ${format}: ${remedy}`];
  }
  if (first.columns !== null && !CSVLOG_COLUMN_COUNTS.includes(first.columns)) {
    return [
      `a record has ${first.columns} columns, csvlog has ${CSVLOG_COLUMN_COUNTS.join(', ')}: its records will go to pgsluice.rejected`,
    ];
  }
  return [];
}

/**
 * @param {LogFacts} facts
 * @param {FileFacts} files
 * @param {LogReport['format']} format
 * @param {StreamFields} wanted
 * @returns {{ name: string | null, from: LogReport['timeZoneFrom'], problem?: string, note?: string }}
 */
function assessZone({ timeZone }, { sample }, format, wanted) {
  if (wanted.timeZone !== null) return { name: wanted.timeZone, from: 'given' };
  if (timeZone !== null) {
    const known = { name: timeZone, from: /** @type {const} */ ('configured') };
    if (isTimeZone(timeZone)) return known;
    return {
      ...known,
      problem: `log_timezone = '${timeZone}' is not in the IANA database: name one that is equal with --timezone`,
    };
  }
  const unknown = { name: null, from: null };
  if (sample === null || format === null || format === 'plain' || CLEAR_TIME.test(sample.toString('latin1')))
    return unknown;
  return {
    ...unknown,
    note: "log_timezone was not found in configuration files, and an abbreviation may mean several zones: give it with --timezone, as 'SHOW log_timezone' says it",
  };
}

/** @param {Buffer | null} sample @returns {boolean} whether its whole lines are */
function isUtf8(sample) {
  if (sample === null) return true;
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(sample.subarray(0, sample.lastIndexOf(NEWLINE) + 1));
    return true;
  } catch {
    return false;
  }
}

/** @param {number} seconds @returns {string} */
function isoTime(seconds) {
  return new Date(Math.max(-DATE_MAX_MS, Math.min(seconds * 1000, DATE_MAX_MS))).toISOString();
}
