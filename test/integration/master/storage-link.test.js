/**
 * Work of master on the storage that takes longer than anybody waits for an answer: a server that works is left alone,
 * one that says nothing any more is noticed. A real PostgreSQL whose migration is really slow, behind a proxy. And what
 * is past retention goes when the clock is not in doubt.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createLogger } from '../../../src/base/logger.js';
import { loadConfig } from '../../../src/config/load.js';
import { StorageLink } from '../../../src/master/storage-link.js';
import { startPostgres } from '../../helpers/postgres.js';
import { startSilentProxy } from '../../helpers/silent-proxy.js';
import { until } from '../../helpers/until.js';

const SILENCE = { silentMs: 200, silentMaxMs: 400, askMaxMs: 1_500 };
const SLOW_S = 1.5; // many times SILENCE

describe('long work on the storage', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {string} */
  let dir;
  let databases = 0;
  before(async () => {
    server = await startPostgres({ tcp: true });
    dir = mkdtempSync(join(tmpdir(), 'pgsluice-link-'));
  });
  after(async () => {
    await server.stop();
    rmSync(dir, { recursive: true });
  });

  /** A database whose first migration takes long, a proxy before it, and a link through the proxy. */
  async function slowStorage() {
    databases += 1;
    const database = `slow_${databases}`;
    await server.createDatabase(database);
    /** @param {string} sql */
    const query = async sql => (await server.query(sql, [], database)).rows;
    await query(`
      CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(${SLOW_S}); END $$;
      CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE SCHEMA') EXECUTE FUNCTION slow()`);
    const proxy = await startSilentProxy({ port: server.port });
    const { config } = loadConfig({
      env: {
        ...process.env,
        PGSLUICE_STORAGE_URL: `postgres://${server.user}@127.0.0.1:${proxy.port}/${database}`,
        PGSLUICE_DAEMON_DATA_DIR: dir,
        PGSLUICE_DAEMON_RUNTIME_DIR: dir,
      },
    });
    let lost = 0;
    /** @type {{ reason: string | null, asked: number }} */
    const doubt = { reason: null, asked: 0 };
    const link = new StorageLink({
      config,
      log: createLogger({ name: 'link', level: 'fatal' }),
      onReady: () => {},
      onEdit: () => {},
      onLost: () => (lost += 1),
      onStandby: () => {},
      doubtClock: () => {
        doubt.asked += 1;
        return doubt.reason;
      },
      silence: SILENCE,
      retentionMs: 300,
    });
    return {
      link,
      doubt,
      proxy,
      query,
      lost: () => lost,
      asleep: () =>
        until(
          async () => (await query(`SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'`)).length > 0,
          'somebody sleeps',
        ),
      stop: async () => {
        await link.close();
        await proxy.close();
      },
    };
  }

  test('a slow migration comes to its end, in one go, and so does slow work', async () => {
    const { link, query, lost, stop } = await slowStorage();
    try {
      await link.start();
      assert.equal(link.mode, 'ready', String(link.error));
      const [{ count }] = await query(
        'SELECT count(DISTINCT applied_at)::int AS count FROM pgsluice.migration',
      );
      assert.equal(count, 1);
      await link.use(client => client.query(`SELECT pg_sleep(${SLOW_S})`));
      assert.deepEqual([link.mode, lost()], ['ready', 0]);
    } finally {
      await stop();
    }
  });

  test('a storage that falls silent in the middle of a migration is given up, and the migration made again', async () => {
    const { link, proxy, query, asleep, stop } = await slowStorage();
    try {
      const starting = link.start();
      await asleep();
      proxy.silence();
      await starting;
      assert.equal(link.mode, 'connecting');
      assert.match(String(link.error), /no answer|lost|timeout/);
      await query('DROP EVENT TRIGGER slow');
      proxy.cut();
      proxy.speak();
      await until(() => link.mode === 'ready', 'the storage is there again');
    } finally {
      await stop();
    }
  });

  test('a storage that falls silent during work is given up', async () => {
    const { link, proxy, query, asleep, lost, stop } = await slowStorage();
    try {
      await query('DROP EVENT TRIGGER slow');
      await link.start();
      const working = link.use(client => client.query('SELECT pg_sleep(60)'));
      await asleep();
      proxy.silence();
      await assert.rejects(working, /no answer/);
      await until(() => link.mode === 'connecting', 'the loss');
      assert.equal(lost(), 1);
    } finally {
      await stop();
    }
  });

  test('what is past retention is dropped, but not while the clock is in doubt', async () => {
    const { link, doubt, query, stop } = await slowStorage();
    try {
      await query('DROP EVENT TRIGGER slow');
      doubt.reason = 'the clocks of most hosts are 24 h behind ours';
      await link.start();
      await query(`CREATE TABLE pgsluice.record_20200101 PARTITION OF pgsluice.record
                     FOR VALUES FROM ('2020-01-01 00:00:00+00') TO ('2020-01-02 00:00:00+00')`);
      const isThere = async () =>
        (await query(`SELECT to_regclass('pgsluice.record_20200101') IS NOT NULL AS there`))[0].there;
      await until(() => doubt.asked >= 3, 'the clock is asked for');
      assert.equal(await isThere(), true);
      doubt.reason = null;
      await until(async () => !(await isThere()), 'the partition is dropped');
      assert.equal(link.mode, 'ready');
    } finally {
      await stop();
    }
  });
});
