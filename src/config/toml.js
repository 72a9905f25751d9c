/**
 * TOML text to plain values, with the line where each key was set.
 * In: the text of a configuration file. Out: the parsed tables, and key path -> line. Called by load.js.
 * smol-toml tells lines only for syntax errors. Every statement of TOML (a table header or a key with its value)
 * starts on a line of its own and is by itself a TOML document, and no beginning of one is: so statements are
 * found by taking lines until they parse.
 * Throws PgsluiceError CONFIG_INVALID with line and column. It has no cause on purpose: smol-toml's error quotes
 * the lines around, and these may hold a password.
 */

import { TomlError, parse } from 'smol-toml';
import { PgsluiceError } from '../base/errors.js';

/** @typedef {{ [key: string]: unknown }} TomlTable */

/**
 * @param {string} text
 * @param {string} file named in errors
 * @returns {{ table: TomlTable, lineOf: Map<string, number> }} lineOf: dotted key path -> line, from 1; also for
 *   tables, where their header or their first key is
 */
export function parseToml(text, file) {
  const table = parseOrRefuse(text, error => `${file}:${error.line}:${error.column}: `);
  return { table, lineOf: linesOfKeys(text) };
}

/**
 * @param {string} text one TOML value, such as `["a", "b"]`
 * @returns {unknown}
 */
export function parseTomlValue(text) {
  return parseOrRefuse(`value = ${text}`, () => '')['value'];
}

/**
 * @param {string} text
 * @param {(error: TomlError) => string} place what the message begins with
 * @returns {TomlTable}
 */
function parseOrRefuse(text, place) {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = error.message.split('\n', 1)[0]?.replace('Invalid TOML document: ', '');
    // oxlint-disable-next-line preserve-caught-error -- it quotes lines of the file, which may hold a password
    throw new PgsluiceError('CONFIG_INVALID', `${place(error)}not valid TOML: ${what}`);
  }
}

/**
 * @param {string} text valid TOML
 * @returns {Map<string, number>}
 */
function linesOfKeys(text) {
  /** @type {Map<string, number>} */
  const lineOf = new Map();
  let header = '';
  let statement = '';
  let firstLine = 1;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (statement === '') firstLine = index + 1;
    statement = statement === '' ? line : `${statement}\n${line}`;
    const parsed = parseIfWhole(statement);
    if (parsed === null) continue;
    const isHeader = statement.trimStart().startsWith('[');
    const paths = keyPaths(parsed, isHeader ? '' : header);
    if (isHeader) header = paths.at(-1) ?? '';
    for (const path of paths) if (!lineOf.has(path)) lineOf.set(path, firstLine);
    statement = '';
  }
  return lineOf;
}

/**
 * @param {string} statement
 * @returns {TomlTable | null}
 */
function parseIfWhole(statement) {
  try {
    return parse(statement);
  } catch {
    return null;
  }
}

/**
 * @param {TomlTable} table
 * @param {string} prefix
 * @returns {string[]} every path in it, the outer before the inner
 */
function keyPaths(table, prefix) {
  return Object.entries(table).flatMap(([key, value]) => {
    const path = prefix === '' ? key : `${prefix}.${key}`;
    const inner = Array.isArray(value) ? value.at(-1) : value;
    return isTable(inner) ? [path, ...keyPaths(inner, path)] : [path];
  });
}

/**
 * @param {unknown} value
 * @returns {value is TomlTable}
 */
export function isTable(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date);
}
