/**
 * A Worker with a real storage that follows directories of this machine with the real follower, and what a test does to
 * them: write, disconnect, kill the follower, fence the worker, compare. One shell a process: `sh` is found through
 * PATH. Many streams share the worker, so that tests run beside each other.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectStorage } from '../../src/storage/connect.js';
import { addHost } from '../../src/storage/inventory.js';
import { migrate } from '../../src/storage/migrate.js';
import { raiseEpochs } from '../../src/storage/positions.js';
import { Worker } from '../../src/worker/worker.js';
import { startPostgres } from './postgres.js';
import { testShells } from './shells.js';
import { until } from './until.js';

/** @typedef {import('../../src/ipc/messages.js').FromWorker} FromWorker */
/** @typedef {import('../../src/ipc/messages.js').StreamStatus} StreamStatus */
/** @typedef {{ format?: import('../../src/base/log-format.js').LogFormat, startAt?: 'end' | 'current' | 'start', path?: string, dir?: string }} StreamOptions path: within dir, whose default is a new one */

/** @type {import('../../src/storage/inventory.js').HostFields} */
export const LOCAL_HOST = {
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

/** Puts `sh` first in PATH. @param {'dash' | 'bash' | 'busybox'} name @returns {() => void} takes it back */
export function useShell(name) {
  const before = process.env['PATH'] ?? '';
  const { shells, remove } = testShells();
  const shell = shells.find(one => one.name === name);
  assert.ok(shell);
  let directory = shell.path;
  if (name !== 'busybox') {
    directory = mkdtempSync(join(tmpdir(), 'pgsluice-shell-'));
    const program = execFileSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
    symlinkSync(program, join(directory, 'sh'));
    process.env['PATH'] = `${directory}:${before}`;
  } else {
    process.env['PATH'] = directory;
  }
  return () => {
    process.env['PATH'] = before;
    if (directory !== shell.path) rmSync(directory, { recursive: true });
    remove();
  };
}

/** One storage and one worker for all streams of a test file. */
export class World {
  /** @type {Map<number, StreamStatus>} */
  statuses = new Map();
  /** batches that were not stored */
  failures = 0;
  /** @type {Set<number>} */
  released = new Set();
  /** @type {Map<number, Watched>} */
  #watched = new Map();
  #server;
  #worker;
  /** @type {string[]} */
  #directories = [];
  #hosts = 0;

  /** @param {Awaited<ReturnType<typeof startPostgres>>} server @param {import('pg').Client} client */
  constructor(server, client) {
    this.#server = server;
    this.client = client;
    this.#worker = new Worker(
      {
        storage: server.connectionOptions,
        maxBatchBytes: 1_000_000,
        maxBatchDelayMs: 100,
        maxRecordBytes: 1_000_000,
        redact: [],
        connectTimeoutMs: 10_000,
        logLevel: process.env['ROTATION_LOG'] ?? 'fatal',
      },
      message => this.#onMessage(message),
      'files-test',
    );
  }

  static async start() {
    const server = await startPostgres();
    const client = await connectStorage(server.connectionOptions);
    await migrate(client);
    const world = new World(server, client);
    await world.ready();
    return world;
  }

  #isReady = false;

  /** A worker gives back what it is told to read before. */
  async ready() {
    await until(
      () => this.#isReady,
      () => 'the worker is ready',
    );
  }

  /** @param {FromWorker} message */
  #onMessage(message) {
    if (message.type === 'ready') this.#isReady = true;
    if (message.type === 'released') {
      this.released.add(message.streamId);
      // As the daemon does: who is still meant to read gets the stream again.
      const watched = this.#watched.get(message.streamId);
      if (message.fenced && watched?.connected) void watched.connect();
    }
    if (message.type !== 'status') return;
    this.failures = message.status.totals.failures;
    for (const status of message.status.streams) this.statuses.set(status.streamId, { ...status });
  }

  /** @param {import('../../src/ipc/messages.js').ToWorker} message */
  tell(message) {
    this.#worker.handle(message);
  }

  /** A new stream, not connected yet, on a directory of its own. @param {StreamOptions} [options] */
  async watch({ format = 'plain', startAt = 'start', path = '', dir: given } = {}) {
    const dir = given ?? mkdtempSync(join(tmpdir(), 'pgsluice files  '));
    if (given === undefined) this.#directories.push(dir);
    this.#hosts += 1;
    const name = `db${this.#hosts}`;
    const stream = {
      path: join(dir, path),
      format,
      startAt,
      linePrefix: null,
      timeZone: null,
      encoding: null,
      encodings: {},
    };
    const host = await addHost(this.client, name, LOCAL_HOST, [stream]);
    const watched = new Watched(this, dir, {
      ...stream,
      streamId: host.streams[0]?.streamId ?? 0,
      host: { hostId: host.hostId, name, hostKeyAlias: '', knownHostsFile: '', ...LOCAL_HOST },
      transport: 'local',
      sudoUser: null,
      epoch: 0,
    });
    this.#watched.set(host.streams[0]?.streamId ?? 0, watched);
    return watched;
  }

  async stop() {
    await this.#worker.stop();
    await this.client.end();
    await this.#server.stop();
    for (const dir of this.#directories) rmSync(dir, { recursive: true, force: true });
  }
}

/** One stream and its directory. */
export class Watched {
  connected = false;
  #world;
  #spec;

  /** @param {World} world @param {string} dir @param {import('../../src/ipc/messages.js').StreamSpec} spec */
  constructor(world, dir, spec) {
    this.#world = world;
    this.#spec = spec;
    this.dir = dir;
  }

  /** @param {string} name */
  at(name) {
    return join(this.dir, name);
  }

