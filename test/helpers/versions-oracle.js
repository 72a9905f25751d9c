/**
 * The oracle over PostgreSQL's versions: what pgsluice makes of real logs, compared with what PostgreSQL makes of them.
 *   csv file -> PostgreSQL's COPY ... CSV, in a SQL_ASCII database -> moved as bytea -> read as UTF-8, or escaped
 *   csv file -> CsvlogParser -> COPY BINARY        must equal that, column by column
 *   json file -> LineParser  -> COPY BINARY        must equal the rows of the csv file, column by column
 *   log file -> LineParser   -> COPY BINARY        the same in every column that stderr has
 * Records of csv and json are matched by (session_id, session_line_num). stderr counts its lines otherwise, so its
 * records are matched by their place among those of their process.
 */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { CSVLOG_COLUMNS } from '../../src/codec/copy-columns.js';
import { CsvlogParser } from '../../src/codec/csvlog.js';
import { encodingNamed } from '../../src/codec/encodings.js';
import { LineParser } from '../../src/codec/line-parser.js';
import { compileLinePrefix } from '../../src/codec/line-prefix.js';
import { startPostgres } from './postgres.js';
import { postgresVersions } from './postgres-versions.js';
import { covered } from './versions-coverage.js';
import { openStorage } from './versions-storage.js';
import { ENCODED_DATABASES, runWorkload, workloadSettings } from './workload.js';

/** @import { TestContext } from 'node:test' */
/** @import { Parser, Storage } from './versions-storage.js' */
/** @import { Size } from './workload-context.js' */
/** @typedef {'csv' | 'json' | 'log'} Kind ending of the files of a destination */

const QUOTE = 0x22;
const COMMA = 0x2c;
const LF = 0x0a;

const MAX_RECORD_BYTES = 64 * 1024 * 1024;

/** What the versions are started with, so that zones and prefixes of all kinds come up. */
const TIME_ZONES = [
  'Europe/Moscow',
  'America/St_Johns',
  'UTC',
  'Asia/Kathmandu',
  'Europe/Berlin',
  'Asia/Kolkata',
];
const LINE_PREFIXES = [
  '%m|%p|%c|%l|%s|%v|%x|%e|%b|%q%u|%d|%r|%i|%a| ',
  '%m [%p] %q%u@%d/%a %c %r %l %i %e %s %v %x %b ',
  '%m [%p] ',
];
/** csvlog columns by the escapes that carry them. */
const PREFIX_COLUMNS = new Map([
  ['m', 'log_time'],
  ['p', 'process_id'],
  ['c', 'session_id'],
  ['s', 'session_start_time'],
  ['v', 'virtual_transaction_id'],
  ['x', 'transaction_id'],
  ['e', 'sql_state_code'],
  ['b', 'backend_type'],
  ['P', 'leader_pid'],
  ['Q', 'query_id'],
  ['u', 'user_name'],
  ['d', 'database_name'],
  ['r', 'connection_from'],
  ['i', 'command_tag'],
  ['a', 'application_name'],
]);
/** What becomes of a prefix and of messages when the names in them hold a newline (TWO_LINES, "nobody\nelse"). */
const TEXT_OF_TWO_LINE_NAMES = /(?:two|nobody)$|^\t?else|"lines/;
/** Columns that stderr carries outside the prefix. */
const MESSAGE_COLUMNS = [
  'error_severity',
  'message',
  'detail',
  'hint',
  'internal_query',
  'internal_query_pos',
  'context',
  'query',
  'query_pos',
  'location',
  'duration_ms',
];

const ALL_COLUMNS = [...CSVLOG_COLUMNS.map(([name]) => name), 'duration_ms', 'marks'];

/**
 * Adds a test for each of the versions.
 * @param {number[]} majors
 * @param {Size} size
 */
