/**
 * The program's own log: one line an event, on stderr. A JSON object for journald and collectors, or readable
 * text (`time level name: message key=value ...`) when stderr is a terminal.
 * In: a name (master, sshproxy, worker-1, ...) and a level. Out: a pino logger, whose child() carries more keys.
 * Both forms hide passwords in URLs and let no control character through, since messages hold what hosts sent. A PgsluiceError is shown by its message and code; any other error is a bug and shows its stack.
 * Writes are synchronous: the last line before a process ends is the one that matters.
 */

import { pino } from 'pino';
import { PgsluiceError } from './errors.js';
import { printable, printableJson } from './printable.js';
import { redactUrlsIn } from './redact-url.js';
import { showValue } from './show-value.js';

/** @typedef {import('pino').Logger} Logger */

/** The levels of `daemon.log_level`, the most important first. */
export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace'];

/** Causes of causes: deeper ones are left out. */
const MAX_CAUSES = 8;

/** The widest name of LOG_LEVELS, so that messages line up. */
const LEVEL_WIDTH = 5;

/**
 * @typedef {object} LogDestination
 * @property {(line: string) => unknown} write gets whole lines, each with its newline
 * @property {boolean} [isTTY] true: lines are meant for a person
 */

/**
 * @param {object} settings
 * @param {string} settings.name which process or part writes
 * @param {string} [settings.level] one of LOG_LEVELS (default info)
 * @param {LogDestination} [settings.destination] default: stderr
 * @returns {Logger}
 */
export function createLogger({ name, level = 'info', destination }) {
  const forPerson = destination ? destination.isTTY === true : process.stderr.isTTY;
  const sink = destination ?? pino.destination({ fd: 2, sync: true });
  const render = forPerson ? textLine : redactedJsonLine;
  return pino(
    {
      name,
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }), log: bigintsAsText },
      serializers: { err: describeError, error: describeError },
    },
    { write: (/** @type {string} */ line) => void sink.write(render(line)) },
  );
}

/**
 * @param {unknown} error
 * @returns {unknown} what a log line shows of it
 */
function describeError(error) {
  if (!(error instanceof Error)) return error;
  const causes = [];
  let cause = error.cause;
  while (cause !== undefined && cause !== null && causes.length < MAX_CAUSES) {
    causes.push(cause instanceof Error ? cause.message : showValue(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  const code = 'code' in error ? error.code : undefined;
  const stack = error instanceof PgsluiceError ? undefined : error.stack;
  return { message: error.message, code, causes: causes.length > 0 ? causes : undefined, stack };
}

/**
 * The last step before the sink reads the line as JSON, where a number above 2**53 would be rounded.
 * @param {Record<string, unknown>} fields
 * @returns {Record<string, unknown>}
 */
function bigintsAsText(fields) {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, typeof value === 'bigint' ? String(value) : value]),
  );
}

/**
 * Redaction works on the decoded strings: in the JSON text a password may hold escapes that end a match early.
 * @param {string} line
 * @returns {string}
 */
function redactedJsonLine(line) {
  if (!line.includes('://') && !/password/i.test(line)) return printableJson(line);
  return printableJson(`${JSON.stringify(JSON.parse(line, redactString))}\n`);
}

/**
 * @param {string} line pino's JSON
 * @returns {string}
 */
function textLine(line) {
  /** @type {Record<string, unknown>} */
  const { time, level, name, pid: _pid, msg, ...fields } = JSON.parse(line, redactString);
  const pairs = Object.entries(fields).flatMap(([key, value]) => pair(key, value));
  const text = typeof msg === 'string' ? printable(msg) : '';
  const head = `${String(time)} ${String(level).padEnd(LEVEL_WIDTH)} ${printable(String(name))}:`;
  return `${[head, text, ...pairs].filter(part => part !== '').join(' ')}\n`;
}

/**
 * @param {string} key
 * @param {unknown} value
 * @returns {string[]}
 */
function pair(key, value) {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([inner, innerValue]) => pair(`${key}.${inner}`, innerValue));
  }
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const quoted = text === '' || /[\s"=]/.test(text) ? JSON.stringify(text) : text;
  return [`${printable(key)}=${printable(quoted)}`];
}

/**
 * @param {string} key
 * @param {unknown} value
 * @returns {unknown}
 */
function redactString(key, value) {
  if (key === 'password') return '***';
  return typeof value === 'string' ? redactUrlsIn(value) : value;
}
