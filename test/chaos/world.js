/**
 * What chaos is made in: two real PostgreSQL servers under load and a text log, two real sshds, a real PostgreSQL as
 * storage, a broken network before each of them, and the daemon. start() gives what can be hurt; stop() ends and
 * removes everything.
 *   host        reads             how
 *   openssh     source one        sshd one, transport openssh
 *   ssh2        source one        sshd one, transport ssh2
 *   moved       source two        sshd two, changes its transport
 *   local       source two        no SSH
 *   text        the text log      sshd two, transport openssh
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { TestDaemon } from '../helpers/daemon.js';
import { startLoad } from '../helpers/load.js';
import { csvlogSettings, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';
import { BrokenNetwork } from './network.js';
import { TextLog } from './text-log.js';

/** @typedef {import('../helpers/postgres.js').TestPostgres} TestPostgres */
/** @typedef {import('../helpers/sshd.js').Sshd} Sshd */

const LOAD_PER_SECOND = 150;
const DISK_BYTES = 4 * 1024 ** 3; // more than a run stores; memory is taken as it is used
/** Left on a disk that is full. */
const LEFT_BYTES = 64 * 1024;
const COMMAND_RETRY_MS = 500;

export class World {
  /** what to undo, the last first @type {(() => unknown)[]} */
  #releasers = [];
  /** @type {ReturnType<typeof startLoad>[]} */
  #loads = [];

  /** @type {TestPostgres[]} */
  sources = [];
  /** @type {Sshd[]} */
  sshds = [];
  /** one before each sshd @type {BrokenNetwork[]} */
  networks = [];
  /** @type {TestPostgres} */
  storage = /** @type {any} */ (undefined);
  /** @type {BrokenNetwork} */
  storageNetwork = /** @type {any} */ (undefined);
  /** a file system of the storage's own, that can be filled; null: it may not be mounted here @type {string | null} */
  disk = null;
  /** @type {TestDaemon} */
  daemon = /** @type {any} */ (undefined);
  /** @type {TextLog} */
  text = /** @type {any} */ (undefined);
  /** hosts that read a PostgreSQL's logs, and which @type {Map<string, TestPostgres>} */
  readers = new Map();
  /** csv files that were removed from a log directory, kept for the account @type {Map<TestPostgres, string[]>} */
  archived = new Map();

