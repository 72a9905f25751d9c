/**
 * The transaction of the data path: records and positions together, under the epoch, whatever ends in the middle.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';
import { commitBatch } from '../../../src/storage/batch.js';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { claimStream, raiseEpochs } from '../../../src/storage/positions.js';
import { loadZones } from '../../../src/storage/zones.js';
import { startPostgres } from '../../helpers/postgres.js';

const ROW =
  '2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"duration: 1.500 ms",,,,,,,,,"psql","client backend",,0\n';

describe('commitBatch and claimStream', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client} */
  let client;
  /** @type {import('pg').Client} */
  let other;
  let streamId = 0;
  let count = 0;

  before(async () => {
    server = await startPostgres();
    client = await connectStorage(server.connectionOptions);
    other = await connectStorage(server.connectionOptions);
    await migrate(client);
  });
  after(async () => {
    await Promise.all([client.end(), other.end()]);
    await server.stop();
  });
  beforeEach(async () => {
    count += 1;
    const host = await addHost(
      client,
      `db${count}`,
      {
        address: 'h',
        port: 22,
        username: null,
        identityFile: null,
        jumpHosts: [],
        sudoUser: null,
        hostKeys: [],
        transport: 'local',
        labels: {},
        paused: false,
      },
      [
        {
          path: '/log',
          format: 'csvlog',
          linePrefix: null,
          timeZone: null,
          encoding: null,
          encodings: {},
          startAt: 'start',
        },
      ],
    );
    streamId = host.streams[0]?.streamId ?? 0;
  });

  /** One batch: `rows` records of file 1 from `offset`. @param {number} epoch @param {number} rows @param {number} [offset] */
  async function batch(epoch, rows, offset = 0) {
    const records = new CopyBuffer();
    const zones = await loadZones(client);
    const parser = new CsvlogParser({ streamId, fileNo: 1, offset, zones, maxRecordBytes: 1 << 20 });
    const sink = {
      rows: records,
      days: new Set(),
      receivedAtMs: 0,
      cut() {},
      reject: () => assert.fail('nothing is rejected'),
    };
    parser.write(Buffer.from(ROW.repeat(rows)), sink);
    const file = {
      fileNo: 1,
      inode: '42',
      name: 'a.csv',
      offset: parser.recordOffset,
      headLength: 3,
      headSum: 4_000_000_000,
      tailLength: 5,
      tailSum: 6,
      gone: false,
      doneSize: null,
      cursor: null,
    };
    const counts = { lostBytes: 3, lostEvents: 1, records: rows };
    const advance = { epoch, begun: true, nextFileNo: 2, openFileNo: 1, foundPrefix: '%m ', ...counts };
    const streams = new Map([[streamId, { ...advance, files: new Map([[1, file]]) }]]);
    return { records, rejected: new CopyBuffer(), streams, file };
  }

  async function stored() {
    const { rows } = await client.query(
      `SELECT (SELECT count(*) FROM pgsluice.record WHERE stream_id = $1)::int AS rows, records::int AS counted
         FROM pgsluice.stream WHERE stream_id = $1`,
      [streamId],
    );
    assert.equal(rows[0].counted, rows[0].rows);
    return rows[0].rows;
  }

  async function epochNow() {
    const { rows } = await client.query('SELECT epoch::int FROM pgsluice.stream WHERE stream_id = $1', [
      streamId,
    ]);
    return rows[0].epoch;
  }

  test('records and position are committed together, and claimed as they were', async () => {
    const [first] = [await claimStream(client, streamId, 0)];
    assert.deepEqual(first, {
      epoch: 1,
      begun: false,
      nextFileNo: 1,
      openFileNo: null,
      foundPrefix: null,
      files: [],
    });
    const { file, ...content } = await batch(1, 3);
    await commitBatch(client, content);
    assert.equal(await stored(), 3);
    assert.deepEqual(await claimStream(client, streamId, 1), {
      epoch: 2,
      begun: true,
      nextFileNo: 2,
      openFileNo: 1,
      foundPrefix: '%m ',
      files: [file],
    });
    const { rows } = await client.query(
      `SELECT duration_ms, file, file_offset::int FROM pgsluice.log WHERE host = $1 ORDER BY file_offset`,
      [`db${count}`],
    );
    assert.deepEqual(
      rows,
      [0, 1, 2].map(n => ({ duration_ms: 1.5, file: 'a.csv', file_offset: n * ROW.length })),
    );
  });

  test('a batch under an old epoch stores nothing', async () => {
    await claimStream(client, streamId, 0);
    await raiseEpochs(other, [streamId]);
    await assert.rejects(commitBatch(client, await batch(1, 3)), { code: 'FENCED' });
    assert.equal(await stored(), 0);
    await commitBatch(client, await batch(2, 1));
    assert.equal(await stored(), 1);
  });

  test('one fenced stream of two takes the whole batch back', async () => {
    const claimed = await claimStream(client, streamId, 0);
    const content = await batch(claimed?.epoch ?? 0, 2);
    const [mine] = content.streams.values();
    assert.ok(mine);
    content.streams.set(streamId + 1000, { ...mine, epoch: 1, files: new Map() });
    await assert.rejects(commitBatch(client, content), { code: 'FENCED' });
    assert.equal(await stored(), 0);
  });

  test('a claim under an old epoch gets nothing', async () => {
    await raiseEpochs(other, [streamId]);
    assert.equal(await claimStream(client, streamId, 0), null);
    assert.equal((await claimStream(client, streamId, 1))?.epoch, 2);
  });

  test('a claim waits for a commit that is running, and sees its position', async () => {
    await claimStream(client, streamId, 0);
    const { file, ...content } = await batch(1, 2);
    // The commit of a worker that is believed to be dead, stopped between its last statement and COMMIT.
    const commit = client.query.bind(client);
    /** @type {() => void} */
    let goOn = () => {};
    const stopped = new Promise(resolve => {
      client.query = /** @type {typeof client.query} */ (
        (/** @type {any[]} */ ...args) => {
          if (args[0] !== 'COMMIT') return commit(.../** @type {[any]} */ (args));
          resolve(undefined);
          return new Promise(proceed => (goOn = () => proceed(undefined))).then(() => commit('COMMIT'));
        }
      );
    });
    const committing = commitBatch(client, content);
    await stopped;
    // Somebody who is stopped there for good does not keep the stream for ever.
    const { rows } = await commit('SHOW idle_in_transaction_session_timeout');
    assert.equal(rows[0].idle_in_transaction_session_timeout, '15s');
    const raising = raiseEpochs(other, [streamId]).then(() => claimStream(other, streamId, 2));
    const winner = await Promise.race([
      raising.then(() => 'claim'),
      new Promise(resolve => setTimeout(() => resolve('waits'), 300)),
    ]);
    assert.equal(winner, 'waits');
    goOn();
    await committing;
    client.query = commit;
    assert.deepEqual((await raising)?.files, [file]);
    assert.equal(await stored(), 2);
  });

  test('a COMMIT that is answered with ROLLBACK has stored nothing, and says so', async () => {
    await claimStream(client, streamId, 0);
    const content = await batch(1, 2);
    const query = client.query.bind(client);
    client.query = /** @type {typeof client.query} */ (
      (/** @type {[any]} */ ...args) => {
        if (args[0] !== 'COMMIT') return query(...args);
        return query('SELECT 1/0').catch(() => query(...args));
      }
    );
    try {
      await assert.rejects(commitBatch(client, content), /COMMIT was answered with ROLLBACK/);
    } finally {
      client.query = query;
    }
    assert.equal(await stored(), 0);
    await commitBatch(client, content);
    assert.equal(await stored(), 2);
  });

  test('whatever a host says that it has lost, the sum stays a number', async () => {
    await claimStream(client, streamId, 0);
    const [lostBytes, count] = [1e15, 3];
    for (let n = 0; n < count; n += 1) {
      const { streams, ...content } = await batch(1, 0);
      const changed = [...streams].map(
        ([id, advance]) => /** @type {const} */ ([id, { ...advance, lostBytes }]),
      );
      await commitBatch(client, { ...content, streams: new Map(changed) });
    }
    const { rows } = await client.query(
      'SELECT lost_bytes::float8 AS bytes, lost_events::int AS events FROM pgsluice.stream WHERE stream_id = $1',
      [streamId],
    );
    assert.deepEqual(rows, [{ bytes: lostBytes, events: count }]);
  });

  test('a COMMIT that is refused for no record has stored nothing, and says why', async () => {
    await claimStream(client, streamId, 0);
    const content = await batch(1, 2);
    await client.query(`
      CREATE FUNCTION not_today() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
      CREATE CONSTRAINT TRIGGER not_today AFTER UPDATE OF committed_at ON pgsluice.stream
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION not_today()`);
    try {
      await assert.rejects(commitBatch(client, content), /not today/);
    } finally {
      await client.query('ROLLBACK; DROP FUNCTION not_today CASCADE');
    }
    assert.equal(await stored(), 0);
    await commitBatch(client, content);
    assert.equal(await stored(), 2);
  });

  test('a batch for a day whose partition is just being made waits for it', async () => {
    await claimStream(client, streamId, 0);
    const content = await batch(1, 2);
    await other.query('BEGIN; LOCK TABLE pgsluice.record_default IN ACCESS EXCLUSIVE MODE');
    const committing = commitBatch(client, { ...content, toDefault: true });
    committing.catch(() => {});
    const waiting = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'pgsluice.record_default'::regclass`;
    while ((await other.query(waiting)).rowCount === 0) await new Promise(resolve => setTimeout(resolve, 10));
    await other.query(`
      CREATE TABLE pgsluice.record_20261120 (LIKE pgsluice.record INCLUDING CONSTRAINTS);
      WITH moved AS (DELETE FROM pgsluice.record_default RETURNING *) INSERT INTO pgsluice.record_20261120 SELECT * FROM moved;
      ALTER TABLE pgsluice.record ATTACH PARTITION pgsluice.record_20261120
        FOR VALUES FROM ('2026-11-20 00:00:00+00') TO ('2026-11-21 00:00:00+00');
      COMMIT`);
    await committing;
    assert.equal(await stored(), 2);
  });

  test('a backend that ends in the middle stores nothing', async () => {
    await claimStream(client, streamId, 0);
    const victim = await connectStorage(server.connectionOptions);
    const { rows } = await victim.query('SELECT pg_backend_pid() AS pid');
    const content = await batch(1, 50_000);
    const committing = commitBatch(victim, content);
    committing.catch(() => {});
    await other.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
    await assert.rejects(committing);
    await victim.end().catch(() => {});
    assert.equal(await stored(), 0);
    const claim = await claimStream(client, streamId, await epochNow());
    assert.deepEqual(claim?.files, []);
  });
});
