/**
 * The message catalogs of PostgreSQL's server below some directories: LANGUAGE/LC_MESSAGES/postgres*.mo, at any depth.
 * Format of .mo: GNU gettext manual, "The Format of GNU MO Files".
 */
import { globSync, readFileSync } from 'node:fs';
import { join, resolve, sep } from 'node:path';

/**
 * @param {readonly string[]} directories
 * @returns {{ language: string, catalog: Map<string, string> }[]} in the order of their languages; msgid -> msgstr
 */
export function catalogsIn(directories) {
  return directories
    .flatMap(directory =>
      globSync('**/LC_MESSAGES/postgres*.mo', { cwd: directory }).map(name => join(directory, name)),
    )
    .map(file => ({ file, language: resolve(file).split(sep).at(-3) ?? '' }))
    .toSorted((a, b) => compare(a.language, b.language) || compare(a.file, b.file))
    .map(({ file, language }) => ({ language, catalog: readCatalog(readFileSync(file)) }));
}

/**
 * @param {Buffer} bytes of a .mo file
 * @returns {Map<string, string>} msgid -> msgstr, without plural forms
 */
function readCatalog(bytes) {
  const little = bytes.readUInt32LE(0) === 0x950412de;
  const int = (/** @type {number} */ at) => (little ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  const [count, ids, texts] = [int(8), int(12), int(16)];
  const slice = (/** @type {number} */ at) => bytes.subarray(int(at + 4), int(at + 4) + int(at));
  const pairs = Array.from({ length: count }, (_, index) => [
    slice(ids + index * 8),
    slice(texts + index * 8),
  ]);
  const header = pairs.find(([id]) => id?.length === 0)?.[1]?.toString('latin1') ?? '';
  const decoder = new TextDecoder(/charset=([\w-]+)/.exec(header)?.[1] ?? 'utf-8', { fatal: true });
  return new Map(
    pairs
      .filter(([id]) => id && id.length > 0 && !id.includes(0))
      .map(([id, text]) => [id?.toString('latin1') ?? '', decoder.decode(text)]),
  );
}

/**
 * @param {string} a
 * @param {string} b
 */
function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
