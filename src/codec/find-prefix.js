/**
 * A sample of a stderr log -> the log_line_prefix it was written with. Tries prefixes in wide use, then takes the
 * lines apart and works out what each part means. The result compiles, fits at least MATCHED_SHARE of the lines that
 * hold a message, and is contradicted by none of the rules of find-prefix-facts.js; null rather than a guess. The
 * sample decides: what no line of it shows (a session, when only background processes wrote) is not in the result.
 * Called when a file is opened, not per line. Never throws.
 */
import { factsOf, isContradicted } from './find-prefix-facts.js';
import { nameParts } from './find-prefix-meaning.js';
import { cutHeads } from './find-prefix-parts.js';
import { labelAt, NONE, severityAt } from './languages.js';
import { compileLinePrefix } from './line-prefix.js';

/** @import { Line, Facts } from './find-prefix-facts.js' */
/** @import { LinePrefix } from './line-prefix.js' */

/**
 * @typedef {object} FoundPrefix
 * @property {string} text of log_line_prefix
 * @property {number} matched lines with a message that it fits
 * @property {number} lines with a message in the sample
 */

/** Of the lines with a message, so many must fit. */
const MATCHED_SHARE = 0.95;
/** More lines do not say more. */
const MAX_SAMPLE_BYTES = 64 * 1024;
const MAX_LINES = 400;
const MAX_HEAD_BYTES = 1024;
const LF = 0x0a;
const CR = 0x0d;
const TAB = 0x09;

/**
 * In wide use: PostgreSQL's own, Debian's, those of hosting providers and of pgBadger's documentation. Names stand in
 * them behind a label or around an @: names between blanks are for the lines to tell.
 */
const CANDIDATES = [
  '%m [%p] ',
  '%t [%p] ',
  '%m [%p] %q%u@%d ',
  '%t [%p-%l] %q%u@%d ',
  '%t [%p] %q%u@%d ',
  '%t:%r:%u@%d:[%p]:',
  '%t:%r:%u@%d:[%p]: ',
  '%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:',
  '%m [%p]: [%l-1] db=%d,user=%u ',
  '%t [%p]: [%l-1] db=%d,user=%u ',
  '%t [%p]: db=%d,user=%u,app=%a,client=%h ',
  '%t [%p]: user=%u,db=%d,app=%a,client=%h ',
  '%m [%p]: user=%u,db=%d,app=%a,client=%h ',
  '%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ',
  '%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ',
  '%m [%p] %q[user=%u,db=%d,app=%a] ',
  '%m [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ',
  '%t [%p]: [%l-1] user=%u,db=%d ',
  'user=%u,db=%d,app=%a,client=%h ',
];

/**
 * @param {Buffer} sample the beginning of a log, or a piece of it that begins with a whole line
 * @returns {FoundPrefix | null} null: no message in the sample, or no prefix that is certain
 */
export function findLinePrefix(sample) {
  const lines = messageLines(sample);
  if (lines.length === 0) return null;
  const facts = lines.map(factsOf);

  /** @type {{ text: string, matched: number, used: number, unused: number } | null} */
  let best = null;
  for (const text of CANDIDATES) {
    const score = judge(text, lines, facts);
    if (score && (!best || compareScores(score, best) > 0)) best = score;
  }
  // A candidate that prints what no line has was made for other logs.
  if (!best || best.matched < lines.length || best.unused > 0) {
    const heads = lines.map(({ head }) => head);
    cutHeads(heads, parts => {
      const text = nameParts(parts, facts);
      const score = text === null ? null : judge(text, lines, facts);
      if (!score) return null;
      if (!best || compareScores(score, best) > 0) best = score;
      return text;
    });
  }
  return best && { text: best.text, matched: best.matched, lines: lines.length };
}

/**
 * @param {Buffer} sample
 * @returns {Line[]}
 */
function messageLines(sample) {
  const bytes = sample.subarray(0, MAX_SAMPLE_BYTES);
  /** @type {Line[]} */
  const lines = [];
  for (let at = 0; at < bytes.length && lines.length < MAX_LINES;) {
    const newline = bytes.indexOf(LF, at);
    if (newline < 0 && lines.length > 0) break;
    const stop = newline < 0 ? bytes.length : newline;
    const end = stop > at && bytes[stop - 1] === CR ? stop - 1 : stop;
    const message = bytes[at] === TAB ? -1 : messageIn(bytes, at, end);
    if (message >= 0) {
      lines.push({
        head: bytes.toString('latin1', at, message),
        message: bytes.toString('latin1', message, end),
      });
    }
    at = stop + 1;
  }
  return lines;
}

/**
 * @param {Buffer} bytes
 * @param {number} at
 * @param {number} end
 * @returns {number} where the first message of the line begins; -1
 */
function messageIn(bytes, at, end) {
  const last = Math.min(end, at + MAX_HEAD_BYTES);
  for (let p = at; p < last; p += 1) {
    // CATALOG:  is not LOG:
    if (p > at && isLetter(bytes[p - 1]) && isLetter(bytes[p])) continue;
    if (isMessage(bytes, p, end)) return p;
  }
  return -1;
}

/** @param {number | undefined} byte */
function isLetter(byte) {
  return byte !== undefined && ((byte | 0x20) - 0x61) >>> 0 < 26;
}

/** @type {import('./line-prefix.js').IsMessage} */
function isMessage(bytes, at, end) {
  return severityAt(bytes, at, end) >= 0 || labelAt(bytes, at, end) !== NONE;
}

/**
 * @param {string} text
 * @param {Line[]} lines
 * @param {Facts[]} facts
 * @returns {{ text: string, matched: number, used: number, unused: number } | null} null: it does not fit
 */
function judge(text, lines, facts) {
  /** @type {LinePrefix} */
  let prefix;
  try {
    prefix = compileLinePrefix(text);
  } catch {
    return null;
  }
  /** @type {Map<string, (string | undefined)[]>} */
  const values = new Map();
  for (const { letter } of prefix.values)
    values.set(
      letter,
      lines.map(() => undefined),
    );
  let matched = 0;
  for (const [index, { head, message }] of lines.entries()) {
    const bytes = Buffer.from(head + message, 'latin1');
    if (prefix.match(bytes, 0, bytes.length, isMessage) !== head.length) continue;
    matched += 1;
    for (const { letter, field } of prefix.values) {
      const start = prefix.fields[2 * field] ?? -1;
      const list = values.get(letter);
      if (list && start >= 0) list[index] = bytes.toString('latin1', start, prefix.fields[2 * field + 1]);
    }
  }
  if (matched < lines.length * MATCHED_SHARE || isContradicted(values, lines, facts)) return null;
  const used = [...values.values()].filter(list => list.some(value => value !== undefined)).length;
  return { text, matched, used, unused: values.size - used };
}

/**
 * @param {{ matched: number, used: number, unused: number }} a
 * @param {{ matched: number, used: number, unused: number }} b
 * @returns {number} > 0: a says more
 */
function compareScores(a, b) {
  return a.matched - b.matched || a.used - b.used || b.unused - a.unused;
}
