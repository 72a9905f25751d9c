/**
 * How fast logs become COPY BINARY on one core, for csvlog, jsonlog, stderr with the log_line_prefix of Debian
 * ('%m [%p] %q%u@%d ') and with that of PostgreSQL ('%m [%p] ', stderr-short), beside what else there is to read lines
 * with, on the same files in the same run:
 *   wc        cat FILE | wc -l: the limit, two processes of their own
 *   newlines  counting newlines with Buffer.indexOf in pieces of 64 KiB
 *   readline, split2   the lines as strings, nothing else
 *   library   lines to arrays of the 26 values of csvlog, as one would write it (parse-run.js)
 * The ways take turns; each run is a process of its own, that reads a part of the file before the clock starts. Medians
 * of RUNS count. What a run gives is compared: all must have found as many records.
 */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median } from './ingest-run.js';
import { sampleLogs } from './sample.js';

const run = promisify(execFile);
const RUN = fileURLToPath(new URL('parse-run.js', import.meta.url));
const BYTES = 100e6;
const RUNS = 5;
const PEERS = ['wc', 'newlines', 'readline', 'split2', 'library'];
const WAYS = ['pgsluice', ...PEERS];

/** @typedef {{ seconds: number, records: number, rejected?: number, way?: string }} Run */

export async function bench() {
  const files = await sampleLogs(BYTES);
  const results = [];
  for (const [format, file] of Object.entries(files)) results.push(await benchFormat(format, file));
  return results;
}

/**
 * @param {string} format
 * @param {string} file
 */
async function benchFormat(format, file) {
  const { size } = await stat(file);
  /** @type {Record<string, Run[]>} */
  const runs = Object.fromEntries(WAYS.map(way => [way, []]));
  for (let round = 0; round < RUNS; round += 1) {
    for (const way of WAYS)
      runs[way]?.push(way === 'wc' ? await countWithWc(file) : await runNode(way, format, file));
  }
  const of = (/** @type {string} */ way) => runs[way] ?? [];
  const rates = (/** @type {string} */ way) => of(way).map(({ seconds }) => size / seconds / 1e6);
  const [own] = of('pgsluice');
  const [library] = of('library');
  if (!own || own.records !== library?.records)
    throw new Error(`${format}: ${own?.records} records, the library found ${library?.records}`);
  const ownRate = median(rates('pgsluice'));
  return {
    format,
    bytes: size,
    records: own.records,
    rejected: own.rejected,
    runs: RUNS,
    mb_per_s: Math.round(ownRate),
    mb_per_s_spread: spread(rates('pgsluice')),
    records_per_s: Math.round((ownRate * 1e6 * own.records) / size),
    peers_mb_per_s: Object.fromEntries(PEERS.map(way => [way, rounded(median(rates(way)))])),
    peers_mb_per_s_spread: Object.fromEntries(PEERS.map(way => [way, spread(rates(way))])),
    ratio_to: Object.fromEntries(PEERS.map(way => [way, rounded(ownRate / median(rates(way)), 3)])),
    library: library.way,
  };
}

/** @typedef {Awaited<ReturnType<typeof benchFormat>>} Result */

/** @param {string} way @param {string} format @param {string} file @returns {Promise<Run>} */
async function runNode(way, format, file) {
  const { stdout } = await run(process.execPath, [RUN, way, format, file]);
  return JSON.parse(stdout);
}

/** @param {string} file @returns {Promise<Run>} */
async function countWithWc(file) {
  const begun = performance.now();
  const { stdout } = await run('sh', ['-c', 'cat "$1" | wc -l', 'sh', file]);
  return { seconds: (performance.now() - begun) / 1000, records: Number(stdout) };
}

/** @param {number[]} numbers */
function spread(numbers) {
  return `${rounded(Math.min(...numbers))}-${rounded(Math.max(...numbers))}`;
}

/** @param {number} number @param {number} [digits] that count */
function rounded(number, digits = 3) {
  return number >= 10 ** digits ? Math.round(number) : Number(number.toPrecision(digits));
}

/**
 * @param {Result[]} results
 * @returns {string} for people
 */
export function table(results) {
  const rows = [
    ['', 'MB/s', 'spread', 'records/s', ...PEERS.map(way => `${way} MB/s (x)`)],
    ...results.map(result => [
      result.format,
      String(result.mb_per_s),
      result.mb_per_s_spread,
      String(result.records_per_s),
      ...PEERS.map(way => `${result.peers_mb_per_s[way]} (${result.ratio_to[way]})`),
    ]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? [];
  const lines = rows.map(row => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
  const libraries = results.map(
    ({ format, library, records, rejected }) =>
      `${format}: ${records} records, ${rejected} rejected; library: ${library}`,
  );
  return `bytes to COPY BINARY, medians of ${RUNS} runs, ${BYTES / 1e6} MB each; (x): times as fast as that\n${[...lines, ...libraries].join('\n')}\n`;
}
