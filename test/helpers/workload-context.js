/** What the phases of the workload share: how they reach the server, and odd names. */

/** @import { TestPostgres } from './postgres.js' */
/** @import { Text, WireSession } from './wire-session.js' */
/** @typedef {'quick' | 'full'} Size */
/**
 * @typedef {object} SessionOptions
 * @property {Text} [as] the role
 * @property {Text} [database]
 * @property {Text} [application]
 * @property {Record<string, string>} [settings] of the session, from its start
 * @property {boolean} [tcp]
 * @property {Text} [password]
 * @property {Record<string, Text>} [more] of the startup message
 */
/** @typedef {(options?: SessionOptions) => Promise<WireSession>} Connect */
/** @typedef {{ server: TestPostgres, connect: Connect, size: Size }} Context */

export const POLL_MS = 20;

/** How application names of sessions begin whose verbosity keeps details from stderr, though not from csvlog. */
export const TERSE = 'terse';

/** A name with all that a log line uses for itself. */
export const HOSTILE_NAME = `we,ird "q" 'a' @ [b]/%u`;
export const TWO_LINES = 'two\n2026-01-01 00:00:00.000 UTC,"lines';

/**
 * @param {WireSession} session
 * @param {Text[]} statements
 */
export async function all(session, statements) {
  for (const statement of statements) await session.query(statement);
}

/** @param {string} latin1 one character a byte */
export function raw(latin1) {
  return Buffer.from(latin1, 'latin1');
}

/** @param {string} name */
export function quoted(name) {
  return `"${name.replaceAll('"', '""')}"`;
}

/** @param {string} text */
export function isAscii(text) {
  return Buffer.byteLength(text) === text.length;
}
