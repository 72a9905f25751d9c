/**
 * A Worker with a real storage, real FIFOs and the real follower, that hears from sshproxy what it may hear in any
 * order, again, and of attempts that are over: each record is stored once, and no descriptor is left open.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from '../../../src/worker/worker.js';
import { Random } from '../../fuzz/random.js';
import { StreamWorld } from '../../helpers/stream-world.js';
import { until } from '../../helpers/until.js';

/** @typedef {import('../../../src/ipc/messages.js').FromWorker} FromWorker */
/** @typedef {Extract<FromWorker, { type: 'open' }>} Open */

const seed = Number(process.env['CHANNELS_SEED'] ?? 1);
const STEPS = 150;
const STREAMS = 4;
const ASK_AGAIN_MS = 15_000;
const ERROR = { code: /** @type {const} */ ('PROCESS_DIED'), message: 'sshproxy ended' };

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`;

/** @type {StreamWorld} */
let world;
/** @type {string} */
let dir;
before(async () => {
  world = await StreamWorld.start();
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-order-'));
  chmodSync(dir, 0o755);
});
after(async () => {
  await world.stop();
  rmSync(dir, { recursive: true });
});

/** What sshproxy does for a worker: FIFOs, and followers that write into them. */
class Followers {
  /** @type {FromWorker[]} */
  messages = [];
  /** @type {Map<string, string>} */
  paths = new Map();
  /** @type {Set<import('node:child_process').ChildProcess>} */
  running = new Set();
  #opens = new Map();

  /** @param {{ streamId: number, attempt: number }} channel */
  static key = ({ streamId, attempt }) => `${streamId} ${attempt}`;

  /** @param {Open} open @returns {string} */
  fifo(open) {
    const key = Followers.key(open);
    this.#opens.set(key, open);
    const path = this.paths.get(key) ?? join(dir, `fifo-${randomUUID()}`);
    if (!this.paths.has(key)) execFileSync('mkfifo', [path]);
    this.paths.set(key, path);
    return path;
  }

  /** @param {{ streamId: number, attempt: number }} channel whose FIFO the worker has opened */
  start(channel) {
    const open = this.#opens.get(Followers.key(channel));
    if (!open) return;
    let fd;
    try {
      fd = openSync(this.fifo(open), constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      return; // it has been closed meanwhile
    } finally {
      this.#opens.delete(Followers.key(channel));
    }
    const child = spawn('/bin/sh', ['-c', open.command], { stdio: ['pipe', fd, 'ignore'] });
    closeSync(fd);
    this.running.add(child);
    child.once('close', () => this.running.delete(child));
    child.stdin?.on('error', () => {});
    child.stdin?.end(open.input);
  }
}

/** @param {Followers} followers @param {(message: FromWorker) => void} [heard] */
async function startWorker(followers, heard = () => {}) {
  const worker = new Worker(
    {
      storage: world.connectionOptions,
      maxBatchBytes: 100_000,
      maxBatchDelayMs: 50,
      maxRecordBytes: 1_000_000,
      redact: [],
      connectTimeoutMs: 10_000,
      logLevel: 'silent',
    },
    message => {
      followers.messages.push(message);
      heard(message);
    },
    'worker-order',
  );
  await until(
    () => followers.messages.some(({ type }) => type === 'ready'),
    () => 'ready',
  );
  return worker;
}

/** @param {string} path of its directory */
async function oneStream(path) {
  mkdirSync(path);
  const [spec] = await world.add(1, { path, format: 'csvlog' });
  assert.ok(spec);
  return spec;
}

const descriptors = () => readdirSync('/proc/self/fd').length;

test(`messages in any order and repeated, from seed ${seed}`, async t => {
  const random = new Random(seed);
  const specs = await Promise.all(Array.from({ length: STREAMS }, (_, n) => oneStream(join(dir, `log${n}`))));
  let written = 0;
  const write = () => {
    for (const { path } of specs) appendFileSync(join(path, 'a.csv'), row(written));
    written += 1;
  };
  write();
  const before = descriptors();
  const followers = new Followers();
  const worker = await startWorker(followers, message => {
    // As over a channel: later, and what it answers comes later still.
    if (message.type === 'open')
      setImmediate(() => worker.handle({ ...message, type: 'fifo', path: followers.fifo(message) }));
    if (message.type === 'opened') setImmediate(() => followers.start(message));
    if (message.type === 'turn') setImmediate(() => worker.handle({ ...message, type: 'turn' }));
  });
  t.after(() => worker.stop());
  for (const stream of specs) worker.handle({ type: 'assign', stream: { ...stream, transport: 'openssh' } });
  const opens = () => followers.messages.filter(message => message.type === 'open');
  await until(
    () => opens().length >= STREAMS,
    () => 'all are asked for',
  );
  for (let step = 0; step < STEPS; step += 1) {
    const { streamId, attempt } = random.pick(opens());
    const channel = { streamId, attempt: attempt + random.pick([0, 0, 0, 1, -1]) };
    const path = random.pick([...followers.paths.values(), join(dir, 'nowhere')]);
    worker.handle(
      random.pick([
        { type: 'fifo', ...channel, path: followers.paths.get(Followers.key(channel)) ?? path },
        { type: 'started', ...channel },
        { type: 'closed', ...channel, error: random.pick([null, ERROR]) },
        { type: 'turn', ...channel },
        { type: 'refused', ...channel, error: ERROR },
        { type: 'unassign', streamId, epoch: 0 },
        { type: 'assign', stream: { ...random.pick(specs), transport: 'openssh' } },
      ]),
    );
    if (random.oneIn(3)) write();
    if (random.oneIn(3)) await sleep(random.int(30));
  }
  // Whoever was put down is assigned under the next epoch, as master does.
  for (const stream of specs) {
    const [{ epoch }] = await world.rows('SELECT epoch::int FROM pgsluice.stream WHERE stream_id = $1', [
      stream.streamId,
    ]);
    worker.handle({ type: 'unassign', streamId: stream.streamId, epoch });
    worker.handle({ type: 'assign', stream: { ...stream, epoch, transport: 'openssh' } });
  }
  write();
  const counts = () =>
    world.rows(
      `SELECT count(*)::int AS n, count(DISTINCT session_line_num)::int AS distinct FROM pgsluice.log
       WHERE host = ANY($1) GROUP BY host`,
      [specs.map(({ host }) => host.name)],
    );
  await until(
    async () => {
      const found = await counts();
      return found.length === STREAMS && found.every(({ distinct }) => distinct >= written);
    },
    async () => ({ written, counts: await counts(), last: followers.messages.at(-1) }),
  );
  const expected = specs.map(() => ({ n: written, distinct: written }));
  assert.deepEqual(await counts(), expected);
  await worker.stop();
  await until(
    () => followers.running.size === 0,
    () => 'followers end when nobody reads',
  );
  await until(
    () => descriptors() <= before,
    () => ({ before, now: readdirSync('/proc/self/fd') }),
  );
});

test('a stream whose "opened" was lost asks again, and says it again', async t => {
  const spec = await oneStream(join(dir, 'lost'));
  appendFileSync(join(spec.path, 'a.csv'), row(0));
  const followers = new Followers();
  const worker = await startWorker(followers);
  t.after(() => worker.stop());
  const said = (/** @type {FromWorker['type']} */ type) =>
    followers.messages.filter(message => message.type === type);
  worker.handle({ type: 'assign', stream: { ...spec, transport: 'openssh' } });
  await until(
    () => said('open').length === 1,
    () => 'open',
  );
  const open = /** @type {Open} */ (said('open')[0]);
  const path = followers.fifo(open);
  worker.handle({ ...open, type: 'fifo', path });
  assert.equal(said('opened').length, 1);
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + ASK_AGAIN_MS);
  await until(
    () => said('open').length === 2,
    () => 'open again',
  );
  worker.handle({ ...open, type: 'fifo', path });
  assert.equal(said('opened').length, 2);
  followers.start(open);
  worker.handle({ ...open, type: 'started' });
  await until(
    async () =>
      (await world.rows('SELECT 1 FROM pgsluice.log WHERE host = $1', [spec.host.name])).length === 1,
    () => 'the record',
  );
});
