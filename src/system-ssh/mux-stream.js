/**
 * The stream of one session or forwarding: a Duplex over the pipes of an ssh process, with the events of an ssh2
 * channel: `exit` (code) or (null, signal, false, description), then `close` with the same arguments once the
 * readable side was read to its end. Parts that the caller gave descriptors for are absent.
 * Writes to a command that ended are dropped; the writable side stays open, so that none is an error. close() and destroy() end the ssh process; the server
 * then closes the command's pipes, which is all that SSH offers here.
 */
import { Duplex } from 'node:stream';

/** ssh's multiplexing protocol carries an exit status but no signal (PROTOCOL.mux, MUX_S_EXIT_MESSAGE). */
export const UNKNOWN_SIGNAL = 'UNKNOWN';

export class MuxStream extends Duplex {
  #child;
  #exited = false;
  #broken = false;
  #closedHere = false;

  /** @param {import('node:child_process').ChildProcess} child with or without pipes */
  constructor(child) {
    // 'close' carries the exit status and waits for the reader, so it is emitted here and not by the base class.
    /** @type {import('node:stream').DuplexOptions & { readable: boolean, writable: boolean }} */
    const options = {
      emitClose: false,
      autoDestroy: false,
      readable: child.stdout !== null,
      writable: child.stdin !== null,
    };
    super(options);
    this.#child = child;
    this.pid = child.pid;
    /** @type {import('node:stream').Readable | undefined} */
    this.stderr = child.stderr ?? undefined;
    child.stdin?.on('error', () => {
      this.#broken = true;
    });
    child.stderr?.on('error', () => {});
    child.stdout?.on('error', () => this.push(null));
    child.stdout?.on('data', chunk => {
      if (!this.push(chunk)) child.stdout?.pause();
    });
    child.stdout?.on('end', () => this.push(null));
    // Attaching 'data' made it flow; nobody has asked for bytes yet.
    child.stdout?.pause();
  }

  /** Ends the session from this side. */
  close() {
    this.#closedHere = true;
    if (!this.#exited) this.#child.kill('SIGTERM');
  }

  /**
   * For the owner of the process: it has exited. Called once.
   * @param {[number] | [null, string, boolean, string] | []} exit arguments of `exit`; none for a forwarding
   */
  finish(exit) {
    this.#exited = true;
    this.#broken = true;
    if (exit.length > 0) this.emit('exit', ...exit);
    // The master keeps its copy of the pipes until the server closes the channel, and the server waits for a
    // command that does not notice.
    if (this.#closedHere) this.#dropPipes();
    const closed = () => {
      if (!this.readable || this.destroyed || this.readableEnded) this.emit('close', ...exit);
      else this.once('end', () => this.emit('close', ...exit));
    };
    if (this.#pipesClosed()) closed();
    else this.#child.once('close', closed);
  }

  #dropPipes() {
    this.#broken = true;
    for (const pipe of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) pipe?.destroy();
    if (!this.readableEnded && this.#child.stdout) this.push(null);
  }

  #pipesClosed() {
    return [this.#child.stdout, this.#child.stderr].every(pipe => pipe === null || pipe.closed);
  }

  /** @override */
  _read() {
    this.#child.stdout?.resume();
  }

  /**
   * @override
   * @param {any} chunk
   * @param {BufferEncoding} encoding
   * @param {(error?: Error | null) => void} callback
   */
  _write(chunk, encoding, callback) {
    const { stdin } = this.#child;
    if (this.#broken || !stdin || stdin.destroyed) callback();
    else stdin.write(chunk, encoding, () => callback());
  }

  /** @override @param {(error?: Error | null) => void} callback */
  _final(callback) {
    const { stdin } = this.#child;
    if (stdin && !stdin.destroyed) stdin.end();
    callback();
  }

  /** @override @param {Error | null} error @param {(error?: Error | null) => void} callback */
  _destroy(error, callback) {
    this.close();
    this.#dropPipes();
    callback(error);
  }
}
