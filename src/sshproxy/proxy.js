/**
 * sshproxy's parts put together: a connection a host, a FIFO and a session a stream. Log bytes never enter this
 * process: ssh writes them into the FIFO itself.
 * A channel is one attempt of one stream: fifo made -> opened by the worker -> ssh started -> ended, reported once.
 * A worker that connects by itself (ssh2) asks for its turn here and tells how it went: turn given -> outcome told.
 */
import { execFile } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { PgsluiceError } from '../base/errors.js';
import { createLogger } from '../base/logger.js';
import { followerEnded } from '../transport/follower-ended.js';
import { lastWords } from '../transport/last-words.js';
import { ConnectGate } from './connect-gate.js';
import { HostConnection } from './host-connection.js';

/** @typedef {import('../ipc/messages.js').ToProxy} ToProxy */
/** @typedef {import('../ipc/messages.js').FromProxy} FromProxy */
/** @typedef {import('../ipc/messages.js').HostSpec} HostSpec */
/** @typedef {import('../ipc/messages.js').ProxySettings} ProxySettings */

/**
 * @typedef {object} Channel
 * @property {HostSpec} host
 * @property {number} streamId
 * @property {number} attempt
 * @property {string} command
 * @property {string} input
 * @property {AbortController} ending
 * @property {import('./host-pace.js').Turn | null} turn of a connection that the worker makes itself
 * @property {string} path of the FIFO; '' once it is unlinked
 * @property {import('../system-ssh/client.js').MuxStream | null} stream
 * @property {boolean} ended
 */

const STATUS_MS = 1_000;
const LAST_WORDS_MS = 500;
const OUTCOME_TIMEOUTS = 3; // one to connect, one for a session, and what a busy worker takes
const run = promisify(execFile);

export class SshProxy {
  #settings;
  #send;
  #log;
  #gate;
  /** @type {Map<number, HostConnection>} */
  #hosts = new Map();
  /** @type {Map<string, Channel>} */
  #channels = new Map();
  #stats = { connections: 0, connects: 0, failures: /** @type {Record<string, number>} */ ({}) };
  #fifoCount = 0;
  /** @type {NodeJS.Timeout} */
  #ticker;

  /** @param {ProxySettings} settings @param {(message: FromProxy) => void} send */
  constructor(settings, send) {
    this.#settings = settings;
    this.#send = send;
    this.#log = createLogger({ name: 'sshproxy', level: settings.logLevel });
    this.#gate = new ConnectGate(settings.connectRate);
    this.#ticker = setInterval(() => this.#report(), STATUS_MS);
    send({ type: 'ready' });
  }

