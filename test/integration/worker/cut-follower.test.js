/**
 * What a real follower wrote, cut after every byte and ended in every way; then another real follower, from the positions
 * that were committed: each record is stored once. And with bytes that were damaged on their way: that stream ends with
 * an error, its position says what is stored, and no other stream notices.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import { raiseEpochs } from '../../../src/storage/positions.js';
import { FollowerRun } from '../../helpers/follower.js';
import { ReplayedFollowers } from '../../helpers/replayed-follower.js';
import { StreamWorld } from '../../helpers/stream-world.js';
import { until } from '../../helpers/until.js';

/** @typedef {import('../../../src/ipc/messages.js').StreamSpec} StreamSpec */
/** @typedef {import('../../../src/worker/stream.js').Stream} Stream */
/** @typedef {import('../../../src/worker/stream.js').SourceHandlers} SourceHandlers */
/** @typedef {{ format: 'csvlog' | 'stderr', linePrefix: string | null, dir: string, bytes: Buffer, records: string[] }} Tape */

const SILENCE_MS = 26_000;
const PREFIX = '%m [%p] ';
const SHELL = { name: 'sh', argv: ['sh'], path: process.env['PATH'] ?? '' };
const ROW_BYTES = 160;
/** Not within quotes: bytes that come in between end the record. */
const TORN_AT = 64;
/** Ends within a record, as what a pipe gives may. */
const FIRST_PIECE_BYTES = 300;

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;

/** All rows are as long as each other. @param {number} n */
function row(n) {
  const [head, tail] = [
    `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},,2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"`,
    '",,,,,,,,,"psql","client backend",,0\n',
  ];
  return `${head}${`m${n}`.padEnd(ROW_BYTES - head.length - tail.length, '.')}${tail}`;
}

/** @param {number} n */
const error = n =>
  ['ERROR:  e', 'DETAIL:  two\n\tlines of ', 'STATEMENT:  select ']
    .map(text => `2026-11-20 16:08:00.123 UTC [17] ${text}${n}\n`)
    .join('');

/**
 * How an attempt to read ends.
 * @type {Record<string, (stream: Stream, handlers: SourceHandlers, rest: Buffer) => void>}
 */
const ENDINGS = {
  'end of file': (_, { onEnd }) => onEnd(null),
  'an error of ssh': (_, { onEnd }) => onEnd(new PgsluiceError('SSH_PROTOCOL', 'the connection was lost')),
  'an exit code': (_, { onEnd }) =>
    onEnd(new PgsluiceError('FOLLOWER_FAILED', 'the follower ended with exit code 141')),
  silence: stream => stream.tick(performance.now() + SILENCE_MS),
  'bytes and ends that come late': (_, { onOpen, onChunk, onEnd }, rest) => {
    onEnd(null);
    onOpen();
    onChunk(rest);
    onEnd(new Error('again'));
  },
};

/** Bytes that are in the place of those that were sent. @type {Record<string, (bytes: Buffer, at: number, value: number) => Buffer>} */
const DAMAGES = {
  flipped: (bytes, at, value) => {
    const copy = Buffer.from(bytes);
    const flip = 1 + (value % 255);
    copy[at] = (copy[at] ?? 0) ^ flip;
    // A newline more would make two records of one.
    if (copy[at] === NEWLINE) copy[at] ^= 0x80;
    return copy;
  },
  garbage: (bytes, at, value) =>
    Buffer.concat([bytes.subarray(0, at), GARBAGE[value % GARBAGE.length] ?? bytes, bytes.subarray(at)]),
};
const NEWLINE = 10;
const GARBAGE = [
  'D 0 999999999999999\n',
  'D 160 160\n',
  'T 160 160\n',
  'K 160\n',
  'F 1 1 0 new other.csv\n',
  'H 1 -5 0 0\n',
  `${'9'.repeat(5_000)}`,
  'X moved \u001b]0;owned\u0007\u009b2J\u202e\n',
  'E 1 99999999999999999999\n',
  'S 1 999999999999999 999999999 999999999999999 999999999 999999999999999 ./skipped.csv\n',
  'L removed 999999999999999 a\n',
  'S 1 5 999999999999999 1 999999999999999 1 ./skipped.csv\n',
  '\0\0\0\0',
  'V 2 1\n',
].map(text => Buffer.from(text));

