/**
 * The daemon: one storage link, one sshproxy, several workers, and the fleet between them. Relays what workers and
 * sshproxy tell each other, assigns streams, and answers what HTTP asks. It parses nothing, opens no SSH connection
 * and sees no log byte.
 */
import { Backoff } from '../base/backoff.js';
import { PgsluiceError } from '../base/errors.js';
import { createLogger } from '../base/logger.js';
import { raiseEpochs } from '../storage/positions.js';
import { loadInventory } from '../storage/inventory.js';
import { FROM_PROXY, FROM_WORKER } from '../ipc/known-messages.js';
import { ChildProcess } from './child-process.js';
import { prepareDirectories, removeStaleFifos, writeKnownHosts } from './directories.js';
import { Fleet } from './fleet.js';
import { doubtClock } from './host-clocks.js';
import { HttpServer } from './http.js';
import { renderMetrics } from './metrics.js';
import { describeStatus } from './status.js';
import { StorageLink } from './storage-link.js';

/** @typedef {import('../config/load.js').Config} Config */
/** @typedef {import('../ipc/messages.js').FromWorker} FromWorker */
/** @typedef {import('../ipc/messages.js').FromProxy} FromProxy */
/** @typedef {import('../ipc/messages.js').WorkerStatus} WorkerStatus */
/** @typedef {import('../ipc/messages.js').ProxyStatus} ProxyStatus */
/** @typedef {import('../storage/inventory.js').HostRow} HostRow */

/**
 * @typedef {object} WorkerSlot
 * @property {ChildProcess<import('../ipc/messages.js').ToWorker, FromWorker>} process
 * @property {boolean} ready
 * @property {WorkerStatus | null} status
 * @property {number} reportedAt
 * @property {Map<number, number>} attempts last attempt by stream, of those with a channel in sshproxy
 */

const RELOAD_MS = 30_000; // in case a notification was lost with the connection
const RECONCILE_BACKOFF = { initialMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.2 };
// Together below the 10 s that stopping may take.
const WORKER_STOP_MS = 6_500;
const PROXY_STOP_MS = 2_500;
const PROXY_FLAGS = ['--max-old-space-size=64', '--max-semi-space-size=1'];
// Batches live outside the JavaScript heap; what the heap holds is short-lived.
const WORKER_FLAGS = ['--max-old-space-size=128', '--max-semi-space-size=2'];

export class Daemon {
  #config;
  #log;
  #link;
  #fleet = new Fleet();
  /** @type {WorkerSlot[]} */
  #workers = [];
  /** @type {ChildProcess<import('../ipc/messages.js').ToProxy, FromProxy>} */
  #proxy;
  #proxyReady = false;
  /** @type {ProxyStatus | null} */
  #proxyStatus = null;
  /** @type {HostRow[]} */
  #hosts = [];
  #directories;
  #http;
  /** @type {import('../storage/connect.js').Storage | null} */
  #storage = null;
  #childrenStarted = false;
  #inventoryLoaded = false;
  #stopping = false;
  #reconciling = false;
  #reconcileAgain = false;
  #reconcileBackoff = new Backoff(RECONCILE_BACKOFF);
  /** why the fleet is not what the inventory says @type {Error | null} */
  #reconcileError = null;
  /** @type {NodeJS.Timeout | null} */
  #reloadTimer = null;

