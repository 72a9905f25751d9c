/**
 * The worker's parts put together: its streams, its batcher, its connections to the storage, and the transports.
 * In: messages of master (ipc/messages.js). Out: messages to master, and committed transactions.
 * It starts no process but a `local` follower: FIFOs are made, and ssh is started, by sshproxy.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { PgsluiceError } from '../base/errors.js';
import { createLogger } from '../base/logger.js';
import { Redactor } from '../codec/redact.js';
import { connectStorage, endConnection, storageError } from '../storage/connect.js';
import { claimStream } from '../storage/positions.js';
import { endWhenSilent } from '../storage/silence.js';
import { loadZones } from '../storage/zones.js';
import { openFifo } from '../transport/fifo.js';
import { runLocal } from '../transport/local.js';
import { runOverSsh2 } from '../transport/ssh2.js';
import { Batcher } from './batcher.js';
import { DescriptorBudget } from './descriptor-budget.js';
import { Stream } from './stream.js';

/** @typedef {import('../ipc/messages.js').ToWorker} ToWorker */
/** @typedef {import('../ipc/messages.js').FromWorker} FromWorker */
/** @typedef {import('../ipc/messages.js').StreamSpec} StreamSpec */
/** @typedef {import('../ipc/messages.js').WorkerSettings} WorkerSettings */
/** @typedef {import('../transport/fifo.js').ByteSource} ByteSource */
/** @typedef {import('./stream.js').SourceHandlers} SourceHandlers */

/**
 * @typedef {object} Fifo
 * @property {SourceHandlers} handlers
 * @property {ByteSource | null} source null: not open yet, or read to its end
 * @property {boolean} started the follower runs: sshproxy has heard that the FIFO is open
 * @property {PgsluiceError | null} ended how its writer ended
 * @property {NodeJS.Timeout | null} timer
 * @property {import('../ipc/messages.js').FromWorker} ask what sshproxy was asked for
 * @property {number} askedAt performance.now()
 */

const TICK_MS = 1_000; // status and time limits
const ASK_AGAIN_MS = 15_000; // sshproxy, which may be waiting for its pace, or may never have been told
const STORAGE_RETRY_MS = 1_000;
const DESCRIPTORS = { local: 3, openssh: 1, ssh2: 1 }; // of a stream, by its transport
const LAST_BYTES_WAIT_MS = 2_000;
const FAILURE_SHOWN_MS = 120_000; // longer than the longest back-off of a stream

export class Worker {
  #settings;
  #send;
  #log;
  #batcher;
  /** @type {Map<number, Stream>} */
  #streams = new Map();
  /** FIFOs asked for, by stream and attempt @type {Map<string, Fifo>} */
  #fifos = new Map();
  /** streams that wait to connect by themselves @type {Map<string, { begin: () => void, fail: (error: PgsluiceError) => void, ask: FromWorker, askedAt: number }>} */
  #turns = new Map();
  /** for claims @type {Promise<import('pg').Client> | null} */
  #client = null;
  #zones = new Map();
  #isReady = false;
  #stopping = false;
  #descriptors = new DescriptorBudget();
  #loopDelay = monitorEventLoopDelay({ resolution: 10 });
  /** @type {NodeJS.Timeout} */
  #ticker;