export function testVersions(majors, size) {
  /** @type {Storage} */
  let storage;
  before(async () => {
    storage = await openStorage();
  });
  after(async () => storage?.close());

  for (const [index, major] of majors.entries()) {
    test(`logs of PostgreSQL ${major}, ${size}`, async t => {
      const turn = postgresVersions().indexOf(major);
      const linePrefix =
        LINE_PREFIXES[turn % LINE_PREFIXES.length] + (major >= 14 && turn % 3 < 2 ? '%P %Q ' : '');
      const files = await writeLogs(major, size, TIME_ZONES[turn % TIME_ZONES.length], linePrefix);
      assert.ok(files.csv.length > 1, 'no rotation');

      if (index === 0) await testOtherColumnCounts(t, storage, files.csv);

      await t.test('csvlog as COPY csv reads it', async () => {
        await storage.reset();
        await storage.copyCsv(files.csv, major === 13 ? 24 : 26);
        await storage.readTheirs();
        const { rejected } = await storage.store('ours', files.csv, csvlogParser);
        assert.deepEqual(rejected, []);
        await storage.expectSame('theirs', 'ours', ALL_COLUMNS, SESSION_KEY);
        await covered(storage.client, major, size);
      });

      await t.test('csvlog, decoded as PostgreSQL converts it', async () => {
        await storage.readTheirs(ENCODED_DATABASES);
        const { rejected } = await storage.store('ours_decoded', files.csv, decodingParser);
        assert.deepEqual(rejected, []);
        await storage.expectSame('theirs', 'ours_decoded', ALL_COLUMNS, SESSION_KEY);
      });

      if (major >= 15) {
        await t.test('jsonlog as csvlog', async () => {
          const parser = lineParsers('jsonlog');
          const { rejected } = await storage.store('from_json', files.json, parser);
          assert.deepEqual(rejected, []);
          await storage.expectSame('ours_decoded', 'from_json', ALL_COLUMNS, SESSION_KEY);
        });
      }

      await t.test(`stderr with "${linePrefix}" as csvlog`, async () => {
        const parser = lineParsers('stderr', linePrefix);
        const { rejected } = await storage.store('from_stderr', files.log, parser);
        assert.deepEqual(rejected, []);
        const [everywhere, ofSessions = []] = linePrefix.split('%q').map(columnsOfPrefix);
        // Who does not know the database does not know its encoding.
        const csv = linePrefix.includes('%d') ? 'ours_decoded' : 'ours';
        await storage.putInOrder(csv, 'from_stderr', ofSessions);
        const columns = [...everywhere, ...ofSessions, ...MESSAGE_COLUMNS];
        await storage.expectSame('csv_in_order', 'stderr_in_order', columns, PROCESS_KEY);
        const strays = await storage.strayTexts('from_stderr');
        assert.deepEqual(
          strays.filter(text => !TEXT_OF_TWO_LINE_NAMES.test(text)),
          ['a child speaks, quoted'],
        );
      });
    });
  }
}

/**
 * What PostgreSQL 8.3 to 13 had is the beginning of what is written now; other numbers of columns are nobody's.
 * @param {TestContext} t
 * @param {Storage} storage
 * @param {Buffer[]} csv
 */
async function testOtherColumnCounts(t, storage, csv) {
  for (const columns of [22, 23, 24]) {
    await t.test(`csvlog of ${columns} columns as COPY csv reads it`, async () => {
      const older = csv.map(file => withColumns(file, columns));
      await storage.reset();
      await storage.copyCsv(older, columns);
      await storage.readTheirs();
      const { rejected } = await storage.store('ours', older, csvlogParser);
      assert.deepEqual(rejected, []);
      await storage.expectSame('theirs', 'ours', ALL_COLUMNS, SESSION_KEY);
    });
  }
  for (const columns of [21, 25, 27]) {
    await t.test(`csvlog of ${columns} columns is rejected`, async () => {
      const strange = withColumns(csv[0], columns);
      await storage.reset();
      const { rejected, rows } = await storage.store('ours', [strange], csvlogParser);
      assert.equal(rows, 0);
      assert.ok(rejected.length > 100);
      let offset = 0;
      for (const piece of rejected) {
        assert.equal(piece.reason, `${columns} columns; a csvlog row has 22, 23, 24 or 26`);
        assert.equal(piece.offset, offset);
        offset += piece.length;
      }
      assert.equal(offset, strange.length);
    });
  }
}

