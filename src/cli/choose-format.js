/**
 * In which format a log will be read, and why: the follower's choice of files and the worker's of parsers, told
 * beforehand. Pure. In: what the probe found and the --format of the stream. Out: the format, the reason for a person,
 * and the facts of the files that are of it.
 */
import { describeFirstRecord } from '../follower/first-record.js';

/** @typedef {import('../follower/probe.js').LogFacts} LogFacts */
/** @typedef {import('../follower/probe.js').FileFacts} FileFacts */
/** @typedef {import('../base/log-format.js').LogFormat} LogFormat */
/** @typedef {{ format: Exclude<LogFormat, 'auto'> | null, why: string | null, files: FileFacts }} Choice */

/** By the names of files, best first. @type {readonly (readonly ['csv' | 'json' | 'log', 'csvlog' | 'jsonlog' | 'stderr'])[]} */
const FORMATS = [
  ['csv', 'csvlog'],
  ['json', 'jsonlog'],
  ['log', 'stderr'],
];

const GIVEN = 'as --format says';

/**
 * @param {LogFacts} facts
 * @param {LogFormat} wanted
 * @returns {Choice} format null: there is nothing to tell it by
 */
export function chooseFormat(facts, wanted) {
  const { kind, files, destinations } = facts;
  if (kind === 'journal') {
    if (wanted === 'auto')
      return { format: 'stderr', why: 'a journal has what a unit writes to stderr', files: files.log };
    return { format: wanted, why: GIVEN, files: files.log };
  }
  if (wanted === 'plain') return { format: 'plain', why: GIVEN, files: together(files) };
  if (kind === 'file') return ofFile(together(files), files, wanted);
  for (const [suffix, format] of FORMATS) {
    if (wanted === format) return { format, why: GIVEN, files: files[suffix] };
  }
  return destinations.length > 0 ? ofDestinations(destinations, files) : ofNames(files);
}

/** @param {LogFacts['files']} files @returns {string[]} formats of the files that are there, best first */
export function formatsThere(files) {
  return FORMATS.filter(([suffix]) => files[suffix].count > 0).map(([, format]) => format);
}

/** @param {FileFacts} file @param {LogFacts['files']} byName @param {LogFormat} wanted @returns {Choice} */
function ofFile(file, byName, wanted) {
  if (wanted !== 'auto') return { format: wanted, why: GIVEN, files: file };
  if (byName.csv.count > 0) return { format: 'csvlog', why: 'its name says so', files: file };
  if (byName.json.count > 0) return { format: 'jsonlog', why: 'its name says so', files: file };
  const first = file.sample === null ? 'text' : describeFirstRecord(file.sample).format;
  if (first !== 'text') return { format: first, why: 'its first record is', files: file };
  return { format: 'stderr', why: 'its name says no other', files: file };
}

/** @param {string[]} destinations @param {LogFacts['files']} files @returns {Choice} */
function ofDestinations(destinations, files) {
  const there = FORMATS.filter(([, format]) => destinations.includes(format));
  const [best] = there;
  if (best === undefined) return ofNames(files);
  const [suffix, format] = best;
  const names = there.map(([, each]) => each).join(', ');
  const why =
    there.length === 1
      ? 'current_logfiles names no other'
      : `of ${names} in current_logfiles it tells the most`;
  return { format, why, files: files[suffix] };
}

/**
 * By the files alone: the best of what the server writes now. Of several destinations it names the files alike.
 * @param {LogFacts['files']} files
 * @returns {Choice}
 */
function ofNames(files) {
  const there = FORMATS.filter(([suffix]) => files[suffix].count > 0);
  const newest = newestOf(there.map(([suffix]) => files[suffix]));
  const now = there.filter(([suffix]) => stemOf(files[suffix]) === stemOf(newest));
  const [best = there[0]] = now;
  if (best === undefined) return { format: null, why: null, files: files.log };
  const [suffix, format] = best;
  const names = now.map(([, each]) => each).join(', ');
  const why =
    there.length === 1
      ? 'there are no other files'
      : now.length > 1
        ? `of ${names} there it tells the most`
        : 'the newest file is';
  return { format, why, files: files[suffix] };
}

/** @param {LogFacts['files']} files @returns {FileFacts} as if all were of one kind */
function together({ csv, json, log }) {
  const all = [csv, json, log];
  const newest = newestOf(all);
  return {
    count: sum(all.map(({ count }) => count)),
    bytes: sum(all.map(({ bytes }) => bytes)),
    unreadable: sum(all.map(({ unreadable }) => unreadable)),
    newest: newest.newest,
    sample: newest.sample ?? all.find(({ sample }) => sample !== null)?.sample ?? null,
    denied: all.find(({ denied }) => denied !== null)?.denied ?? null,
  };
}

/** @param {FileFacts[]} all @returns {FileFacts} the first of those that were written to last */
function newestOf(all) {
  /** @type {FileFacts} */
  let best = { count: 0, bytes: 0, unreadable: 0, newest: null, sample: null, denied: null };
  for (const each of all) {
    if (each.newest && (best.newest === null || each.newest.modifiedAt > best.newest.modifiedAt)) best = each;
  }
  return best;
}

/** @param {FileFacts} files @returns {string | null} the newest name without what tells its format */
function stemOf({ newest }) {
  return newest && newest.name.replace(/\.(?:csv|json|log)(?=$|[.-])/, '');
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
