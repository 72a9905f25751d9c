import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost, loadInventory, removeHost, updateHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import {
  applyRetention,
  dayOf,
  ensurePartition,
  hasPartition,
  makePartitions,
  partitionName,
} from '../../../src/storage/partitions.js';
import { startPostgres } from '../../helpers/postgres.js';

const DAY_MS = 86_400_000;

/** @type {import('../../../src/storage/inventory.js').HostFields} */
const fields = {
  address: 'db1.example',
  port: 22,
  username: 'postgres',
  identityFile: null,
  jumpHosts: ['bastion'],
  sudoUser: null,
  hostKeys: ['ssh-ed25519 AAAA'],
  transport: 'auto',
  labels: { env: 'test' },
  paused: false,
};
/** @type {Omit<import('../../../src/storage/inventory.js').StreamRow, 'streamId'>} */
const stream = {
  path: '/var/lib/postgresql/15/main',
  format: /** @type {const} */ ('csvlog'),
  linePrefix: null,
  timeZone: null,
  encoding: null,
  encodings: {},
  startAt: /** @type {const} */ ('end'),
};

for (const binaries of ['embedded', 'system']) {
  describe(`storage on PostgreSQL (${binaries})`, () => {
    /** @type {Awaited<ReturnType<typeof startPostgres>>} */
    let server;
    /** @type {import('pg').Client} */
    let client;
    let databases = 0;
    before(async () => {
      server = await startPostgres({ binaries });
    });
    after(() => server.stop());

    /** A client of an empty database. @param {{ encoding?: string }} [options] */
    async function freshDatabase(options) {
      databases += 1;
      const connection = await server.createDatabase(`storage_${databases}`, options);
      client = await connectStorage(connection);
      return { connection, client };
    }

    test('any number of migrations at once make the schema once', async () => {
      const { connection, client } = await freshDatabase();
      const clients = await Promise.all(Array.from({ length: 4 }, () => connectStorage(connection)));
      const results = await Promise.all(clients.map(migrate));
      assert.deepEqual(
        results.map(({ from }) => from).toSorted((a, b) => a - b),
        [0, 5, 5, 5],
      );
      assert.deepEqual(await migrate(client), { from: 5, to: 5 });
      for (const one of [client, ...clients]) await one.end();
    });

    test('a newer schema is refused', async () => {
      const { client } = await freshDatabase();
      await migrate(client);
      await client.query(`INSERT INTO pgsluice.migration (number, name) VALUES (999, 'from the future')`);
      await assert.rejects(migrate(client), { code: 'STORAGE_SCHEMA_NEWER', message: /999/ });
      await client.end();
    });

    test('a database that is not UTF8 is refused', async () => {
      const { client } = await freshDatabase({ encoding: 'SQL_ASCII' });
      await assert.rejects(migrate(client), { code: 'STORAGE_UNFIT', message: /SQL_ASCII/ });
      await client.end();
    });

    test('the view pgsluice.log is the contract', async () => {
      const { client } = await freshDatabase();
      await migrate(client);
      const { rows } = await client.query(
        `SELECT attname || ' ' || format_type(atttypid, atttypmod) AS column FROM pg_attribute
          WHERE attrelid = 'pgsluice.log'::regclass AND attnum > 0 ORDER BY attnum`,
      );
      assert.deepEqual(
        rows.map(row => row.column),
        [
          'host text',
          'stream text',
          'log_time timestamp(3) with time zone',
          'user_name text',
          'database_name text',
          'process_id integer',
          'connection_from text',
          'session_id text',
          'session_line_num bigint',
          'command_tag text',
          'session_start_time timestamp with time zone',
          'virtual_transaction_id text',
          'transaction_id bigint',
          'error_severity text',
          'sql_state_code text',
          'message text',
          'detail text',
          'hint text',
          'internal_query text',
          'internal_query_pos integer',
          'context text',
          'query text',
          'query_pos integer',
          'location text',
          'application_name text',
          'backend_type text',
          'leader_pid integer',
          'query_id bigint',
          'duration_ms double precision',
          'file text',
          'file_offset bigint',
        ],
      );
      await client.end();
    });

    test('partitions: made ahead, rows of a day without one move into it, old days are dropped', async () => {
      const { client } = await freshDatabase();
      await migrate(client);
      const now = Date.parse('2026-03-01T12:00:00Z');
      await makePartitions(client, now);
      const insert = (/** @type {string} */ time) =>
        client.query(
          'INSERT INTO pgsluice.record (stream_id, file_no, file_offset, log_time, marks) VALUES (1, 1, 0, $1, 0)',
          [time],
        );
      const days = async () => {
        const { rows } = await client.query(
          `SELECT tableoid::regclass::text AS name, count(*)::int FROM pgsluice.record GROUP BY 1 ORDER BY 1`,
        );
        return Object.fromEntries(rows.map(row => [row.name, row.count]));
      };
      await insert('2026-03-01 23:59:59.999+00');
      await insert('2026-03-02 00:00:00+00');
      await insert('2026-01-01 00:00:00+00');
      assert.deepEqual(await days(), {
        'pgsluice.record_20260301': 1,
        'pgsluice.record_20260302': 1,
        'pgsluice.record_default': 1,
      });
      await ensurePartition(client, 'record', dayOf(Date.parse('2026-01-01')));
      assert.equal((await days())['pgsluice.record_20260101'], 1);
      assert.deepEqual((await applyRetention(client, now, 30)).dropped, ['record_20260101']);
      assert.deepEqual(Object.keys(await days()), ['pgsluice.record_20260301', 'pgsluice.record_20260302']);
      await client.end();
    });

    test('two connections that need the same partition at once both get it', async () => {
      const { connection, client } = await freshDatabase();
      await migrate(client);
      const other = await connectStorage(connection);
      const day = dayOf(Date.now()) + 1;
      await Promise.all([ensurePartition(client, 'reject', day), ensurePartition(other, 'reject', day)]);
      await Promise.all([client.end(), other.end()]);
    });

    test('a partition is not waited for while somebody reads where it would be, or reads what is to be dropped', async () => {
      const { connection, client } = await freshDatabase();
      await migrate(client);
      const now = Date.parse('2026-03-01T12:00:00Z');
      const [old, today] = [now - 60 * DAY_MS, now].map(dayOf);
      await ensurePartition(client, 'record', old);
      await makePartitions(client, now);
      const reader = await connectStorage(connection);
      /**
       * @template T
       * @param {string} table that is read until the work has ended, or far too long
       * @param {() => Promise<T>} work
       */
      const whileRead = async (table, work) => {
        await reader.query(`BEGIN; SELECT FROM pgsluice.${table} LIMIT 1`);
        const patience = setTimeout(() => void reader.query('ROLLBACK'), 10_000);
        const result = await work();
        clearTimeout(patience);
        await reader.query('ROLLBACK');
        return result;
      };
      const missing = () => ensurePartition(client, 'record', today - 5);
      assert.equal(await whileRead('record_default', missing), false);
      assert.equal(await missing(), true);
      const maintenance = () => applyRetention(client, now, 30);
      assert.deepEqual((await whileRead(partitionName('record', old), maintenance)).dropped, []);
      assert.deepEqual((await maintenance()).dropped, [partitionName('record', old)]);
      await Promise.all([client.end(), reader.end()]);
    });

    test('times that no server writes get no partition', () => {
      const today = dayOf(Date.now());
      assert.equal(hasPartition(today, today), true);
      assert.equal(hasPartition(today - 365, today), true);
      assert.equal(hasPartition(today + 4, today), false);
      assert.equal(hasPartition(dayOf(Date.parse('1970-01-02')), today), false);
      assert.equal(dayOf(-1), -1);
      assert.equal(dayOf(DAY_MS), 1);
    });

    test('hosts: added once, changed, listed, removed with and without their records', async () => {
      const { client } = await freshDatabase();
      await migrate(client);
      await makePartitions(client, Date.now());
      const added = await addHost(client, 'db1', fields, [stream, { ...stream, path: '/var/log/other' }]);
      assert.deepEqual(
        added.streams.map(({ path, startAt }) => ({ path, startAt })),
        [
          { path: stream.path, startAt: 'end' },
          { path: '/var/log/other', startAt: 'end' },
        ],
      );
      await assert.rejects(addHost(client, 'db1', fields, [stream]), { code: 'HOST_EXISTS' });
      const changed = await updateHost(client, 'db1', { transport: 'ssh2', paused: true });
      assert.deepEqual({ ...changed, transport: 'auto', paused: false }, added);
      await assert.rejects(updateHost(client, 'db2', { paused: true }), { code: 'HOST_UNKNOWN' });
      await assert.rejects(removeHost(client, 'db2', { purge: true }), { code: 'HOST_UNKNOWN' });

      const streamId = added.streams[0]?.streamId;
      const store = async (/** @type {number | undefined} */ id) => {
        await client.query(
          `INSERT INTO pgsluice.file (stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum)
           VALUES ($1, 1, '7', 'x.csv', 9, 0, 0, 0, 0)`,
          [id],
        );
        await client.query(
          'INSERT INTO pgsluice.record (stream_id, file_no, file_offset, log_time, marks) VALUES ($1, 1, 0, now(), 0)',
          [id],
        );
      };
      await store(streamId);
      assert.deepEqual(await removeHost(client, 'db1', { purge: false }), { purgedRecords: null });
      assert.deepEqual(await loadInventory(client), []);
      const again = await addHost(client, 'db1', fields, [stream]);
      await store(again.streams[0]?.streamId);
      const stored = await client.query('SELECT host, stream, file, file_offset FROM pgsluice.log');
      assert.deepEqual(
        stored.rows,
        [1, 2].map(() => ({ host: 'db1', stream: stream.path, file: 'x.csv', file_offset: '0' })),
      );
      assert.deepEqual(await removeHost(client, 'db1', { purge: true }), { purgedRecords: 1 });
      assert.equal((await client.query('SELECT FROM pgsluice.log')).rowCount, 1);
      await client.end();
    });
  });
}
