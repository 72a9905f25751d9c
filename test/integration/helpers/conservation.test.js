// The conservation check itself: that it sees a record that is missing, one that is there twice, and one that differs.
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { checkConservation } from '../../helpers/conservation.js';
import { startPostgres } from '../../helpers/postgres.js';

const FIXTURE = fileURLToPath(new URL('../../fixtures/csvlog/postgresql-18.csv', import.meta.url));

describe('the conservation check', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {Client} */
  let client;

  before(async () => {
    server = await startPostgres();
    client = new Client(server.connectionOptions);
    await client.connect();
    await client.query(`CREATE SCHEMA pgsluice; CREATE TABLE pgsluice.rejected (host text)`);
    await client.query(`CREATE TABLE pgsluice.log (host text, stream text,
      log_time timestamp(3) with time zone, user_name text, database_name text, process_id integer,
      connection_from text, session_id text, session_line_num bigint, command_tag text,
      session_start_time timestamp with time zone, virtual_transaction_id text, transaction_id bigint,
      error_severity text, sql_state_code text, message text, detail text, hint text, internal_query text,
      internal_query_pos integer, context text, query text, query_pos integer, location text,
      application_name text, backend_type text, leader_pid integer, query_id bigint)`);
  });

  after(async () => {
    await client?.end();
    await server?.stop();
  });

  /** Stores the fixture, changes it, and checks. @param {string} change SQL */
  async function checked(change) {
    await client.query('TRUNCATE pgsluice.log');
    const { rows } = await client.query(
      `SELECT string_agg(attname, ', ' ORDER BY attnum) AS columns FROM pg_attribute
        WHERE attrelid = 'pgsluice.log'::regclass AND attnum > 2`,
    );
    await pipeline(
      createReadStream(FIXTURE),
      client.query(copyFrom(`COPY pgsluice.log (${rows[0].columns}) FROM STDIN (FORMAT csv)`)),
    );
    await client.query(`UPDATE pgsluice.log SET host = 'h', stream = 's'`);
    await client.query(change);
    const { missing, duplicated, source, stored } = await checkConservation(client, 'h', [FIXTURE]);
    return { missing, duplicated, difference: stored - source };
  }
  const ONE = '(SELECT ctid FROM pgsluice.log ORDER BY session_line_num DESC LIMIT 1)';

  test('everything once', async () => {
    assert.deepEqual(await checked('SELECT 1'), { missing: 0, duplicated: 0, difference: 0 });
  });

  test('one record is missing', async () => {
    const result = await checked(`DELETE FROM pgsluice.log WHERE ctid = ${ONE}`);
    assert.deepEqual(result, { missing: 1, duplicated: 0, difference: -1 });
  });

  test('one record is there twice', async () => {
    const result = await checked(`INSERT INTO pgsluice.log SELECT * FROM pgsluice.log WHERE ctid = ${ONE}`);
    assert.deepEqual(result, { missing: 0, duplicated: 1, difference: 1 });
  });

  test('one record differs in one column', async () => {
    const result = await checked(`UPDATE pgsluice.log SET hint = 'another' WHERE ctid = ${ONE}`);
    assert.deepEqual(result, { missing: 1, duplicated: 1, difference: 0 });
  });
});
