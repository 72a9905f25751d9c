/**
 * Master's connection to the storage: makes it ready (schema, partitions), holds the fleet lock so that one daemon
 * works on a storage at a time, listens for edits of the inventory, and comes back after an outage.
 * Modes: connecting -> standby (another daemon holds the lock) -> ready -> connecting when the connection is lost.
 */
import { Backoff } from '../base/backoff.js';
import { PgsluiceError } from '../base/errors.js';
import { connectStorage, openStorage, storageError } from '../storage/connect.js';
import { CHANNEL } from '../storage/inventory.js';
import { migrate } from '../storage/migrate.js';
import { maintainPartitions } from '../storage/partitions.js';

/** @typedef {import('../config/load.js').Config} Config */
/** @typedef {import('../storage/connect.js').Storage} Storage */

const FLEET_LOCK = 0x7067_7366; // 'pgsf'
const STANDBY_RETRY_MS = 2_000;
const MAINTENANCE_MS = 3_600_000;
const BACKOFF = { initialMs: 500, maxMs: 15_000, factor: 2, jitter: 0.2 };

export class StorageLink {
  #config;
  #log;
  #onReady;
  #onEdit;
  #onLost;
  /** @type {import('pg').Client | null} */
  #client = null;
  /** @type {Storage | null} */
  #storage = null;
  #backoff = new Backoff(BACKOFF);
  #stopped = false;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;
  /** @type {NodeJS.Timeout | null} */
  #maintenance = null;
  /** queries run one after another on the one connection @type {Promise<unknown>} */
  #queue = Promise.resolve();

  /** @type {'connecting' | 'standby' | 'ready'} */
  mode = 'connecting';
  /** why it is not ready @type {PgsluiceError | null} */
  error = null;

  /**
   * @param {object} options
   * @param {Config} options.config
   * @param {import('../base/logger.js').Logger} options.log
   * @param {(storage: Storage) => void} options.onReady each time the storage is there and the fleet is ours
   * @param {() => void} options.onEdit the inventory was edited
   * @param {() => void} options.onLost
   */
  constructor({ config, log, onReady, onEdit, onLost }) {
    this.#config = config;
    this.#log = log;
    this.#onReady = onReady;
    this.#onEdit = onEdit;
    this.#onLost = onLost;
  }

  /** Begins; goes on by itself until close(). Rejects when the storage can never serve, as it is. */
  async start() {
    try {
      await this.#connect();
    } catch (error) {
      const known = storageError(error);
      await this.#drop();
      if (known.class === 'stop') throw known;
      this.#retry(known);
    }
  }

  /**
   * @template T
   * @param {(client: import('pg').Client) => Promise<T>} work alone on the connection; refused while the fleet is not
   *   ours: a daemon that waits must not touch what another one works on
   * @returns {Promise<T>}
   */
  use(work) {
    const result = this.#queue.then(() => {
      if (!this.#client || this.mode !== 'ready')
        throw this.error ?? new PgsluiceError('STORAGE_UNREACHABLE', 'the storage is not connected');
      return work(this.#client);
    });
    this.#queue = result.catch(() => {});
    return result;
  }

  async close() {
    this.#stopped = true;
    await this.#drop();
    await this.#storage?.embedded?.stop({ ifUnused: false });
  }

  async #connect() {
    if (this.#storage) await this.#storage.embedded?.ensureRunning();
    else this.#storage = await openStorage(this.#config);
    const client = await connectStorage({ ...this.#storage.options, application_name: 'pgsluice master' });
    if (this.#stopped) {
      await client.end();
      return;
    }
    this.#client = client;
    client.on('end', () => {
      if (this.#client === client && !this.#stopped)
        this.#retry(new PgsluiceError('STORAGE_UNREACHABLE', 'storage: the connection was lost'));
    });
    const { from, to } = await migrate(client);
    if (from !== to) this.#log.info({ from, to }, 'the storage schema was upgraded');
    await this.#takeLock();
  }

  /** The lock lives as long as the connection, so a daemon that dies gives it back. */
  async #takeLock() {
    const client = this.#client;
    if (!client || this.#stopped) return;
    const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS held', [FLEET_LOCK]);
    if (!rows[0].held) {
      const holder = await this.#holder(client);
      this.error = new PgsluiceError(
        'FLEET_HELD',
        `another daemon works on this storage (${holder}): this one waits`,
      );
      if (this.mode !== 'standby') this.#log.warn(this.error.message);
      this.mode = 'standby';
      this.#timer = setTimeout(() => {
        this.#timer = null;
        this.#takeLock().catch(error => this.#retry(storageError(error)));
      }, STANDBY_RETRY_MS);
      return;
    }
    await maintainPartitions(client, Date.now(), this.#config.retention.days);
    client.on('notification', () => this.#onEdit());
    await client.query(`LISTEN ${CHANNEL}`);
    this.#maintenance = setInterval(() => this.#maintain(), MAINTENANCE_MS);
    this.#backoff.reset();
    this.error = null;
    this.mode = 'ready';
    this.#log.info(`storage: ${this.#storage?.where}`);
    this.#onReady(/** @type {Storage} */ (this.#storage));
  }

  /** @param {import('pg').Client} client */
  async #holder(client) {
    const { rows } = await client.query(
      `SELECT a.pid, coalesce(host(a.client_addr), 'this host') AS address
         FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.objid = $1 AND l.granted`,
      [FLEET_LOCK],
    );
    return rows[0] ? `connected from ${rows[0].address}, backend ${rows[0].pid}` : 'it is just ending';
  }

  #maintain() {
    this.#maintainNow().then(
      ({ dropped }) => {
        if (dropped.length > 0) this.#log.info({ dropped }, 'partitions past retention were dropped');
      },
      error => this.#log.error({ err: error }, 'partitions could not be made ahead'),
    );
  }

  async #maintainNow() {
    await this.#storage?.embedded?.trimLog();
    return this.use(client => maintainPartitions(client, Date.now(), this.#config.retention.days));
  }

  /** @param {PgsluiceError} error */
  #retry(error) {
    if (this.#stopped || this.#timer) return;
    this.error = error;
    if (this.mode === 'ready') this.#onLost();
    this.mode = 'connecting';
    const delayMs = this.#backoff.next();
    this.#log.error({ code: error.code, retryInMs: Math.round(delayMs) }, error.message);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.#drop().then(() => this.#connect().catch(cause => this.#retry(storageError(cause))));
    }, delayMs);
  }

  async #drop() {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#maintenance) clearInterval(this.#maintenance);
    this.#maintenance = null;
    const client = this.#client;
    this.#client = null;
    await client?.end().catch(() => {});
  }
}
