/**
 * The types an option can have: how its text or TOML value becomes a typed value, and how that is written back.
 * In: a value of a TOML file, or text of the environment or of a default. Out: what the Config holds.
 * parse() throws PgsluiceError CONFIG_INVALID whose message names the value and what is accepted; the caller
 * adds the option's key and where the value came from. format() gives text that parse() reads back to an equal
 * value. Nothing here touches a file, the environment or the network.
 */

import path from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { REDACT_CLASSES } from '../base/redact-classes.js';
import { redactUrl } from '../base/redact-url.js';
import {
  formatBitrate,
  formatDuration,
  formatSize,
  parseBitrate,
  parseDuration,
  parseSize,
} from '../base/units.js';
import { showValue } from '../base/show-value.js';
import { parseTomlValue } from './toml.js';

/** @typedef {{ host: string, port: number }} Address `host` without brackets; port 0 is any free one */

/**
 * @typedef {object} ParseContext
 * @property {readonly string[]} [values] the words of an enum
 * @property {string} baseDirectory what a relative path starts from, absolute
 * @property {string} home what `~/` stands for, absolute
 */

/**
 * @typedef {object} OptionType
 * @property {(value: unknown, context: ParseContext) => unknown} parse
 * @property {(value: any) => string | number | string[]} format
 * @property {(value: any) => number} [measure] what an option's min and max apply to (default: the value)
 * @property {(measured: number) => string} [formatMeasure] how such a bound is shown
 */

/** @type {{ size: OptionType, duration: OptionType, bitrate: OptionType, int: OptionType, enum: OptionType,
 *   path: OptionType, optionalPath: OptionType, sshConfig: OptionType, program: OptionType,
 *   address: OptionType, storageUrl: OptionType, redact: OptionType, sshOptions: OptionType }} */
export const TYPES = {
  size: {
    parse: value => parseSize(scalar(value)),
    format: formatSize,
    formatMeasure: formatSize,
  },
  duration: {
    parse: value => parseDuration(scalar(value)),
    format: formatDuration,
    formatMeasure: formatDuration,
  },
  bitrate: {
    parse: value => parseBitrate(scalar(value)),
    format: formatBitrate,
    formatMeasure: formatBitrate,
  },
  int: {
    parse: value => {
      const text = String(scalar(value));
      const number = Number(text);
      if (/^-?\d+$/.test(text) && Number.isSafeInteger(number)) return number;
      throw refused(value, 'a whole number');
    },
    format: value => value,
  },
  enum: {
    parse: (value, { values = [] }) => {
      if (typeof value === 'string' && values.includes(value)) return value;
      throw refused(value, `one of ${values.join(', ')}`);
    },
    format: value => value,
  },
  path: {
    parse: parsePath,
    format: value => value,
    measure: value => Buffer.byteLength(value),
  },
  optionalPath: {
    parse: (value, context) => (value === '' ? null : parsePath(value, context)),
    format: value => value ?? '',
  },
  sshConfig: {
    parse: (value, context) => {
      if (value === '') return null;
      return value === 'none' ? 'none' : parsePath(value, context);
    },
    format: value => value ?? '',
  },
  program: {
    parse: (value, context) => {
      if (typeof value === 'string' && /^[A-Za-z0-9_.+][A-Za-z0-9_.+-]*$/.test(value)) return value;
      if (typeof value === 'string' && value.includes('/')) return parsePath(value, context);
      throw refused(value, 'the name of a program on PATH, or a path');
    },
    format: value => value,
  },
  address: {
    parse: parseAddress,
    format: formatAddress,
  },
  storageUrl: {
    parse: parseStorageUrl,
    format: value => value,
  },
  redact: {
    parse: parseRedact,
    format: value =>
      value.length === 0 ? 'none' : value.length === REDACT_CLASSES.length ? 'all' : value.join(','),
  },
  sshOptions: {
    parse: parseSshOptions,
    format: value => [...value],
  },
};

/** @typedef {keyof typeof TYPES} TypeName */

/**
 * @param {unknown} value
 * @returns {string | number} what may become a quantity; anything else is refused by the parser it goes to
 */
function scalar(value) {
  return typeof value === 'number' || typeof value === 'string' ? value : showValue(value);
}