  /** @param {string} name @param {string | Buffer} content @param {number} [ageSeconds] */
  write(name, content, ageSeconds = 0) {
    writeFileSync(this.at(name), content);
    if (ageSeconds > 0) this.age(name, ageSeconds);
  }

  /** @param {string} name @param {string | Buffer} content */
  append(name, content) {
    appendFileSync(this.at(name), content);
  }

  /** @param {string} name @param {number} seconds since it was last written */
  age(name, seconds) {
    utimesSync(this.at(name), Date.now() / 1000 - seconds, Date.now() / 1000 - seconds);
  }

  /** @param {string} name */
  mkdir(name) {
    mkdirSync(this.at(name));
  }

  /** Begins, or goes on at the committed positions as another worker would. */
  async connect() {
    const { streamId } = this.#spec;
    this.connected = true;
    const epochs = await raiseEpochs(this.#world.client, [streamId]);
    this.#world.released.delete(streamId);
    this.#world.tell({ type: 'assign', stream: { ...this.#spec, epoch: epochs.get(streamId) ?? 0 } });
  }

  /** Reads no more; what was parsed is committed. */
  async disconnect() {
    const { streamId } = this.#spec;
    this.connected = false;
    this.#world.tell({ type: 'unassign', streamId, epoch: Number.MAX_SAFE_INTEGER });
    await until(
      () => this.#world.released.has(streamId),
      () => 'the stream is released',
    );
    this.#world.statuses.delete(streamId);
  }

  /** As if the worker had died: what it read and did not commit is dropped. */
  async fence() {
    this.connected = false;
    await raiseEpochs(this.#world.client, [this.#spec.streamId]);
    await this.disconnect();
  }

  /** kill -9 of the follower on the "host"; the worker connects again after a second. */
  kill() {
    for (const pid of followers(this.#spec.path, this.dir)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It, or a part of it, has ended meanwhile.
      }
    }
  }

  async begun() {
    await until(
      async () => {
        const { rows } = await this.#world.client.query(
          'SELECT begun FROM pgsluice.stream WHERE stream_id = $1',
          [this.#spec.streamId],
        );
        return rows[0].begun;
      },
      () => 'the stream has begun',
    );
  }

  /** What is stored, in the order of files and offsets. @returns {Promise<string[]>} */
  async lines() {
    const { rows } = await this.#world.client.query(
      `SELECT message FROM pgsluice.record WHERE stream_id = $1 ORDER BY file_no, file_offset`,
      [this.#spec.streamId],
    );
    return rows.map(({ message }) => message);
  }

  /** @returns {Promise<string[]>} */
  async rejected() {
    const { rows } = await this.#world.client.query(
      `SELECT bytes FROM pgsluice.reject WHERE stream_id = $1 ORDER BY file_no, file_offset`,
      [this.#spec.streamId],
    );
    return rows.map(({ bytes }) => String(bytes));
  }

  /** As it is committed. @returns {Promise<{ bytes: number, events: number }>} */
  async lost() {
    const { rows } = await this.#world.client.query(
      'SELECT lost_bytes, lost_events FROM pgsluice.stream WHERE stream_id = $1',
      [this.#spec.streamId],
    );
    return { bytes: Number(rows[0].lost_bytes), events: Number(rows[0].lost_events) };
  }

  /** @returns {Promise<Record<string, unknown>[]>} */
  async files() {
    const { rows } = await this.#world.client.query(
      'SELECT * FROM pgsluice.file WHERE stream_id = $1 ORDER BY file_no',
      [this.#spec.streamId],
    );
    return rows;
  }

  get status() {
    return this.#world.statuses.get(this.#spec.streamId);
  }

  /** Waits until a line is stored. @param {string} line */
  async sees(line) {
    await this.until(async () => (await this.lines()).includes(line), `the line ${line.slice(0, 60)}`);
  }

  /** @param {() => unknown} condition @param {string} what */
  async until(condition, what) {
    await until(
      condition,
      async () =>
        `${what}; stored ${JSON.stringify(brief(await this.lines()))}; rejected ${JSON.stringify(await this.rejected())}; status ${JSON.stringify(this.status)}; files ${JSON.stringify(await this.files())}; there ${readdirSync(this.dir).join(' ')}`,
    );
  }

  /** Waits for a heartbeat that says that nothing is unread; two, since the first may have been sent before. */
  async settled() {
    for (let n = 0; n < 2; n += 1) {
      const before = this.status?.clockSkewMs; // in ms: another heartbeat has another one
      await this.until(
        () =>
          this.status?.mode === 'reading' && this.status.clockSkewMs !== before && this.status.lagBytes === 0,
        'a heartbeat with nothing unread',
      );
    }
  }

  /** Each of these lines is stored once, and nothing else. @param {string[]} expected in any order */
  async hasExactly(expected) {
    await this.until(async () => (await this.lines()).length >= expected.length, `${expected.length} lines`);
    assert.deepEqual((await this.lines()).toSorted(), expected.toSorted());
    assert.deepEqual(await this.rejected(), []);
  }
}

/** Processes of followers of a path. @param {string} path @param {string} dir */
function followers(path, dir) {
  return readdirSync('/proc')
    .filter(entry => /^\d+$/.test(entry))
    .map(Number)
    .filter(pid => {
      try {
        const cwd = readlinkSync(`/proc/${pid}/cwd`);
        if (cwd !== dir && !cwd.startsWith(`${dir}/`) && cwd !== path) return false;
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('pgsluice-follower');
      } catch {
        return false;
      }
    });
}

/** @param {string[]} lines */
function brief(lines) {
  const short = lines.map(line => line.slice(0, 20));
  return short.length > 40
    ? [...short.slice(0, 20), `... ${short.length - 40} ...`, ...short.slice(-20)]
    : short;
}
