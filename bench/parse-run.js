/**
 * One run of one way to read a log, in a process of its own: node parse-run.js WAY FORMAT FILE. Prints
 * {"seconds":..,"records":..}. The way is first taken over the beginning of the file, so that a run measures what goes
 * on for hours in a worker and not the compiler. pgsluice and newlines get the bytes as a worker does, 64 KiB pieces in
 * one buffer that is used again; reading into it is not counted for them. The other ways read the file as they do.
 */
import { closeSync, createReadStream, openSync, readSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { finished } from 'node:stream/promises';
import { parse as parseCsv } from 'csv-parse';
import split2 from 'split2';
import { CopyBuffer } from '../src/codec/copy-buffer.js';
import { CsvlogParser } from '../src/codec/csvlog.js';
import { LineParser } from '../src/codec/line-parser.js';

const CHUNK_BYTES = 64 * 1024;
const BATCH_BYTES = 4 * 1024 * 1024;
const WARM_BYTES = 20e6;
const MAX_RECORD_BYTES = 64 * 1024 * 1024;
const LF = 0x0a;

/** @typedef {{ seconds: number, records: number, rejected?: number, way?: string }} Run */
/** @typedef {(file: string, bytes: number) => Run | Promise<Run>} Way */

/** Keys of jsonlog in the order of csvlog's columns; connection_from and location are put together of several. */
const JSON_KEYS = [
  'timestamp', 'user', 'dbname', 'pid', 'remote_host', 'session_id', 'line_num', 'ps', 'session_start', 'vxid', 'txid',
  'error_severity', 'state_code', 'message', 'detail', 'hint', 'internal_query', 'internal_position', 'context',
  'statement', 'cursor_position', 'func_name', 'application_name', 'backend_type', 'leader_pid', 'query_id',
]; // prettier-ignore
const REMOTE_HOST = 4;
const LOCATION = 21;
const MESSAGE = 13;
const COLUMNS = 26;
/** What '%m [%p] %q%u@%d ', or '%m [%p] ', and a severity look like. */
const STDERR_LINE =
  /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \w+) \[(\d+)\] (?:([^@ ]*)@([^ ]*) )?([A-Z0-9]+): {2}(.*)$/;
const LABELS = new Map([
  ['DETAIL', 14],
  ['HINT', 15],
  ['QUERY', 16],
  ['CONTEXT', 18],
  ['STATEMENT', 19],
]);

/** What is made of the records is kept here, so that it is not left out. */
let kept;

/** @type {Record<string, [name: string, way: Way]>} */
const LIBRARIES = {
  csvlog: ['csv-parse', readWithCsvParse],
  jsonlog: ['readline + JSON.parse', readJson],
  stderr: ['readline + a regular expression', readStderr],
  'stderr-short': ['readline + a regular expression', readStderr],
};

const [, , wayName = '', format = '', file = ''] = process.argv;
const [libraryName, library] = LIBRARIES[format] ?? [];
/** @type {Record<string, Way | undefined>} */
const ways = {
  pgsluice,
  newlines: countNewlines,
  readline: readLines,
  split2: splitLines,
  library,
};
const way = ways[wayName];
if (!way) throw new Error(`no such way: ${wayName} ${format}`);
await way(file, WARM_BYTES);
const result = await way(file, Infinity);
process.stdout.write(`${JSON.stringify({ ...result, ...(way === library && { way: libraryName }) })}\n`);

/** @type {Way} */
function pgsluice(path, bytes) {
  let rejected = 0;
  let records = 0;
  const copy = new CopyBuffer(BATCH_BYTES * 2);
  const sink = {
    rows: copy,
    days: new Set(),
    receivedAtMs: 0,
    cut() {},
    reject() {
      rejected += 1;
    },
  };
  const context = {
    streamId: 1,
    fileNo: 1,
    offset: 0,
    zones: new Map([['UTC', 0]]),
    timeZone: 'UTC',
    maxRecordBytes: MAX_RECORD_BYTES,
  };
  const prefixes = { current: null, given: false };
  const parser =
    format === 'csvlog'
      ? new CsvlogParser(context)
      : new LineParser({ ...context, format: format === 'jsonlog' ? 'jsonlog' : 'stderr', prefixes });
  const seconds = inPieces(path, bytes, piece => {
    parser.write(piece, sink);
    if (copy.length < BATCH_BYTES) return;
    records += copy.rows;
    copy.reset();
  });
  parser.end(sink);
  return { seconds, records: records + copy.rows, rejected };
}

