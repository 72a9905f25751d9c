/**
 * Master's connection to the storage: makes it ready (schema, partitions), holds the fleet lock so that one daemon
 * works on a storage at a time, listens for edits of the inventory, and comes back after an outage.
 * Modes: connecting -> standby (another daemon holds the lock) -> ready -> connecting when the connection is lost.
 * The lock goes with the session, and the session with us: it is used every few seconds, and the storage ends it when
 * it is not (idle_session_timeout), so a daemon that hangs or whose machine vanished gives the fleet up by itself.
 * Work may take as long as it takes (a migration of years of records): what tells a server that works from one that is
 * gone is what it says on another connection (endWhenSilent), never the time.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { Backoff } from '../base/backoff.js';
import { PgsluiceError } from '../base/errors.js';
import {
  connectStorage,
  cutConnection,
  endConnection,
  openStorage,
  storageError,
} from '../storage/connect.js';
import { CHANNEL } from '../storage/inventory.js';
import { migrate } from '../storage/migrate.js';
import { applyRetention, makePartitions } from '../storage/partitions.js';
import { endWhenSilent } from '../storage/silence.js';

/** @typedef {import('../config/load.js').Config} Config */
/** @typedef {import('../storage/connect.js').Storage} Storage */

const FLEET_LOCK = 0x7067_7366; // 'pgsf'
const STANDBY_RETRY_MS = 2_000;
// A daemon that waits takes over within 15 s: 10 s of silence, 2 s between its attempts, and the rest for its start.
const IDLE_MAX_MS = 10_000;
const PULSE_MS = 3_000;
const ANSWER_MAX_MS = 9_000;
const HOST_NAME_CHARS = 30; // application_name holds 63
// tcp_*: what the storage sent and nobody acknowledged; they mean nothing on a Unix socket.
const SESSION = `
  SET idle_session_timeout = ${IDLE_MAX_MS}; SET idle_in_transaction_session_timeout = ${IDLE_MAX_MS};
  SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
  SET tcp_user_timeout = ${ANSWER_MAX_MS}`;
// The first after five minutes: hosts have told their time by then.
const MAINTENANCE = { firstMs: 300_000, everyMs: 3_600_000 };
const BACKOFF = { initialMs: 500, maxMs: 15_000, factor: 2, jitter: 0.2 };