describe('a follower whose bytes are cut', () => {
  /** @type {StreamWorld} */
  let world;
  const followers = new ReplayedFollowers();
  /** @type {Tape} */
  let csvlog;
  /** @type {Tape} */
  let stderr;

  before(async () => {
    world = await StreamWorld.start();
    [csvlog, stderr] = await Promise.all([recordCsvlog(), recordStderr()]);
  });
  after(async () => {
    await world?.stop();
    await followers.stop();
    for (const tape of [csvlog, stderr]) if (tape) rmSync(tape.dir, { recursive: true });
  });

  /** @param {StreamSpec[]} specs @param {Tape} tape */
  async function eachOnce(specs, tape) {
    const ids = specs.map(({ streamId }) => streamId);
    const counts = () =>
      world.rows(
        `SELECT count(*)::int AS n FROM pgsluice.record WHERE stream_id = ANY($1) GROUP BY stream_id`,
        [ids],
      );
    await until(
      async () => {
        const rows = await counts();
        return rows.length === ids.length && rows.every(({ n }) => n >= tape.records.length);
      },
      async () =>
        `${(await counts()).filter(({ n }) => n >= tape.records.length).length} of ${ids.length} streams with all records`,
    );
    const wrong = await world.rows(
      `SELECT stream_id, array_agg(message ORDER BY message) AS messages
         FROM pgsluice.record WHERE stream_id = ANY($1) GROUP BY stream_id
       HAVING array_agg(message || coalesce(detail || query, '') ORDER BY message) <> $2::text[]`,
      [ids, tape.records],
    );
    assert.deepEqual(
      wrong.map(({ stream_id: id, messages }) => [ids.indexOf(id), messages]),
      [],
    );
    assert.deepEqual(await world.rows('SELECT * FROM pgsluice.reject WHERE stream_id = ANY($1)', [ids]), []);
    assert.deepEqual(
      await world.rows('SELECT * FROM pgsluice.stream WHERE stream_id = ANY($1) AND lost_events > 0', [ids]),
      [],
    );
    assert.deepEqual(world.failures, []);
  }

  /**
   * A stream that reads the tape up to a byte, and then, in its next attempts, what a follower writes now.
   * @param {StreamSpec} spec
   * @param {import('../../../src/worker/batcher.js').Batcher} batcher
   * @param {{ tape: Tape, cut: number, ending: string }} how
   */
  function cutStream(spec, batcher, { tape, cut, ending }) {
    let attempts = 0;
    const stream = world.run(spec, batcher, (_spec, _attempt, follower, handlers) => {
      attempts += 1;
      if (attempts > 1) return source(followers.read(follower, handlers.onChunk));
      setImmediate(() => {
        const middle = Math.min(cut, FIRST_PIECE_BYTES);
        for (const piece of [tape.bytes.subarray(0, middle), tape.bytes.subarray(middle, cut)])
          if (piece.length > 0) handlers.onChunk(Buffer.from(piece));
        if (cut === 0 && ending === 'silence') handlers.onOpen();
        ENDINGS[ending]?.(stream, handlers, Buffer.from(tape.bytes.subarray(cut)));
      });
      return source(() => {});
    });
    return stream;
  }

  for (const format of /** @type {const} */ (['csvlog', 'stderr'])) {
    test(`${format}: every byte, and every way to end around a frame`, async t => {
      const tape = format === 'csvlog' ? csvlog : stderr;
      const endings = Object.keys(ENDINGS);
      const cuts = Array.from({ length: tape.bytes.length + 1 }, (_, cut) =>
        nearFrame(tape.bytes, cut)
          ? endings.map(ending => ({ tape, cut, ending }))
          : [{ tape, cut, ending: endings[cut % endings.length] ?? '' }],
      ).flat();
      const { dir, linePrefix } = tape;
      const specs = await world.add(cuts.length, { path: dir, format, linePrefix });
      const batcher = world.newBatcher();
      for (const [index, cut] of cuts.entries()) {
        const spec = specs[index];
        if (spec) cutStream({ ...spec, path: dir }, batcher, cut);
        if (index % 50 === 0) await turn();
      }
      await eachOnce(specs, tape);
      await world.settle(batcher);
      await eachOnce(specs, tape);
      t.diagnostic(`${cuts.length} cuts, ${followers.count} followers`);
    });
  }
  test('the rest goes to a worker that was thought dead, while another reads on', async () => {
    const cuts = Array.from({ length: Math.floor(csvlog.bytes.length / 7) }, (_, n) => n * 7);
    const { dir } = csvlog;
    const specs = await world.add(cuts.length, { path: dir, format: 'csvlog' });
    const [dead, alive] = [world.newBatcher(), world.newBatcher()];
    /** @type {(() => void)[]} */
    const late = [];
    for (const [index, cut] of cuts.entries()) {
      const spec = specs[index];
      if (!spec) continue;
      world.run({ ...spec, path: dir }, dead, (_spec, _attempt, _follower, { onChunk }) => {
        setImmediate(() => {
          if (cut > 0) onChunk(Buffer.from(csvlog.bytes.subarray(0, cut)));
        });
        late.push(() => onChunk(Buffer.from(csvlog.bytes.subarray(cut))));
        return source(() => {});
      });
    }
    await until(
      () => late.length === cuts.length,
      () => late.length,
    );
    const epochs = await raiseEpochs(
      world.client,
      specs.map(({ streamId }) => streamId),
    );
    let claimed = 0;
    for (const spec of specs) {
      const own = { ...spec, path: dir, epoch: epochs.get(spec.streamId) ?? 0 };
      world.run(own, alive, (_spec, _attempt, follower, { onChunk }) => {
        claimed += 1;
        return source(followers.read(follower, onChunk));
      });
    }
    await until(
      () => claimed === cuts.length,
      () => claimed,
    );
    for (const say of late) say();
    await eachOnce(specs, csvlog);
    await world.settle(dead);
    await world.settle(alive);
    await eachOnce(specs, csvlog);
  });

  test('damaged bytes end their own stream, and no position is past what is stored', async () => {
    const { dir, bytes } = csvlog;
    const flips = Array.from({ length: bytes.length }, (_, at) => ({
      at,
      kind: 'flipped',
      value: at * 7 + 3,
    }));
    const more = fc.sample(
      fc.record({
        at: fc.nat(bytes.length - 1),
        kind: fc.constant('flipped'),
        value: fc.nat(),
      }),
      300,
    );
    // Within the bytes of a record it would be taken for them.
    const frames = [...bytes.toString('latin1').matchAll(/^[A-Z] .*$/gm)].map(({ index }) => index);
    const garbage = frames.flatMap(at => GARBAGE.map((_, value) => ({ at, kind: 'garbage', value })));
    const damages = [...flips, ...more, ...garbage];
    const specs = await world.add(damages.length, { path: dir, format: 'csvlog' });
    const [honest] = await world.add(1, { path: dir, format: 'csvlog' });
    assert.ok(honest);
    const batcher = world.newBatcher();
    const logged = world.log.length;
    let opened = 0;
    const streams = specs.map((spec, index) => {
      const damage = damages[index];
      assert.ok(damage);
      return world.run({ ...spec, path: dir }, batcher, (_spec, _attempt, _follower, { onChunk }) => {
        setImmediate(() => {
          opened += 1;
          onChunk(DAMAGES[damage.kind]?.(bytes, damage.at, damage.value) ?? bytes);
        });
        return source(() => {});
      });
    });
    world.run({ ...honest, path: dir }, batcher, (_spec, _attempt, follower, { onChunk }) =>
      source(followers.read(follower, onChunk)),
    );
    await until(
      () => opened >= specs.length,
      () => opened,
    );
    await eachOnce([honest], csvlog);
    const told = streams.map(({ status }) => status.error);
    await world.settle(batcher);
    assert.deepEqual(world.failures, []);
    for (const [index, report] of told.entries()) {
      if (report === null) continue;
      const what = JSON.stringify([damages[index], report]);
      assert.match(report.code, /^FOLLOWER_(PROTOCOL|FAILED)$/, what);
      assert.doesNotMatch(report.message, /\n/, what);
      assert.doesNotMatch(report.message, UNSAFE, what);
    }
    assert.ok(told.filter(report => report !== null).length > 100, 'damage is noticed');
    assert.doesNotMatch(world.log.slice(logged), UNSAFE);
    // Records and rejected bytes lie side by side from 0 up to the position.
    const wrong = await world.rows(
      `WITH piece AS (
         SELECT stream_id, file_no, file_offset, $2::bigint AS length FROM pgsluice.record
          UNION ALL SELECT stream_id, file_no, file_offset, length FROM pgsluice.reject
       ), placed AS (
         SELECT *, coalesce(lag(file_offset + length) OVER w, 0) AS expected FROM piece
         WINDOW w AS (PARTITION BY stream_id, file_no ORDER BY file_offset)
       ), sum AS (
         SELECT stream_id, file_no, bool_and(file_offset = expected) AS whole, sum(length) AS bytes
           FROM placed GROUP BY 1, 2
       )
       SELECT f.stream_id, f.file_no, f.name, f."offset", whole, bytes FROM pgsluice.file f
         FULL JOIN sum USING (stream_id, file_no)
        WHERE stream_id = ANY($1) AND f.name <> 'skipped.csv' AND (f."offset", true) IS DISTINCT FROM (coalesce(bytes, 0), coalesce(whole, true))`,
      [specs.map(({ streamId }) => streamId), ROW_BYTES],
    );
    assert.deepEqual(
      wrong.map(({ stream_id: id, ...file }) => [
        damages[specs.findIndex(({ streamId }) => streamId === id)],
        file,
      ]),
      [],
    );
  });
});