/** @type {Way} */
function countNewlines(path, bytes) {
  let records = 0;
  const seconds = inPieces(path, bytes, piece => {
    for (let at = piece.indexOf(LF); at !== -1; at = piece.indexOf(LF, at + 1)) records += 1;
  });
  return { seconds, records };
}

/**
 * @param {string} path
 * @param {number} bytes
 * @param {(piece: Buffer) => void} work
 * @returns {number} seconds that work took
 */
function inPieces(path, bytes, work) {
  const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  const descriptor = openSync(path, 'r');
  let nanoseconds = 0n;
  let length = 0;
  for (let at = 0; at < bytes && (length = readSync(descriptor, chunk)) > 0; at += length) {
    const piece = chunk.subarray(0, length);
    const begun = process.hrtime.bigint();
    work(piece);
    nanoseconds += process.hrtime.bigint() - begun;
  }
  closeSync(descriptor);
  return Number(nanoseconds) / 1e9;
}

/** @param {string} path @param {number} bytes */
function streamOf(path, bytes) {
  return createReadStream(path, { highWaterMark: CHUNK_BYTES, end: bytes - 1 });
}

/**
 * @param {string} path
 * @param {number} bytes
 * @param {(line: string) => void} take
 */
async function eachLine(path, bytes, take) {
  const lines = createInterface({ input: streamOf(path, bytes), crlfDelay: Infinity });
  lines.on('line', take);
  await new Promise(resolve => {
    lines.on('close', () => resolve(null));
  });
}

/**
 * @param {() => Promise<number>} work gives the number of records
 * @returns {Promise<Run>}
 */
async function timed(work) {
  const begun = performance.now();
  const records = await work();
  return { seconds: (performance.now() - begun) / 1000, records };
}

/** @type {Way} */
function readLines(path, bytes) {
  return timed(async () => {
    let lines = 0;
    await eachLine(path, bytes, () => {
      lines += 1;
    });
    return lines;
  });
}

/** @type {Way} */
function splitLines(path, bytes) {
  return timed(async () => {
    let lines = 0;
    const splitter = streamOf(path, bytes).pipe(split2());
    splitter.on('data', () => {
      lines += 1;
    });
    await finished(splitter);
    return lines;
  });
}

/** @type {Way} */
function readWithCsvParse(path, bytes) {
  return timed(async () => {
    let records = 0;
    // The first bytes end within a record.
    const parser = streamOf(path, bytes).pipe(parseCsv({ relax_quotes: true, relax_column_count: true }));
    parser.on('data', (/** @type {string[]} */ record) => {
      kept = record.map(value => (value === '' ? null : value));
      records += 1;
    });
    try {
      await finished(parser);
    } catch (error) {
      if (bytes === Infinity) throw error;
    }
    return records;
  });
}

/** @type {Way} */
function readJson(path, bytes) {
  return timed(async () => {
    let records = 0;
    await eachLine(path, bytes, line => {
      if (bytes !== Infinity && !line.endsWith('}')) return;
      const record = JSON.parse(line);
      const values = JSON_KEYS.map(key => record[key] ?? null);
      if (record.remote_port !== undefined)
        values[REMOTE_HOST] = `${record.remote_host}:${record.remote_port}`;
      if (record.file_name !== undefined)
        values[LOCATION] = `${record.func_name}, ${record.file_name}:${record.file_line_num}`;
      kept = values;
      records += 1;
    });
    return records;
  });
}

/** @type {Way} */
function readStderr(path, bytes) {
  return timed(async () => {
    let records = 0;
    /** @type {(string | null)[]} */
    let values = [];
    let last = MESSAGE;
    await eachLine(path, bytes, line => {
      const match = STDERR_LINE.exec(line);
      if (!match) {
        values[last] += `\n${line.slice(1)}`;
        return;
      }
      const [, time = null, pid = null, user = null, database = null, word = '', text = ''] = match;
      const label = LABELS.get(word);
      if (label !== undefined) {
        values[label] = text;
        last = label;
        return;
      }
      values = Array.from({ length: COLUMNS }, () => null);
      values[0] = time;
      values[1] = user;
      values[2] = database;
      values[3] = pid;
      values[11] = word;
      values[MESSAGE] = text;
      last = MESSAGE;
      kept = values;
      records += 1;
    });
    return records;
  });
}

// Read once, or it would be written in vain.
if (kept === undefined && way === library) throw new Error('nothing was read');
