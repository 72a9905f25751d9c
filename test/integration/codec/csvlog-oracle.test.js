// PostgreSQL's own COPY ... csv says what a csvlog file means: COPY BINARY of our rows must give the same table.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { COPY_HEADER, COPY_TRAILER, CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { encodeRejected } from '../../../src/codec/copy-rejected.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';
import { startPostgres } from '../../helpers/postgres.js';
import {
  fixture,
  MESSAGE_COLUMN,
  readRecord,
  sampleColumns,
  writeRecord,
} from '../../unit/codec/csvlog-model.js';

/** @import { Rejected } from '../../../src/codec/copy-rejected.js' */

/** PostgreSQL 18 manual, 19.8.4; what 8.3, 9.0 and 13 had is its beginning. */
const COLUMNS = `log_time timestamp(3) with time zone, user_name text, database_name text, process_id integer,
  connection_from text, session_id text, session_line_num bigint, command_tag text,
  session_start_time timestamp with time zone, virtual_transaction_id text, transaction_id bigint,
  error_severity text, sql_state_code text, message text, detail text, hint text, internal_query text,
  internal_query_pos integer, context text, query text, query_pos integer, location text,
  application_name text, backend_type text, leader_pid integer, query_id bigint`;
const NAMES = COLUMNS.split(',').map(column => column.trim().split(' ')[0] ?? '');

/** @type {import("../../helpers/postgres.js").TestPostgres} */
let postgres;
/** @type {Client} */
let client;
/** @type {Map<string, number>} */
let zones;

before(async () => {
  postgres = await startPostgres();
  client = new Client(postgres.connectionOptions);
  await client.connect();
  // What the daemon does: an abbreviation means what it means to the storage.
  const { rows } = await client.query(
    'SELECT abbrev, extract(epoch FROM utc_offset)::int AS seconds FROM pg_timezone_abbrevs',
  );
  zones = new Map(rows.map(row => [row.abbrev, row.seconds]));
});

after(async () => {
  await client?.end();
  await postgres?.stop();
});

/**
 * @param {string} sql
 * @param {Buffer[]} parts
 */
async function copy(sql, parts) {
  await pipeline(Readable.from(parts), client.query(copyFrom(sql)));
}

/** @param {Buffer} bytes */
function parse(bytes) {
  const rows = new CopyBuffer();
  const rejects = new CopyBuffer();
  const parser = new CsvlogParser({ streamId: 1, fileNo: 2, offset: 0, zones, maxRecordBytes: 1 << 24 });
  const sink = {
    rows,
    days: new Set(),
    receivedAtMs: 0,
    cut() {},
    /** @param {Rejected} rejected */
    reject: rejected => encodeRejected(rejects, rejected, Date.UTC(2026, 0, 2, 3, 4, 5, 678)),
  };
  for (let at = 0; at < bytes.length; at += 1000) parser.write(bytes.subarray(at, at + 1000), sink);
  parser.end(sink);
  return { rows, rejects, days: sink.days };
}

async function createTables() {
  await client.query(`
    DROP TABLE IF EXISTS pg_temp.theirs, pg_temp.ours;
    CREATE TEMP TABLE theirs (${COLUMNS});
    CREATE TEMP TABLE ours (stream_id int, file_no int, file_offset bigint, ${COLUMNS}, duration_ms float8, marks bigint)`);
}

/**
 * @param {Buffer} bytes
 * @param {number} columns
 */
async function compare(bytes, columns) {
  await createTables();
  await copy(`COPY theirs (${NAMES.slice(0, columns).join(', ')}) FROM STDIN WITH (FORMAT csv)`, [bytes]);
  const { rows: buffer, rejects, days } = parse(bytes);
  assert.equal(rejects.rows, 0);
  await copy('COPY ours FROM STDIN WITH (FORMAT binary)', [COPY_HEADER, buffer.bytes(), COPY_TRAILER]);
  // A timestamp(3) column rounds COPY's input in both tables, so milliseconds are what is compared.
  const duration = `substring(message FROM '^duration: ([0-9]+(?:[.][0-9]+)?) ms')::float8`;
  const ours = `SELECT ${NAMES.join(', ')}, duration_ms FROM ours`;
  const theirs = `SELECT ${NAMES.join(', ')}, ${duration} FROM theirs`;
  const differences = await client.query(
    `(SELECT 'only ours', * FROM (${ours} EXCEPT ALL ${theirs}) a) UNION ALL
     (SELECT 'only theirs', * FROM (${theirs} EXCEPT ALL ${ours}) b)`,
  );
  assert.deepEqual(differences.rows, []);
  const counts = await client.query(`
    SELECT (SELECT count(*)::int FROM ours) AS ours, (SELECT count(*)::int FROM theirs) AS theirs,
      (SELECT bool_and(marks IS NULL AND stream_id = 1 AND file_no = 2) FROM ours) AS plain,
      (SELECT array_agg(DISTINCT (log_time AT TIME ZONE 'UTC')::date - date '1970-01-01') FROM ours) AS days`);
  assert.equal(counts.rows[0].ours, buffer.rows);
  assert.equal(counts.rows[0].theirs, buffer.rows);
  assert.equal(counts.rows[0].plain, true);
  assert.deepEqual(new Set(counts.rows[0].days), days);
  // The offsets are those of the bytes: each row found in the file again.
  const { rows } = await client.query(
    'SELECT file_offset::int AS at, session_id, message FROM ours ORDER BY 1',
  );
  for (const [index, { at, session_id }] of rows.entries()) {
    const record = bytes.toString('utf8', at, rows[index + 1]?.at ?? bytes.length);
    assert.ok(record.includes(session_id) && record.endsWith('\n'));
  }
}

