/**
 * Looks at what is stored between them: each record once, none left out, wherever in its partition it was put, and
 * whichever of several batches that run side by side is committed first.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { connectStorage } from '../../../src/storage/connect.js';
import { migrate } from '../../../src/storage/migrate.js';
import { NewRecords } from '../../../src/storage/new-records.js';
import { ensurePartition, partitionName } from '../../../src/storage/partitions.js';
import { startPostgres } from '../../helpers/postgres.js';

const TODAY = Math.floor(Date.now() / 86_400_000);
const MAX = 1_000_000;

describe('new records', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client} */
  let client;
  /** @type {import('pg').Client} */
  let other;
  /** @type {NewRecords} */
  let records;
  let databases = 0;

  before(async () => {
    server = await startPostgres();
  });
  after(() => server.stop());

  beforeEach(async () => {
    const options = await server.createDatabase(`new${(databases += 1)}`);
    client = await connectStorage(options);
    other = await connectStorage(options);
    await migrate(client);
    for (const day of [TODAY - 1, TODAY]) await ensurePartition(client, 'record', day);
    // Bytes of a message take their place in the table.
    const today = `pgsluice.${partitionName('record', TODAY)}`;
    await client.query(`ALTER TABLE ${today} ALTER COLUMN message SET STORAGE PLAIN`);
    await client.query(`
      INSERT INTO pgsluice.host (name, address, port, host_keys, transport)
           SELECT 'db' || n, 'h', 22, '{}', 'local' FROM generate_series(1, 2) n;
      INSERT INTO pgsluice.stream (host_id, path, format, start_at)
           SELECT host_id, '/log', 'csvlog', 'start' FROM pgsluice.host ORDER BY host_id;
      INSERT INTO pgsluice.file (stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum)
           SELECT stream_id, 1, '1', 'a.csv', 0, 0, 0, 0, 0 FROM pgsluice.stream`);
    records = new NewRecords({ hosts: [], severities: null });
  });

  /**
   * Stores records as a batch does, with their positions and counts; the transaction is left open.
   * @param {import('pg').Client} connection
   * @param {number} streamId
   * @param {number} count
   * @param {{ days?: number, pad?: number }} [options] days: before today; pad: bytes of a message
   */
  async function store(connection, streamId, count, { days = 0, pad = 0 } = {}) {
    await connection.query('BEGIN');
    const { rows } = await connection.query(
      `SELECT "offset"::int AS from FROM pgsluice.file WHERE stream_id = $1`,
      [streamId],
    );
    await connection.query(
      `INSERT INTO pgsluice.record (stream_id, file_no, file_offset, log_time, error_severity, message)
       SELECT $1, 1, $2 + n - 1, now() - make_interval(days => $4), CASE n % 2 WHEN 0 THEN 'LOG' ELSE 'ERROR' END,
              repeat('x', $5)
         FROM generate_series(1, $3) n`,
      [streamId, rows[0].from, count, days, pad],
    );
    await connection.query('UPDATE pgsluice.stream SET records = records + $2 WHERE stream_id = $1', [
      streamId,
      count,
    ]);
    await connection.query('UPDATE pgsluice.file SET "offset" = "offset" + $2 WHERE stream_id = $1', [
      streamId,
      count,
    ]);
  }

  /** @param {number} [max] */
  async function look(max = MAX) {
    /** @type {string[]} */
    const told = [];
    const untold = await records.look(client, {
      max,
      tell: async some => {
        for (const json of some) {
          const { host, file, file_offset: offset } = JSON.parse(json);
          assert.equal(file, 'a.csv');
          told.push(`${host} ${offset}`);
        }
      },
    });
    return { told: told.toSorted(), ...untold };
  }

  /** @param {string} host @param {number} from @param {number} to */
  const places = (host, from, to) =>
    Array.from({ length: to - from }, (_, n) => `${host} ${from + n}`).toSorted();

  const ALL = { passedOver: 0, notFound: 0 };

  async function end() {
    await Promise.all([client.end(), other.end()]);
  }

  test('each look tells what was committed since the one before', async () => {
    await store(client, 1, 5);
    await client.query('COMMIT');
    assert.deepEqual(
      (await records.begin(client, 3)).map(json => JSON.parse(json).file_offset),
      [2, 3, 4],
    );
    assert.deepEqual(await look(), { told: [], ...ALL });

    await store(client, 1, 700);
    await client.query('COMMIT');
    await store(other, 2, 2, { days: 1 });
    assert.deepEqual(await look(), { told: places('db1', 5, 705), ...ALL });
    await other.query('COMMIT');
    await store(client, 1, 1);
    await client.query('COMMIT');
    assert.deepEqual(await look(), { told: [...places('db1', 705, 706), ...places('db2', 0, 2)], ...ALL });
    assert.deepEqual(await look(), { told: [], ...ALL });
    await end();
  });

  test('a batch that was copied long before it is committed, with much stored after it', async () => {
    await records.begin(client, 0);
    await store(other, 2, 3);
    let from = 0;
    for (let batch = 0; batch < 2; batch += 1) {
      await store(client, 1, 20_000, { pad: 2_000 });
      await client.query('COMMIT');
      assert.deepEqual(await look(), { told: places('db1', from, (from += 20_000)), ...ALL });
    }
    await other.query('COMMIT');
    assert.deepEqual(await look(), { told: places('db2', 0, 3), ...ALL });
    await end();
  });

  test('places at the front of a partition that became free', async () => {
    await store(client, 1, 40_000, { pad: 2_000 });
    await client.query('ROLLBACK');
    await store(client, 1, 1);
    await client.query('COMMIT');
    await client.query('VACUUM pgsluice.record');
    await records.begin(client, 0);
    assert.deepEqual(await look(), { told: [], ...ALL });
    await store(client, 2, 10);
    await client.query('COMMIT');
    const { rows } = await client.query(
      `SELECT min((ctid::text::point)[0])::int AS block FROM pgsluice.record WHERE stream_id = 2`,
    );
    assert.ok(rows[0].block < 4096, 'they are far from the end');
    assert.deepEqual(await look(), { told: places('db2', 0, 10), ...ALL });
    await end();
  });

  test('while batches are committed all the time', async () => {
    await records.begin(client, 0);
    const stop = new AbortController();
    const storing = (async () => {
      for (let batch = 0; !stop.signal.aborted; batch += 1) {
        await store(other, 1 + (batch % 2), 7);
        await other.query('COMMIT');
      }
    })();
    /** @type {string[]} */
    const told = [];
    for (let looks = 0; looks < 100; looks += 1) {
      const seen = await look();
      assert.equal(seen.notFound, 0);
      told.push(...seen.told);
    }
    stop.abort();
    await storing;
    told.push(...(await look()).told);
    const { rows } = await client.query(`SELECT host || ' ' || file_offset AS place FROM pgsluice.log`);
    assert.equal(told.length, rows.length);
    assert.deepEqual(new Set(told), new Set(rows.map(({ place }) => place)));
    await end();
  });

  test('records of days that have no partition, and of a day that gets one', async () => {
    await records.begin(client, 0);
    await store(client, 1, 4, { days: 30 });
    await client.query('COMMIT');
    assert.deepEqual(await look(), { told: places('db1', 0, 4), ...ALL });
    await ensurePartition(client, 'record', TODAY - 30);
    assert.deepEqual(await look(), { told: [], ...ALL });
    await store(client, 1, 1, { days: 30 });
    await client.query('COMMIT');
    assert.deepEqual(await look(), { told: places('db1', 4, 5), ...ALL });
    await end();
  });

  test('more than asked for is passed over, what was deleted is missed, and both are said', async () => {
    await records.begin(client, 0);
    await store(client, 1, 11);
    await client.query('COMMIT');
    assert.deepEqual(await look(10), { told: [], passedOver: 11, notFound: 0 });
    await store(client, 1, 3);
    await client.query('DELETE FROM pgsluice.record WHERE file_offset = 12');
    await client.query('COMMIT');
    assert.deepEqual(await look(10), { told: ['db1 11', 'db1 13'], passedOver: 0, notFound: 1 });
    assert.deepEqual(await look(10), { told: [], ...ALL });
    await end();
  });

  test('of some hosts and severities alone', async () => {
    records = new NewRecords({ hosts: ['db2'], severities: ['ERROR', 'FATAL'] });
    await store(client, 2, 4);
    await client.query('COMMIT');
    assert.deepEqual(
      (await records.begin(client, 9)).map(json => JSON.parse(json).file_offset),
      [0, 2],
    );
    await store(client, 1, 2);
    await client.query('COMMIT');
    assert.deepEqual(await look(), { told: [], ...ALL });
    await store(client, 2, 2);
    await client.query('COMMIT');
    assert.deepEqual(await look(), { told: ['db2 4'], ...ALL });
    await end();
  });

  test('who reads slowly holds nothing: no lock and no snapshot while it is told', async () => {
    await records.begin(client, 0);
    await store(other, 1, 1_200);
    await other.query('COMMIT');
    let parts = 0;
    await records.look(client, {
      max: MAX,
      tell: async some => {
        assert.ok(some.length <= 500);
        parts += 1;
        const { rows } = await other.query(
          `SELECT a.xact_start, a.backend_xmin, (SELECT count(*)::int FROM pg_locks l WHERE l.pid = a.pid) AS locks
             FROM pg_stat_activity a WHERE a.pid = $1`,
          [/** @type {{ processID?: number }} */ (client).processID],
        );
        assert.deepEqual(rows, [{ xact_start: null, backend_xmin: null, locks: 0 }]);
      },
    });
    assert.equal(parts, 3);
    await end();
  });
});
