/**
 * The options of `host add` and `host update` that say how logs are read: --format, --line-prefix, --timezone and
 * --encoding. Text of the command line in, values for the inventory out; only what was given. Pure.
 * Throws PgsluiceError USAGE; the message names the option.
 */
import { PgsluiceError } from '../base/errors.js';
import { LOG_FORMATS } from '../base/log-format.js';
import { showValue } from '../base/show-value.js';
import { ENCODING_NAMES, encodingNamed } from '../codec/encodings.js';
import { compileLinePrefix } from '../codec/line-prefix.js';
import { isTimeZone } from '../codec/time-zone.js';
import { nearest } from '../config/nearest.js';
import { oneOf } from './host-options.js';

/** @typedef {import('../storage/inventory.js').StreamFields} StreamFields */

/**
 * @typedef {object} LogOptions
 * @property {Partial<Omit<StreamFields, 'encodings'>>} fields
 * @property {Map<string, string | null>} databases encodings by database; null removes one
 */

/**
 * @param {Pick<import('./context.js').Context, 'text' | 'list'>} context
 * @param {{ removal: boolean }} allowed removal: an empty value takes away what was set
 * @returns {LogOptions}
 */
export function readLogOptions(context, { removal }) {
  /** @type {LogOptions['fields']} */
  const fields = {};
  const format = context.text('format');
  if (format !== undefined) fields.format = oneOf('format', format, LOG_FORMATS);
  const prefix = context.text('line-prefix');
  if (prefix !== undefined) fields.linePrefix = prefix === '' && removal ? null : linePrefix(prefix);
  const zone = context.text('timezone');
  if (zone !== undefined) fields.timeZone = zone === '' && removal ? null : timeZone(zone);
  const { databases, encoding } = readEncodings(context.list('encoding'), removal);
  if (encoding !== undefined) fields.encoding = encoding;
  return { fields, databases };
}

/**
 * @param {LogOptions} options
 * @param {Readonly<Record<string, string>>} before encodings by database, which are changed
 * @returns {Partial<StreamFields>} what to write
 */
export function changedFields({ fields, databases }, before) {
  if (databases.size === 0) return fields;
  const encodings = new Map(Object.entries(before));
  for (const [database, name] of databases) {
    if (name !== null) encodings.set(database, name);
    else if (!encodings.delete(database))
      throw usage(`--encoding ${showValue(`${database}=`)} removes an encoding that was not set`);
  }
  return { ...fields, encodings: Object.fromEntries(encodings) };
}

/** @param {string} text @returns {string} */
function linePrefix(text) {
  try {
    compileLinePrefix(text);
  } catch (error) {
    if (!(error instanceof PgsluiceError)) throw error;
    throw usage(`--line-prefix ${showValue(text)}: ${error.message}`, error);
  }
  return text;
}

/** @param {string} name @returns {string} */
function timeZone(name) {
  if (isTimeZone(name)) return name;
  throw usage(
    `--timezone ${showValue(name)} is not a time zone of the IANA database, such as Europe/Moscow: give what "SHOW log_timezone" says`,
  );
}

/**
 * @param {readonly string[]} texts each 'NAME' or 'DATABASE=NAME'; no encoding has a '=' in its name
 * @param {boolean} removal
 * @returns {{ databases: LogOptions['databases'], encoding?: string | null }}
 */
function readEncodings(texts, removal) {
  /** @type {LogOptions['databases']} */
  const databases = new Map();
  /** @type {string | null | undefined} */
  let encoding;
  for (const text of texts) {
    const equals = text.lastIndexOf('=');
    const database = text.slice(0, Math.max(equals, 0));
    const name = encodingName(text, text.slice(equals + 1), removal);
    if (equals === 0) throw usage(`--encoding ${showValue(text)} names no database before the =`);
    if (equals === -1) {
      if (encoding !== undefined) throw usage('--encoding for all databases is given twice');
      encoding = name;
    } else {
      if (databases.has(database))
        throw usage(`--encoding for database ${showValue(database)} is given twice`);
      databases.set(database, name);
    }
  }
  return { databases, encoding };
}

/** @param {string} text as it was given @param {string} name @param {boolean} removal @returns {string | null} */
function encodingName(text, name, removal) {
  if (name === '' && removal) return null;
  const encoding = encodingNamed(name);
  if (encoding !== null) return encoding.name;
  const close = nearest(name.toUpperCase(), ENCODING_NAMES);
  const hint = close === null ? `one of ${ENCODING_NAMES.join(', ')}` : `did you mean ${close}?`;
  throw usage(`--encoding ${showValue(text)}: PostgreSQL has no encoding of that name: ${hint}`);
}

/** @param {string} message @param {unknown} [cause] */
function usage(message, cause) {
  return new PgsluiceError('USAGE', message, { cause });
}