/**
 * @param {unknown} value
 * @param {ParseContext} context
 * @returns {string} an absolute path
 */
function parsePath(value, { baseDirectory, home }) {
  const accepted = 'a path without control characters, such as "/var/lib/pgsluice" or "~/pgsluice"';
  if (typeof value !== 'string' || value === '' || printable(value) !== value) throw refused(value, accepted);
  if (value === '~' || value.startsWith('~/')) return path.join(home, value.slice(1));
  // Nothing expands `~someone` here: it would silently become a directory of that name.
  if (value.startsWith('~')) throw refused(value, accepted);
  return path.resolve(baseDirectory, value);
}

/**
 * @param {unknown} value
 * @returns {Readonly<Address> | null}
 */
function parseAddress(value) {
  if (value === 'none') return null;
  const match =
    typeof value === 'string' ? /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(value) : null;
  const port = Number(match?.[3]);
  if (match !== null && port <= 65_535) {
    const host = match[1] ?? match[2] ?? '';
    // URL knows what an IPv6 address is and what only looks like one; so for 127.0.0.999.
    if (URL.canParse(`http://${match[1] === undefined ? host : `[${host}]`}/`))
      return Object.freeze({ host, port });
  }
  throw refused(
    value,
    'ADDRESS:PORT such as "127.0.0.1:9870" or "[::1]:9870" (port 0: any free one), or "none"',
  );
}

/**
 * @param {Address | null} address
 * @returns {string}
 */
function formatAddress(address) {
  if (address === null) return 'none';
  return `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`;
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function parseStorageUrl(value) {
  if (value === 'embedded') return value;
  const isUrl =
    typeof value === 'string' &&
    /^postgres(ql)?:\/\//.test(value) &&
    printable(value) === value &&
    !value.includes(' ') &&
    // libpq takes a user without a host, which is then a socket: postgres://user@/database?host=/run/postgresql
    URL.canParse(value.replace('@/', '@host/'));
  if (isUrl) return value;
  throw refused(
    typeof value === 'string' ? redactUrl(value) : value,
    '"embedded" or a URL such as "postgres://user@host:5432/database" (other characters in a password as %40 and so on)',
  );
}

/**
 * @param {unknown} value
 * @returns {readonly import('../base/redact-classes.js').RedactClass[]} in the order of REDACT_CLASSES
 */
function parseRedact(value) {
  if (value === 'none') return Object.freeze([]);
  if (value === 'all') return REDACT_CLASSES;
  const names = typeof value === 'string' ? value.split(',').map(name => name.trim()) : [];
  const classes = REDACT_CLASSES.filter(name => names.includes(name));
  // A class that is spelled wrong would let its secrets through.
  if (classes.length > 0 && names.every(name => REDACT_CLASSES.some(known => known === name)))
    return Object.freeze(classes);
  throw refused(value, `"none", "all", or a list with commas of ${REDACT_CLASSES.join(', ')}`);
}

/**
 * @param {unknown} value
 * @returns {readonly string[]}
 */
function parseSshOptions(value) {
  const accepted = 'a list of OpenSSH options, each Keyword=value, such as ["Compression=yes"]';
  const list = typeof value === 'string' ? listFromText(value) : value;
  if (!Array.isArray(list)) throw refused(value, accepted);
  for (const item of list) {
    if (typeof item !== 'string' || !/^[A-Za-z][A-Za-z0-9]*=\S/.test(item) || printable(item) !== item) {
      throw refused(item, accepted);
    }
  }
  return Object.freeze([...list]);
}

/**
 * The environment holds only text, and the value of an OpenSSH option may hold spaces, commas and semicolons.
 * @param {string} text a TOML array, or one item on each line
 * @returns {unknown}
 */
function listFromText(text) {
  if (text.trimStart().startsWith('[')) return parseTomlValue(text);
  return text.split('\n').filter(line => line !== '');
}

/**
 * @param {unknown} value
 * @param {string} accepted
 * @returns {PgsluiceError}
 */
function refused(value, accepted) {
  return new PgsluiceError('CONFIG_INVALID', `${showValue(value)} is not accepted: it must be ${accepted}`);
}
