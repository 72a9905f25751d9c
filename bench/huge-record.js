/**
 * One record of 200 MB in the midst of others, in each format, and one of 60 MB that is stored whole: how much memory
 * the process takes at most, and how long the event loop is blocked. Wanted: less than 3 x batch.max_record_bytes, and
 * 50 ms. Each is a process of its own (huge-record-run.js).
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const RUN = fileURLToPath(new URL('huge-record-run.js', import.meta.url));
const MB = 1e6;
const HUGE_BYTES = 200 * MB;
const WHOLE_BYTES = 60 * MB;
/** As batch.max_record_bytes is without configuration. */
const MAX_RECORD_BYTES = 64 * 1024 * 1024;
const FORMATS = ['csvlog', 'jsonlog', 'stderr'];

/** @typedef {import('./huge-record-run.js').Result} Result */

export async function bench() {
  /** @type {Record<string, Result>} */
  const huge = {};
  /** @type {Record<string, Result>} */
  const whole = {};
  for (const format of FORMATS) {
    huge[format] = await measure(format, HUGE_BYTES);
    whole[format] = await measure(format, WHOLE_BYTES);
  }
  const worst = (/** @type {keyof Result} */ key) =>
    Math.max(...Object.values(huge).map(result => Number(result[key])));
  return [
    {
      max_record_mb: round(MAX_RECORD_BYTES),
      limit_rss_mb: round(3 * MAX_RECORD_BYTES),
      huge_mb: round(HUGE_BYTES),
      huge_peak_rss_mb: worst('peak_rss_mb'),
      huge_longest_block_ms: worst('longest_block_ms'),
      huge,
      whole_mb: round(WHOLE_BYTES),
      whole,
    },
  ];
}

/** @param {string} format @param {number} bytes @returns {Promise<Result>} */
async function measure(format, bytes) {
  const { stdout } = await run(process.execPath, [RUN, format, String(bytes), String(MAX_RECORD_BYTES)]);
  return JSON.parse(stdout);
}

/** @param {number} bytes */
const round = bytes => Math.round(bytes / MB);

/** @param {Awaited<ReturnType<typeof bench>>} results @returns {string} for people */
export function table([result]) {
  if (!result) return '';
  const lines = [
    `largest record ${result.max_record_mb} MB; wanted: at most ${result.limit_rss_mb} MB of memory, blocks of 50 ms`,
  ];
  for (const { size, runs } of [
    { size: result.huge_mb, runs: result.huge },
    { size: result.whole_mb, runs: result.whole },
  ]) {
    for (const [format, each] of Object.entries(runs)) {
      lines.push(
        `${size} MB ${format}: ${each.stored}, peak ${each.peak_rss_mb} MB (${each.base_rss_mb} before), longest block ` +
          `${each.longest_block_ms} ms (${each.longest_call_cpu_ms} ms of it on the processor in the parser), ${each.mb_per_s} MB/s`,
      );
    }
  }
  return `${lines.join('\n')}\n`;
}