  /** @param {ToProxy} message */
  handle(message) {
    switch (message.type) {
      case 'open': {
        if (this.#isAskedAgain(message)) return;
        const channel = this.#newChannel(message);
        this.#makeFifo(channel).catch(error => this.#end(channel, error));
        return;
      }
      case 'opened': {
        const channel = this.#channels.get(keyOf(message));
        // Said twice it is still one session.
        if (channel && channel.path !== '')
          this.#startSession(channel).catch(error => this.#end(channel, error));
        return;
      }
      case 'turn': {
        const wanted = { ...message, command: '', input: '' };
        if (this.#isAskedAgain(wanted)) return;
        const channel = this.#newChannel(wanted);
        this.#giveTurn(channel).catch(error => this.#end(channel, error));
        return;
      }
      case 'outcome': {
        const channel = this.#channels.get(keyOf(message));
        if (!channel) return;
        const connection = this.#hosts.get(channel.host.hostId);
        if (connection?.serves(channel.host)) connection.tried(message.error);
        if (message.error === null) channel.turn?.succeeded();
        else channel.turn?.failed(message.error.code);
        this.#end(channel, null);
        this.#tellRefusal(channel.host);
        return;
      }
      case 'close': {
        const channel = this.#channels.get(keyOf(message));
        if (channel) this.#end(channel, null);
        return;
      }
      case 'forget':
        this.#hosts.get(message.hostId)?.end();
        this.#hosts.delete(message.hostId);
        return;
      default:
    }
  }

  stop() {
    clearInterval(this.#ticker);
    for (const channel of this.#channels.values()) this.#end(channel, null);
    for (const host of this.#hosts.values()) host.end();
  }

  /**
   * Nobody has answered yet, or the answer was lost: what there is to say is said again.
   * @param {Pick<Channel, 'streamId' | 'attempt' | 'command' | 'input'>} wanted
   */
  #isAskedAgain({ streamId, attempt, command, input }) {
    const channel = this.#channels.get(keyOf({ streamId, attempt }));
    if (channel?.command !== command || channel.input !== input) return false;
    if (channel.path !== '') this.#send({ type: 'fifo', streamId, attempt, path: channel.path });
    else if (channel.turn) this.#send({ type: 'turn', streamId, attempt });
    return true;
  }

  /** @param {Pick<Channel, 'host' | 'streamId' | 'attempt' | 'command' | 'input'>} wanted @returns {Channel} */
  #newChannel({ host, streamId, attempt, command, input }) {
    const channel = {
      host,
      streamId,
      attempt,
      command,
      input,
      path: '',
      stream: null,
      ended: false,
      turn: null,
      ending: new AbortController(),
    };
    // A stream has one at a time: nobody told of the end of an earlier one.
    for (const earlier of this.#channels.values())
      if (earlier.streamId === streamId) this.#end(earlier, null);
    this.#channels.set(keyOf(channel), channel);
    return channel;
  }

  /** @param {Channel} channel of a worker that connects by itself */
  async #giveTurn(channel) {
    const connection = this.#hostConnection(channel.host);
    this.#tellRefusal(channel.host);
    const turn = await connection.pace.turn(channel.ending.signal);
    if (channel.ended) {
      turn.abandoned();
      return;
    }
    channel.turn = turn;
    this.#stats.connects += 1;
    // The others of the host wait for the outcome, which may never be told.
    setTimeout(() => this.#end(channel, null), OUTCOME_TIMEOUTS * this.#settings.connectTimeoutMs).unref();
    this.#send({ type: 'turn', streamId: channel.streamId, attempt: channel.attempt });
  }

  /** Whoever waits for a host that refuses us says why, not only the stream that has tried. @param {HostSpec} host */
  #tellRefusal({ hostId }) {
    const error = this.#hosts.get(hostId)?.refusal;
    if (!error) return;
    for (const { host, streamId, attempt, turn, stream } of this.#channels.values()) {
      if (host.hostId !== hostId || turn !== null || stream !== null) continue;
      this.#send({ type: 'refused', streamId, attempt, error });
    }
  }

  /** @param {Channel} channel */
  async #makeFifo(channel) {
    this.#fifoCount += 1;
    const path = join(this.#settings.directory, `fifo-${process.pid}-${this.#fifoCount}`);
    const directory = this.#settings.directory;
    try {
      // Somebody may have cleaned up the runtime directory.
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      await run('mkfifo', ['-m', '600', path]);
    } catch (cause) {
      const { message, stderr } = /** @type {Error & { stderr?: string }} */ (cause);
      const why = (stderr || message).trim().replaceAll('\n', ' ');
      throw new PgsluiceError(
        'DIRECTORY_UNUSABLE',
        `no FIFO can be made in ${directory} (${why}): make room`,
        {
          cause,
        },
      );
    }
    channel.path = path;
    if (channel.ended) {
      this.#unlink(channel);
      return;
    }
    const { streamId, attempt } = channel;
    this.#send({ type: 'fifo', streamId, attempt, path });
  }

  /** @param {Channel} channel whose FIFO the worker has open for reading */
  async #startSession(channel) {
    // Succeeds at once because there is a reader; from here on the two ends find each other without the name.
    const fd = openSync(channel.path, constants.O_WRONLY | constants.O_NONBLOCK);
    try {
      this.#unlink(channel);
      const connection = this.#hostConnection(channel.host);
      this.#tellRefusal(channel.host);
      const { stream, connectionEnd } = await connection.exec(channel.command, fd);
      if (channel.ended) {
        stream.destroy();
        return;
      }
      channel.stream = stream;
      this.#send({ type: 'started', streamId: channel.streamId, attempt: channel.attempt });
      this.#watch(channel, stream, connectionEnd);
    } finally {
      closeSync(fd);
    }
  }

  /**
   * @param {Channel} channel
   * @param {import('../system-ssh/client.js').MuxStream} stream
   * @param {Promise<Error | null>} connectionEnd
   */
  #watch(channel, stream, connectionEnd) {
    const words = lastWords(stream.stderr);
    let how = 'ended';
    stream.on('exit', (/** @type {number | null} */ code, /** @type {string | undefined} */ signal) => {
      status = code !== null;
      how = signal ? `was ended by ${signal}` : `ended with exit code ${code}`;
    });
    stream.on('error', (/** @type {Error} */ error) => this.#end(channel, error));
    let status = false;
    stream.on('close', () => {
      const ended = followerEnded({ host: channel.host.name, how, words: words() });
      if (ended.code === 'FOLLOWER_DENIED') this.#hosts.get(channel.host.hostId)?.denied(stream);
      if (status) {
        this.#end(channel, ended);
        return;
      }
      // Without an exit status it is most likely the connection that ended, and its ssh says why.
      void Promise.race([connectionEnd, sleep(LAST_WORDS_MS, null, { ref: false })]).then(cause =>
        this.#end(channel, cause ?? ended),
      );
    });
    stream.end(channel.input);
  }

  /** @param {HostSpec} spec */
  #hostConnection(spec) {
    const existing = this.#hosts.get(spec.hostId);
    if (existing?.serves(spec)) return existing;
    existing?.end();
    const host = new HostConnection(spec, this.#settings, this.#gate, this.#stats);
    this.#hosts.set(spec.hostId, host);
    return host;
  }

  /**
   * @param {Channel} channel
   * @param {unknown} error null: the worker wanted it
   */
  #end(channel, error) {
    if (channel.ended) return;
    channel.ended = true;
    channel.ending.abort(new Error('not wanted any more'));
    channel.turn?.abandoned();
    this.#channels.delete(keyOf(channel));
    this.#unlink(channel);
    channel.stream?.destroy();
    if (error === null) return;
    const known =
      error instanceof PgsluiceError
        ? error
        : new PgsluiceError('SSH_PROTOCOL', `${channel.host.name}: ${/** @type {Error} */ (error).message}`);
    this.#log.debug({ host: channel.host.name, stream: channel.streamId, code: known.code }, known.message);
    const { streamId, attempt } = channel;
    this.#send({ type: 'closed', streamId, attempt, error: { code: known.code, message: known.message } });
  }

  /** @param {Channel} channel */
  #unlink(channel) {
    const { path } = channel;
    channel.path = '';
    if (path === '') return;
    try {
      rmSync(path, { force: true });
    } catch {
      // The directory has become something else: the name is not used again.
    }
  }

  #report() {
    const { connections, connects, failures } = this.#stats;
    const sessions = [...this.#channels.values()].filter(channel => channel.stream).length;
    this.#send({
      type: 'status',
      status: { connections, sessions, connects, failures, rssBytes: process.memoryUsage.rss() },
    });
  }
}

/** @param {{ streamId: number, attempt: number }} channel */
const keyOf = ({ streamId, attempt }) => `${streamId} ${attempt}`;
