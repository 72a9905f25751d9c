/**
 * A Worker with a real storage and the real follower over transport local.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { dayOf } from '../../../src/storage/partitions.js';
import { raiseEpochs } from '../../../src/storage/positions.js';
import { NeededPartitions } from '../../../src/worker/needed-partitions.js';
import { Worker } from '../../../src/worker/worker.js';
import { startPostgres } from '../../helpers/postgres.js';
import { until } from '../../helpers/until.js';

/** @typedef {import('../../../src/ipc/messages.js').FromWorker} FromWorker */

/** @type {import('../../../src/storage/inventory.js').HostFields} */
const FIELDS = {
  address: 'localhost',
  port: 22,
  username: null,
  identityFile: null,
  jumpHosts: [],
  sudoUser: null,
  hostKeys: [],
  transport: 'local',
  labels: {},
  paused: false,
};
const WAIT_MS = 40_000;

/** @param {number} n @param {string} [text] */
const row = (n, text = 'a message') =>
  `2026-11-20 16:08:${String(n % 60).padStart(2, '0')}.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"${text}",,,,,,,,,"psql","client backend",,0\n`;
/** @param {number} from @param {number} to */
const rows = (from, to) => Array.from({ length: to - from }, (_, i) => row(from + i)).join('');

describe('worker', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client} */
  let client;
  /** @type {string} */
  let dir;
  /** @type {Worker[]} */
  let workers = [];
  /** @type {FromWorker[]} */
  let messages = [];
  let count = 0;

  before(async () => {
    server = await startPostgres();
    client = await connectStorage(server.connectionOptions);
    await migrate(client);
  });
  after(async () => {
    await client.end();
    await server.stop();
  });
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'pgsluice-worker-'));
    chmodSync(dir, 0o755);
    messages = [];
  });
  afterEach(async () => {
    for (const worker of workers) await worker.stop();
    workers = [];
    rmSync(dir, { recursive: true });
  });

  async function startWorker() {
    const worker = new Worker(
      {
        storage: server.connectionOptions,
        maxBatchBytes: 100_000,
        maxBatchDelayMs: 100,
        maxRecordBytes: 1_000_000,
        redact: [],
        connectTimeoutMs: 10_000,
        logLevel: 'fatal',
      },
      message => messages.push(message),
      'worker-test',
    );
    workers.push(worker);
    await sees(() => messages.some(({ type }) => type === 'ready'), 'ready');
    return worker;
  }

  /**
   * Adds a host with one stream on `dir`.
   * @param {'end' | 'current' | 'start'} startAt
   * @param {Partial<import('../../../src/storage/inventory.js').NewStream>} [changes]
   */
  async function addStream(startAt, changes = {}) {
    count += 1;
    const host = await addHost(client, `db${count}`, FIELDS, [
      {
        path: dir,
        format: 'csvlog',
        linePrefix: null,
        timeZone: null,
        encoding: null,
        encodings: {},
        startAt,
        ...changes,
      },
    ]);
    const [stream] = host.streams;
    assert.ok(stream);
    return {
      ...stream,
      host: { hostId: host.hostId, name: host.name, hostKeyAlias: '', knownHostsFile: '', ...FIELDS },
      transport: /** @type {const} */ ('local'),
      sudoUser: null,
      epoch: 0,
    };
  }

  /** @param {string} [view] */
  async function stored(view = 'log') {
    const { rows } = await client.query(
      `SELECT * FROM pgsluice.${view} WHERE host = $1 ORDER BY file_offset`,
      [`db${count}`],
    );
    return rows;
  }

  /** @param {() => unknown} condition @param {string} what */
  const sees = (condition, what) =>
    until(condition, () => `${what}; status ${JSON.stringify(messages.at(-1))}`);

  /** @param {string} name @param {string | Buffer} content @param {number} [age] */
  const write = (name, content, age = 0) => {
    writeFileSync(join(dir, name), content);
    if (age > 0) utimesSync(join(dir, name), Date.now() / 1000 - age, Date.now() / 1000 - age);
  };

  test('stores a stream from its start, and goes on where it was after a restart', async () => {
    write('1.csv', rows(0, 5_000), 10);
    write('2.csv', rows(5_000, 5_010));
    const spec = await addStream('start');
    const first = await startWorker();
    first.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 5_010, 'all rows');
    await first.stop();
    appendFileSync(join(dir, '2.csv'), rows(5_010, 5_020));
    messages = [];
    const epochs = await raiseEpochs(client, [spec.streamId]);
    const second = await startWorker();
    second.handle({ type: 'assign', stream: { ...spec, epoch: epochs.get(spec.streamId) ?? 0 } });
    await sees(async () => (await stored()).length >= 5_020, 'the new rows');
    const numbers = (await stored()).map(({ session_line_num: n }) => Number(n)).toSorted((a, b) => a - b);
    assert.deepEqual(
      numbers,
      Array.from({ length: 5_020 }, (_, n) => n),
    );
  });

  test('a record that was half there at a restart is stored whole', async () => {
    write('1.csv', row(1) + row(2).slice(0, 100));
    const spec = await addStream('start');
    const first = await startWorker();
    first.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 1, 'the whole record');
    await first.stop();
    appendFileSync(join(dir, '1.csv'), row(2).slice(100));
    messages = [];
    const epochs = await raiseEpochs(client, [spec.streamId]);
    const second = await startWorker();
    second.handle({ type: 'assign', stream: { ...spec, epoch: epochs.get(spec.streamId) ?? 0 } });
    await sees(
      async () => (await stored()).length + (await stored('rejected')).length >= 2,
      'the other record',
    );
    assert.deepEqual(
      (await stored()).map(({ session_line_num: n }) => Number(n)),
      [1, 2],
    );
    assert.deepEqual(await stored('rejected'), []);
  });

  test('from end stores only what comes later, also when nothing came before a restart', async () => {
    write('1.csv', rows(0, 100));
    const spec = await addStream('end');
    const first = await startWorker();
    first.handle({ type: 'assign', stream: spec });
    await sees(async () => {
      const { rows } = await client.query('SELECT begun FROM pgsluice.stream WHERE stream_id = $1', [
        spec.streamId,
      ]);
      return rows[0].begun;
    }, 'the beginning of the stream');
    await first.stop();
    appendFileSync(join(dir, '1.csv'), rows(100, 110));
    write('2.csv', rows(110, 120));
    messages = [];
    const epochs = await raiseEpochs(client, [spec.streamId]);
    const second = await startWorker();
    second.handle({ type: 'assign', stream: { ...spec, epoch: epochs.get(spec.streamId) ?? 0 } });
    await sees(async () => (await stored()).length >= 20, 'the new rows');
    const numbers = (await stored()).map(({ session_line_num: n }) => Number(n)).toSorted((a, b) => a - b);
    assert.deepEqual(
      numbers,
      Array.from({ length: 20 }, (_, n) => 100 + n),
    );
  });

  test('encodings by database and for all others, and the time zone of the server', async () => {
    const latin1 = (/** @type {string} */ text) => Buffer.from(text, 'latin1');
    // "Привет" in WIN1251, "né" in LATIN1; IST is three zones.
    const text = [
      row(1, 'plain').replace('"d"', '"win"'),
      row(2, '\xcf\xf0\xe8\xe2\xe5\xf2').replace('"d"', '"win"'),
      row(3, 'n\xe9'),
      row(4, '\xcf').replace('"d"', '"utf"'),
      row(5, 'x').replace('16:08:05.123 UTC', '16:08:05.123 IST'),
    ].join('');
    write('1.csv', latin1(text));
    const spec = await addStream('start', {
      encoding: 'LATIN1',
      encodings: { win: 'WIN1251', utf: 'UTF8' },
      timeZone: 'Asia/Kolkata',
    });
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 5, 'the rows');
    const rows = await stored();
    assert.deepEqual(
      rows.map(({ message }) => message),
      ['plain', 'Привет', 'né', '\\xcf', 'x'],
    );
    assert.equal(rows[4].log_time.toISOString(), '2026-11-20T10:38:05.123Z');
    const marked = await stored('marked');
    assert.deepEqual(
      marked.map(({ escaped_columns: columns }) => columns),
      [['message']],
    );
  });

  test('a stderr log: the prefix is found, kept over a restart, and its severities translated', async () => {
    const line = (/** @type {number} */ n, /** @type {string} */ text) =>
      `2026-11-20 16:08:${String(n % 60).padStart(2, '0')}.123 UTC [${n}] ${text}\n`;
    const first = Array.from({ length: 30 }, (_, n) => line(n, `LOG:  message ${n}`)).join('');
    write('a.log', first);
    const spec = await addStream('start', { format: 'auto' });
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 30, 'the first rows');
    await worker.stop();
    const { rows } = await client.query(
      'SELECT epoch::int, found_prefix FROM pgsluice.stream WHERE stream_id = $1',
      [spec.streamId],
    );
    assert.equal(rows[0].found_prefix, '%m [%p] ');
    appendFileSync(
      join(dir, 'a.log'),
      `${line(31, 'ОШИБКА:  деление на ноль')}${line(31, 'ОПЕРАТОР:  select 1/0;')}`,
    );
    messages = [];
    const next = await startWorker();
    next.handle({ type: 'assign', stream: { ...spec, epoch: rows[0].epoch } });
    await sees(async () => (await stored()).length === 31, 'the last row');
    const last = (await stored()).at(-1);
    assert.deepEqual(
      [last.error_severity, last.message, last.query, last.process_id],
      ['ERROR', 'деление на ноль', 'select 1/0;', 31],
    );
    const [mark] = await stored('marked');
    assert.equal(mark.severity_word, 'ОШИБКА');
  });

  test('of a record that is too long: its beginning, length and hash, while another stream goes on', async () => {
    // The worker's limit is 1 MB.
    const long = row(2, 'x'.repeat(30_000_000));
    write('1.csv', row(1) + long + row(3));
    const spec = await addStream('start');
    const hugeCount = count;
    const other = mkdtempSync(join(tmpdir(), 'pgsluice-worker-'));
    chmodSync(other, 0o755);
    try {
      writeFileSync(join(other, '2.csv'), rows(0, 100));
      const second = await addStream('start', { path: other });
      const worker = await startWorker();
      worker.handle({ type: 'assign', stream: spec });
      worker.handle({ type: 'assign', stream: second });
      await sees(async () => (await stored()).length === 100, 'the other stream');
      count = hugeCount;
      await sees(async () => (await stored()).length === 3, 'all three records');
    } finally {
      rmSync(other, { recursive: true });
    }
    const [, cut] = await stored();
    assert.ok(cut.message.length > 900_000 && /^x+$/.test(cut.message));
    assert.equal(cut.application_name, null);
    const [mark] = await stored('marked');
    assert.equal(mark.cut, true);
    assert.equal(Number(mark.length), Buffer.byteLength(long));
    assert.deepEqual(mark.sha256, createHash('sha256').update(long).digest());
    assert.equal((await stored('rejected')).length, 0);
    count = hugeCount + 1;
  });

  test('what cannot be stored is rejected, byte for byte, and holds nothing up', async () => {
    const bad = [
      'LOG:  not csv at all\n',
      '2026-11-20 16:08:00.123 UTC,too,few,columns\n',
      row(3).replace('2026-11-20 16:08:03.123 UTC', '2026-13-45 16:08:03.123 UTC'),
      row(5).slice(0, 120), // torn inside quotes, without its newline ...
      '\n', // ... and the next row begins on a line of its own
    ];
    const nowhere = row(4).replace('UTC,"u"', 'NOWHERE,"u"');
    const good = [row(1), row(2, 'nul \0 and \u00ff'.replace('\u00ff', '\u0000')), row(6), row(7)];
    const latin = Buffer.concat([Buffer.from(row(8, 'caf')).subarray(0, -1), Buffer.from('\n')]);
    const invalid = Buffer.from(row(9, 'caf#')).map(byte => (byte === 0x23 ? 0xe9 : byte));
    write(
      '1.csv',
      Buffer.concat([
        ...[good[0], bad[0], bad[1], good[1], bad[2], nowhere, good[2], bad[3], bad[4], good[3]].map(text =>
          Buffer.from(text ?? ''),
        ),
        latin,
        invalid,
      ]),
    );
    const spec = await addStream('start');
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 7, 'the good rows');
    assert.deepEqual(
      (await stored()).map(({ session_line_num: n }) => Number(n)),
      [1, 2, 4, 6, 7, 8, 9],
    );
    const rejected = await stored('rejected');
    assert.equal(Buffer.concat(rejected.map(({ bytes }) => bytes)).toString(), bad.join(''));
    // A zone that nobody knows: the record is stored with the time of its arrival.
    const marked = await stored('marked');
    assert.deepEqual(
      marked.map(({ escaped_columns: columns, arrival_time: arrival, cut }) => [columns, arrival, cut]),
      [
        [['message'], false, false],
        [[], true, false],
        [['message'], false, false],
      ],
    );
    const [late] = (await stored()).filter(({ session_line_num: n }) => n === '4');
    assert.ok(Math.abs(late.log_time.getTime() - Date.now()) < WAIT_MS);
    assert.deepEqual(
      (await stored()).filter(({ message }) => message.includes('\\x')).map(({ message }) => message),
      ['nul \\x00 and \\x00', 'caf\\xe9'],
    );
  });

  test('an unfinished record waits in the newest file, and is rejected in one that was left', async () => {
    write('1.csv', row(1) + row(2).slice(0, 100), 10);
    const spec = await addStream('start');
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 1, 'the finished record');
    appendFileSync(join(dir, '1.csv'), row(2).slice(100));
    await sees(async () => (await stored()).length === 2, 'the record that was finished later');
    appendFileSync(join(dir, '1.csv'), row(3).slice(0, 100));
    write('2.csv', row(4));
    await sees(async () => (await stored('rejected')).length === 1, 'the unfinished record');
    const [rejected] = await stored('rejected');
    assert.equal(rejected.bytes.toString(), row(3).slice(0, 100));
    assert.equal(rejected.file, '1.csv');
    assert.equal((await stored()).length, 3);
  });

  test('a storage that restarts loses and repeats nothing', async () => {
    write('1.csv', rows(0, 3_000));
    const spec = await addStream('start');
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    for (let n = 0; n < 5; n += 1) {
      await sleep(400);
      appendFileSync(join(dir, '1.csv'), rows(3_000 + n * 1_000, 4_000 + n * 1_000));
      if (n % 2 === 1) continue;
      await client.end();
      await server.restart('immediate');
      client = await connectStorage(server.connectionOptions);
    }
    await sees(async () => (await stored()).length >= 8_000, 'all rows');
    const numbers = (await stored()).map(({ session_line_num: n }) => Number(n)).toSorted((a, b) => a - b);
    assert.deepEqual(
      numbers,
      Array.from({ length: 8_000 }, (_, n) => n),
    );
  });

  test('a batch that fails takes those after it back, though they were copied before', async () => {
    const nextDay = (/** @type {string} */ text) => text.replaceAll('2026-11-20 16:08', '2026-11-21 16:08');
    write('1.csv', row(0) + nextDay(row(1)));
    const spec = await addStream('start');
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 2, 'the first rows');
    // The first batch waits for its day; one of the next day does not.
    const locker = await connectStorage(server.connectionOptions);
    await locker.query('BEGIN; LOCK TABLE pgsluice.record_20261120 IN ACCESS EXCLUSIVE MODE');
    appendFileSync(join(dir, '1.csv'), rows(2, 1_000) + nextDay(rows(1_000, 5_000)));
    /** @param {string} condition */
    const backends = async condition => {
      const { rows } = await client.query(
        `SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY%' AND ${condition}
          ORDER BY xact_start`,
      );
      return rows.map(({ pid }) => pid);
    };
    try {
      await sees(async () => (await backends(`wait_event_type = 'Lock'`)).length > 0, 'a batch that waits');
      await sees(async () => (await backends(`state = 'idle in transaction'`)).length > 0, 'a copied batch');
      await sleep(300);
      const [first] = await backends(`wait_event_type = 'Lock'`);
      await client.query('SELECT pg_terminate_backend($1)', [first]);
    } finally {
      await locker.end();
    }
    await sees(async () => (await stored()).length >= 5_000, 'all rows');
    const numbers = (await stored()).map(({ session_line_num: n }) => Number(n)).toSorted((a, b) => a - b);
    assert.deepEqual(
      numbers,
      Array.from({ length: 5_000 }, (_, n) => n),
    );
  });

  test('partitions for the days of a batch are made a few at a time, the others later', async () => {
    const partitions = new NeededPartitions();
    const today = dayOf(Date.now());
    const days = new Set(Array.from({ length: 3_000 }, (_, n) => today - 1 - n));
    const made = async () => {
      const { rows } = await client.query(
        `SELECT count(*)::int AS n FROM pg_inherits WHERE inhparent = 'pgsluice.record'::regclass`,
      );
      return rows[0].n;
    };
    const before = await made();
    assert.deepEqual(await partitions.ensure(client, { days, rejected: false }), {
      day: undefined,
      toDefault: true,
    });
    const first = await made();
    assert.ok(first > before && first < before + days.size, `${first - before} partitions`);
    await partitions.ensure(client, { days: new Set(), rejected: false });
    assert.ok((await made()) > first, 'what is owed is made with a later batch');
  });

  test('a stream that is assigned to somebody else is put down, and nothing of it is stored any more', async () => {
    write('1.csv', rows(0, 10));
    const spec = await addStream('start');
    const worker = await startWorker();
    worker.handle({ type: 'assign', stream: spec });
    await sees(async () => (await stored()).length === 10, 'the first rows');
    await raiseEpochs(client, [spec.streamId]);
    appendFileSync(join(dir, '1.csv'), rows(10, 20));
    await sees(() => messages.some(message => message.type === 'released' && message.fenced), 'released');
    assert.equal((await stored()).length, 10);
  });
});
