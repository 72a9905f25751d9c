/**
 * The text of log_line_prefix -> the steps that LinePrefix takes through a line. Reads the setting the way PostgreSQL
 * does: by bytes, padding between % and the letter, unknown escapes print nothing, a % or padding at the end is
 * dropped, %q counts the first time. Throws PgsluiceError('USAGE') when the values could not be told apart again:
 * a name or a number that runs into the next one, a line break.
 */
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import {
  APPLICATION_NAME,
  BACKEND_TYPE,
  COMMAND_TAG,
  CONNECTION_FROM,
  DATABASE_NAME,
  LEADER_PID,
  LOCAL_HOST,
  LOG_EPOCH,
  LOG_TIME,
  PROCESS_ID,
  QUERY_ID,
  SESSION_ID,
  SESSION_LINE_NUM,
  SESSION_START_TIME,
  SQL_STATE_CODE,
  TRANSACTION_ID,
  UNKNOWN_NAMES,
  USER_NAME,
  VIRTUAL_TRANSACTION_ID,
} from './line-prefix-fields.js';

/** Forms: small integers, because match() switches on them. */
export const LITERAL = 0;
/** any bytes, also none */
export const FREE = 1;
export const DIGITS = 2;
/** a number that may be missing or negative */
export const MAYBE_NUMBER = 3;
/** `2026-05-01 12:34:56 MSK` */
export const TIME = 4;
/** `2026-05-01 12:34:56.789 MSK` */
export const TIME_MS = 5;
/** `1777638896.789` */
export const EPOCH = 6;
/** `69f4a1b0.1092` */
export const SESSION = 7;
/** `3/1234`, or nothing */
export const VXID = 8;
/** `42P01` */
export const STATE = 9;
/** %q: a message may follow here */
export const QUIT = 10;
/** a message follows */
export const DONE = 11;

/**
 * @typedef {object} Step
 * @property {number} form
 * @property {string} name the escape as it is written, for messages
 * @property {number} field that the value goes to; -1: none
 * @property {number} rank of several steps for one field the highest gives the value
 * @property {number} width padding: > 0 on the left, < 0 on the right, 0 none
 * @property {Buffer} literal LITERAL: its bytes
 * @property {readonly Buffer[]} phrases FREE: values that are tried before all others
 */

const PERCENT = 0x25;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const SPACE = 0x20;
const TAB = 0x09;
const DEL = 0x7f;

/** Far more than anybody sets; keeps the depth of match() and the room for padding bounded. */
const MAX_TEXT_BYTES = 1000;
const MAX_WIDTH = 500;

/** @type {Record<string, readonly [form: number, field: number, rank: number]>} */
const ESCAPES = {
  a: [FREE, APPLICATION_NAME, 0],
  u: [FREE, USER_NAME, 0],
  d: [FREE, DATABASE_NAME, 0],
  r: [FREE, CONNECTION_FROM, 1],
  h: [FREE, CONNECTION_FROM, 0],
  L: [FREE, LOCAL_HOST, 0],
  b: [FREE, BACKEND_TYPE, 0],
  p: [DIGITS, PROCESS_ID, 0],
  P: [MAYBE_NUMBER, LEADER_PID, 0],
  t: [TIME, LOG_TIME, 0],
  m: [TIME_MS, LOG_TIME, 1],
  n: [EPOCH, LOG_EPOCH, 0],
  i: [FREE, COMMAND_TAG, 0],
  e: [STATE, SQL_STATE_CODE, 0],
  // Nothing at all before version 14.
  Q: [MAYBE_NUMBER, QUERY_ID, 0],
  c: [SESSION, SESSION_ID, 0],
  l: [DIGITS, SESSION_LINE_NUM, 0],
  s: [TIME, SESSION_START_TIME, 0],
  v: [VXID, VIRTUAL_TRANSACTION_ID, 0],
  x: [DIGITS, TRANSACTION_ID, 0],
  q: [QUIT, -1, 0],
};

const NOTHING = Buffer.alloc(0);
/** @type {Step} */
const PLAIN = { form: DONE, name: '', field: -1, rank: 0, width: 0, literal: NOTHING, phrases: [] };

/**
 * Values of two and more words: in `%b %u ` a blank inside would else be taken for the one between. What begins with
 * another comes before it. Backend types: miscinit.c and the background workers of PostgreSQL 13 to 18; the rest are
 * what a session shows between commands.
 */
export const BACKEND_TYPES = [
  'client backend',
  'dead-end client backend',
  'standalone backend',
  'autovacuum launcher',
  'autovacuum worker',
  'background writer',
  'background worker',
  'io worker',
  'logical replication launcher',
  'logical replication worker',
  'logical replication apply worker',
  'logical replication tablesync worker',
  'logical replication parallel worker',
  'parallel worker',
  'slotsync worker',
  'not initialized',
].map(phrase => Buffer.from(phrase));
export const ACTIVITIES = ['idle in transaction (aborted)', 'idle in transaction'].map(phrase =>
  Buffer.from(phrase),
);
/** `[%u] ` would else end an unknown name at its own bracket. */
const LOCAL = [Buffer.from('[local]')];
/** @type {Record<string, Buffer[]>} */
const PHRASES = {
  a: UNKNOWN_NAMES,
  u: UNKNOWN_NAMES,
  d: UNKNOWN_NAMES,
  r: LOCAL,
  h: LOCAL,
  L: [...LOCAL, Buffer.from('[none]')],
  b: BACKEND_TYPES,
  i: ACTIVITIES,
};

