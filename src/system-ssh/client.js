/**
 * A client for the system's OpenSSH with the call shapes of ssh2's Client: connect, exec, forwardOut,
 * openssh_forwardOutStreamLocal, end; events `ready`, `error`, `end`, `close`. One instance, one connection.
 * One `ssh -M` process carries all sessions; each session is a small ssh process beside it, whose stdio may be
 * descriptors of the caller, so that its bytes never enter this process.
 * `error` brings a PgsluiceError (SSH_*, NOT_SUPPORTED, CONFIG_INVALID) and is followed by `close`; `close` comes
 * when every process is gone and every file removed. connect() throws USAGE or DIRECTORY_UNUSABLE at once.
 */
import { EventEmitter } from 'node:events';
import { PgsluiceError } from '../base/errors.js';
import { ControlDirectory } from './control-directory.js';
import { connectForward, openLocalForward } from './local-forward.js';
import { Master } from './master.js';
import { startMuxProcess } from './mux-process.js';
import { SessionPool } from './session-pool.js';
import { hostName, plainText, portNumber, readSettings, usage } from './settings.js';

/** @typedef {import('./settings.js').ClientConfig} ClientConfig */
/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {import('./ssh-config.js').Destination} Destination */
/** @typedef {import('./mux-stream.js').MuxStream} MuxStream */
/** @typedef {'pipe' | 'ignore' | number} StdioPart */
/** @typedef {{ stdio?: [StdioPart, StdioPart, StdioPart] }} ExecOptions */
/** @typedef {import('./local-forward.js').LocalSocket} LocalSocket */
/**
 * @template T
 * @typedef {(...result: [error: PgsluiceError, value: undefined] | [error: undefined, value: T]) => void} Callback
 */

/**
 * What lives as long as a connection.
 * @typedef {{ settings: Settings, directory: ControlDirectory, pool: SessionPool, primary: Master }} Connection
 */

export class Client extends EventEmitter {
  /**
   * new -> connecting -> ready -> closing -> closed; an error or end() leads to closing from either.
   * @type {'new' | 'connecting' | 'ready' | 'closing' | 'closed'}
   */
  #state = 'new';
  /** @type {Connection | undefined} */
  #connection;
  /** @type {Set<Master>} processes that exist */
  #masters = new Set();
  /** Session and control processes that exist. */
  #processes = 0;
  /** For names in the control directory. */
  #counter = 0;

