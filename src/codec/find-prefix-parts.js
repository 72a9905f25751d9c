/**
 * The beginnings of log lines -> the parts they are made of, in order, each with its text in every line: forms that
 * are known (times, numbers, ids), literal text, and free text up to a delimiter. No meanings yet: which number is
 * the process is decided in find-prefix-meaning.js. Called by findLinePrefix() with a few hundred lines.
 */

import { UNKNOWN_NAMES } from './line-prefix-fields.js';
import { ACTIVITIES, BACKEND_TYPES } from './line-prefix-steps.js';

/**
 * @typedef {'literal' | 'quit' | 'time' | 'timeMs' | 'epoch' | 'session' | 'vxid' | 'state' | 'number' | 'free'} Kind
 */

/**
 * @typedef {object} Part
 * @property {Kind} kind
 * @property {string} text of a literal
 * @property {(string | undefined)[]} values by line; undefined: the line ended at a %q before
 * @property {number} width padding as log_line_prefix has it
 */

/** Most ways of cutting that are tried: each free text may have several delimiters. */
const MAX_TRIES = 150;
const MAX_DELIMITERS = 3;
const DELIMITER = /[\s,@\](){}|:;/=<>"'!#&*\\-]/g;

/** @type {readonly (readonly [Kind, RegExp])[]} */
const FORMS = [
  ['timeMs', /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (?:[A-Za-z]+|[+-]\d\d(?:\d\d)?(?!\d))/y],
  ['time', /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:[A-Za-z]+|[+-]\d\d(?:\d\d)?(?!\d))/y],
  ['epoch', /\d{9,11}\.\d{3}(?!\d)/y],
  ['session', /[0-9a-f]{7,9}\.[0-9a-f]+(?![0-9A-Za-z])/y],
  ['vxid', /\d+\/\d+(?![0-9A-Za-z])/y],
  ['state', /[0-9A-Z]{5}(?![0-9A-Za-z])/y],
  ['number', /-?\d+(?![0-9A-Za-z])(?!\.\d)/y],
];
/** @type {Set<Kind>} */
const FIXED = new Set(['time', 'timeMs', 'epoch', 'state']);
/** Texts of PostgreSQL's own with delimiters in them. */
const BRACKETED = ['[local]', '[none]', ...UNKNOWN_NAMES.map(name => name.toString('latin1'))];
const WHOLE = [...BRACKETED, ...[...BACKEND_TYPES, ...ACTIVITIES].map(phrase => phrase.toString('latin1'))];
/** `user=`, `db:` */
const LABEL = /[A-Za-z_]+[=:]/y;

/**
 * @param {string[]} heads what stands before the message in each line
 * @param {(parts: Part[]) => string | null} accept told each way of cutting; null: go on
 * @returns {string | null} what accept() returned
 */
export function cutHeads(heads, accept) {
  let tries = 0;

  /**
   * @param {Part[]} parts
   * @param {number[]} at by line; -1: the line ended at a %q
   * @returns {string | null}
   */
  function cut(parts, at) {
    tries += 1;
    if (tries > MAX_TRIES) return null;
    const active = indexesOf(at, (position, line) => position >= 0 && position < length(line));
    if (active.length === 0) return accept(parts);
    const ended = indexesOf(at, (position, line) => position === length(line));
    if (ended.length > 0) {
      if (parts.some(({ kind }) => kind === 'quit')) return null;
      const next = at.map((position, line) => (position === length(line) ? -1 : position));
      return cut([...parts, { kind: 'quit', text: '', values: [], width: 0 }], next);
    }
    for (const [part, next] of choices(heads, at, active, parts)) {
      const found = cut([...parts, part], next);
      if (found !== null) return found;
    }
    return null;
  }

  /** @param {number} line */
  const length = line => heads[line]?.length ?? 0;
  return cut(
    [],
    heads.map(() => 0),
  );
}

/**
 * @param {number[]} at
 * @param {(position: number, line: number) => boolean} test
 */
function indexesOf(at, test) {
  return [...at.keys()].filter(line => test(at[line] ?? -1, line));
}

