// PostgreSQL writes instants in its time zones; read back they must be the same instants.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { TimeReader } from '../../../src/codec/log-time.js';
import { zoneRules } from '../../../src/codec/time-zone.js';
import { csvlogSettings, startPostgres } from '../../helpers/postgres.js';
import { readRecord } from '../../unit/codec/csvlog-model.js';

/** Half an hour of summer time, negative summer time, numeric abbreviations, the same abbreviation for two offsets ... */
const ZONES =
  `Africa/Cairo Africa/Casablanca America/Asuncion America/Caracas America/Chicago America/Edmonton America/Godthab
  America/Havana America/Los_Angeles America/New_York America/Santiago America/Sao_Paulo America/St_Johns America/Vancouver
  Antarctica/Casey Antarctica/Troll Asia/Beirut Asia/Gaza Asia/Irkutsk Asia/Jerusalem Asia/Kolkata Asia/Manila
  Asia/Pyongyang Asia/Shanghai Asia/Tehran Australia/Adelaide Australia/Lord_Howe Australia/Sydney EST5EDT
  Europe/Berlin Europe/Dublin Europe/Istanbul Europe/London Europe/Moscow Europe/Volgograd MET Pacific/Auckland
  Pacific/Apia Pacific/Fiji UTC W-SU GMT+3 <+03>-3`.split(/\s+/);

/**
 * Later on the two may have different editions of tzdata: with 2025b and 2026c Edmonton, Vancouver, Casablanca and
 * El_Aaiun differ from the autumn of 2026 on. What the log says itself, digits or letters, then decides.
 */
const SAME_RULES_UNTIL = '2024-01-01';

/** @type {import('../../helpers/postgres.js').TestPostgres} */
let postgres;
/** @type {Client} */
let client;
/** @type {Map<string, number>} */
let abbreviations;

before(async () => {
  postgres = await startPostgres({
    settings: {
      ...csvlogSettings(),
      log_statement: 'none',
      log_duration: 'off',
      log_destination: 'csvlog,jsonlog',
      log_timezone: 'Europe/Berlin',
    },
  });
  client = new Client(postgres.connectionOptions);
  await client.connect();
  const { rows } = await client.query(
    'SELECT abbrev, extract(epoch FROM utc_offset)::int AS seconds FROM pg_timezone_abbrevs',
  );
  abbreviations = new Map(rows.map(row => [row.abbrev, row.seconds]));
});

after(async () => {
  await client?.end();
  await postgres?.stop();
});

/**
 * @param {TimeReader} reader
 * @param {string} text
 * @returns {number} milliseconds since 1970
 */
function read(reader, text) {
  const bytes = Buffer.from(`${text},\n`);
  const end = reader.read(bytes, new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0);
  assert.equal(end, text.length, text);
  return reader.seconds * 1000 + reader.microseconds / 1000;
}

test('every ten minutes around every change from 2006 to 2035, in order, with and without abbreviations', async () => {
  let times = 0;
  for (const timeZone of ZONES) {
    await client.query("SELECT set_config('TimeZone', $1, false)", [timeZone]);
    // The zone's own days on which its offset changes, and the hours around them.
    const { rows } = await client.query({
      text: `
        WITH days AS (
          SELECT day, day AT TIME ZONE 'UTC' - day::timestamp AS east
          FROM generate_series(timestamptz '2006-01-01Z', '2036-01-01Z', interval '24 hours') AS day),
        changes AS (
          SELECT day FROM (SELECT day, east, lead(east) OVER (ORDER BY day) AS next FROM days) AS pairs
          WHERE east <> next)
        SELECT to_char(t + interval '456 ms', 'YYYY-MM-DD HH24:MI:SS.MS TZ'),
          (extract(epoch FROM t + interval '456 ms') * 1000)::float8
        FROM changes, generate_series(day - interval '6 hours', day + interval '30 hours', interval '10 minutes') AS t
        ORDER BY t`,
      rowMode: 'array',
    });
    for (const zones of [abbreviations, new Map()]) {
      const reader = new TimeReader({ zones, timeZone });
      for (const [text, ms] of rows) assert.equal(read(reader, text), ms, `${text}, ${timeZone}`);
    }
    times += rows.length;
  }
  assert.ok(times > 200_000, String(times));
});