/** @param {string} linePrefix */
function columnsOfPrefix(linePrefix) {
  const columns = [...linePrefix.matchAll(/%(.)/g)].map(([, letter]) => PREFIX_COLUMNS.get(letter));
  return columns.filter(name => name !== undefined);
}

/**
 * @param {number} major
 * @param {Size} size
 * @param {string} timeZone
 * @param {string} linePrefix
 * @returns {Promise<Record<Kind, Buffer[]>>} the files of each destination, in order
 */
async function writeLogs(major, size, timeZone, linePrefix) {
  const settings = workloadSettings(major, { timeZone, linePrefix });
  const server = await startPostgres({ binaries: major, tcp: true, settings });
  try {
    assert.equal(server.major, major);
    await runWorkload(server, { size });
    await server.halt();
    const names = (await readdir(server.logDir)).toSorted();
    const read = (/** @type {Kind} */ kind) =>
      Promise.all(
        names.filter(name => name.endsWith(`.${kind}`)).map(name => readFile(path.join(server.logDir, name))),
      );
    return { csv: await read('csv'), json: await read('json'), log: await read('log') };
  } finally {
    await server.stop();
  }
}

/**
 * @param {number} fileNo
 * @param {ReadonlyMap<string, number>} zones
 * @returns {Parser}
 */
function csvlogParser(fileNo, zones) {
  return new CsvlogParser({ streamId: 1, fileNo, zones, offset: 0, maxRecordBytes: MAX_RECORD_BYTES });
}

/**
 * The same, told the encodings of the workload's databases.
 * @param {number} fileNo
 * @param {ReadonlyMap<string, number>} zones
 * @returns {Parser}
 */
function decodingParser(fileNo, zones) {
  return new CsvlogParser({
    streamId: 1,
    fileNo,
    zones,
    decoderOf,
    offset: 0,
    maxRecordBytes: MAX_RECORD_BYTES,
  });
}

/** @param {string | null} database */
function decoderOf(database) {
  return encodingNamed(ENCODED_DATABASES.get(database ?? '') ?? '')?.decode ?? null;
}

/**
 * @param {Buffer} csv
 * @param {number} columns
 * @returns {Buffer} the same records with so many columns: the first ones, or empty ones after the last
 */
function withColumns(csv, columns) {
  const pieces = [];
  let from = 0; // of what is kept next
  let column = 1;
  let inQuotes = false;
  for (let at = 0; at < csv.length; at += 1) {
    const byte = csv[at];
    if (byte === QUOTE) inQuotes = !inQuotes;
    if (inQuotes) continue;
    if (byte === COMMA) {
      if (column === columns) {
        pieces.push(csv.subarray(from, at));
        from = -1;
      }
      column += 1;
    } else if (byte === LF) {
      if (from >= 0)
        pieces.push(csv.subarray(from, at), Buffer.from(','.repeat(Math.max(0, columns - column))));
      pieces.push(Buffer.from('\n'));
      from = at + 1;
      column = 1;
    }
  }
  return Buffer.concat(pieces);
}

/**
 * @param {'jsonlog' | 'stderr'} format
 * @param {string} [linePrefix]
 * @returns {(fileNo: number, zones: ReadonlyMap<string, number>) => Parser}
 */
function lineParsers(format, linePrefix) {
  const current = linePrefix === undefined ? null : compileLinePrefix(linePrefix);
  const prefixes = { current, given: current !== null };
  return (fileNo, zones) =>
    new LineParser({
      streamId: 1,
      fileNo,
      zones,
      decoderOf: linePrefix === undefined || linePrefix.includes('%d') ? decoderOf : undefined,
      offset: 0,
      maxRecordBytes: MAX_RECORD_BYTES,
      maxRejectedBytes: 1024,
      format,
      prefixes,
    });
}

const SESSION_KEY = ['session_id', 'session_line_num'];
const PROCESS_KEY = ['process_id', 'place'];
