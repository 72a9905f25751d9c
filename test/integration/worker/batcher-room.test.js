/**
 * Readers that paused because a batch was full are told when there is room again, also when a batch may be larger by
 * then: a storage that was slow is fast again. Real batches on a real PostgreSQL, held up by a lock.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { raiseEpochs } from '../../../src/storage/positions.js';
import { Batcher } from '../../../src/worker/batcher.js';
import { startPostgres } from '../../helpers/postgres.js';
import { csvlogRow, readIntoBatch } from '../../helpers/read-into-batch.js';
import { LOCAL_HOST } from '../../helpers/rotation-world.js';

const MAX_BYTES = 8 * 1024 * 1024;
const ROUNDS = 6;
const WAIT_MS = 30_000;

/** @type {Awaited<ReturnType<typeof startPostgres>>} */
let server;
before(async () => (server = await startPostgres()));
after(() => server.stop());

test('who paused reads on', async t => {
  const client = await connectStorage(server.connectionOptions);
  const locker = await connectStorage(server.connectionOptions);
  await migrate(client);
  const how = { path: '/log', linePrefix: null, timeZone: null, encoding: null, encodings: {} };
  const host = await addHost(client, 'db1', LOCAL_HOST, [{ ...how, format: 'csvlog', startAt: 'start' }]);
  const streamId = host.streams[0]?.streamId ?? 0;
  await raiseEpochs(client, [streamId]);
  let paused = false;
  const batcher = new Batcher({
    redactor: null,
    settings: { maxBatchBytes: MAX_BYTES, maxBatchDelayMs: 60_000 },
    connect: () => connectStorage(server.connectionOptions),
    onRoom: () => (paused = false),
    onFailure: error => assert.fail(String(error)),
    onRefused: ({ reason }) => assert.fail(reason),
    onFenced: () => assert.fail('nobody else claims it'),
  });
  const piece = Buffer.from(Array.from({ length: 200 }, (_, n) => csvlogRow(n)).join(''));
  /** As a stream does: nothing is read after the batch was full. @param {() => boolean} enough */
  async function read(enough) {
    for (const deadline = Date.now() + WAIT_MS; !enough();) {
      if (Date.now() > deadline) return false;
      if (!paused) {
        readIntoBatch(batcher, { streamId, epoch: 1 }, piece);
        paused = batcher.full;
      }
      if (paused) await sleep(1);
    }
    return true;
  }
  const { totals } = batcher;
  let turns = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    // Slow: batches become smaller. Then fast, with a reader that waits for room: they become larger while it waits.
    await locker.query('BEGIN; SELECT FROM pgsluice.stream FOR UPDATE');
    assert.ok(await read(() => paused), 'it is full');
    await sleep(600);
    await locker.query('COMMIT');
    const before = totals.batches;
    assert.ok(await read(() => totals.batches > before + 20), `round ${round}: nobody reads on`);
    turns += totals.batches - before;
  }
  t.diagnostic(`${turns} batches`);
  await batcher.settle();
  const { rows } = await client.query('SELECT count(*)::int AS stored FROM pgsluice.record');
  assert.equal(rows[0].stored, totals.records);
  await batcher.close();
  await Promise.all([client.end(), locker.end()]);
});
