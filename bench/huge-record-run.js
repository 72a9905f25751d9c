/**
 * One record of so many bytes between small ones, through the parser that a worker would use, 64 KiB a turn of the event
 * loop: node huge-record-run.js FORMAT BYTES MAX_RECORD_BYTES. Prints one Result. The record is made piece by piece, so
 * that what is measured is what the parser holds.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { CopyBuffer } from '../src/codec/copy-buffer.js';
import { CsvlogParser } from '../src/codec/csvlog.js';
import { LineParser } from '../src/codec/line-parser.js';

/**
 * @typedef {object} Result
 * @property {string} stored 'cut' or 'whole'
 * @property {number} peak_rss_mb
 * @property {number} base_rss_mb before the record came
 * @property {number} longest_block_ms between two turns of the event loop
 * @property {number} loop_delay_max_ms as perf_hooks sees it
 * @property {number} longest_call_cpu_ms processor time of one call of the parser
 * @property {number} mb_per_s
 */

const CHUNK_BYTES = 64 * 1024;
/** A worker's batch is handed on from here on. */
const BATCH_BYTES = 4 * 1024 * 1024;
const WARM_RECORDS = 200_000;

const TIME = '2026-11-20 12:00:00.000 UTC';
const LINE = 'INSERT INTO accounts (id, owner, balance) VALUES (1, \'somebody, \', 100.00); -- "quoted"';
/** What is before the text of a record, a line of it as the format writes it, and what is behind. */
const FORMATS = {
  csvlog: {
    head: `${TIME},"postgres","postgres",100,"[local]",673dd000.64,1,"INSERT",2026-11-20 12:00:00 UTC,3/4,0,LOG,00000,"`,
    line: `${LINE.replaceAll('"', '""')}\n`,
    end: '",,,,,,,,,"psql","client backend",,0\n',
  },
  jsonlog: {
    head: `{"timestamp":"${TIME}","user":"postgres","dbname":"postgres","pid":100,"session_id":"673dd000.64","line_num":1,"error_severity":"LOG","message":"`,
    line: JSON.stringify(`${LINE}\n`).slice(1, -1),
    end: '","backend_type":"client backend"}\n',
  },
  stderr: { head: `${TIME} [100] postgres@postgres LOG:  `, line: `${LINE}\n\t`, end: 'the end\n' },
};

const [, , format, ...numbers] = process.argv;
const [bytes = NaN, maxRecordBytes = NaN] = numbers.map(Number);
const { head, line, end } = FORMATS[/** @type {keyof typeof FORMATS} */ (format)];
const small = Buffer.from(head + line.slice(0, 40).replaceAll(/["\\\n\t]/g, '') + end);

let rows = 0;
let rejected = 0;
/** @type {number[]} */
const cuts = [];
const sink = {
  rows: new CopyBuffer(BATCH_BYTES * 2),
  days: new Set(),
  receivedAtMs: 0,
  reject() {
    rejected += 1;
  },
  cut(/** @type {{ length: number }} */ { length }) {
    cuts.push(length);
  },
};
const context = {
  streamId: 1,
  fileNo: 1,
  offset: 0,
  zones: new Map([['UTC', 0]]),
  timeZone: 'UTC',
  maxRecordBytes,
};
const parser =
  format === 'csvlog'
    ? new CsvlogParser(context)
    : new LineParser({ ...context, format: 'auto', prefixes: { current: null, given: false } });

// As in a worker that has been at work for a while.
const some = Buffer.alloc(small.length * Math.floor(CHUNK_BYTES / small.length), small);
let expected = 0;
for (; expected < WARM_RECORDS; expected += some.length / small.length) write(some);
parser.quiet(sink);
const baseRssBytes = process.memoryUsage.rss();
const offsetBefore = parser.offset;

const text = Buffer.from(line);
// So long that a piece can begin anywhere in a line.
const lines = Buffer.alloc(CHUNK_BYTES + text.length, text);
const delay = monitorEventLoopDelay({ resolution: 1 });
let longestBlockMs = 0;
let longestCallMicroseconds = 0;
delay.enable();
const begun = performance.now();
let turn = begun;
await feed(Buffer.from(head), Infinity);
const piece = Buffer.allocUnsafeSlow(CHUNK_BYTES);
for (let left = bytes, phase = 0; left > 0; left -= CHUNK_BYTES) {
  lines.copy(piece, 0, phase, phase + CHUNK_BYTES);
  phase = (phase + CHUNK_BYTES) % text.length;
  await feed(piece, left);
}
// The last line is left as it is in the middle of nothing; an escape that is cut in two would be another record.
await feed(Buffer.concat([Buffer.from(restOfLine()), Buffer.from(end), some]), Infinity);
const seconds = (performance.now() - begun) / 1000;
// The last turn is seen in the next one.
await feed(Buffer.alloc(0), Infinity);
delay.disable();
parser.quiet(sink);
parser.end(sink);
rows += sink.rows.rows;
expected += 1 + some.length / small.length;

const isCut = cuts.length === 1;
if (rows !== expected || rejected > 0 || isCut !== bytes > maxRecordBytes)
  throw new Error(`${rows} rows of ${expected}, ${rejected} rejected, ${cuts.length} cut`);
/** @type {Result} */
const result = {
  stored: isCut ? 'cut' : 'whole',
  peak_rss_mb: Math.round((process.resourceUsage().maxRSS * 1024) / 1e6),
  base_rss_mb: Math.round(baseRssBytes / 1e6),
  longest_block_ms: Math.round(longestBlockMs * 10) / 10,
  loop_delay_max_ms: Math.round(delay.max / 1e5) / 10,
  longest_call_cpu_ms: Math.round(longestCallMicroseconds / 100) / 10,
  mb_per_s: Math.round((parser.offset - offsetBefore) / seconds / 1e6),
};
process.stdout.write(`${JSON.stringify(result)}\n`);

/** @returns {string} what is missing of the line that the last piece ends in */
function restOfLine() {
  const sent = Math.ceil(bytes / CHUNK_BYTES) * CHUNK_BYTES;
  const last = Math.min(sent, bytes);
  return last % text.length === 0 ? '' : line.slice(last % text.length);
}

/**
 * A piece in a turn of the event loop of its own.
 * @param {Buffer} chunk
 * @param {number} left only so much of it
 */
async function feed(chunk, left) {
  await new Promise(resolve => {
    setImmediate(resolve);
  });
  const before = process.threadCpuUsage();
  write(left < chunk.length ? chunk.subarray(0, left) : chunk);
  const { user, system } = process.threadCpuUsage(before);
  longestCallMicroseconds = Math.max(longestCallMicroseconds, user + system);
  const now = performance.now();
  longestBlockMs = Math.max(longestBlockMs, now - turn);
  turn = now;
}

/** @param {Buffer} chunk */
function write(chunk) {
  parser.write(chunk, sink);
  if (sink.rows.length < BATCH_BYTES) return;
  rows += sink.rows.rows;
  sink.rows.reset();
}
