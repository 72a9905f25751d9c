/**
 * Builds the configuration: defaults, overridden by the TOML file, overridden by PGSLUICE_* in the environment.
 * In: the file named on the command line, the environment. Out: a frozen Config and the origin of every value.
 * Called once by each command, before anything else runs; workers get the result, they do not call it.
 * Throws PgsluiceError CONFIG_INVALID for whatever is not exactly right: a named file that cannot be read, wrong
 * TOML, an unknown table, key or PGSLUICE_* variable, a value of the wrong form or outside its bounds. The
 * message says where the value came from, its key, the value with passwords hidden, and what is accepted.
 */

import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { nearest } from './nearest.js';
import { OPTIONS, defaultConfigFile, environmentName } from './options.js';
import { isTable, parseToml } from './toml.js';
import { TYPES } from './types.js';

/** @typedef {import('./options.js').Config} Config */
/** @typedef {import('./options.js').Option} Option */

/**
 * @typedef {object} LoadedConfig
 * @property {Config} config
 * @property {Readonly<Record<string, string>>} origins printable; key such as 'batch.max_bytes' -> 'default', 'FILE:LINE' or
 *   the name of an environment variable
 * @property {string | null} file the file that was read, absolute; null when there was none
 */

/**
 * @typedef {object} System facts about this process that defaults depend on
 * @property {boolean} root
 * @property {string} home
 * @property {number} cpus
 * @property {string} workingDirectory absolute
 * @property {string} [defaultFile] the file to read when none is named
 */

/** @typedef {{ value: unknown, origin: string, baseDirectory: string }} Setting */

/** The variable that names the file; all others that begin so are options. */
const FILE_VARIABLE = 'PGSLUICE_CONFIG';
const PREFIX = 'PGSLUICE_';

/**
 * @param {object} [input]
 * @param {string} [input.file] --config; otherwise PGSLUICE_CONFIG, otherwise the default file if it exists
 * @param {NodeJS.ProcessEnv} [input.env] default: process.env
 * @param {System} [input.system] default: this process
 * @returns {LoadedConfig}
 */
