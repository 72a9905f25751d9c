/**
 * The connection of a commit is cut after every byte of the conversation that matters, and after every seventh of the
 * rest: closed, delivered late, or silent. Whatever became of the COMMIT, a claim tells the position, and each record is
 * stored once. A real PostgreSQL, the real Batcher, and a reader of a log in memory in place of Stream and follower, so
 * that hundreds of cuts fit into a test. COMMIT is made to take a while, so that it is still running when its connection
 * is lost.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { claimStream } from '../../../src/storage/positions.js';
import { endWhenSilent } from '../../../src/storage/silence.js';
import { Batcher } from '../../../src/worker/batcher.js';
import { CuttingProxy } from '../../helpers/cutting-proxy.js';
import { startPostgres } from '../../helpers/postgres.js';
import { csvlogRow, readIntoBatch } from '../../helpers/read-into-batch.js';
import { LOCAL_HOST } from '../../helpers/rotation-world.js';

/** @typedef {import('../../helpers/cutting-proxy.js').Cut} Cut */

const LANES = 6;
const ROWS = 3; // a batch
const SILENCE = { silentMs: 100, silentMaxMs: 200, askMaxMs: 2_000 };
const SLOW_COMMIT = `
  CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER linger AFTER UPDATE OF committed_at ON pgsluice.stream DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION linger()`;

/** One stream with its own proxy and batcher, that reads a log which grows by a batch at a time. */
class Lane {
  #proxy;
  #direct;
  #streamId;
  #epoch = 0;
  #rows = 0;
  #log = Buffer.alloc(0);
  /** @type {unknown} */
  #failure = null;
  /** @type {Batcher | null} */
  #batcher = null;
  /** @type {import('pg').ClientConfig & { host: string, port: number }} */
  #options;
  /** @type {import('pg').ClientConfig | null} */
  #proxied = null;
  failures = 0;

  /** @param {import('pg').ClientConfig & { host: string, port: number }} options @param {import('pg').Client} direct @param {number} streamId */
  constructor(options, direct, streamId) {
    this.#options = options;
    this.#proxy = new CuttingProxy(options);
    this.#direct = direct;
    this.#streamId = streamId;
  }

  async start() {
    this.#proxied = await this.#proxy.start(this.#options);
    await this.renew();
    return this;
  }

  /** Begins with new connections. */
  async renew() {
    await this.#batcher?.close();
    const options = this.#proxied;
    assert.ok(options);
    this.#batcher = new Batcher({
      redactor: null,
      settings: { maxBatchBytes: 100_000, maxBatchDelayMs: 10_000 },
      connect: async () => endWhenSilent(await connectStorage(options), this.#options, SILENCE),
      onRoom: () => {},
      onFailure: error => (this.#failure = error),
      onRefused: ({ reason }) => assert.fail(reason),
      onFenced: () => assert.fail('nobody else claims it'),
    });
  }