export class StorageLink {
  #config;
  #log;
  #onReady;
  #onEdit;
  #onLost;
  #onStandby;
  #doubtClock;
  #silence;
  #maintenanceMs = MAINTENANCE;
  /** tells our sessions from those of other daemons */
  #name = `pgsluice master ${hostname().slice(0, HOST_NAME_CHARS)} ${process.pid} ${randomBytes(3).toString('hex')}`;
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
  /** @type {NodeJS.Timeout | null} */
  #pulse = null;
  /** pieces of work that are being done */
  #working = 0;
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
   * @param {() => void} options.onStandby another daemon has the fleet
   * @param {() => string | null} options.doubtClock why our clock may be wrong; null: it is not
   * @param {Parameters<typeof endWhenSilent>[2]} [options.silence] limits of a server that says nothing during work
   * @param {number} [options.retentionMs] how often it is applied, and how long after the start the first time
   */
  constructor({ config, log, onReady, onEdit, onLost, onStandby, doubtClock, silence, retentionMs }) {
    this.#config = config;
    this.#log = log;
    this.#onReady = onReady;
    this.#onEdit = onEdit;
    this.#onLost = onLost;
    this.#onStandby = onStandby;
    this.#doubtClock = doubtClock;
    this.#silence = silence;
    if (retentionMs !== undefined) this.#maintenanceMs = { firstMs: retentionMs, everyMs: retentionMs };
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
      this.#working += 1;
      return work(this.#client).finally(() => (this.#working -= 1));
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
    const { options } = this.#storage;
    const connection = await connectStorage({ ...options, application_name: this.#name });
    const client = await endWhenSilent(connection, options, this.#silence);
    if (this.#stopped) {
      await endConnection(client);
      return;
    }
    this.#client = client;
    client.on('end', () => {
      if (this.#client === client && !this.#stopped)
        this.#retry(new PgsluiceError('STORAGE_UNREACHABLE', 'storage: the connection was lost'));
    });
    this.#startPulse(client);
    await client.query(SESSION);
    this.#working += 1;
    const { from, to } = await migrate(client).finally(() => (this.#working -= 1));
    if (from !== to) this.#log.info({ from, to }, 'the storage schema was upgraded');
    await this.#takeLock();
  }

  /** The lock lives as long as the connection, so a daemon that dies gives it back. */
  async #takeLock() {
    const client = this.#client;
    if (!client || this.#stopped) return;
    const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS held', [FLEET_LOCK]);
    if (!rows[0].held) {
      await this.#standBy(client);
      this.#timer = setTimeout(() => {
        this.#timer = null;
        this.#takeLock().catch(error => this.#retry(storageError(error)));
      }, STANDBY_RETRY_MS);
      return;
    }
    this.#working += 1;
    await makePartitions(client, Date.now()).finally(() => (this.#working -= 1));
    client.on('notification', () => this.#onEdit());
    await client.query(`LISTEN ${CHANNEL}`);
    this.#maintenance = setTimeout(() => this.#maintain(), this.#maintenanceMs.firstMs);
    this.#backoff.reset();
    this.error = null;
    this.mode = 'ready';
    this.#log.info(`storage: ${this.#storage?.where}`);
    this.#onReady(/** @type {Storage} */ (this.#storage));
  }

  /** The fleet is held: says by whom. @param {import('pg').Client} client */
  async #standBy(client) {
    const { rows } = await client.query(
      `SELECT a.pid, coalesce(host(a.client_addr), 'a local socket') AS address, a.application_name AS name
         FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.objid = $1 AND l.granted AND l.database = a.datid
          AND a.datname = current_database()`,
      [FLEET_LOCK],
    );
    const [holder] = rows;
    if (holder?.name === this.#name) {
      // Our own last session: we know that it is dead, the storage does not yet.
      await client.query('SELECT pg_terminate_backend($1)', [holder.pid]);
      return;
    }
    const [, machine, pid] = /^pgsluice master (\S+) (\d+) /.exec(holder?.name ?? '') ?? [];
    const who = holder
      ? `${machine ? `process ${pid} on ${machine}, ` : ''}connected from ${holder.address}, backend ${holder.pid}`
      : 'it is just ending';
    this.error = new PgsluiceError(
      'FLEET_HELD',
      `another daemon works on this storage (${who}): this one waits`,
    );
    if (this.mode === 'standby') return;
    this.#log.warn({ code: this.error.code }, this.error.message);
    this.mode = 'standby';
    this.#onStandby();
  }

  /**
   * Uses the session, so that it lives, and ends a connection that does not answer. While it works the pulse waits
   * behind the work, and says nothing of the server.
   * @param {import('pg').Client} client
   */
  #startPulse(client) {
    if (this.#pulse) clearInterval(this.#pulse);
    let askedAt = 0; // performance.now(); 0: answered
    const answered = () => (askedAt = 0);
    const pulse = setInterval(() => {
      if (this.#client !== client) {
        clearInterval(pulse);
      } else if (askedAt === 0) {
        askedAt = performance.now();
        // An error is an answer, too: that of a connection that ended shows in its own event.
        client.query('SELECT 1').then(answered, answered);
      } else if (this.#working > 0) {
        // Time begins anew when the work is done.
        askedAt = performance.now();
      } else if (performance.now() - askedAt > ANSWER_MAX_MS) {
        clearInterval(pulse);
        this.#log.warn('storage: no answer, not even a refusal: the connection is given up');
        cutConnection(client);
      }
    }, PULSE_MS);
    this.#pulse = pulse;
  }

  #maintain() {
    this.#maintenance = setTimeout(() => this.#maintain(), this.#maintenanceMs.everyMs);
    this.#maintainNow().catch(error =>
      this.#log.error({ err: error }, 'the partitions could not be maintained'),
    );
  }

  async #maintainNow() {
    await this.#storage?.embedded?.trimLog();
    await this.use(client => makePartitions(client, Date.now()));
    const doubt = this.#doubtClock();
    if (doubt !== null) {
      this.#log.warn(`${doubt}: no partition past retention is dropped`);
      return;
    }
    const { dropped, forgottenFiles } = await this.use(client =>
      applyRetention(client, Date.now(), this.#config.retention.days),
    );
    if (dropped.length > 0) this.#log.info({ dropped }, 'partitions past retention were dropped');
    if (forgottenFiles > 0) this.#log.info({ forgottenFiles }, 'files that no record names were forgotten');
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
    if (this.#maintenance) clearTimeout(this.#maintenance);
    this.#maintenance = null;
    if (this.#pulse) clearInterval(this.#pulse);
    this.#pulse = null;
    const client = this.#client;
    this.#client = null;
    if (!client) return;
    await endConnection(client);
  }
}