test('ICU and PostgreSQL agree on all zones, and abbreviations mean what they may mean', async () => {
  await client.query("SET TimeZone = 'UTC'");
  const { rows: zones } = await client.query('SELECT name FROM pg_timezone_names');
  const unknown = [];
  const different = [];
  const impossible = new Set();
  for (const { name } of zones) {
    const rules = zoneRules(name);
    if (rules === null) {
      unknown.push(name);
      continue;
    }
    // Not AT TIME ZONE: to that CET and EET are abbreviations, without summer time.
    await client.query("SELECT set_config('TimeZone', $1, false)", [name]);
    const { rows } = await client.query({
      text: `
        SELECT extract(epoch FROM t)::float8, extract(epoch FROM t::timestamp)::float8, to_char(t, 'TZ')
        FROM generate_series(timestamptz '2001-01-15Z', $1::timestamptz, interval '730 hours') AS t`,
      values: [SAME_RULES_UNTIL],
      rowMode: 'array',
    });
    assert.ok(rows.length > 250);
    const agrees = rows.every(([utc, local]) => {
      const { earlier, later } = rules.spanAt(local);
      return local - earlier === utc || local - later === utc;
    });
    if (!agrees) different.push(name);
    for (const [utc, local, letters] of rows) {
      if (!/^[A-Z]+$/.test(letters) || rules.meaningsOf(letters)?.includes(local - utc)) continue;
      impossible.add(`${letters} ${(local - utc) / 3600}`);
    }
  }
  assert.ok(zones.length > 500);
  // Systems' zoneinfo adds links to a zone that has no name.
  const nameless = new Set(['Factory', 'posix/Factory', 'localtime', 'posix/localtime', 'posixrules']);
  assert.deepEqual(
    unknown.filter(name => !nameless.has(name)),
    [],
  );
  assert.deepEqual(different, []);
  assert.deepEqual([...impossible], []);
});

test('a real csvlog and jsonlog of a server in Berlin', async () => {
  for (let index = 0; index < 5; index += 1) {
    // The message holds the same moment in seconds since 1970.
    await client.query("DO $$ BEGIN RAISE LOG 'now %', extract(epoch FROM clock_timestamp()); END $$");
  }
  await client.end();
  await postgres.halt();
  const files = await readdir(postgres.logDir);
  /** @param {string} end */
  const contents = async end => {
    const name = files.find(file => file.endsWith(end));
    assert.ok(name);
    return readFile(path.join(postgres.logDir, name), 'latin1');
  };
  const [csv, json] = [await contents('.csv'), await contents('.json')];
  const records = json
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  const lines = csv.trimEnd().split('\n');
  // Nothing here logs a statement of several lines.
  const rows = lines
    .filter(line => /^\d{4}-/.test(line))
    .map(line => readRecord(Buffer.from(`${line}\n`, 'latin1')));
  const logTime = new TimeReader({ zones: abbreviations, timeZone: 'Europe/Berlin' });
  const start = new TimeReader({ zones: abbreviations, timeZone: 'Europe/Berlin', ordered: false });
  const jsonTime = new TimeReader({ zones: new Map(), timeZone: 'Europe/Berlin' });
  let moments = 0;
  let last = -Infinity;
  for (const row of rows) {
    const [text, , , pid, , session, line, , startText, , , , , message] = row;
    assert.ok(text && startText && session);
    const ms = read(logTime, text);
    assert.ok(ms > last - 1000);
    last = ms;
    const twin = records.find(record => record.session_id === session && String(record.line_num) === line);
    assert.equal(String(twin?.pid), pid);
    assert.equal(read(jsonTime, twin.timestamp), ms);
    // session_id begins with the same instant, which no zone has touched.
    assert.equal(read(start, startText) / 1000, parseInt(session, 16));
    const moment = /^now ([\d.]+)$/.exec(message ?? '');
    if (!moment) continue;
    moments += 1;
    assert.ok(Math.abs(ms / 1000 - Number(moment[1])) < 60);
  }
  assert.equal(moments, 5);
});