/** @param {() => void} close @returns {import('../../../src/transport/fifo.js').ByteSource} */
const source = close => ({ pause: () => {}, resume: () => {}, close });

/** @param {Buffer} bytes @param {number} cut */
function nearFrame(bytes, cut) {
  return /\n[A-Z][^\n"]{0,80}$|^[A-Z][^\n"]{0,80}$/.test(
    bytes.toString('latin1', Math.max(0, cut - 90), cut),
  );
}

/** @param {{ format: 'csvlog' | 'stderr', linePrefix: string | null }} how @param {(dir: string, run: FollowerRun) => Promise<void>} write */
async function record({ format, linePrefix }, write) {
  const dir = mkdtempSync(join(tmpdir(), 'pgsluice-cut-'));
  chmodSync(dir, 0o755);
  const run = new FollowerRun(SHELL, { path: dir, format });
  /** @type {Buffer[]} */
  const chunks = [];
  run.process.stdout.on('data', chunk => chunks.push(chunk));
  try {
    await run.until(() => run.frames.some(({ type }) => type === 'begun'), 'the beginning');
    await write(dir, run);
    // Nothing more was there, and the host said so.
    await run.until(() => run.frames.at(-1)?.type === 'heartbeat', 'a heartbeat after the last byte');
  } finally {
    await run.stop();
  }
  return { format, linePrefix, dir, bytes: Buffer.concat(chunks) };
}