for (const name of ['postgresql-15.csv', 'postgresql-18.csv', 'pgbench.csv']) {
  test(`${name} as COPY csv reads it`, () => compare(fixture(name), 26));
}

test('records with every column, extreme values and every form of zone', async () => {
  const base = sampleColumns();
  /** @type {[number, string | null][]} */
  const changes = [
    [0, '2026-05-01 00:00:00.001 +0545'],
    [0, '2026-05-01 23:59:59.999 -03'],
    [0, '1950-01-01 00:00:00.000 CEST'],
    [0, '9998-12-31 23:59:59.999 MSK'],
    [0, '2026-05-01 00:00:00.000 +05:30'],
    [0, '2026-05-01 00:00:00.000 NST'],
    [8, '2026-05-01 00:00:00 IST'],
    [8, '2026-05-01 00:00:00.123456 pst'],
    [3, '-2147483648'],
    [25, '-9223372036854775808'],
    [25, '9223372036854775807'],
    [10, '4294967295'],
    [MESSAGE_COLUMN, 'duration: 98765432109.876 ms  parse <unnamed>: x'],
    [MESSAGE_COLUMN, 'raw \r cr, \r\n crlf, tab \t, bell \x07, esc \x1b, "quotes", \\. and \\N'],
    [MESSAGE_COLUMN, `${'long "x" '.repeat(50_000)}end`],
    [MESSAGE_COLUMN, ''],
    [1, null],
  ];
  const records = changes.flatMap(([column, value]) => [
    writeRecord(base.with(column, value)),
    writeRecord(base.with(column, value), { quoteAll: true }),
  ]);
  await compare(Buffer.concat(records), 26);
});

for (const columns of [22, 23, 24]) {
  test(`rows of ${columns} columns`, async () => {
    // Only what the wider rows have at their end was added since, so the older rows are their beginnings.
    const text = fixture('postgresql-18.csv').toString('latin1');
    const records = text.match(/(?:"(?:[^"]|"")*"|[^"\n])*\n/g) ?? [];
    assert.ok(records.length > 100);
    const shorter = records.map(record =>
      writeRecord(readRecord(Buffer.from(record, 'latin1')).slice(0, columns)),
    );
    await compare(Buffer.concat(shorter), columns);
  });
}

test('what is not UTF-8 is stored, escaped and marked', async () => {
  await createTables();
  const { rows: buffer } = parse(
    Buffer.concat([
      fixture('win1251-database.csv'),
      writeRecord(sampleColumns().with(MESSAGE_COLUMN, 'a\0b\\')),
    ]),
  );
  await copy('COPY ours FROM STDIN WITH (FORMAT binary)', [COPY_HEADER, buffer.bytes(), COPY_TRAILER]);
  const { rows } = await client.query(
    `SELECT message, marks::int AS marks FROM ours WHERE marks IS NOT NULL OR message LIKE '%ascii%' ORDER BY file_offset`,
  );
  assert.deepEqual(rows, [
    {
      message: String.raw`statement: select '\xef\xf0\xe8\xe2\xe5\xf2 \\ \xec\xe8\xf0';`,
      marks: 1 << MESSAGE_COLUMN,
    },
    { message: String.raw`statement: select 'plain ascii \ row';`, marks: null },
    {
      message: String.raw`statement: select "\xed\xe5\xf2 \xf2\xe0\xea\xee\xe3\xee";`,
      marks: 1 << MESSAGE_COLUMN,
    },
    {
      message: String.raw`column "\xed\xe5\xf2 \xf2\xe0\xea\xee\xe3\xee" does not exist`,
      marks: (1 << MESSAGE_COLUMN) | (1 << 19),
    },
    { message: String.raw`a\x00b\\`, marks: 1 << MESSAGE_COLUMN },
  ]);
});

test('rejected pieces', async () => {
  await client.query(`CREATE TEMP TABLE refused (stream_id int, file_no int, file_offset bigint, length bigint,
    received_at timestamptz, reason text, bytes bytea)`);
  const garbage = Buffer.from('gar\0bage\xff é\n', 'latin1');
  const zone = writeRecord(sampleColumns().with(0, '2026-05-01 12:34:56.789 \xff\xfe'));
  const { rejects } = parse(Buffer.concat([garbage, zone]));
  await copy('COPY refused FROM STDIN WITH (FORMAT binary)', [COPY_HEADER, rejects.bytes(), COPY_TRAILER]);
  const { rows } = await client.query('SELECT * FROM refused ORDER BY file_offset');
  const place = { stream_id: 1, file_no: 2, received_at: new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678)) };
  assert.deepEqual(rows, [
    {
      ...place,
      file_offset: '0',
      length: String(garbage.length),
      reason: '1 column; a csvlog row has 22, 23, 24 or 26',
      bytes: garbage,
    },
    {
      ...place,
      file_offset: String(garbage.length),
      length: String(zone.length),
      reason: 'log_time is not a time: 2026-05-01 12:34:56.789 ÿþ',
      bytes: zone,
    },
  ]);
});
