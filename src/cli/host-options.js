/**
 * The values that `host add` and `host update` take, each checked by itself before anything is touched.
 * Text of the command line in, values for the inventory out. Pure. What is accepted here reaches ssh, a known_hosts
 * file, a remote shell's stdin and SQL parameters; each of them gets it only as data, and none may be misled by it.
 * Throws PgsluiceError USAGE; the message names the option.
 */
import { isIP, isIPv4, isIPv6 } from 'node:net';
import { PgsluiceError } from '../base/errors.js';
import { showValue } from '../base/show-value.js';
import { nearest } from '../config/nearest.js';
import { isUserName } from '../follower/index.js';
import { unitOf } from '../follower/journal.js';
import { readSettings } from '../system-ssh/settings.js';

/** @typedef {import('../storage/inventory.js').Transport} Transport */
/** @typedef {import('../storage/inventory.js').StartAt} StartAt */

export const DEFAULT_SSH_PORT = 22;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const HOST_NAME = /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?$/;
/** What ssh 9.6 refuses in a user name, and white space. */
const USER = /^[^\s\p{C}'"`;&<>|(){}$%\\-][^\s\p{C}'"`;&<>|(){}$%\\]{0,254}$/u;
/** A label of Prometheus; names that begin with two underscores are its own. */
const LABEL = /^(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}$/;

const PATH_MAX_BYTES = 4095;
const LABEL_VALUE_MAX_LENGTH = 256;
const TRANSPORTS = /** @type {const} */ (['auto', 'openssh', 'ssh2', 'local']);
const STARTS = /** @type {const} */ (['end', 'current', 'start']);

/** @param {string} name @returns {string} */
export function hostNameOperand(name) {
  if (NAME.test(name)) return name;
  throw usage(
    `${showValue(name)} is not a host NAME: up to 63 letters, digits, dots, dashes and underscores`,
  );
}

/**
 * @param {string} text '[user@]address[:port]'
 * @returns {{ username: string | null, address: string, port: number }}
 */
export function sshTarget(text) {
  const at = text.lastIndexOf('@');
  const username = at === -1 ? null : text.slice(0, at);
  if (username !== null && !USER.test(username))
    throw usage(`--ssh ${showValue(text)}: the user name is not acceptable to ssh`);
  const rest = text.slice(at + 1);
  if (isIPv6(rest)) return { username, address: rest, port: DEFAULT_SSH_PORT };
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(rest);
  const [, bracketed, bare, port] = match ?? [];
  const address = bracketed ?? bare ?? '';
  if (
    match === null ||
    (bracketed !== undefined && !isIPv6(bracketed)) ||
    (bare !== undefined && !isAddress(bare))
  ) {
    throw usage(
      `--ssh ${showValue(text)} is not [user@]address[:port]: an address is a host name, an IPv4 address or an [IPv6] address`,
    );
  }
  const number = port === undefined ? DEFAULT_SSH_PORT : Number(port);
  if (number < 1 || number > 65_535) throw usage(`--ssh ${showValue(text)}: the port must be 1 to 65535`);
  return { username, address, port: number };
}

/** @param {string} text @returns {boolean} a host name or an IPv4 address */
function isAddress(text) {
  // Digits and dots alone are an address that must be a whole one: resolvers take "1.2" for 1.0.0.2.
  return /^[\d.]+$/.test(text) ? isIPv4(text) : HOST_NAME.test(text);
}

/** @param {string} name of a host that was given no --ssh @returns {{ username: null, address: string, port: number }} */
export function addressFromName(name) {
  if (isIP(name) !== 0 || isAddress(name)) return { username: null, address: name, port: DEFAULT_SSH_PORT };
  throw usage(`${showValue(name)} is not an address: say where its SSH server is with --ssh`);
}

/** @param {string} text '' is none @returns {string[]} */
export function jumpHosts(text) {
  if (text === '') return [];
  const hosts = text.split(',');
  try {
    readSettings({ host: 'any', jumpHosts: hosts });
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    throw usage(`--jump ${showValue(text)}: ${why}`, error);
  }
  return hosts;
}

/** @param {string} name '' is none @returns {string | null} */
export function sudoUser(name) {
  if (name === '') return null;
  if (!isUserName(name)) throw usage(`--sudo ${showValue(name)} is not a user name`);
  return name;
}

/** @param {string} word @returns {Transport} */
export function transportWord(word) {
  return oneOf('transport', word, TRANSPORTS);
}

/** @param {string} word @returns {StartAt} */
export function startWord(word) {
  return oneOf('from', word, STARTS);
}

/** @param {readonly string[]} paths @returns {string[]} absolute, without a slash at their ends, each once */
export function logPaths(paths) {
  /** @type {string[]} */
  const logs = [];
  for (const text of paths) {
    const path = logPath(text);
    if (logs.includes(path)) throw usage(`--log ${showValue(path)} is given twice`);
    logs.push(path);
  }
  return logs;
}

/** @param {string} text @returns {string} */
export function logPath(text) {
  if (text.startsWith('journal:')) return journal(text);
  if (!text.startsWith('/')) throw usage(`--log ${showValue(text)} is not an absolute path`);
  // U+FFFD is what is left of bytes that were not UTF-8: another path than the one that was meant.
  if (/[\p{C}\u2028\u2029\ufffd]/u.test(text))
    throw usage(`--log ${showValue(text)} holds a character that a path may not have here`);
  if (Buffer.byteLength(text) > PATH_MAX_BYTES)
    throw usage(`--log ${showValue(text)} is longer than ${PATH_MAX_BYTES} bytes`);
  const path = text.replace(/\/{2,}/g, '/').replace(/(?!^)\/$/, '');
  if (path === '/') throw usage('--log / is the root of the host: name the directory of the logs');
  return path;
}

/** @param {string} text 'journal:UNIT' @returns {string} with the unit's type */
function journal(text) {
  // Characters of unit names: systemd.unit(5). journalctl would take * and ? for patterns.
  if (/^journal:[A-Za-z0-9@_.:][A-Za-z0-9@_.:\\-]{0,254}$/.test(text)) {
    try {
      return `journal:${unitOf(text)}`;
    } catch {
      // Too long with its type.
    }
  }
  throw usage(`--log ${showValue(text)} is not journal:UNIT, such as journal:postgresql@17-main.service`);
}

/**
 * @param {readonly string[]} pairs each 'key=value'
 * @param {Readonly<Record<string, string>>} [before] labels that are changed; then 'key=' removes one
 * @returns {Record<string, string>}
 */
export function labels(pairs, before) {
  const changed = new Map(Object.entries(before ?? {}));
  const seen = new Set();
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const key = pair.slice(0, Math.max(equals, 0));
    const value = pair.slice(equals + 1);
    if (!LABEL.test(key)) {
      throw usage(
        `--label ${showValue(pair)} is not KEY=VALUE: a KEY has letters, digits and underscores, and begins with no digit`,
      );
    }
    if (seen.has(key)) throw usage(`--label ${key} is given twice`);
    seen.add(key);
    if (/[\p{C}\u2028\u2029]/u.test(value) || value.length > LABEL_VALUE_MAX_LENGTH) {
      throw usage(
        `--label ${showValue(pair)}: a value has at most ${LABEL_VALUE_MAX_LENGTH} characters and no control characters`,
      );
    }
    if (value !== '') changed.set(key, value);
    else if (before === undefined) throw usage(`--label ${key} has no value`);
    else if (!changed.delete(key)) throw usage(`--label ${key}= removes a label that the host does not have`);
  }
  return Object.fromEntries(changed);
}

/**
 * @template {string} Word
 * @param {string} option
 * @param {string} word
 * @param {readonly Word[]} words
 * @returns {Word}
 */
export function oneOf(option, word, words) {
  const known = words.find(each => each === word);
  if (known !== undefined) return known;
  const close = nearest(word, words);
  const hint = close === null ? `one of ${words.join(', ')}` : `did you mean ${close}?`;
  throw usage(`--${option} ${showValue(word)} is unknown: ${hint}`);
}

/** @param {string} message @param {unknown} [cause] */
function usage(message, cause) {
  return new PgsluiceError('USAGE', message, { cause });
}
