/**
 * Many Streams on Batchers and a real storage, without a worker around them: a test gives each of them its bytes, and
 * says how they end.
 */
import assert from 'node:assert/strict';
import { createLogger } from '../../src/base/logger.js';
import { connectStorage } from '../../src/storage/connect.js';
import { addHost } from '../../src/storage/inventory.js';
import { migrate } from '../../src/storage/migrate.js';
import { claimStream } from '../../src/storage/positions.js';
import { loadZones } from '../../src/storage/zones.js';
import { Batcher } from '../../src/worker/batcher.js';
import { Stream } from '../../src/worker/stream.js';
import { startPostgres } from './postgres.js';
import { LOCAL_HOST } from './rotation-world.js';

/** @typedef {import('../../src/ipc/messages.js').StreamSpec} StreamSpec */
/** @typedef {import('../../src/worker/stream.js').StreamHost['open']} Open */

const CLAIMERS = 8;
const TICK_MS = 1_000;
const MAX_RECORD_BYTES = 100_000;

export class StreamWorld {
  /** batches that were not stored @type {unknown[]} */
  failures = [];
  /** what the streams logged */
  log = '';
  #server;
  #zones;
  /** @type {import('pg').Client[]} */
  #claimers = [];
  /** @type {Batcher[]} */
  #batchers = [];
  /** @type {Map<Batcher, Set<Stream>>} */
  #streams = new Map();
  /** as a worker's @type {NodeJS.Timeout} */
  #ticker = setInterval(() => {
    const now = performance.now();
    for (const streams of this.#streams.values()) for (const stream of streams) stream.tick(now);
  }, TICK_MS);
  #hosts = 0;
  #claims = 0;

  /**
   * @param {Awaited<ReturnType<typeof startPostgres>>} server
   * @param {import('pg').Client} client
   * @param {Map<string, number>} zones
   */
  constructor(server, client, zones) {
    this.#server = server;
    this.client = client;
    this.#zones = zones;
  }

  static async start() {
    const server = await startPostgres();
    const client = await connectStorage(server.connectionOptions);
    await migrate(client);
    const world = new StreamWorld(server, client, await loadZones(client));
    for (let n = 0; n < CLAIMERS; n += 1)
      world.#claimers.push(await connectStorage(server.connectionOptions));
    return world;
  }

  get connectionOptions() {
    return this.#server.connectionOptions;
  }

  /** What a worker has one of. */
  newBatcher() {
    /** @type {Set<Stream>} */
    const streams = new Set();
    const batcher = new Batcher({
      redactor: null,
      settings: { maxBatchBytes: 4_000_000, maxBatchDelayMs: 100 },
      connect: () => connectStorage(this.#server.connectionOptions),
      onRoom: () => {
        for (const stream of streams) stream.resume();
      },
      onFailure: error => {
        this.failures.push(error);
        for (const stream of streams) stream.reset(/** @type {Error} */ (error));
      },
      onRefused: ({ reason }) => this.failures.push(reason),
      onFenced: (stream, error) => stream.reset(error),
    });
    this.#batchers.push(batcher);
    this.#streams.set(batcher, streams);
    return batcher;
  }

  /**
   * New streams of one host, all of the same logs.
   * @param {number} count
   * @param {{ path: string, format: StreamSpec['format'], startAt?: StreamSpec['startAt'], linePrefix?: string | null }} how
   * @returns {Promise<StreamSpec[]>}
   */
  async add(count, { path, format, startAt = 'start', linePrefix = null }) {
    this.#hosts += 1;
    const name = `db${this.#hosts}`;
    const { hostId } = await addHost(this.client, name, LOCAL_HOST, []);
    const { rows } = await this.client.query(
      `INSERT INTO pgsluice.stream (host_id, path, format, start_at, line_prefix)
       SELECT $1, $2 || n, $3, $4, $5 FROM generate_series(1, $6::int) n RETURNING stream_id`,
      [hostId, path, format, startAt, linePrefix, count],
    );
    return rows.map(row => ({
      streamId: row.stream_id,
      host: { hostId, name, hostKeyAlias: '', knownHostsFile: '', ...LOCAL_HOST },
      path,
      format,
      linePrefix,
      timeZone: null,
      encoding: null,
      encodings: {},
      startAt,
      transport: /** @type {const} */ ('local'),
      sudoUser: null,
      epoch: 0,
    }));
  }

  /**
   * @param {StreamSpec} spec
   * @param {Batcher} batcher
   * @param {Open} open
   */
  run(spec, batcher, open) {
    const stream = new Stream(spec, {
      batcher,
      zones: this.#zones,
      maxRecordBytes: MAX_RECORD_BYTES,
      claim: (streamId, epoch) => {
        const client = this.#claimers[(this.#claims += 1) % CLAIMERS];
        assert.ok(client);
        return claimStream(client, streamId, epoch);
      },
      open,
      onFenced: () => {},
      log: createLogger({
        name: 'test',
        level: 'info',
        destination: { write: line => void (this.log += line) },
      }),
    });
    this.#streams.get(batcher)?.add(stream);
    stream.start();
    return stream;
  }

  /** Resolves when everything that was read is stored. @param {Batcher} batcher */
  async settle(batcher) {
    for (const stream of this.#streams.get(batcher) ?? []) stream.stop();
    await batcher.settle();
  }

  /** @param {string} sql @param {unknown[]} [values] */
  async rows(sql, values) {
    return (await this.client.query(sql, values)).rows;
  }

  async stop() {
    clearInterval(this.#ticker);
    for (const batcher of this.#batchers) {
      await this.settle(batcher);
      await batcher.close();
    }
    for (const client of [...this.#claimers, this.client]) await client.end();
    await this.#server.stop();
  }
}