  /**
   * Adds a batch to the log and stores it through a connection that is cut, then what is left through whole ones.
   * @param {Cut | null} cut
   * @returns {Promise<{ client: number, server: number }>} bytes of the conversation, if nothing was cut
   */
  async store(cut) {
    const from = this.#rows;
    this.#rows += ROWS;
    const more = Array.from({ length: ROWS }, (_, n) => csvlogRow(from + n)).join('');
    this.#log = Buffer.concat([this.#log, Buffer.from(more)]);
    this.#proxy.cutAfter(cut);
    let first = { client: 0, server: 0 };
    for (let attempt = 0; ; attempt += 1) {
      const claim = await claimStream(this.#direct, this.#streamId, this.#epoch);
      assert.ok(claim, 'the stream is ours');
      this.#epoch = claim.epoch;
      const offset = claim.files[0]?.offset ?? 0;
      if (offset === this.#log.length) break;
      await this.#commit(offset, claim.files[0]?.fileNo ?? 1);
      if (attempt === 0) first = { ...this.#proxy.forwarded };
      assert.ok(attempt < 5, `it is stored in the end: ${String(this.#failure)}`);
    }
    if (cut) assert.ok(this.#proxy.isCut, `a cut after ${cut.after} bytes of the ${cut.sender}`);
    const { rows } = await this.#direct.query(
      `SELECT count(*)::int AS all, count(DISTINCT session_line_num)::int AS different
         FROM pgsluice.record WHERE stream_id = $1`,
      [this.#streamId],
    );
    assert.deepEqual(rows, [{ all: this.#rows, different: this.#rows }], JSON.stringify(cut));
    return first;
  }

  /** @param {number} offset @param {number} fileNo */
  async #commit(offset, fileNo) {
    const batcher = this.#batcher;
    assert.ok(batcher);
    this.#failure = null;
    const [streamId, epoch] = [this.#streamId, this.#epoch];
    readIntoBatch(batcher, { streamId, epoch, fileNo, offset }, this.#log.subarray(offset));
    await batcher.settle();
    if (this.#failure) this.failures += 1;
  }

  async stop() {
    await this.#batcher?.close();
    await this.#proxy.stop();
  }
}

describe('a connection that is cut', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let server;
  /** @type {import('pg').Client[]} */
  const clients = [];
  /** @type {Lane[]} */
  const lanes = [];

  before(async () => {
    server = await startPostgres();
    const client = await connectStorage(server.connectionOptions);
    clients.push(client);
    await migrate(client);
    await client.query(SLOW_COMMIT);
    for (let n = 0; n < LANES; n += 1) {
      const stream = { path: '/log', linePrefix: null, timeZone: null, encoding: null, encodings: {} };
      const how = { format: /** @type {const} */ ('csvlog'), startAt: /** @type {const} */ ('start') };
      const host = await addHost(client, `db${n}`, LOCAL_HOST, [{ ...stream, ...how }]);
      const direct = await connectStorage(server.connectionOptions);
      clients.push(direct);
      const lane = new Lane(server.connectionOptions, direct, host.streams[0]?.streamId ?? 0);
      lanes.push(await lane.start());
    }
  });
  after(async () => {
    for (const lane of lanes) await lane.stop();
    for (const client of clients) await client.end();
    await server.stop();
  });

  /** @param {Cut[]} cuts @param {(lane: Lane) => Promise<unknown>} [prepare] */
  async function storeAll(cuts, prepare = async () => {}) {
    const waiting = [...cuts];
    await Promise.all(
      lanes.map(async lane => {
        for (let cut = waiting.shift(); cut; cut = waiting.shift()) {
          await prepare(lane);
          await lane.store(cut);
        }
      }),
    );
  }

  /** Of a conversation on a connection that has committed before: BEGIN to the answer to COMMIT. */
  async function conversation() {
    for (const lane of lanes) await lane.store(null);
    const [lane] = lanes;
    assert.ok(lane);
    const bytes = await lane.store(null);
    assert.ok(bytes.client > 800 && bytes.server > 100, JSON.stringify(bytes));
    return bytes;
  }

  // 'Q' | int32 length | "COMMIT\0", answered with 'C' | int32 | "COMMIT\0" and 'Z' | int32 | status.
  const COMMIT_BYTES = 12;
  const ANSWER_BYTES = 12 + 6;

  /**
   * @param {{ client: number, server: number }} bytes
   * @param {import('../../helpers/cutting-proxy.js').How} how
   * @param {number} step
   * @returns {Cut[]} after every byte at the end of both directions, and every step-th before
   */
  const cutsOf = (bytes, how, step) =>
    /** @type {const} */ (['client', 'server']).flatMap(sender => {
      const dense = bytes[sender] - 1 - (sender === 'client' ? COMMIT_BYTES : ANSWER_BYTES);
      return Array.from({ length: bytes[sender] }, (_, n) => n + 1)
        .filter(after => after >= dense || after % step === 0)
        .map(after => ({ sender, after, how }));
    });

  for (const [how, step] of /** @type {const} */ ([
    ['close', 7],
    ['late', 23],
    ['silent', 41],
  ])) {
    test(`${how}: every byte of COMMIT and its answer, and one of ${step} of the rest`, async () => {
      const before = lanes.reduce((sum, { failures }) => sum + failures, 0);
      const cuts = cutsOf(await conversation(), how, step);
      await storeAll(cuts);
      const failures = lanes.reduce((sum, lane) => sum + lane.failures, 0) - before;
      assert.ok(failures > cuts.length * 0.9, `${failures} of ${cuts.length} cuts made a batch fail`);
    });
  }

  test('a cut while the connection is being made, one byte of 31', async () => {
    const [lane] = lanes;
    assert.ok(lane);
    await lane.renew();
    const bytes = await lane.store(null);
    const cuts = /** @type {const} */ (['client', 'server']).flatMap(sender =>
      Array.from({ length: Math.floor((bytes[sender] - 100) / 31) }, (_, n) => ({
        sender,
        after: 1 + 31 * n,
      })),
    );
    assert.ok(cuts.length > 80, `${cuts.length} cuts`);
    await storeAll(
      cuts.map(cut => ({ ...cut, how: 'close' })),
      one => one.renew(),
    );
  });
});
