/**
 * What the tests of log_line_prefix share: a formatter that knows nothing of src/codec and does what the manual says
 * of log_line_prefix, and a reader of a match. Texts are latin1: one character a byte.
 */
import { compileLinePrefix } from '../../../src/codec/line-prefix.js';

/**
 * @typedef {Record<string, string>} Values by the letter of the escape. A missing user, database or application is ''
 */

/** A letter -> the index of its value in fields: the csvlog columns of the manual, counted from 0. */
export const FIELD_OF = {
  t: 0,
  m: 0,
  u: 1,
  d: 2,
  p: 3,
  r: 4,
  h: 4,
  c: 5,
  l: 6,
  i: 7,
  s: 8,
  v: 9,
  x: 10,
  e: 12,
  a: 22,
  b: 23,
  P: 24,
  Q: 25,
  n: 26,
  L: 27,
};
const SESSION_ONLY = 'audirh';

/**
 * @param {string} prefix
 * @param {Values} values
 * @param {boolean} [background] the process serves no client
 * @returns {string}
 */
export function format(prefix, values, background = false) {
  let out = '';
  let rest = Buffer.from(prefix).toString('latin1');
  for (;;) {
    const percent = rest.indexOf('%');
    if (percent < 0) return out + rest;
    out += rest.slice(0, percent);
    const escape = /^%(?:(%)|(-?)(\d*)([^]))/.exec(rest.slice(percent));
    if (!escape) return out;
    rest = rest.slice(percent + escape[0].length);
    const [, percentSign, minus, digits, letter = ''] = escape;
    const width = Number(digits);
    if (percentSign) out += '%';
    else if (letter === 'q' && background) return out;
    else if (Object.hasOwn(FIELD_OF, letter)) {
      let value = values[letter] ?? '';
      if (background && SESSION_ONLY.includes(letter)) value = '';
      else if ('aud'.includes(letter)) value ||= '[unknown]';
      out += minus ? value.padEnd(width) : value.padStart(width);
    }
  }
}

/** Severities and labels as tests write them; two blanks after the colon. */
const MESSAGE = /^(?:LOG|ERROR|FATAL|WARNING|DETAIL|STATEMENT):  /;

/** @type {import('../../../src/codec/line-prefix.js').IsMessage} */
export function isMessage(bytes, at, end) {
  return MESSAGE.test(Buffer.from(bytes.subarray(at, Math.min(end, at + 20))).toString('latin1'));
}

/**
 * Matches a line that lies between others.
 * @param {string | ReturnType<typeof compileLinePrefix>} prefix
 * @param {string} line latin1
 * @returns {{ after: number, fields: Record<number, string> } | null} `after` counts from the beginning of the line;
 *   the fields that are there
 */
export function match(prefix, line) {
  const compiled = typeof prefix === 'string' ? compileLinePrefix(prefix) : prefix;
  const before = '2026-05-01 LOG:  x\n';
  const bytes = Buffer.from(`${before}${line}\n LOG:  y`, 'latin1');
  const end = before.length + line.length;
  const after = compiled.match(bytes, before.length, end, isMessage);
  if (after < 0) return null;
  /** @type {Record<number, string>} */
  const fields = {};
  for (let field = 0; field < compiled.fields.length / 2; field += 1) {
    const start = compiled.fields[2 * field] ?? -1;
    if (start >= 0) fields[field] = bytes.toString('latin1', start, compiled.fields[2 * field + 1]);
  }
  return { after: after - before.length, fields };
}