  /**
   * @param {WorkerSettings} settings
   * @param {(message: FromWorker) => void} send
   * @param {string} name
   */
  constructor(settings, send, name) {
    this.#settings = settings;
    this.#send = send;
    this.#log = createLogger({ name, level: settings.logLevel });
    this.#batcher = new Batcher({
      settings,
      redactor: settings.redact.length > 0 ? new Redactor(settings.redact) : null,
      connect: () => this.#connect(),
      onRoom: () => {
        for (const stream of this.#streams.values()) stream.resume();
      },
      onFailure: error => {
        const known = storageError(error);
        this.#log.error(
          { code: known.code },
          `a batch was not stored, its streams resume from their positions: ${known.message}`,
        );
        for (const stream of this.#streams.values()) stream.reset(known);
      },
      onRefused: ({ rows, reason }) => {
        const count = [...rows.values()].reduce((sum, one) => sum + one, 0);
        this.#log.warn({ records: count }, `records went to pgsluice.rejected: ${reason}`);
      },
      onFenced: (stream, error) => {
        this.#log.warn({ code: error.code }, error.message);
        stream.reset(error);
      },
    });
    this.#loopDelay.enable();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS);
    this.#ready().catch(error => this.#log.error({ err: error }, 'the worker could not begin'));
  }

  /** @param {ToWorker} message */
  handle(message) {
    switch (message.type) {
      case 'assign':
        return this.#assign(message.stream);
      case 'unassign':
        return this.#unassign(message, false);
      case 'fifo':
        return this.#onFifo(message);
      case 'started':
        return this.#onStarted(message);
      case 'turn':
        return this.#onTurn(message);
      case 'refused':
        this.#streams.get(message.streamId)?.refused(message.attempt, message.error);
        return;
      case 'closed':
        return this.#onClosed(message);
      default:
    }
  }

  /** Stops the intake and commits what was parsed. */
  async stop() {
    this.#stopping = true;
    clearInterval(this.#ticker);
    for (const stream of this.#streams.values()) stream.stop();
    await this.#batcher.settle();
    await this.#batcher.close();
    const client = await this.#client?.catch(() => null);
    if (client) await endConnection(client);
    this.#tick();
  }

  /** Times are read as the storage's COPY would read them, so nothing can be parsed before it answers. */
  async #ready() {
    while (!this.#stopping) {
      try {
        this.#zones = await loadZones(await this.#claimClient());
        this.#isReady = true;
        this.#send({ type: 'ready' });
        return;
      } catch (error) {
        this.#log.warn(storageError(error).message);
        await new Promise(resolve => setTimeout(resolve, STORAGE_RETRY_MS));
      }
    }
  }

  async #connect() {
    const { storage } = this.#settings;
    return endWhenSilent(await connectStorage(storage), storage);
  }

  #claimClient() {
    this.#client ??= this.#connect().then(client => {
      client.on('end', () => (this.#client = null));
      return client;
    });
    const connecting = this.#client;
    connecting.catch(() => {
      if (this.#client === connecting) this.#client = null;
    });
    return connecting;
  }

  /** @param {StreamSpec} spec */
  #assign(spec) {
    const { streamId, epoch } = spec;
    const held = this.#streams.get(streamId);
    // Said again, or late.
    if (held && held.assignedEpoch >= epoch) return;
    held?.stop();
    // Master has not heard yet that it has a new process before it.
    if (!this.#isReady) {
      this.#send({ type: 'released', streamId, epoch, fenced: false });
      return;
    }
    const stream = new Stream(spec, {
      batcher: this.#batcher,
      zones: this.#zones,
      maxRecordBytes: this.#settings.maxRecordBytes,
      claim: (streamId, epoch) => this.#claim(streamId, epoch),
      open: (streamSpec, attempt, follower, handlers) => this.#open(streamSpec, attempt, follower, handlers),
      onFenced: fenced => {
        if (this.#streams.get(fenced.streamId) === fenced)
          this.#unassign({ streamId: fenced.streamId, epoch: fenced.assignedEpoch }, true);
      },
      log: this.#log.child({ host: spec.host.name, stream: spec.path }),
    });
    this.#streams.set(spec.streamId, stream);
    stream.start();
  }

  /** @param {{ streamId: number, epoch: number }} assignment or a later one than what is held @param {boolean} fenced */
  #unassign({ streamId, epoch }, fenced) {
    const stream = this.#streams.get(streamId);
    if (stream && stream.assignedEpoch <= epoch) {
      stream.stop();
      this.#streams.delete(streamId);
      void this.#batcher.drain(stream).then(() => this.#send({ type: 'released', streamId, epoch, fenced }));
    } else {
      this.#send({ type: 'released', streamId, epoch, fenced });
    }
  }

  /** @param {number} streamId @param {number} epoch */
  async #claim(streamId, epoch) {
    try {
      return await claimStream(await this.#claimClient(), streamId, epoch);
    } catch (error) {
      throw storageError(error);
    }
  }

  /**
   * @param {StreamSpec} spec
   * @param {number} attempt
   * @param {{ command: string, input: string }} follower
   * @param {SourceHandlers} handlers
   * @returns {ByteSource}
   */
  #open(spec, attempt, follower, handlers) {
    const giveBack = this.#descriptors.take(DESCRIPTORS[spec.transport], spec.host.name);
    try {
      const source = this.#openTransport(spec, attempt, follower, handlers);
      return {
        ...source,
        close: () => {
          source.close();
          giveBack();
        },
      };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  /**
   * @param {StreamSpec} spec
   * @param {number} attempt
   * @param {{ command: string, input: string }} follower
   * @param {SourceHandlers} handlers
   * @returns {ByteSource}
   */
  #openTransport(spec, attempt, follower, handlers) {
    if (spec.transport === 'local') return runLocal(follower, handlers);
    if (spec.transport === 'ssh2') return this.#openSsh2(spec, attempt, follower, handlers);
    const { streamId } = spec;
    const key = fifoKey(streamId, attempt);
    const ask = /** @type {const} */ ({ type: 'open', streamId, attempt, ...follower });
    /** @type {Fifo} */
    const fifo = {
      handlers,
      source: null,
      started: false,
      ended: null,
      timer: null,
      ask,
      askedAt: performance.now(),
    };
    this.#fifos.set(key, fifo);
    this.#send(ask);
    return {
      pause: () => fifo.source?.pause(),
      resume: () => fifo.source?.resume(),
      close: () => {
        this.#fifos.delete(key);
        if (fifo.timer) clearTimeout(fifo.timer);
        fifo.source?.close();
        this.#send({ type: 'close', streamId, attempt });
      },
    };
  }

  /**
   * @param {StreamSpec} spec
   * @param {number} attempt
   * @param {{ command: string, input: string }} follower
   * @param {SourceHandlers} handlers
   * @returns {ByteSource}
   */
  #openSsh2({ streamId, host }, attempt, follower, handlers) {
    const key = fifoKey(streamId, attempt);
    const { connectTimeoutMs } = this.#settings;
    /** @type {ByteSource | null} */
    let source = null;
    let told = false;
    /** @param {PgsluiceError | null} error */
    const tell = error => {
      const report = error && { code: error.code, message: error.message };
      if (!told) this.#send({ type: 'outcome', streamId, attempt, error: report });
      told = true;
    };
    const ask = /** @type {const} */ ({ type: 'turn', streamId, attempt });
    this.#turns.set(key, {
      begin: () => {
        source = runOverSsh2(
          host,
          { ...follower, connectTimeoutMs },
          {
            ...handlers,
            onConnect: () => tell(null),
            onEnd: error => {
              tell(error);
              handlers.onEnd(error);
            },
          },
        );
      },
      fail: error => handlers.onEnd(error),
      ask,
      askedAt: performance.now(),
    });
    this.#send(ask);
    return {
      pause: () => source?.pause(),
      resume: () => source?.resume(),
      close: () => {
        this.#turns.delete(key);
        source?.close();
        if (!told) this.#send({ type: 'close', streamId, attempt });
        told = true;
      },
    };
  }

  /** @param {{ streamId: number, attempt: number }} message */
  #onTurn({ streamId, attempt }) {
    const key = fifoKey(streamId, attempt);
    const waiting = this.#turns.get(key);
    this.#turns.delete(key);
    waiting?.begin();
  }

  /** @param {{ streamId: number, attempt: number, error: import('../ipc/messages.js').ErrorReport | null }} message */
  #onClosed({ streamId, attempt, error }) {
    const key = fifoKey(streamId, attempt);
    const waiting = this.#turns.get(key);
    this.#turns.delete(key);
    waiting?.fail(reported(error));
    const fifo = this.#fifos.get(key);
    if (fifo) this.#onProcessEnd(fifo, reported(error));
  }

  /** @param {{ streamId: number, attempt: number }} message */
  #onStarted({ streamId, attempt }) {
    const fifo = this.#fifos.get(fifoKey(streamId, attempt));
    if (!fifo) return;
    fifo.started = true;
    fifo.handlers.onOpen();
  }

  /** @param {{ streamId: number, attempt: number, path: string }} message */
  #onFifo({ streamId, attempt, path }) {
    const key = fifoKey(streamId, attempt);
    const fifo = this.#fifos.get(key);
    if (!fifo) return;
    if (fifo.source) {
      // Said again: sshproxy has not heard that it is open.
      this.#send({ type: 'opened', streamId, attempt });
      return;
    }
    try {
      fifo.source = openFifo(path, {
        onChunk: chunk => {
          fifo.started = true;
          fifo.handlers.onChunk(chunk);
        },
        onEnd: error => {
          fifo.source = null;
          fifo.askedAt = performance.now();
          // How ssh ended is what sshproxy says: its report comes next, or has come.
          if (error || fifo.ended) fifo.handlers.onEnd(error ?? fifo.ended);
        },
      });
      this.#send({ type: 'opened', streamId, attempt });
    } catch (error) {
      this.#fifos.delete(key);
      fifo.handlers.onEnd(/** @type {Error} */ (error));
    }
  }

  /**
   * What ssh wrote before it ended may still be in the FIFO, whose end of file comes after it.
   * @param {Fifo} fifo
   * @param {PgsluiceError} error
   */
  #onProcessEnd(fifo, error) {
    fifo.ended = error;
    if (fifo.source) fifo.timer = setTimeout(() => fifo.handlers.onEnd(error), LAST_BYTES_WAIT_MS);
    else fifo.handlers.onEnd(error);
  }

  /** Why batches are not stored now. @param {number} now ms since the epoch @returns {string | null} */
  #storageError(now) {
    const { failure } = this.#batcher;
    // Nothing may have come since that could be stored; then it is not known to fail any more.
    return failure && now - failure.at < FAILURE_SHOWN_MS ? storageError(failure.error).message : null;
  }

  /** @param {number} now */
  #askAgain(now) {
    const fifos = [...this.#fifos.values()].filter(
      ({ source, started, ended }) => ended === null && (source === null || !started),
    );
    for (const waiting of [...fifos, ...this.#turns.values()]) {
      if (now - waiting.askedAt < ASK_AGAIN_MS) continue;
      waiting.askedAt = now;
      this.#send(waiting.ask);
    }
  }

  #tick() {
    const now = performance.now();
    for (const stream of this.#streams.values()) stream.tick(now);
    this.#askAgain(now);
    const { user, system } = process.cpuUsage();
    this.#send({
      type: 'status',
      status: {
        ready: this.#isReady,
        streams: [...this.#streams.values()].map(stream => stream.status),
        totals: this.#batcher.totals,
        rssBytes: process.memoryUsage.rss(),
        cpuSeconds: (user + system) / 1e6,
        loopDelayMs: this.#loopDelay.percentile(99) / 1e6,
        storageError: this.#storageError(now),
      },
    });
    this.#loopDelay.reset();
  }
}

/** @param {import('../ipc/messages.js').ErrorReport | null} report */
const reported = report =>
  report
    ? new PgsluiceError(report.code, report.message)
    : new PgsluiceError('FOLLOWER_FAILED', 'the follower ended');

/** @param {number} streamId @param {number} attempt */
const fifoKey = (streamId, attempt) => `${streamId} ${attempt}`;