  /** @param {ClientConfig} config @returns {this} */
  connect(config) {
    if (this.#state !== 'new') throw usage('a Client connects once: make another');
    const settings = readSettings(config);
    const directory = new ControlDirectory(settings.controlDirectory, error => this.#close(error));
    const pool = new SessionPool(
      settings.maxSessions,
      async () => {
        await settings.beforeConnection();
        if (this.#state !== 'ready') throw new PgsluiceError('SSH_PROTOCOL', 'Not connected');
        const master = this.#newMaster(settings, directory);
        await master.start();
        return master;
      },
      (master, { command, stdio }, events) => this.#startMux(master, { command }, stdio, events),
    );
    const primary = this.#newMaster(settings, directory);
    this.#connection = { settings, directory, pool, primary };
    this.#state = 'connecting';
    // The first connection is the connection: another one that breaks takes only its own sessions along.
    void primary.gone.then(error => this.#close(error));
    void this.#start(primary, pool);
    return this;
  }

  /**
   * Runs a command on the server. The callback comes when the server opened the session. The stream's events and
   * what a signal looks like: mux-stream.js. With a descriptor in stdio ssh reads or writes it itself; the stream
   * then lacks that part. ssh sets O_NONBLOCK on it.
   * @param {string} command passed to the remote shell as it is
   * @param {ExecOptions | Callback<MuxStream>} options
   * @param {Callback<MuxStream>} [callback]
   * @returns {this}
   */
  exec(command, options, callback) {
    const { pool } = this.#connected();
    const done = callback ?? options;
    if (typeof done !== 'function') throw usage('exec needs a callback');
    if (typeof command !== 'string' || command === '') throw usage('the remote command is not a text');
    if (command.includes('\0')) throw usage('the remote command holds a NUL');
    const stdio = readStdio(typeof options === 'function' ? {} : options);
    pool.request({
      command,
      stdio,
      open: stream => done(undefined, stream),
      fail: error => done(error, undefined),
    });
    return this;
  }

  /**
   * A connection from the server to a TCP port. OpenSSH does not pass on the source address; it is ignored.
   * @param {string} _sourceHost
   * @param {number} _sourcePort
   * @param {string} host as seen from the server
   * @param {number} port
   * @param {Callback<MuxStream>} callback
   * @returns {this}
   */
  forwardOut(_sourceHost, _sourcePort, host, port, callback) {
    const { primary } = this.#connected();
    const channel = {
      host: hostName('destination', host),
      port: portNumber('port of the destination', port),
    };
    this.#startMux(primary, channel, ['pipe', 'pipe', 'ignore'], {
      opened: stream => callback(undefined, stream),
      failed: error => callback(error, undefined),
      gone: () => {},
    });
    return this;
  }

  /**
   * A connection from the server to a Unix socket there. Where ssh2 would report a refusal to the callback, the
   * system's ssh only tells afterwards: the stream then emits an error (SSH_UNREACHABLE) and closes.
   * @param {string} socketPath absolute
   * @param {Callback<import('node:net').Socket>} callback
   * @returns {this}
   */
  openssh_forwardOutStreamLocal(socketPath, callback) {
    const { primary } = this.#connected();
    this.forwardOutLocalSocket({ socketPath }, (error, forward) => {
      if (error) callback(error, undefined);
      else connectForward(forward, primary, socketPath, callback);
    });
    return this;
  }

  /**
   * Opens a local Unix socket, private to this user, for programs that connect by path. It lives until its
   * close() or the end of the connection.
   * @param {Destination} destination
   * @param {Callback<LocalSocket>} callback
   * @returns {this}
   */
  forwardOutLocalSocket(destination, callback) {
    const { settings, directory, primary } = this.#connected();
    const name = `f${(this.#counter += 1)}`;
    const wanted = {
      program: settings.program,
      directory,
      master: primary,
      name,
      destination: readDestination(destination),
      track: () => this.#track(),
    };
    void deliverForward(wanted, callback);
    return this;
  }

  /** Ends every session and forwarding, then the connection. `close` tells when all is gone. @returns {this} */
  end() {
    this.#close();
    return this;
  }

  /** @param {Master} primary @param {SessionPool} pool */
  async #start(primary, pool) {
    try {
      await primary.start();
    } catch {
      // primary.gone reports it.
      return;
    }
    if (this.#state !== 'connecting') return;
    this.#state = 'ready';
    pool.add(primary);
    this.emit('ready');
  }

  /** @returns {Connection} */
  #connected() {
    if (this.#state !== 'ready' || !this.#connection)
      throw new PgsluiceError('SSH_PROTOCOL', 'Not connected');
    return this.#connection;
  }

  /** @param {Settings} settings @param {ControlDirectory} directory @returns {Master} */
  #newMaster(settings, directory) {
    const master = new Master(settings, directory, (this.#counter += 1));
    this.#masters.add(master);
    void this.#bury(master);
    return master;
  }

  /** @param {Master} master */
  async #bury(master) {
    await master.gone;
    this.#masters.delete(master);
    this.#connection?.pool.remove(master);
    this.#settle();
  }

  /**
   * @param {Master} master
   * @param {{ command: string } | { host: string, port: number }} channel
   * @param {import('node:child_process').StdioOptions} stdio
   * @param {import('./session-pool.js').SessionEvents} events
   */
  #startMux(master, channel, stdio, events) {
    if (!this.#connection) throw new Error('no connection');
    const { settings, directory } = this.#connection;
    const release = this.#track();
    const logName = `l${(this.#counter += 1)}`;
    startMuxProcess(
      {
        program: settings.program,
        directory,
        master,
        logName,
        channel,
        stdio,
        openTimeoutMs: settings.connectTimeoutMs,
      },
      {
        opened: events.opened,
        failed: events.failed,
        gone: () => {
          events.gone();
          release();
        },
      },
    );
  }

  /** Counts a process. @returns {() => void} for its end */
  #track() {
    this.#processes += 1;
    return () => {
      this.#processes -= 1;
      this.#settle();
    };
  }

  /** @param {PgsluiceError} [error] why, unless it was asked for */
  #close(error) {
    if (this.#state !== 'connecting' && this.#state !== 'ready') return;
    this.#state = 'closing';
    for (const master of this.#masters) master.close();
    this.#connection?.pool.close(
      error ?? new PgsluiceError('SSH_PROTOCOL', 'the SSH connection was ended from this side'),
    );
    try {
      if (error) this.emit('error', error);
    } finally {
      this.#settle();
    }
  }

  #settle() {
    if (this.#state !== 'closing' || this.#masters.size > 0 || this.#processes > 0) return;
    this.#state = 'closed';
    this.#connection?.directory.close();
    this.emit('end');
    this.emit('close');
  }
}

/** @param {ExecOptions} options @returns {[StdioPart, StdioPart, StdioPart]} */
function readStdio(options) {
  const { stdio = ['pipe', 'pipe', 'pipe'], ...others } = options;
  const unknown = Object.entries(others).filter(([, value]) => value !== undefined && value !== false);
  if (unknown.length > 0) throw usage(`the system's ssh client has no exec option ${unknown[0][0]}`);
  if (!Array.isArray(stdio) || stdio.length !== 3 || !stdio.every(isStdioPart)) {
    throw usage("stdio is not three of 'pipe', 'ignore' or a file descriptor");
  }
  return stdio;
}

/** @param {Destination} destination @returns {Destination} */
function readDestination(destination) {
  if ('socketPath' in destination) {
    const socketPath = plainText('socketPath', destination.socketPath);
    if (!socketPath.startsWith('/')) throw usage(`socketPath is not absolute: ${JSON.stringify(socketPath)}`);
    // ssh reads a backslash here twice, as an escape of the file and of the forwarding.
    if (socketPath.includes('\\')) throw usage(`socketPath holds a backslash: ${JSON.stringify(socketPath)}`);
    return { socketPath };
  }
  return {
    host: hostName('destination', destination.host),
    port: portNumber('port of the destination', destination.port),
  };
}

/** @param {unknown} part @returns {boolean} */
function isStdioPart(part) {
  return (
    part === 'pipe' || part === 'ignore' || (typeof part === 'number' && Number.isInteger(part) && part >= 0)
  );
}

/**
 * @param {Parameters<typeof openLocalForward>[0]} wanted
 * @param {Callback<LocalSocket>} callback
 */
async function deliverForward(wanted, callback) {
  let forward;
  try {
    forward = await openLocalForward(wanted);
  } catch (error) {
    callback(
      error instanceof PgsluiceError ? error : new PgsluiceError('SSH_PROTOCOL', String(error)),
      undefined,
    );
    return;
  }
  const { path, close } = forward;
  callback(undefined, { path, close: done => void closeThen(close, done) });
}

/** @param {() => Promise<void>} close @param {(() => void) | undefined} done */
async function closeThen(close, done) {
  await close();
  done?.();
}