/**
 * What may come next in all lines, the most likely first.
 * @param {string[]} heads
 * @param {number[]} at
 * @param {number[]} active
 * @param {Part[]} parts
 * @returns {Generator<[Part, number[]]>}
 */
function* choices(heads, at, active, parts) {
  /** @param {number} line */
  const rest = line => heads[line]?.slice(at[line]) ?? '';
  const rests = active.map(rest);
  const before = parts.at(-1);
  const afterValue = before !== undefined && before.kind !== 'literal' && before.kind !== 'quit';

  // Blanks that differ from line to line are padding of what follows.
  const blanks = rests.map(text => text.length - text.trimStart().length);
  // One blank everywhere is a separator, and so is the first one behind a value.
  if (!afterValue && !blanks.every(count => count === 1)) {
    for (const [kind, form] of FORMS) {
      const values = rests.map((text, index) => matchAt(form, text, blanks[index] ?? 0));
      if (kind === 'state' && !values.some(value => value !== null && /^0{5}$|[A-Z]/.test(value))) continue;
      const optional = kind === 'vxid' || kind === 'number';
      const some = values.some(value => value !== null);
      if (!some || (!optional && values.includes(null))) continue;
      const width = leftWidth(values, blanks);
      if (width === null) continue;
      if (values.includes(null) && !missingFits(rests, values, blanks, width)) continue;
      yield advance(kind, heads, at, active, values, blanks, width);
      if (kind === 'time' || kind === 'timeMs') return;
    }
  }

  const label = matchAt(LABEL, rests[0] ?? '', 0);
  if (label !== null && rests.every(text => text.startsWith(label))) {
    yield literal(label, at, active);
    return;
  }
  const first = rests[0]?.[0] ?? '';
  const common = rests.every(text => text.startsWith(first));
  if (common && !/[A-Za-z0-9\u0080-\u00ff]/.test(first)) {
    const own = rests.filter(text => lengthOf(BRACKETED, text) > 0).length;
    if (own > 0 && !afterValue) yield* free(heads, at, active, rests);
    if (own < rests.length || afterValue) yield literal(first, at, active);
    return;
  }
  if (!afterValue) yield* free(heads, at, active, rests);
}

/**
 * @param {string} text
 * @param {number[]} at
 * @param {number[]} active
 * @returns {[Part, number[]]}
 */
function literal(text, at, active) {
  const next = [...at];
  for (const line of active) next[line] = (at[line] ?? 0) + text.length;
  return [{ kind: 'literal', text, values: [], width: 0 }, next];
}

/**
 * Free text up to each character that all lines have.
 * @param {string[]} heads
 * @param {number[]} at
 * @param {number[]} active
 * @param {string[]} rests
 * @returns {Generator<[Part, number[]]>}
 */
function* free(heads, at, active, rests) {
  const skips = rests.map(text => lengthOf(WHOLE, text));
  const delimiters = [...new Set(rests[0]?.match(DELIMITER))]
    .map(delimiter => rests.map((text, index) => text.indexOf(delimiter, skips[index])))
    .filter(ends => !ends.includes(-1))
    .toSorted((a, b) => sum(a) - sum(b))
    .slice(0, MAX_DELIMITERS);
  // Names may have blanks in them: up to a blank that a form follows, and up to the last one.
  for (const [, form] of FORMS)
    delimiters.push(rests.map((text, index) => blankBefore(form, text, skips[index] ?? 0)));
  delimiters.push(rests.map(text => (text.endsWith(' ') ? text.length - 1 : -1)));
  const tried = new Set();
  for (const ends of delimiters) {
    const key = ends.join();
    if (ends.includes(-1) || tried.has(key)) continue;
    tried.add(key);
    const values = rests.map((text, index) => text.slice(0, ends[index]));
    yield advance(
      'free',
      heads,
      at,
      active,
      values,
      values.map(() => 0),
      0,
    );
  }
}

/**
 * @param {RegExp} form
 * @param {string} text
 * @param {number} from
 * @returns {number} where the first blank is that the form follows; -1
 */
function blankBefore(form, text, from) {
  for (let blank = text.indexOf(' ', from); blank >= 0; blank = text.indexOf(' ', blank + 1)) {
    if (matchAt(form, text, blank + 1) !== null) return blank;
  }
  return -1;
}