/** What may stand after the end of a value and would be read as more of it; the others have a fixed length. */
/** @type {Record<number, RegExp>} */
const CONTINUES = {
  [DIGITS]: /\d/,
  [MAYBE_NUMBER]: /[-\d]/,
  [TIME]: /[A-Za-z\d]/,
  [TIME_MS]: /[A-Za-z\d]/,
  [SESSION]: /[\da-f]/,
  [VXID]: /\d/,
};
/** One character that the value may begin with and that is the most likely to be mistaken. */
const DIGIT = '0';
/** @type {Record<number, string>} */
const BEGINS = {
  [DIGITS]: DIGIT,
  [MAYBE_NUMBER]: DIGIT,
  [TIME]: DIGIT,
  [TIME_MS]: DIGIT,
  [EPOCH]: DIGIT,
  [SESSION]: DIGIT,
  [VXID]: DIGIT,
  [STATE]: DIGIT,
};
/** Severities begin with a capital letter, or with one that is no ASCII. */
const MESSAGE_LETTER = 'E';

/**
 * @param {string} text
 * @returns {Step[]} the last one is DONE; two literals never follow each other
 */
export function readSteps(text) {
  const bytes = Buffer.from(text);
  if (bytes.length > MAX_TEXT_BYTES) throw wrong(`is longer than ${MAX_TEXT_BYTES} bytes`);
  const control = bytes.findIndex(byte => (byte < SPACE && byte !== TAB) || byte === DEL);
  if (control >= 0) throw wrong(`has a control character: ${printable(text)}`);
  if (bytes[0] === TAB) throw wrong('begins with a tab, like the lines that continue a message');

  /** @type {Step[]} */
  const steps = [];
  /** @type {number[]} */
  let literal = [];
  const flush = () => {
    if (literal.length > 0) steps.push({ ...PLAIN, form: LITERAL, literal: Buffer.from(literal) });
    literal = [];
  };
  let quit = false;
  for (let at = 0; at < bytes.length; at += 1) {
    if (bytes[at] !== PERCENT) {
      literal.push(bytes[at]);
      continue;
    }
    const from = at;
    at += 1;
    if (bytes[at] === PERCENT) {
      literal.push(PERCENT);
      continue;
    }
    const left = bytes[at] !== MINUS;
    if (!left) at += 1;
    let width = 0;
    for (; bytes[at] >= ZERO && bytes[at] <= NINE; at += 1) width = width * 10 + bytes[at] - ZERO;
    if (at >= bytes.length) break;
    const letter = String.fromCharCode(bytes[at]);
    const escape = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (!escape || (escape[0] === QUIT && quit)) continue;
    const name = bytes.toString('latin1', from, at + 1);
    if (width > MAX_WIDTH) throw wrong(`pads ${name} to more than ${MAX_WIDTH} characters`);
    flush();
    const [form, field, rank] = escape;
    quit ||= form === QUIT;
    steps.push({
      ...PLAIN,
      form,
      name,
      field,
      rank,
      width: left ? width : -width,
      phrases: PHRASES[letter] ?? [],
    });
  }
  flush();
  steps.push({ ...PLAIN, form: DONE });
  for (let index = 0; index < steps.length; index += 1) checkEnd(steps, index);
  return steps;
}

/**
 * Refuses a step whose end cannot be told from the beginning of what follows.
 * @param {Step[]} steps
 * @param {number} index
 */
function checkEnd(steps, index) {
  const step = steps[index];
  const continues = CONTINUES[step.form];
  if (continues === undefined && step.form !== FREE) return;
  for (let next = index + 1; next < steps.length; next += 1) {
    const { form, name, width, literal } = steps[next];
    if (form === QUIT && step.form === FREE) continue;
    if (form === LITERAL) {
      if (continues?.test(literal.toString('latin1', 0, 1)))
        throw runsInto(step, printable(literal.toString()));
      return;
    }
    if (form === DONE || form === QUIT) {
      if (continues?.test(MESSAGE_LETTER)) throw runsInto(step, 'the message');
      if (form === DONE) return;
      continue;
    }
    // A name may begin with anything, and after a name so may a number.
    if (step.form === FREE || form === FREE || continues?.test(BEGINS[form] ?? ''))
      throw runsInto(step, name);
    const mayBeEmpty = (form === MAYBE_NUMBER || form === VXID) && width === 0;
    if (!mayBeEmpty) return;
  }
}

/**
 * @param {Step} step
 * @param {string} what
 */
function runsInto(step, what) {
  return wrong(`has nothing that tells where ${step.name} ends and '${what}' begins`);
}

/** @param {string} what */
function wrong(what) {
  return new PgsluiceError('USAGE', `log_line_prefix ${what}`);
}
