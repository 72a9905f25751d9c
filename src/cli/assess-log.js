/**
 * Judges what the probe found of one log: can it be followed, and if not, what is to be done. Pure.
 * In: facts from the host. Out: the `logs` entry of `host check --json`. Text in it is as the host sent it.
 */
import { CSVLOG_COLUMN_COUNTS, describeFirstRecord } from '../follower/first-record.js';

/** @typedef {import('../follower/probe.js').LogFacts} LogFacts */

/**
 * @typedef {object} LogReport
 * @property {string} path
 * @property {'data directory' | 'log directory' | 'file' | 'missing' | 'unknown'} kind
 * @property {boolean} readable
 * @property {string | null} directory where the log files are
 * @property {number} files csv files
 * @property {number} bytes
 * @property {{ name: string, size: number, modifiedAt: string } | null} newest
 * @property {'csvlog' | 'jsonlog' | 'text' | null} format of the newest csv file's first record
 * @property {number | null} columns of csvlog
 * @property {string | null} version of PostgreSQL
 * @property {string[]} problems
 */

/** @type {Record<LogFacts['kind'], LogReport['kind']>} */
const KINDS = {
  data: 'data directory',
  directory: 'log directory',
  file: 'file',
  missing: 'missing',
  other: 'unknown',
  hidden: 'unknown',
};

const ENABLE =
  "set logging_collector = on and log_destination = 'csvlog' in postgresql.conf and restart PostgreSQL";

/** Larger times make no Date. */
const DATE_MAX_MS = 8.64e15;

/**
 * @param {LogFacts} facts
 * @param {{ user: string, sudo: boolean }} reader who reads the logs there
 * @returns {LogReport}
 */
export function assessLog(facts, reader) {
  const { path, kind, directory, files, newest, sample, version } = facts;
  const { format, columns } = sample === null ? { format: null, columns: null } : describeFirstRecord(sample);
  const problems = [...problemsOfPlace(facts, reader), ...problemsOfContent(facts, format, columns)];
  return {
    path,
    kind: KINDS[kind],
    readable: facts.denied === null && kind !== 'missing' && kind !== 'other',
    directory,
    files: files.csv.count,
    bytes: files.csv.bytes,
    newest: newest && { name: newest.name, size: newest.size, modifiedAt: isoTime(newest.modifiedAt) },
    format,
    columns,
    version,
    problems,
  };
}

/** @param {LogFacts} facts @param {{ user: string, sudo: boolean }} reader @returns {string[]} */
function problemsOfPlace({ path, kind, denied, files }, reader) {
  if (denied !== null) return [missingPermission(denied, files.csv, reader)];
  if (kind === 'missing') return [`${path} does not exist: correct the path, or create it`];
  if (kind === 'other') return [`${path} is neither a file nor a directory`];
  return [];
}

/**
 * @param {NonNullable<LogFacts['denied']>} denied
 * @param {import('../follower/probe.js').FileCount} csv
 * @param {{ user: string, sudo: boolean }} reader
 * @returns {string}
 */
function missingPermission({ need, mode, path, owner, group }, csv, { user, sudo }) {
  const isFile = need === 'read' && csv.unreadable > 0;
  const what = isFile
    ? `${csv.unreadable} of ${csv.count} csv files cannot be read by ${user}, such as ${path}`
    : `${path} cannot be ${need === 'read' ? 'listed' : 'entered'} by ${user}`;
  const whose = `${owner}:${group}, mode ${mode}`;
  const asOwner = sudo ? `--sudo with a user who may` : `--sudo ${owner}`;
  const inGroup = isFile
    ? `put ${user} into group ${group} and set log_file_mode = 0640`
    : `put ${user} into group ${group} and let the group in (chmod g+rx; initdb --allow-group-access for a data directory)`;
  return `${what} (${whose}): ${inGroup}, or use ${asOwner}`;
}

/**
 * @param {LogFacts} facts
 * @param {LogReport['format']} format
 * @param {number | null} columns
 * @returns {string[]}
 */
function problemsOfContent({ kind, denied, destinations, files, directory, path, newest }, format, columns) {
  if (denied !== null || !['data', 'directory', 'file'].includes(kind)) return [];
  if (format === 'csvlog') {
    if (columns === null || CSVLOG_COLUMN_COUNTS.includes(columns)) return [];
    return [
      `a record has ${columns} columns, csvlog has ${CSVLOG_COLUMN_COUNTS.join(', ')}: its records will go to pgsluice.rejected`,
    ];
  }
  if (format !== null) {
    return [
      `${newest?.name ?? path} holds ${format === 'jsonlog' ? 'jsonlog' : 'text'}: this version reads csvlog, set log_destination = 'csvlog'`,
    ];
  }
  // A file that is still empty is what csvlog begins with.
  if (kind === 'file' || files.csv.count > 0) return [];
  const others = [...(files.json.count > 0 ? ['jsonlog'] : []), ...(files.log.count > 0 ? ['stderr'] : [])];
  // Files of a log directory alone could come from a shell's redirection or, as in Debian, from pg_ctl -l.
  const collected =
    destinations.length > 0 || files.json.count > 0 || (kind === 'data' && files.log.count > 0);
  const where = others.length > 0 ? (directory ?? path) : path;
  const found = others.length > 0 ? `, only ${others.join(' and ')}` : '';
  return [
    `no csvlog in ${where}${found}: ${collected ? 'add csvlog to log_destination and reload PostgreSQL' : ENABLE}`,
  ];
}

/** @param {number} seconds @returns {string} */
function isoTime(seconds) {
  return new Date(Math.max(-DATE_MAX_MS, Math.min(seconds * 1000, DATE_MAX_MS))).toISOString();
}