  /** @param {Config} config */
  constructor(config) {
    this.#config = config;
    this.#log = createLogger({ name: 'master', level: config.daemon.logLevel });
    this.#directories = prepareDirectories(config);
    this.#link = new StorageLink({
      config,
      log: this.#log,
      onReady: storage => this.#onStorage(storage),
      onEdit: () => this.#reconcile(),
      onLost: () => this.#log.warn('the inventory cannot be read: streams go on as they are'),
      onStandby: () => this.#putDown(),
      doubtClock: () => doubtClock(this.#fleet.streams.values()),
    });
    this.#http = new HttpServer({
      http: config.http,
      log: this.#log,
      ready: () => this.#notReady(),
      status: () => this.#status(),
      metrics: () => renderMetrics(this.#status()),
    });
    const log = this.#log;
    this.#proxy = new ChildProcess({
      name: 'sshproxy',
      program: new URL('../sshproxy/main.js', import.meta.url),
      execArgv: PROXY_FLAGS,
      messages: FROM_PROXY,
      onStart: () => this.#configureProxy(),
      onMessage: message => this.#fromProxy(message),
      onExit: how => this.#proxyGone(how),
      log,
    });
    for (let index = 0; index < config.daemon.workers; index += 1) {
      this.#workers.push({
        process: new ChildProcess({
          name: `worker-${index + 1}`,
          program: new URL('../worker/main.js', import.meta.url),
          execArgv: WORKER_FLAGS,
          messages: FROM_WORKER,
          onStart: () => this.#configureWorker(index),
          onMessage: message => this.#fromWorker(index, message),
          onExit: () => this.#workerGone(index),
          log,
        }),
        ready: false,
        status: null,
        reportedAt: 0,
        attempts: new Map(),
      });
    }
  }

  /**
   * Listens and connects. A storage that is away is waited for; one that can never serve is an error.
   * @returns {Promise<{ listening: string | null }>}
   */
  async start() {
    const listening = await this.#http.listen();
    try {
      await this.#link.start();
    } catch (error) {
      await this.#http.close();
      throw error;
    }
    return { listening };
  }

  /** Stops the intake, commits what was read, and ends every process. Takes at most 10 s. */
  async stop() {
    if (this.#stopping) return;
    this.#stopping = true;
    if (this.#reloadTimer) clearInterval(this.#reloadTimer);
    await Promise.all(
      this.#workers.map(({ process: worker }) => worker.stop({ type: 'stop' }, WORKER_STOP_MS)),
    );
    await Promise.all([
      this.#proxy.stop({ type: 'stop' }, PROXY_STOP_MS),
      this.#link.close(),
      this.#http.close(),
    ]);
  }

  /** @param {import('../storage/connect.js').Storage} storage */
  #onStorage(storage) {
    this.#storage = storage;
    if (!this.#childrenStarted && !this.#stopping) {
      this.#childrenStarted = true;
      removeStaleFifos(this.#directories.ssh);
      this.#proxy.start();
      for (const { process: worker } of this.#workers) worker.start();
      this.#reloadTimer = setInterval(() => this.#reconcile(), RELOAD_MS);
    }
    this.#reconcile();
  }

  /** Another daemon has the fleet: what is still read here could not be committed any more. */
  #putDown() {
    this.#inventoryLoaded = false;
    this.#unassign(this.#fleet.want([]));
  }

  /** @param {import('./fleet.js').Holding[]} holdings */
  #unassign(holdings) {
    for (const { streamId, worker, epoch } of holdings)
      this.#workers[worker]?.process.send({ type: 'unassign', streamId, epoch });
  }

  #configureProxy() {
    const { ssh, daemon } = this.#config;
    this.#proxy.send({
      type: 'configure',
      settings: {
        program: ssh.program,
        options: [...ssh.options],
        configFile: ssh.configFile,
        connectTimeoutMs: ssh.connectTimeoutMs,
        connectRate: ssh.connectRate,
        directory: this.#directories.ssh,
        logLevel: daemon.logLevel,
      },
    });
  }

  /** @param {number} index */
  #configureWorker(index) {
    const { batch, daemon, log, ssh } = this.#config;
    this.#workers[index]?.process.send({
      type: 'configure',
      settings: {
        storage: this.#storage?.options ?? {},
        maxBatchBytes: batch.maxBytes,
        maxBatchDelayMs: batch.maxDelayMs,
        maxRecordBytes: batch.maxRecordBytes,
        redact: log.redact,
        connectTimeoutMs: ssh.connectTimeoutMs,
        logLevel: daemon.logLevel,
      },
    });
  }

  /** Brings the fleet to what the inventory says. One at a time; asked for meanwhile, it runs once more. */
  #reconcile() {
    this.#reconcileAgain = true;
    if (this.#reconciling || this.#stopping) return;
    this.#reconciling = true;
    void this.#reconcileWhileAsked().finally(() => (this.#reconciling = false));
  }

  async #reconcileWhileAsked() {
    while (this.#reconcileAgain && !this.#stopping) {
      this.#reconcileAgain = false;
      try {
        await this.#reconcileOnce();
        this.#reconcileBackoff.reset();
        this.#reconcileError = null;
      } catch (error) {
        // The link says why, and calls again when it is back; an error of another kind is tried again, slowly.
        if (this.#link.mode !== 'ready') return;
        const { message } = /** @type {Error} */ (error);
        if (message !== this.#reconcileError?.message) this.#log.error(message);
        this.#reconcileError = /** @type {Error} */ (error);
        setTimeout(() => this.#reconcile(), this.#reconcileBackoff.next());
        return;
      }
    }
  }

  async #reconcileOnce() {
    const hosts = await this.#link.use(client => loadInventory(client));
    const kept = new Set(hosts.map(host => host.hostId));
    for (const { hostId } of this.#hosts) if (!kept.has(hostId)) this.#proxy.send({ type: 'forget', hostId });
    this.#hosts = hosts;
    this.#inventoryLoaded = true;
    // Whoever cleaned up below the runtime directory must not stop the fleet.
    this.#directories = prepareDirectories(this.#config);
    const wanted = hosts
      .filter(host => !host.paused)
      .flatMap(host => wantedStreams(host, this.#directories.knownHosts));
    this.#unassign(this.#fleet.want(wanted));
    await this.#assign();
  }

  async #assign() {
    const ready = this.#workers.flatMap((worker, index) => (worker.ready ? [index] : []));
    const assignments = this.#fleet.assign(ready);
    if (assignments.length === 0) return;
    try {
      const epochs = await this.#link.use(client =>
        raiseEpochs(
          client,
          assignments.map(({ streamId }) => streamId),
        ),
      );
      for (const { streamId, spec, worker } of assignments) {
        const epoch = epochs.get(streamId);
        if (epoch === undefined) this.#fleet.released(streamId);
        else if (this.#fleet.assigned({ streamId, worker, epoch }))
          this.#workers[worker]?.process.send({ type: 'assign', stream: { ...spec, epoch } });
      }
    } catch (error) {
      for (const { streamId } of assignments) this.#fleet.released(streamId);
      throw error;
    }
  }

  /** @param {number} index @param {FromWorker} message */
  #fromWorker(index, message) {
    const worker = this.#workers[index];
    switch (message.type) {
      case 'ready':
        this.#workerReady(worker);
        return;
      case 'open':
      case 'turn': {
        const { streamId, attempt } = message;
        const stream = this.#fleet.streams.get(streamId);
        const host = stream?.worker === index ? stream.spec.host : null;
        if (!host || !this.#proxyReady) {
          const error = {
            code: /** @type {const} */ ('PROCESS_DIED'),
            message: host ? 'sshproxy is not running yet' : 'the stream belongs to another worker',
          };
          worker.process.send({ type: 'closed', streamId, attempt, error });
          return;
        }
        for (const { attempts } of this.#workers) attempts.delete(streamId);
        worker.attempts.set(streamId, attempt);
        this.#proxy.send({ ...message, host });
        return;
      }
      case 'opened':
        this.#proxy.send(message);
        return;
      case 'outcome':
      case 'close':
        worker.attempts.delete(message.streamId);
        this.#proxy.send(message);
        return;
      case 'released':
        this.#fleet.releasedBy({ ...message, worker: index });
        this.#reconcile();
        return;
      default: {
        const now = performance.now();
        const seconds = Math.max(0.1, (now - worker.reportedAt) / 1000);
        worker.reportedAt = now;
        worker.status = message.status;
        if (message.status.ready && !worker.ready) this.#workerReady(worker);
        this.#reported(index, message.status.streams, seconds);
      }
    }
  }

  /** @param {WorkerSlot} worker */
  #workerReady(worker) {
    worker.ready = true;
    this.#reconcile();
  }

  /** @param {number} index @param {import('../ipc/messages.js').StreamStatus[]} statuses @param {number} seconds */
  #reported(index, statuses, seconds) {
    this.#unassign(this.#fleet.report(index, statuses, seconds));
    // What a worker has lost is assigned anew.
    if ([...this.#fleet.streams.values()].some(({ state }) => state === 'free')) this.#reconcile();
  }

  /** @param {FromProxy} message */
  #fromProxy(message) {
    switch (message.type) {
      case 'ready':
        this.#proxyReady = true;
        return;
      case 'status':
        this.#proxyReady = true;
        this.#proxyStatus = message.status;
        return;
      default: {
        const { streamId, attempt } = message;
        const worker = this.#workers.find(({ attempts }) => attempts.get(streamId) === attempt);
        if (message.type === 'closed') worker?.attempts.delete(streamId);
        worker?.process.send(message);
      }
    }
  }

  /** @param {string} how */
  #proxyGone(how) {
    this.#proxyReady = false;
    this.#proxyStatus = null;
    const error = { code: /** @type {const} */ ('PROCESS_DIED'), message: `sshproxy ${how}` };
    for (const worker of this.#workers) {
      for (const [streamId, attempt] of worker.attempts) {
        worker.process.send({ type: 'closed', streamId, attempt, error });
      }
      worker.attempts.clear();
    }
  }

  /** @param {number} index */
  #workerGone(index) {
    const worker = this.#workers[index];
    worker.ready = false;
    worker.status = null;
    for (const [streamId, attempt] of worker.attempts) this.#proxy.send({ type: 'close', streamId, attempt });
    worker.attempts.clear();
    this.#fleet.workerGone(index);
    if (!this.#stopping) this.#reconcile();
  }

  /** @returns {Error | null} why the daemon takes no work */
  #notReady() {
    if (this.#stopping) return new PgsluiceError('PROCESS_DIED', 'the daemon is stopping');
    if (this.#link.mode !== 'ready') {
      return this.#link.error ?? new PgsluiceError('STORAGE_UNREACHABLE', 'the storage is not connected yet');
    }
    if (this.#reconcileError) return this.#reconcileError;
    if (!this.#inventoryLoaded || !this.#proxyReady || !this.#workers.some(({ ready }) => ready)) {
      return new PgsluiceError('PROCESS_DIED', 'workers are being started');
    }
    const failing = this.#workers.find(({ status }) => status?.storageError)?.status?.storageError;
    if (failing) {
      return new PgsluiceError(
        'STORAGE_UNREACHABLE',
        `records are not stored, they wait on the hosts: ${failing}`,
      );
    }
    return null;
  }

  #status() {
    return describeStatus({
      notReady: this.#notReady(),
      storage: { mode: this.#link.mode, error: this.#link.error },
      hosts: this.#hosts,
      redact: this.#config.log.redact,
      streams: this.#fleet.streams,
      workers: this.#workers.map(({ process: worker, ready, status }) => ({
        pid: worker.pid,
        restarts: worker.restarts,
        ready,
        status,
      })),
      proxy: {
        pid: this.#proxy.pid,
        restarts: this.#proxy.restarts,
        ready: this.#proxyReady,
        status: this.#proxyStatus,
      },
    });
  }
}

/**
 * @param {HostRow} host
 * @param {string} knownHostsDirectory
 * @returns {import('./fleet.js').WantedStream[]}
 */
function wantedStreams(host, knownHostsDirectory) {
  const { hostId, name, address, port, username, identityFile, jumpHosts, sudoUser, transport } = host;
  const keys = writeKnownHosts(knownHostsDirectory, host);
  // The pinned keys are part of the specification: a changed key makes the stream connect anew.
  const spec = {
    hostId,
    name,
    address,
    port,
    username,
    identityFile,
    jumpHosts,
    ...keys,
    hostKeys: host.hostKeys,
  };
  return host.streams.map(stream => ({
    ...stream,
    host: spec,
    transport: transport === 'auto' ? 'openssh' : transport,
    sudoUser,
  }));
}