/**
 * The part with these values, and where each line goes on: behind padding on the right, if there is any.
 * @param {Kind} kind
 * @param {string[]} heads
 * @param {number[]} at
 * @param {number[]} active
 * @param {(string | null)[]} values
 * @param {number[]} blanks before each
 * @param {number} width
 * @returns {[Part, number[]]}
 */
function advance(kind, heads, at, active, values, blanks, width) {
  const next = [...at];
  for (const [index, line] of active.entries()) {
    const missing = values[index] === null;
    const skipped = missing ? width : (blanks[index] ?? 0);
    next[line] = (at[line] ?? 0) + skipped + (values[index]?.length ?? 0);
  }
  const padded = width === 0 ? rightWidth(heads, next, active, values, FIXED.has(kind)) : 0;
  if (padded > 0) {
    for (const [index, line] of active.entries()) {
      next[line] = (next[line] ?? 0) + Math.max(0, padded - (values[index]?.length ?? 0));
    }
  }
  /** @type {(string | undefined)[]} */
  const byLine = heads.map(() => undefined);
  for (const [index, line] of active.entries()) byLine[line] = values[index] ?? '';
  return [{ kind, text: '', values: byLine, width: width || -padded }, next];
}

/**
 * @param {(string | null)[]} values
 * @param {number[]} blanks before each value
 * @returns {number | null} the width they are padded to, 0: they are not; null: it is not padding
 */
function leftWidth(values, blanks) {
  const widths = new Set();
  for (const [index, value] of values.entries()) {
    if (value !== null && (blanks[index] ?? 0) > 0) widths.add((blanks[index] ?? 0) + value.length);
  }
  if (widths.size === 0) return 0;
  if (widths.size > 1) return null;
  const [width] = widths;
  return values.every((value, index) => value === null || blanks[index] || value.length >= width)
    ? width
    : null;
}

/**
 * @param {string[]} rests
 * @param {(string | null)[]} values null: missing
 * @param {number[]} blanks
 * @param {number} width
 * @returns {boolean} whether what follows a missing value is what follows the others
 */
function missingFits(rests, values, blanks, width) {
  const after = new Set();
  for (const [index, text] of rests.entries()) {
    const value = values[index];
    if (value === null && width > 0 && (blanks[index] ?? 0) < width) return false;
    after.add(value === null ? text[width] : text[(blanks[index] ?? 0) + (value?.length ?? 0)]);
  }
  return after.size === 1 && !after.has(undefined);
}

/**
 * @param {string[]} heads
 * @param {number[]} ends
 * @param {number[]} active
 * @param {(string | null)[]} values
 * @param {boolean} fixed they are all of one length, so padding is rather that of the next value
 * @returns {number} the width that blanks behind the values pad them to; 0: none
 */
function rightWidth(heads, ends, active, values, fixed) {
  const runs = active.map(line => /^ */.exec(heads[line]?.slice(ends[line]) ?? '')?.[0].length ?? 0);
  const fewest = Math.min(...runs);
  const same = runs.every(run => run === fewest);
  if (same && (fewest < 2 || fixed)) return 0;
  // One blank is a separator, unless the values that reach the width have none.
  const separator = same ? 1 : Math.min(fewest, 1);
  const widths = new Set();
  for (const [index, run] of runs.entries())
    if (run > separator) widths.add((values[index]?.length ?? 0) + run - separator);
  if (widths.size !== 1 || !runs.some((run, index) => run > separator && values[index])) return 0;
  const [width] = widths;
  return values.every((value, index) => (runs[index] ?? 0) > separator || (value?.length ?? 0) >= width)
    ? width
    : 0;
}

/**
 * @param {RegExp} sticky
 * @param {string} text
 * @param {number} at
 */
function matchAt(sticky, text, at) {
  sticky.lastIndex = at;
  return sticky.exec(text)?.[0] ?? null;
}

/**
 * @param {string[]} words
 * @param {string} text
 * @returns {number} how long the first of the words is that it begins with
 */
function lengthOf(words, text) {
  return words.find(word => text.startsWith(word))?.length ?? 0;
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
