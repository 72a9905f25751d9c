/**
 * Whom endWhenSilent ends and whom it leaves alone: connections through a proxy that can fall silent, sessions of a real
 * PostgreSQL. Who asks about them comes through a proxy of its own, which counts. A lock on pg_stat_activity makes it wait.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { from } from 'pg-copy-streams';
import { connectStorage, cutConnection } from '../../../src/storage/connect.js';
import { endWhenSilent } from '../../../src/storage/silence.js';
import { startPostgres } from '../../helpers/postgres.js';
import { startSilentProxy } from '../../helpers/silent-proxy.js';
import { until } from '../../helpers/until.js';

const SILENT_MS = 200;
/** So that what is asserted is never just a matter of time. */
const NEVER_MS = 600_000;
const WAIT_MS = 8_000; // less than what connectStorage waits for by itself

/** @param {Promise<unknown>} promise that is to fail soon */
const inTime = promise =>
  Promise.race([
    promise,
    sleep(WAIT_MS, undefined, { ref: false }).then(() => Promise.reject(new Error('it still waits'))),
  ]);

describe('a connection on which nothing comes or goes', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client} */
  let direct;
  /** @type {Awaited<ReturnType<typeof startSilentProxy>>} */
  let proxy;
  /** @type {Awaited<ReturnType<typeof startSilentProxy>>} */
  let askers;
  /** @type {import('pg').Client[]} */
  let clients = [];

  before(async () => {
    server = await startPostgres({ tcp: true });
    direct = await connectStorage(server.connectionOptions);
  });
  after(async () => {
    await direct?.end();
    await server?.stop();
  });
  beforeEach(async () => {
    proxy = await startSilentProxy({ port: server.port });
    askers = await startSilentProxy({ port: server.port });
  });
  afterEach(async () => {
    await direct.query('ROLLBACK');
    for (const client of clients) cutConnection(client);
    clients = [];
    await Promise.all([proxy.close(), askers.close()]);
  });

  /** @param {number} port */
  const through = port => ({ ...server.connectionOptions, host: '127.0.0.1', port });

  async function connect() {
    const client = await connectStorage(through(proxy.port));
    clients.push(client);
    return client;
  }

  /** @param {import('pg').Client} client @param {{ silentMaxMs?: number, askMaxMs?: number }} [limits] */
  const watch = (client, { silentMaxMs = NEVER_MS, askMaxMs = NEVER_MS } = {}) =>
    endWhenSilent(client, through(askers.port), { silentMs: SILENT_MS, silentMaxMs, askMaxMs });

  /** @param {import('pg').Client} client */
  const pidOf = async client => (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;

  /** @param {number} pid */
  const lives = async pid =>
    (await direct.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).rowCount === 1;

  // LOCK would go on to the tables below the view, without which nobody can even connect.
  const keepAskersWaiting = () =>
    direct.query(`BEGIN; SET LOCAL allow_system_table_mods = on;
                  ALTER VIEW pg_catalog.pg_stat_activity SET (security_barrier = false)`);
  const anAskerWaits = () =>
    until(
      async () => (await direct.query('SELECT FROM pg_locks WHERE NOT granted')).rowCount === 1,
      'an asker waits',
      WAIT_MS,
    );

  test('is not asked about while nothing is asked on it', async () => {
    const client = await watch(await connect(), { silentMaxMs: SILENT_MS });
    await sleep(3 * SILENT_MS);
    assert.equal(askers.accepted(), 0);
    await client.query('SELECT 1');
  });

  test('is left alone while its session works', async () => {
    const client = await watch(await connect(), { silentMaxMs: SILENT_MS });
    await client.query('SELECT pg_sleep(1)');
    assert.ok(askers.accepted() > 0, 'it was asked about');
    await until(() => askers.open() === 0, 'who asked has left', WAIT_MS);
    await client.query('SELECT 1');
  });

  test('is ended at once when there is no such session any more', async () => {
    const client = await watch(await connect());
    const pid = await pidOf(client);
    proxy.silence();
    const answer = client.query('SELECT 1');
    answer.catch(() => {});
    await direct.query('SELECT pg_terminate_backend($1, 10000)', [pid]);
    await assert.rejects(inTime(answer), /no answer/);
  });

  test('is ended when its session waits for data that does not come', async () => {
    const client = await watch(await connect(), { silentMaxMs: 2 * SILENT_MS });
    await client.query('CREATE TEMP TABLE t (n int)');
    const copy = client.query(from('COPY t FROM STDIN'));
    const failed = once(copy, 'error');
    const copies = `SELECT FROM pg_stat_activity WHERE query LIKE 'COPY%' AND wait_event = 'ClientRead'`;
    await until(async () => (await direct.query(copies)).rowCount === 1, 'the COPY', WAIT_MS);
    proxy.silence();
    assert.match(String(await inTime(failed)), /no answer/);
  });

  test('is ended when the session has waited for us for long, and the session with it', async () => {
    const client = await watch(await connect(), { silentMaxMs: 4 * SILENT_MS });
    const pid = await pidOf(client);
    await client.query('BEGIN');
    proxy.silence();
    const first = client.query('SELECT 1');
    await until(() => askers.accepted() === 1, 'the first question', WAIT_MS);
    await sleep(SILENT_MS / 2); // it has been answered
    proxy.speak();
    await first;
    const before = askers.accepted();
    proxy.silence();
    await assert.rejects(inTime(client.query('SELECT 1')), /no answer for 1 s/);
    assert.equal(askers.accepted() - before, 4, 'time began anew with the answer');
    await until(async () => !(await lives(pid)), 'the end of the session', WAIT_MS);
  });

  test('is left alone when it answers while it is asked about', async () => {
    const client = await watch(await connect(), { silentMaxMs: SILENT_MS });
    const pid = await pidOf(client);
    await keepAskersWaiting();
    proxy.silence();
    const first = client.query('SELECT 1');
    await anAskerWaits();
    proxy.speak();
    await first;
    proxy.silence();
    const second = client.query('SELECT 2 AS n');
    await sleep(3 * SILENT_MS);
    assert.equal(askers.accepted(), 1, 'nobody asks twice at a time');
    proxy.speak();
    assert.deepEqual((await second).rows, [{ n: 2 }]);
    await direct.query('ROLLBACK');
    const asks = `SELECT FROM pg_stat_activity WHERE application_name = 'pgsluice silence'`;
    await until(async () => (await direct.query(asks)).rowCount === 0, 'the end of the question', WAIT_MS);
    assert.equal(await lives(pid), true);
    await client.query('SELECT 1');
  });

  test('is ended when the question is not answered either, and who asked leaves', async () => {
    const client = await watch(await connect(), { askMaxMs: SILENT_MS });
    await keepAskersWaiting();
    proxy.silence();
    await assert.rejects(inTime(client.query('SELECT 1')), /no answer/);
    assert.equal(askers.accepted(), 1);
    await until(() => askers.open() === 0, 'who asked has left', WAIT_MS);
  });

  test('is ended when who asks is not even let in, and asks nothing later', async () => {
    const client = await watch(await connect(), { askMaxMs: SILENT_MS });
    await keepAskersWaiting();
    proxy.silence();
    askers.silence();
    await assert.rejects(inTime(client.query('SELECT 1')), /no answer/);
    assert.equal(askers.open(), 1);
    askers.speak();
    await until(() => askers.open() === 0, 'who asked has left', WAIT_MS);
  });

  test('is ended when nobody can be asked', async () => {
    const client = await watch(await connect());
    proxy.silence();
    await askers.close();
    await assert.rejects(inTime(client.query('SELECT 1')), /no answer/);
    askers = await startSilentProxy({ port: server.port });
  });

  test('is given as much time when it falls silent before its session is known', async () => {
    const client = await connect();
    proxy.silence();
    await assert.rejects(inTime(watch(client, { silentMaxMs: 3 * SILENT_MS })), /no answer/);
    assert.equal(askers.accepted(), 3);
  });

  test('is cut when its session cannot be known', async () => {
    const client = await connect();
    await client.query('SET lock_timeout = 50');
    await keepAskersWaiting();
    await assert.rejects(watch(client), /lock timeout/);
    assert.equal(client.connection.stream.destroyed, true);
  });
});