  async start() {
    this.dir = mkdtempSync(join(tmpdir(), 'pgchaos-'));
    chmodSync(this.dir, 0o755);
    this.#releasers.push(() => rmSync(this.dir ?? '', { recursive: true, force: true }));
    this.#mountDisk();
    const settings = csvlogSettings({ rotationSize: '256kB' });
    const [one, two, storage, ...sshds] = await Promise.all([
      startPostgres({ settings }),
      startPostgres({ settings }),
      startPostgres({ binaries: 'system', tcp: true, ...(this.disk !== null && { dir: this.disk }) }),
      startSshd(),
      startSshd(),
    ]);
    this.sources = [one, two];
    this.storage = storage;
    this.sshds = sshds;
    this.#releasers.push(() =>
      Promise.all([one.stop(), two.stop(), storage.stop(), ...sshds.map(s => s.stop())]),
    );
    for (const source of this.sources) this.archived.set(source, []);
    for (const { port } of this.sshds) this.networks.push(await this.#network(port));
    this.storageNetwork = await this.#network(storage.port);

    this.text = new TextLog(join(this.dir, 'text'), () => this.storedText());
    this.#releasers.push(() => this.text.close());
    this.daemon = new TestDaemon({
      toml: `storage.url = "postgres://${storage.user}@127.0.0.1:${this.storageNetwork.port}/${storage.database}"\ndaemon.workers = 2\nssh.connect_rate = 50`,
    });
    this.#releasers.push(() => this.daemon.remove());
    await this.daemon.start();
    await this.#addHosts();
    this.#loads = this.sources.map(source =>
      startLoad(source.connectionOptions, { ratePerSecond: LOAD_PER_SECOND, payload: 16_384 }),
    );
    this.#releasers.push(() => this.stopLoad());
    this.text.start();
  }

  async stopLoad() {
    this.text.stop();
    await Promise.all(this.#loads.splice(0).map(load => load.stop()));
  }

  async stop() {
    for (const release of this.#releasers.splice(0).toReversed()) {
      try {
        await release();
      } catch (error) {
        process.stderr.write(`at the end: ${/** @type {Error} */ (error).message}\n`);
      }
    }
  }

  /**
   * A client of the storage that takes no broken way; the caller ends it.
   * @returns {Promise<Client>}
   */
  async connect() {
    const client = new Client({ ...this.storage.connectionOptions, connectionTimeoutMillis: 5_000 });
    client.on('error', () => {}); // the next query fails
    await client.connect();
    // What a fault has set for all others.
    await client.query('SET default_transaction_read_only = off');
    return client;
  }

  /** @returns {Promise<Set<string>>} lines of the text log that are stored; none when the storage is away */
  async storedText() {
    try {
      return new Set(await this.textLines());
    } catch {
      return new Set();
    }
  }

  /** @returns {Promise<string[]>} as they are stored, also twice */
  async textLines() {
    const client = await this.connect();
    try {
      const { rows } = await client.query(`SELECT message FROM pgsluice.log WHERE host = 'text'`);
      return rows.map(row => row.message);
    } finally {
      await client.end();
    }
  }

  /**
   * A command of pgsluice's that must succeed in the end: the storage may be away for a while.
   * @param {string[]} words
   * @param {number} limitMs
   */
  async command(words, limitMs) {
    const deadline = Date.now() + limitMs;
    for (;;) {
      const { code, stderr } = await this.daemon.command(...words);
      if (code === 0) return;
      if (code !== 3 || Date.now() > deadline)
        throw new Error(`pgsluice ${words.join(' ')}: ${code}: ${stderr}`);
      await sleep(COMMAND_RETRY_MS);
    }
  }

  /** @param {number} port */
  async #network(port) {
    const network = new BrokenNetwork({ port });
    await network.listen();
    this.#releasers.push(() => network.close());
    return network;
  }

  async #addHosts() {
    const [one, two] = this.sources;
    /** @param {string} name @param {number} index @param {string} log @param {string} transport @param {string[]} more */
    const add = (name, index, log, transport, more = []) =>
      this.daemon.addHost(name, {
        log,
        server: { ...this.sshds[index], port: this.networks[index].port },
        transport,
        more,
      });
    await add('openssh', 0, one.dataDir, 'openssh');
    await add('ssh2', 0, one.dataDir, 'ssh2');
    await add('moved', 1, two.dataDir, 'openssh');
    await this.daemon.addHost('local', { log: two.dataDir });
    await add('text', 1, this.text.path, 'openssh', ['--format', 'plain']);
    this.readers = new Map([
      ['openssh', one],
      ['ssh2', one],
      ['moved', two],
      ['local', two],
    ]);
  }

  /** The storage's disk is as large as what is on it. Throws when it has just grown. */
  fillDisk() {
    if (this.disk === null) return;
    const { blocks, bfree, bsize } = statfsSync(this.disk);
    this.#resizeDisk((blocks - bfree) * bsize + LEFT_BYTES);
  }

  emptyDisk() {
    this.#resizeDisk(DISK_BYTES);
  }

  /** @param {number} bytes */
  #resizeDisk(bytes) {
    execFileSync('mount', ['-o', `remount,size=${bytes}`, this.disk ?? ''], { stdio: 'ignore' });
  }

  #mountDisk() {
    const path = join(this.dir ?? '', 'disk');
    mkdirSync(path);
    try {
      const options = `size=${DISK_BYTES},mode=0755`;
      execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'pgsluice-chaos', path], { stdio: 'ignore' });
    } catch {
      return;
    }
    this.disk = path;
    this.#releasers.push(() => execFileSync('umount', [path]));
  }
}