async function recordCsvlog() {
  const rows = [0, 1, 2, 3, 4, 5].map(row);
  const tape = await record({ format: 'csvlog', linePrefix: null }, async (dir, run) => {
    const [first, second] = [join(dir, 'a.csv'), join(dir, 'b.csv')];
    const has = (/** @type {string} */ name, /** @type {number} */ length) =>
      run.until(() => run.bytes(name).length === length, `${length} bytes of ${name}`);
    writeFileSync(first, rows.slice(0, 2).join('') + rows[2]?.slice(0, TORN_AT));
    await has('a.csv', 2 * ROW_BYTES + TORN_AT);
    appendFileSync(first, rows[2]?.slice(TORN_AT) ?? '');
    writeFileSync(second, rows.slice(3, 5).join(''));
    await has('b.csv', 2 * ROW_BYTES);
    appendFileSync(second, rows[5] ?? '');
    await has('b.csv', 3 * ROW_BYTES);
  });
  return { ...tape, records: rows.map(text => /"(m[^"]+)"/.exec(text)?.[1] ?? '') };
}

async function recordStderr() {
  const errors = [0, 1, 2].map(error);
  const tape = await record({ format: 'stderr', linePrefix: PREFIX }, async (dir, run) => {
    const log = join(dir, 'pg.log');
    const size = () => run.bytes('pg.log').length + run.bytes('pg.log.1').length;
    writeFileSync(log, `${errors[0]}${errors[1]?.slice(0, 60)}`);
    await run.until(() => size() > 0, 'the first bytes');
    appendFileSync(log, errors[1]?.slice(60) ?? '');
    renameSync(log, `${log}.1`);
    writeFileSync(log, errors[2] ?? '');
    await run.until(() => size() === errors.join('').length, 'the new file');
  });
  return { ...tape, records: [0, 1, 2].map(n => `e${n}two\nlines of ${n}select ${n}`) };
}
