/**
 * How fast csvlog becomes COPY BINARY on one core: node bench/parse.js [FILE] [--json]
 * Without a file: 100 MB made of the real rows of test/fixtures/csvlog/pgbench.csv (281 bytes a record). The bytes
 * arrive as 64 KiB pieces in one reused buffer, as they do from a FIFO; copying them in is not counted. Peer in the
 * same run: counting newlines with Buffer.indexOf in the same pieces, which is the least that a line-based reader
 * does. Prints medians of 5 runs.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { CopyBuffer } from '../src/codec/copy-buffer.js';
import { CsvlogParser } from '../src/codec/csvlog.js';

const SAMPLE = fileURLToPath(new URL('../test/fixtures/csvlog/pgbench.csv', import.meta.url));
const BYTES = 100e6;
const CHUNK_BYTES = 64 * 1024;
const BATCH_BYTES = 4 * 1024 * 1024;
const RUNS = 5;
const LF = 0x0a;
/** Enough for the sample; a file with other abbreviations would be rejected rows, which `rejected` shows. */
const ZONES = new Map([
  ['UTC', 0],
  ['GMT', 0],
  ['CET', 3600],
  ['CEST', 7200],
  ['MSK', 10_800],
]);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
});
// As `npm run bench -- parse` the first word is the name of the benchmark.
const file = positionals.filter(word => word !== 'parse')[0];
const sample = readFileSync(file ?? SAMPLE);
const times = file ? 1 : Math.ceil(BYTES / sample.length);
const data = Buffer.concat(Array.from({ length: times }, () => sample));
const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);

/** @type {{ parse: number[], newlines: number[] }} bytes a second of each run */
const rates = { parse: [], newlines: [] };
let rows = 0;
let rejected = 0;
for (let run = 0; run < RUNS; run += 1) {
  ({ rows, rejected } = parse());
  countNewlines();
}

const parseRate = median(rates.parse);
const newlineRate = median(rates.newlines);
const result = {
  bench: 'parse',
  machine: cpus()[0]?.model ?? 'unknown',
  cores: availableParallelism(),
  node: process.version,
  bytes: data.length,
  rows,
  rejected,
  runs: RUNS,
  mbPerSecond: megabytes(parseRate),
  mbPerSecondSpread: [megabytes(Math.min(...rates.parse)), megabytes(Math.max(...rates.parse))],
  recordsPerSecond: Math.round((parseRate / data.length) * rows),
  newlinesMbPerSecond: megabytes(newlineRate),
  ratioToNewlines: Number((parseRate / newlineRate).toFixed(3)),
};
if (values.json) console.log(JSON.stringify(result));
else {
  console.log(
    `csvlog -> COPY BINARY: ${result.mbPerSecond} MB/s (${result.mbPerSecondSpread.join('-')}), ` +
      `${result.recordsPerSecond} records/s, ${result.ratioToNewlines} of counting newlines ` +
      `(${result.newlinesMbPerSecond} MB/s); ${rows} rows, ${rejected} rejected; Node ${result.node}, ${result.machine}`,
  );
}

function parse() {
  let refused = 0;
  let stored = 0;
  const copy = new CopyBuffer(BATCH_BYTES * 2);
  const sink = {
    rows: copy,
    days: new Set(),
    reject() {
      refused += 1;
    },
  };
  const parser = new CsvlogParser({
    streamId: 1,
    fileNo: 1,
    offset: 0,
    zones: ZONES,
    maxRecordBytes: 64 * 1024 * 1024,
  });
  rates.parse.push(
    rateOf(piece => {
      parser.write(piece, sink);
      if (copy.length < BATCH_BYTES) return;
      stored += copy.rows;
      copy.reset();
    }),
  );
  return { rows: stored + copy.rows, rejected: refused };
}

function countNewlines() {
  let lines = 0;
  rates.newlines.push(
    rateOf(piece => {
      for (let at = piece.indexOf(LF); at !== -1; at = piece.indexOf(LF, at + 1)) lines += 1;
    }),
  );
  return lines;
}

/**
 * @param {(piece: Buffer) => void} work
 * @returns {number} bytes a second
 */
function rateOf(work) {
  let nanoseconds = 0n;
  for (let at = 0; at < data.length; at += CHUNK_BYTES) {
    const length = data.copy(chunk, 0, at, at + CHUNK_BYTES);
    const piece = chunk.subarray(0, length);
    const begun = process.hrtime.bigint();
    work(piece);
    nanoseconds += process.hrtime.bigint() - begun;
  }
  return data.length / (Number(nanoseconds) / 1e9);
}

/** @param {number[]} numbers */
function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? NaN;
}

/** @param {number} bytes */
function megabytes(bytes) {
  return Math.round(bytes / 1e6);
}
