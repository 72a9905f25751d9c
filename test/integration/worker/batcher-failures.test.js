/**
 * What a Batcher does with the batches and connections that are on their way when one batch fails: real batches on a real
 * PostgreSQL, held up by locks.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { raiseEpochs } from '../../../src/storage/positions.js';
import { Batcher } from '../../../src/worker/batcher.js';
import { startPostgres } from '../../helpers/postgres.js';
import { csvlogRow, readIntoBatch } from '../../helpers/read-into-batch.js';
import { LOCAL_HOST } from '../../helpers/rotation-world.js';
import { until } from '../../helpers/until.js';

const STREAMS = 3;
const EPOCH = 1;
const LAST_DAY = '2026-11-21';

/** @param {import('pg').Client} client */
const socketOf = client => /** @type {import('node:net').Socket} */ (client.connection.stream);

/** @param {import('pg').Client} client */
const isCut = client => socketOf(client).destroyed;

describe('a batch that fails', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client} */
  let client;
  /** holds up a batch @type {import('pg').Client} */
  let locker;
  /** @type {number[]} */
  let streamIds = [];
  /** @type {Batcher} */
  let batcher;
  /** of the batcher @type {import('pg').Client[]} */
  let connections = [];
  /** which of them were cut, at each failure @type {boolean[][]} */
  let cutAtFailure = [];
  /** takes the place of a new connection @type {(() => Promise<import('pg').Client>) | null} */
  let nextConnection = null;
  let hosts = 0;

  before(async () => {
    server = await startPostgres();
    client = await connectStorage(server.connectionOptions);
    await migrate(client);
  });
  after(async () => {
    await client?.end();
    await server?.stop();
  });
  beforeEach(async () => {
    [streamIds, connections, cutAtFailure, nextConnection] = [[], [], [], null];
    locker = await connectStorage(server.connectionOptions);
    await locker.query('BEGIN');
    for (let n = 0; n < STREAMS; n += 1) {
      const stream = { path: '/log', linePrefix: null, timeZone: null, encoding: null, encodings: {} };
      const how = { format: /** @type {const} */ ('csvlog'), startAt: /** @type {const} */ ('start') };
      const host = await addHost(client, `db${(hosts += 1)}`, LOCAL_HOST, [{ ...stream, ...how }]);
      streamIds.push(host.streams[0]?.streamId ?? 0);
    }
    await raiseEpochs(client, streamIds);
    batcher = new Batcher({
      redactor: null,
      settings: { maxBatchBytes: 100_000, maxBatchDelayMs: 60_000 },
      connect: async () => {
        if (nextConnection) return nextConnection();
        const connection = await connectStorage(server.connectionOptions);
        connections.push(connection);
        return connection;
      },
      onRoom: () => {},
      onFailure: () => cutAtFailure.push(connections.map(isCut)),
      onRefused: ({ reason }) => assert.fail(reason),
      onFenced: () => assert.fail('nobody else claims it'),
    });
  });
  afterEach(async () => {
    await locker.end();
    await batcher.settle();
    await batcher.close();
  });

  /** A batch of one record. @param {number} index of its stream @param {string} [day] */
  function closeBatch(index, day) {
    const from = { streamId: streamIds[index] ?? 0, epoch: EPOCH };
    readIntoBatch(batcher, from, Buffer.from(csvlogRow(1, day)));
    batcher.flush();
  }

  /** The position of the stream can be advanced when the locker is done. @param {number} index */
  const holdUp = index =>
    locker.query('SELECT FROM pgsluice.stream WHERE stream_id = $1 FOR UPDATE', [streamIds[index]]);

  /** Statements that begin so and wait for a lock. @param {string} beginning */
  async function waiting(beginning) {
    const { rows } = await client.query(
      `SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND ltrim(query) LIKE $1 || '%'`,
      [beginning],
    );
    return rows.map(({ pid }) => pid);
  }

  async function recordsOf(/** @type {number} */ index) {
    const { rows } = await client.query(
      'SELECT count(*)::int AS n FROM pgsluice.record WHERE stream_id = $1',
      [streamIds[index]],
    );
    return rows[0].n;
  }

  test('has all connections cut, those in use and those that are not, and the next batches go one at a time', async () => {
    for (let index = 0; index < STREAMS; index += 1) closeBatch(index, LAST_DAY);
    await batcher.settle();
    assert.equal(connections.length, STREAMS, 'they were stored side by side');
    await holdUp(0);
    await locker.query('LOCK TABLE pgsluice.record_20261121 IN ACCESS EXCLUSIVE MODE');
    closeBatch(0);
    await until(async () => (await waiting('')).length === 1, 'a batch that waits for its turn');
    const [first] = await waiting('');
    closeBatch(1, LAST_DAY);
    await until(async () => (await waiting('COPY')).length === 1, 'a batch that hangs in its COPY');
    await client.query('SELECT pg_terminate_backend($1)', [first]);
    await until(() => cutAtFailure.length > 0, 'the failure');
    assert.deepEqual(cutAtFailure, [connections.map(() => true)]);

    const before = connections.length;
    for (let index = 0; index < STREAMS; index += 1) closeBatch(index, LAST_DAY);
    await until(async () => (await waiting('')).length > 0, 'the next batch is held up');
    await locker.query('COMMIT');
    await batcher.settle();
    assert.equal(connections.length, before + 1, 'one connection is enough');
    assert.equal(batcher.totals.failures, 1);
  });

  test('lets those before it come to their end', async () => {
    await holdUp(0);
    closeBatch(0);
    await until(async () => (await waiting('')).length === 1, 'a batch that is held up');
    nextConnection = () => Promise.reject(new Error('no more connections'));
    closeBatch(1);
    await sleep(50);
    assert.equal(batcher.failure, null, 'not yet');
    nextConnection = null;
    await locker.query('COMMIT');
    await batcher.settle();
    assert.deepEqual([await recordsOf(0), batcher.totals.batches, batcher.totals.failures], [1, 1, 1]);
  });

  test('leaves a connection that comes too late without work', async () => {
    const late = await connectStorage(server.connectionOptions);
    const said = socketOf(late).bytesWritten;
    /** @type {PromiseWithResolvers<import('pg').Client>} */
    const coming = Promise.withResolvers();
    await holdUp(0);
    closeBatch(0);
    await until(async () => (await waiting('')).length === 1, 'a batch that is held up');
    nextConnection = () => coming.promise;
    closeBatch(1);
    const [first] = await waiting('');
    await client.query('SELECT pg_terminate_backend($1)', [first]);
    await until(() => cutAtFailure.length > 0, 'the failure');
    coming.resolve(late);
    await until(() => isCut(late), 'the end of the late connection');
    assert.equal(socketOf(late).bytesWritten, said);
    assert.equal(batcher.totals.failures, 1);
    nextConnection = null;
  });
});
