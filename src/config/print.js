/**
 * Shows the configuration in effect, for `pgsluice config print`.
 * In: what loadConfig() returned. Out: TOML text that is itself a valid configuration file, each line with the
 * origin of its value as a comment; or a plain object for JSON. Passwords are hidden in both, so a printed
 * storage.url with a password does not connect.
 */

import { stringify } from 'smol-toml';
import { printable } from '../base/printable.js';
import { redactUrl } from '../base/redact-url.js';
import { OPTIONS } from './options.js';
import { TYPES } from './types.js';

/** @typedef {import('./load.js').LoadedConfig} LoadedConfig */

/**
 * @param {LoadedConfig} loaded
 * @returns {string} TOML, with a newline at its end
 */
export function configToToml(loaded) {
  const lines = [`# configuration file: ${loaded.file === null ? 'none' : printable(loaded.file)}`];
  let table = '';
  for (const { section, key, value, origin } of shownOptions(loaded)) {
    if (section !== table) lines.push('', `[${section}]`);
    table = section;
    lines.push(`${stringify({ [key]: value }).trim()} # ${origin}`);
  }
  return `${lines.join('\n')}\n`;
}

/**
 * @param {LoadedConfig} loaded
 * @returns {{ file: string | null, config: Record<string, Record<string, string | number | string[]>>,
 *   origins: Record<string, string> }} config: tables and keys as in the file, values as in the file
 */
export function configToObject(loaded) {
  /** @type {Record<string, Record<string, string | number | string[]>>} */
  const config = {};
  for (const { section, key, value } of shownOptions(loaded)) (config[section] ??= {})[key] = value;
  return { file: loaded.file, config, origins: { ...loaded.origins } };
}

/**
 * @param {LoadedConfig} loaded
 * @returns {{ section: string, key: string, value: string | number | string[], origin: string }[]}
 */
function shownOptions({ config, origins }) {
  const values = new Map(
    Object.entries(config).flatMap(([section, named]) =>
      Object.entries(named).map(([name, value]) => [`${section}.${name}`, value]),
    ),
  );
  return OPTIONS.map(option => {
    const [section = '', key = ''] = option.key.split('.');
    const text = TYPES[option.type].format(values.get(`${section}.${option.name}`));
    const value = option.type === 'storageUrl' ? redactUrl(String(text)) : text;
    return { section, key, value, origin: origins[option.key] ?? '' };
  });
}