export function loadConfig({ file, env = process.env, system = thisSystem(env) } = {}) {
  const named = file ?? (env[FILE_VARIABLE] === '' ? undefined : env[FILE_VARIABLE]);
  const read = readConfigFile(named, env, system);
  const settings = new Map([
    ...(read === null ? [] : settingsOfFile(read.text, read.path)),
    ...settingsOfEnvironment(env, system.workingDirectory),
  ]);

  /** @type {Map<string, unknown>} */
  const values = new Map();
  /** @type {Record<string, string>} */
  const origins = {};
  for (const option of OPTIONS) {
    const setting = settings.get(option.key) ?? defaultSetting(option, values, env, system);
    values.set(option.key, valueOf(option, setting, system.home));
    origins[option.key] = setting.origin;
  }
  const config = assemble(values);
  checkTogether(config, origins);
  return Object.freeze({ config, origins: Object.freeze(origins), file: read?.path ?? null });
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @returns {System}
 */
function thisSystem(env) {
  return {
    root: process.geteuid?.() === 0,
    home: env['HOME'] !== undefined && path.isAbsolute(env['HOME']) ? env['HOME'] : os.homedir(),
    cpus: os.availableParallelism(),
    workingDirectory: process.cwd(),
  };
}

/**
 * @param {string | undefined} named
 * @param {NodeJS.ProcessEnv} env
 * @param {System} system
 * @returns {{ path: string, text: string } | null}
 */
function readConfigFile(named, env, system) {
  const file =
    named === undefined
      ? (system.defaultFile ?? defaultConfigFile({ ...system, env }))
      : path.resolve(system.workingDirectory, named);
  let bytes;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (named === undefined && (code === 'ENOENT' || code === 'ENOTDIR')) return null;
    const why = code === 'ENOENT' ? 'no such file' : code === 'EISDIR' ? 'it is a directory' : code;
    throw new PgsluiceError(
      'CONFIG_INVALID',
      `cannot read the configuration file ${printable(file)}: ${why}; name another with --config or ${FILE_VARIABLE}`,
      { cause: error },
    );
  }
  try {
    return { path: file, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch (cause) {
    throw new PgsluiceError('CONFIG_INVALID', `${printable(file)} is not UTF-8 text, as TOML has to be`, {
      cause,
    });
  }
}

/**
 * @param {string} text
 * @param {string} file
 * @returns {[string, Setting][]}
 */
function settingsOfFile(text, file) {
  const shown = printable(file);
  const { table, lineOf } = parseToml(text, shown);
  /** @param {string} key */
  const place = key => (lineOf.has(key) ? `${shown}:${lineOf.get(key)}` : shown);
  const sections = new Set(OPTIONS.map(({ key }) => sectionOf(key)));
  const baseDirectory = path.dirname(file);
  return Object.entries(table).flatMap(([section, content]) => {
    if (!isTable(content)) {
      if (sections.has(section))
        throw invalid(place(section), `${section} must be a table: write [${section}]`);
      throw unknownKey(place(section), section);
    }
    if (!sections.has(section)) {
      throw invalid(
        place(section),
        `unknown table [${printable(section)}]${suggestion(nearest(section, [...sections]), name => `[${name}]`)}`,
      );
    }
    return Object.entries(content).map(([name, value]) => {
      const key = `${section}.${name}`;
      if (!OPTIONS.some(option => option.key === key)) throw unknownKey(place(key), key);
      return /** @type {[string, Setting]} */ ([key, { value, origin: place(key), baseDirectory }]);
    });
  });
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} baseDirectory
 * @returns {[string, Setting][]}
 */
function settingsOfEnvironment(env, baseDirectory) {
  const keys = new Map(OPTIONS.map(({ key }) => [environmentName(key), key]));
  return Object.entries(env).flatMap(([name, value]) => {
    if (!name.startsWith(PREFIX) || name === FILE_VARIABLE || value === undefined) return [];
    const key = keys.get(name);
    if (key === undefined) {
      const known = nearest(name, [...keys.keys(), FILE_VARIABLE]);
      throw invalid('environment', `unknown variable ${printable(name)}${suggestion(known, text => text)}`);
    }
    return [/** @type {[string, Setting]} */ ([key, { value, origin: name, baseDirectory }])];
  });
}

/**
 * @param {Option} option
 * @param {Map<string, unknown>} values of the options before it
 * @param {NodeJS.ProcessEnv} env
 * @param {System} system
 * @returns {Setting}
 */
function defaultSetting(option, values, env, system) {
  const value =
    typeof option.default === 'function'
      ? option.default({ ...system, env, valueOf: key => values.get(key) })
      : option.default;
  return { value, origin: 'default', baseDirectory: '/' };
}

/**
 * @param {Option} option
 * @param {Setting} setting
 * @param {string} home
 * @returns {unknown} the typed value, within its bounds
 */
function valueOf(option, setting, home) {
  const type = TYPES[option.type];
  const context = {
    home,
    baseDirectory: setting.baseDirectory,
    ...(option.values && { values: option.values }),
  };
  let value;
  try {
    value = type.parse(setting.value, context);
  } catch (cause) {
    if (!(cause instanceof PgsluiceError)) throw cause;
    throw invalid(setting.origin, `${option.key}: ${cause.message}`, cause);
  }
  const measured = type.measure === undefined ? value : type.measure(value);
  const low = bound(option.min, -Infinity);
  const high = bound(option.max, Infinity);
  if (typeof measured === 'number' && (measured < low || measured > high)) {
    const show = type.formatMeasure ?? String;
    const range =
      low === -Infinity
        ? `at most ${show(high)}`
        : high === Infinity
          ? `at least ${show(low)}`
          : `${show(low)} to ${show(high)}`;
    const unit = type.measure === undefined ? '' : ' bytes long';
    throw invalid(
      setting.origin,
      `${option.key}: ${JSON.stringify(type.format(value))} is out of bounds: it must be ${range}${unit}, because ${option.because}`,
    );
  }
  return value;

  /**
   * @param {string | number | undefined} text
   * @param {number} absent
   * @returns {number}
   */
  function bound(text, absent) {
    if (text === undefined) return absent;
    return type.measure === undefined ? Number(type.parse(text, context)) : Number(text);
  }
}

/**
 * @param {Map<string, unknown>} values
 * @returns {Config}
 */
function assemble(values) {
  /** @type {Record<string, Record<string, unknown>>} */
  const sections = {};
  for (const { key, name } of OPTIONS) (sections[sectionOf(key)] ??= {})[name] = values.get(key);
  for (const section of Object.values(sections)) Object.freeze(section);
  // oxlint-disable-next-line no-unsafe-type-assertion -- the names come from OPTIONS; a test compares them with Config
  return /** @type {Config} */ (/** @type {unknown} */ (Object.freeze(sections)));
}

/**
 * What no option can tell alone.
 * @param {Config} config
 * @param {Record<string, string>} origins
 */
function checkTogether({ storage, transport, http }, origins) {
  if (transport.ssh2BelowBps > transport.opensshAboveBps) {
    throw invalid(
      `${origins['transport.ssh2_below']}, ${origins['transport.openssh_above']}`,
      'transport.ssh2_below must not be more than transport.openssh_above, or a host between them would move back and forth',
    );
  }
  if ((http.tlsCertFile === null) !== (http.tlsKeyFile === null)) {
    const [given, missing] = http.tlsKeyFile === null ? ['cert', 'key'] : ['key', 'cert'];
    throw invalid(
      `${origins[`http.tls_${given}_file`]}`,
      `http.tls_${given}_file needs http.tls_${missing}_file as well: a certificate and its key belong together`,
    );
  }
  if (storage.passwordFile !== null && holdsPassword(storage.url)) {
    throw invalid(
      `${origins['storage.url']}, ${origins['storage.password_file']}`,
      'storage.url holds a password and storage.password_file names another: keep one of them',
    );
  }
}

/**
 * @param {string} url of storage.url
 * @returns {boolean}
 */
function holdsPassword(url) {
  if (url === 'embedded') return false;
  const { password, searchParams } = new URL(url);
  return password !== '' || searchParams.has('password');
}

/**
 * @param {string} place
 * @param {string} key
 * @returns {PgsluiceError}
 */
function unknownKey(place, key) {
  const keys = OPTIONS.map(option => option.key);
  const leaf = key.slice(key.indexOf('.') + 1);
  // A right key in the wrong table is a likelier mistake than several wrong letters.
  const known = keys.find(other => other.endsWith(`.${leaf}`)) ?? nearest(key, keys);
  return invalid(place, `unknown key ${printable(key)}${suggestion(known, text => text)}`);
}

/**
 * @param {string | null} known
 * @param {(known: string) => string} show
 * @returns {string}
 */
function suggestion(known, show) {
  return known === null
    ? '; the commented config/pgsluice.toml has all there are'
    : `; did you mean ${show(known)}?`;
}

/**
 * @param {string} key
 * @returns {string}
 */
function sectionOf(key) {
  return key.slice(0, key.indexOf('.'));
}

/**
 * @param {string} place
 * @param {string} what
 * @param {unknown} [cause]
 * @returns {PgsluiceError}
 */
function invalid(place, what, cause) {
  return new PgsluiceError('CONFIG_INVALID', `${place}: ${what}`, { cause });
}
