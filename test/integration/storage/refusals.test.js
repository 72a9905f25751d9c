/**
 * A storage that refuses records: those that are themselves at fault go to pgsluice.rejected and the rest is stored; for
 * any other reason nothing is rejected, and everything arrives once the reason is gone. A Worker, a real follower, and
 * an operator who is not superuser and owns the tables.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { connectStorage } from '../../../src/storage/connect.js';
import { migrate } from '../../../src/storage/migrate.js';
import { dayOf, partitionName } from '../../../src/storage/partitions.js';
import { startPostgres } from '../../helpers/postgres.js';
import { World } from '../../helpers/rotation-world.js';

const FAULTS = `
  ALTER TABLE pgsluice.record ADD CONSTRAINT no_forbidden CHECK (message NOT LIKE '%forbidden%');
  CREATE TABLE fault (code text);
  CREATE SEQUENCE attempt;
  CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE fault text;
    BEGIN
      IF NEW.message LIKE '%raise%' THEN RAISE EXCEPTION 'not this one: %', NEW.message; END IF;
      IF NEW.message LIKE '%divide%' THEN PERFORM 1 / 0; END IF;
      IF NEW.message LIKE '%own state%' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'MY001'; END IF;
      ASSERT NEW.message NOT LIKE '%assert%', 'no';
      -- A sequence knows of attempts that were taken back.
      IF NEW.message LIKE '%at first%' AND nextval('attempt') < 4 THEN RAISE EXCEPTION 'soon' USING ERRCODE = 'MY002'; END IF;
      IF NEW.message LIKE '%full%' AND EXISTS (SELECT FROM fault WHERE code = 'full') THEN
        RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100';
      END IF;
      IF NEW.message LIKE '%slow%' AND EXISTS (SELECT FROM fault WHERE code = 'sleep') THEN PERFORM pg_sleep(10); END IF;
      FOR fault IN SELECT code FROM fault WHERE code NOT IN ('sleep', 'full') LOOP
        RAISE EXCEPTION 'the storage has a fault' USING ERRCODE = fault;
      END LOOP;
      RETURN NEW;
    END $$;
  CREATE TRIGGER judge BEFORE INSERT ON pgsluice.record FOR EACH ROW EXECUTE FUNCTION judge();
  CREATE FUNCTION judge_late() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.message LIKE '%late%' THEN RAISE EXCEPTION 'not even at COMMIT' USING ERRCODE = '23514'; END IF;
      RETURN NULL;
    END $$;
  CREATE CONSTRAINT TRIGGER judge_late AFTER INSERT ON pgsluice.record DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION judge_late()`;

describe('a storage that refuses', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {World} */
  let world;
  const today = partitionName('record', dayOf(Date.now()));

  before(async () => {
    server = await startPostgres({ settings: { deadlock_timeout: '100ms' } });
    await server.query('CREATE ROLE writer LOGIN');
    await server.query('GRANT pg_signal_backend TO writer');
    await server.query('CREATE DATABASE logs OWNER writer');
    const connectionOptions = { ...server.connectionOptions, user: 'writer', database: 'logs' };
    const client = await connectStorage(connectionOptions);
    await migrate(client);
    await client.query(FAULTS);
    world = new World({ ...server, connectionOptions }, client);
    await world.ready();
  });
  after(() => world.stop());

  /** Rejected rows of one stream as csvlog messages. @param {import('../../helpers/rotation-world.js').Watched} watched */
  const refusedMessages = async watched =>
    (await watched.rejected()).map(csv => /,"([^"]*)"[,]*\n$/.exec(csv)?.[1] ?? csv);

  /** @type {[string, (n: number) => boolean][]} */
  const guilty = [
    ['the first', n => n === 0],
    ['the last', n => n === 8],
    ['one in the middle', n => n === 4],
    ['two neighbours', n => n === 3 || n === 4],
    ['every second', n => n % 2 === 0],
    ['all', () => true],
  ];
  for (const word of ['forbidden', 'raise', 'divide', 'late', 'own state', 'assert']) {
    test(`"${word}": ${guilty.map(([which]) => which).join(', ')} of nine rows`, async () => {
      /** @type {{ stream: import('../../helpers/rotation-world.js').Watched, lines: string[] }[]} */
      const streams = [];
      for (const [, is] of guilty) {
        const stream = await world.watch();
        const lines = Array.from({ length: 9 }, (_, n) => `${is(n) ? word : 'good'} ${n}`);
        stream.write('a.log', lines.map(line => `${line}\n`).join(''));
        await stream.connect();
        streams.push({ stream, lines });
      }
      const check = async (/** @type {(typeof streams)[number]} */ { stream, lines }) => {
        const isGood = (/** @type {string} */ line) => line.startsWith('good');
        await stream.until(
          async () => (await stream.lines()).length + (await stream.rejected()).length >= 9,
          'all nine',
        );
        assert.deepEqual(await stream.lines(), lines.filter(isGood));
        assert.deepEqual(
          await refusedMessages(stream),
          lines.filter(line => !isGood(line)),
        );
        // What comes later is stored, and the status counts both.
        stream.append('a.log', 'good at last\n');
        await stream.sees('good at last');
        await stream.until(
          () => (stream.status?.records ?? 0) + (stream.status?.rejected ?? 0) === 10,
          'the counts',
        );
        assert.equal(stream.status?.records, lines.filter(isGood).length + 1);
        await stream.disconnect();
      };
      await Promise.all(streams.map(check));
    });
  }

  test('what is rejected says why, where, and what its columns were', async () => {
    const stream = await world.watch({ format: 'csvlog' });
    const row = (/** @type {string} */ text) =>
      `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"${text}",,,,,,,,,"psql","client backend",,0\n`;
    stream.write('a.csv', row('good') + row('a ""forbidden"" word') + row('good too'));
    await stream.connect();
    await stream.until(async () => (await stream.lines()).length === 2, 'the good ones');
    const { rows } = await world.client.query(
      `SELECT file, file_offset::int, length::int, reason, bytes FROM pgsluice.rejected WHERE stream = $1`,
      [stream.dir],
    );
    const stored = row('a ""forbidden"" word')
      .replace('673f.11', '"673f.11"')
      .replace('3/4', '"3/4"')
      .replace('LOG,00000', '"LOG","00000"')
      .replace('16:07:59 UTC', '16:07:59.000 UTC');
    assert.deepEqual(
      rows.map(({ bytes, ...rest }) => ({ ...rest, bytes: String(bytes) })),
      [
        {
          file: 'a.csv',
          file_offset: row('good').length,
          length: stored.length,
          reason: `PostgreSQL refused it (23514: new row for relation "${partitionName('record', dayOf(Date.UTC(2026, 10, 20)))}" violates check constraint "no_forbidden"); these are its columns as a row of csvlog`,
          bytes: stored,
        },
      ],
    );
    await stream.disconnect();
  });

  test('a unique index: the first of each is stored; a value that an index cannot take is rejected whole', async () => {
    const once = await world.watch();
    await world.client.query(
      `CREATE UNIQUE INDEX once ON pgsluice.${today} (message) WHERE message LIKE 'once%'`,
    );
    once.write('a.log', 'once 1\nonce 2\nonce 1\nother\nother\nonce 2\nonce 2\n');
    await once.connect();
    await once.until(async () => (await once.rejected()).length === 3, 'those that came twice');
    assert.deepEqual(await once.lines(), ['once 1', 'once 2', 'other', 'other']);
    const long = `once ${randomBytes(30_000).toString('base64')}`;
    once.append('a.log', `${long}\nonce 3\n`);
    await once.sees('once 3');
    assert.ok((await refusedMessages(once)).includes(long));
    await once.disconnect();
    await world.client.query('DROP INDEX pgsluice.once');
  });

  test('a record that was cut, and is refused, keeps its length and hash', async () => {
    const stream = await world.watch();
    stream.write('a.log', `good\n${'forbidden '.repeat(150_000)}\ngood too\n`);
    await stream.connect();
    await stream.sees('good too');
    const { rows } = await world.client.query(
      `SELECT r.length::int, octet_length(r.bytes) AS kept, r.reason, c.length::int AS cut
         FROM pgsluice.reject r JOIN pgsluice.cut c USING (stream_id, file_no, file_offset)
        WHERE stream_id = (SELECT stream_id FROM pgsluice.stream WHERE path = $1)`,
      [stream.dir],
    );
    assert.equal(rows.length, 1);
    assert.deepEqual([rows[0].length, rows[0].cut], [1_500_001, 1_500_001]);
    assert.ok(rows[0].kept > 900_000 && rows[0].kept < 1_100_000);
    assert.match(rows[0].reason, /not all as they were written$/);
    await stream.disconnect();
  });

  test('a large batch of which all is refused ends, and another stream goes on', async () => {
    const stream = await world.watch();
    const lines = Array.from({ length: 1_000 }, (_, n) => `forbidden ${n}`);
    stream.write('a.log', `${lines.join('\n')}\n`);
    const other = await world.watch();
    other.write('a.log', 'good\n');
    await stream.connect();
    await other.connect();
    await stream.until(async () => (await stream.rejected()).length === lines.length, 'all of them');
    assert.deepEqual(await refusedMessages(stream), lines);
    await other.hasExactly(['good']);
    await stream.disconnect();
    await other.disconnect();
  });

  /** Reasons that are not the data's fault: how they come, and go. @type {[string, () => Promise<unknown>, () => Promise<unknown>][]} */
  const reasons = [
    [
      'the privilege to insert is revoked',
      () => world.client.query(`REVOKE INSERT ON pgsluice.record, pgsluice.${today} FROM writer`),
      () => world.client.query(`GRANT INSERT ON pgsluice.record, pgsluice.${today} TO writer`),
    ],
    [
      'the storage is read-only',
      () => setSystem(`SET default_transaction_read_only = 'on'`),
      () => setSystem('RESET default_transaction_read_only'),
    ],
    ...['53100', '55P03', '40001', 'XX000'].map(
      code =>
        /** @type {[string, () => Promise<unknown>, () => Promise<unknown>]} */ ([
          `SQLSTATE ${code}`,
          () => world.client.query('INSERT INTO fault VALUES ($1)', [code]),
          () => world.client.query('DELETE FROM fault'),
        ]),
    ),
    [
      'a trigger refuses every statement, even one without rows',
      () =>
        world.client.query(`
          CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'closed'; END $$;
          CREATE TRIGGER closed BEFORE INSERT ON pgsluice.record EXECUTE FUNCTION closed();
          CREATE TRIGGER closed BEFORE INSERT ON pgsluice.${today} EXECUTE FUNCTION closed()`),
      () => world.client.query('DROP FUNCTION closed CASCADE'),
    ],
    [
      'its backend is cancelled',
      () => world.client.query(`INSERT INTO fault VALUES ('sleep')`).then(() => signal('cancel')),
      () => world.client.query('DELETE FROM fault'),
    ],
    [
      'its backend is terminated',
      () => world.client.query(`INSERT INTO fault VALUES ('sleep')`).then(() => signal('terminate')),
      () => world.client.query('DELETE FROM fault'),
    ],
  ];
  /** @type {import('pg').Client} */
  let hold;
  before(async () => {
    hold = await connectStorage({ ...server.connectionOptions, database: 'logs' });
  });
  after(() => hold.end());

  /** @param {string} what */
  async function setSystem(what) {
    await server.query(`ALTER SYSTEM ${what}`);
    await server.query('SELECT pg_reload_conf()');
  }

  /** Until the test has seen a failure, whoever sleeps in the trigger is ended. @param {'cancel' | 'terminate'} how */
  async function signal(how) {
    const deadline = Date.now() + 30_000;
    for (;;) {
      const { rowCount } = await hold.query(
        `SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`,
      );
      if ((rowCount ?? 0) > 0) return;
      if (Date.now() > deadline) throw new Error('no backend sleeps');
    }
  }

  for (const [reason, come, go] of reasons) {
    test(`nothing is rejected while ${reason}`, async () => {
      const stream = await world.watch();
      stream.write('a.log', 'before\n');
      await stream.connect();
      await stream.sees('before');
      const lines = Array.from({ length: 20 }, (_, n) => `slow ${n}`);
      const { failures } = world;
      const coming = come();
      if (!reason.includes('backend')) await coming;
      stream.append('a.log', `${lines.join('\n')}\n`);
      await coming;
      await stream.until(() => world.failures > failures, 'the failure');
      assert.deepEqual(await stream.lines(), ['before']);
      assert.deepEqual(await stream.rejected(), []);
      await go();
      await stream.hasExactly(['before', ...lines]);
      await stream.disconnect();
    });
  }

  test('a fault of the storage among refused rows takes all back; then the refused ones are rejected', async () => {
    const stream = await world.watch();
    stream.write('a.log', 'before\n');
    await stream.connect();
    await stream.sees('before');
    const { failures } = world;
    await world.client.query(`INSERT INTO fault VALUES ('full')`);
    stream.append('a.log', 'forbidden 1\nfull 2\ngood 3\n');
    await stream.until(() => world.failures > failures, 'the failure');
    assert.deepEqual([await stream.lines(), await stream.rejected()], [['before'], []]);
    await world.client.query('DELETE FROM fault');
    await stream.sees('good 3');
    assert.deepEqual(await stream.lines(), ['before', 'full 2', 'good 3']);
    assert.deepEqual(await refusedMessages(stream), ['forbidden 1']);
    await stream.disconnect();
  });

  test('a row that is refused for a reason of its own, and then is not, is stored', async () => {
    const stream = await world.watch();
    stream.write('a.log', 'good\nat first\nown state\ngood too\n');
    await stream.connect();
    await stream.sees('good too');
    assert.deepEqual(await stream.lines(), ['good', 'at first', 'good too']);
    assert.deepEqual(await refusedMessages(stream), ['own state']);
    const { rows } = await world.client.query('SELECT last_value::int AS attempts FROM attempt');
    assert.deepEqual(rows, [{ attempts: 4 }], 'in the batch, in its portion, alone, and once more');
    await stream.disconnect();
  });

  test('a partition that somebody drops is made again, with the constraints of the table', async () => {
    const stream = await world.watch();
    stream.write('a.log', 'before\n');
    await stream.connect();
    await stream.sees('before');
    await world.client.query(`DROP TABLE pgsluice.${today}`);
    stream.append('a.log', 'after\nforbidden\n');
    await stream.sees('after');
    assert.deepEqual(await stream.lines(), ['after']);
    assert.deepEqual(await refusedMessages(stream), ['forbidden']);
    await stream.disconnect();
  });

  test('a stream that belongs to somebody else takes nothing of the others with it', async () => {
    const mine = await world.watch();
    const lost = await world.watch();
    for (const stream of [mine, lost]) {
      stream.write('a.log', 'before\n');
      await stream.connect();
    }
    for (const stream of [mine, lost]) await stream.sees('before');
    await mine.until(() => mine.status?.connects === 1, 'the status');
    await world.client.query(`UPDATE pgsluice.stream SET epoch = epoch + 1 WHERE path = $1`, [lost.dir]);
    lost.connected = false; // nobody gives it back
    for (let n = 0; n < 20; n += 1) for (const stream of [mine, lost]) stream.append('a.log', `line ${n}\n`);
    await mine.sees('line 19');
    await mine.hasExactly(['before', ...Array.from({ length: 20 }, (_, n) => `line ${n}`)]);
    assert.deepEqual(await lost.lines(), ['before']);
    await mine.settled();
    assert.equal(mine.status?.connects, 1, 'it was not read again');
    await mine.disconnect();
  });
});
