/**
 * What maintenance removes, and what it must keep: records whose time no daily partition takes, and what is known of
 * files that are gone. A real PostgreSQL; the time is what the test says.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost, removeHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { dayOf, ensurePartition, applyRetention } from '../../../src/storage/partitions.js';
import { startPostgres } from '../../helpers/postgres.js';
import { LOCAL_HOST } from '../../helpers/rotation-world.js';

const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-03-01T12:00:00Z');
const RETENTION_DAYS = 30;

/** @param {number} days from NOW @returns {string} */
const inDays = days => new Date(NOW + days * DAY_MS).toISOString();

describe('retention', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client} */
  let client;
  let streamId = 0;
  before(async () => {
    server = await startPostgres();
    client = await connectStorage(server.connectionOptions);
  });
  after(async () => {
    await client.end();
    await server.stop();
  });
  beforeEach(async () => {
    await client.query('DROP SCHEMA IF EXISTS pgsluice CASCADE');
    await migrate(client);
    const stream = { path: '/log', linePrefix: null, timeZone: null, encoding: null, encodings: {} };
    const how = { format: /** @type {const} */ ('csvlog'), startAt: /** @type {const} */ ('start') };
    const host = await addHost(client, 'db1', LOCAL_HOST, [{ ...stream, ...how }]);
    streamId = host.streams[0]?.streamId ?? 0;
  });

  /** @param {number} [days] after NOW @param {number} [retentionDays] */
  const maintain = (days = 0, retentionDays = RETENTION_DAYS) =>
    applyRetention(client, NOW + days * DAY_MS, retentionDays);

  /** @param {string} time @param {number} [fileNo] */
  const record = (time, fileNo = 1) =>
    client.query(
      'INSERT INTO pgsluice.record (stream_id, file_no, file_offset, log_time) VALUES ($1, $2, 0, $3)',
      [streamId, fileNo, time],
    );

  /** @returns {Promise<string[]>} the partition and the time of each record */
  async function records() {
    const { rows } = await client.query(
      `SELECT tableoid::regclass::text AS name, log_time::date::text AS day FROM pgsluice.record ORDER BY log_time`,
    );
    return rows.map(({ name, day }) => `${name.replace('pgsluice.', '')} ${day}`);
  }

  /** @param {number} fileNo @param {number | null} goneDays from NOW */
  const file = (fileNo, goneDays) =>
    client.query(
      `INSERT INTO pgsluice.file
         (stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum, gone_at)
       VALUES ($1, $2::int, $2::int::text, 'f' || $2::int, 9, 0, 0, 0, 0, $3)`,
      [streamId, fileNo, goneDays === null ? null : inDays(goneDays)],
    );

  /** @returns {Promise<number[]>} */
  async function files() {
    const { rows } = await client.query('SELECT file_no FROM pgsluice.file ORDER BY file_no');
    return rows.map(({ file_no }) => file_no);
  }

  test('times of long ago get a day, too, and go as a whole', async () => {
    await record('0001-01-01');
    await record('1990-01-01');
    await record('1990-01-01 23:59:59');
    assert.deepEqual((await maintain()).dropped.toSorted(), ['record_00010101', 'record_19900101']);
    assert.deepEqual(await records(), []);
    await record('1990-01-01');
    assert.deepEqual(await records(), ['record_default 1990-01-01']);
  });

  test('retention of more than ten years is kept, too', async () => {
    await record(inDays(-4_000));
    await record(inDays(-6_000));
    await maintain(0, 5_000);
    const day = inDays(-4_000).slice(0, 10);
    assert.deepEqual(await records(), [`record_${day.replaceAll('-', '')} ${day}`]);
  });

  test('days that are in the default partition get theirs, or go with those past retention', async () => {
    await record(inDays(-100));
    await record(inDays(-10));
    await record(inDays(20));
    assert.deepEqual((await maintain()).dropped, ['record_20251121']);
    assert.deepEqual(await records(), ['record_20260219 2026-02-19', 'record_default 2026-03-21']);
    await maintain(18);
    assert.deepEqual(await records(), ['record_20260219 2026-02-19', 'record_20260321 2026-03-21']);
    await maintain(51);
    assert.deepEqual(await records(), []);
  });

  test('files that are gone are forgotten when no record can name them any more', async () => {
    await file(1, -60);
    await file(2, null);
    await file(3, -RETENTION_DAYS - 6);
    await file(4, -60);
    await record('2999-01-01', 4);
    await file(5, -60);
    await client.query('UPDATE pgsluice.stream SET open_file_no = 5');
    await client.query(
      `INSERT INTO pgsluice.cut SELECT stream_id, n, 0, 9, '', now() FROM pgsluice.stream, generate_series(1, 2) n`,
    );
    assert.equal((await maintain()).forgottenFiles, 1);
    assert.deepEqual(await files(), [2, 3, 4, 5]);
    assert.equal((await client.query('SELECT FROM pgsluice.cut')).rowCount, 1);
    await maintain(3);
    assert.deepEqual(await files(), [2, 4, 5]);
    assert.equal((await client.query('SELECT FROM pgsluice.log')).rowCount, 1);
    await removeHost(client, 'db1', { purge: false });
    await client.query('UPDATE pgsluice.host SET removed_at = $1', [inDays(-60)]);
    await maintain(3);
    assert.deepEqual(await files(), [4], 'of a host that was removed');
  });

  test('a file stays as long as the records that waited for their day in the default partition', async () => {
    await file(1, -60);
    await record(inDays(2), 1);
    await record(inDays(-10), 1);
    for (const days of [0, 2, 2 + RETENTION_DAYS]) {
      await maintain(days);
      const { rowCount } = await client.query('SELECT FROM pgsluice.log WHERE log_time > $1', [inDays(1)]);
      assert.equal(rowCount, 1, `after ${days} days`);
    }
    await maintain(4 + RETENTION_DAYS);
    assert.deepEqual([await records(), await files()], [[], []]);
  });

  test('a partition that cannot be dropped keeps the files of its records', async () => {
    await file(1, -60);
    await ensurePartition(client, 'record', dayOf(NOW) - 65);
    await record(inDays(-65), 1);
    const other = await connectStorage(server.connectionOptions);
    await other.query('BEGIN');
    await other.query('SELECT FROM pgsluice.record_20251226');
    assert.deepEqual(await maintain(), { dropped: [], forgottenFiles: 0 });
    assert.equal((await client.query('SELECT FROM pgsluice.log')).rowCount, 1);
    await other.end();
    assert.deepEqual(await maintain(), { dropped: ['record_20251226'], forgottenFiles: 1 });
  });
});
