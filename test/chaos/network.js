/**
 * A network that can be broken: a TCP proxy on loopback before one server.
 *   passing    bytes go through
 *   silent     nothing goes through, no FIN and no RST is seen; new connections are accepted and hear nothing
 *   slow       each piece is late by delayMs, and no more than bytesPerSecond go through in each direction
 * Two ways back from silence: heal() lets everything go on, as after a cable was put back; forget() keeps the old
 * connections silent, as a firewall does that has lost its state, and lets new ones through. A forgotten connection's
 * server hears of it after FORGOTTEN_MS, as TCP's keepalive would tell it; its client never does.
 */
import { createServer, connect } from 'node:net';

const FORGOTTEN_MS = 15_000;

/** @typedef {'passing' | 'silent' | 'slow'} Mode */
/** @typedef {import('node:net').Socket} Socket */

/** The bytes of one direction of a connection: kept in order, whatever happens to the network meanwhile. */
class Direction {
  #network;
  #from;
  #to;
  /** @type {Buffer[]} */
  #queue = [];
  #ended = false;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;

  /** @param {BrokenNetwork} network @param {Pair} pair @param {Socket} from @param {Socket} to */
  constructor(network, pair, from, to) {
    this.#network = network;
    this.#from = from;
    this.#to = to;
    from.setNoDelay(true);
    from.on('data', bytes => {
      this.#queue.push(bytes);
      from.pause();
      this.pump(pair);
    });
    from.on('end', () => {
      this.#ended = true;
      this.pump(pair);
    });
    from.on('error', () => {});
    from.on('close', () => {
      this.#ended = true;
      this.pump(pair);
    });
    to.on('drain', () => this.pump(pair));
  }

  /** Forwards what may go. @param {Pair} pair */
  pump(pair) {
    if (this.#timer || pair.dead || this.#network.mode === 'silent') return;
    if (this.#to.destroyed) {
      this.#from.destroy();
      return;
    }
    if (this.#to.writableNeedDrain) return;
    const bytes = this.#queue[0];
    if (!bytes) {
      if (this.#ended) this.#to.end();
      else this.#from.resume();
      return;
    }
    const { mode, delayMs, bytesPerSecond } = this.#network;
    const forward = () => {
      this.#timer = null;
      if (pair.dead || this.#network.mode === 'silent') return;
      this.#queue.shift();
      if (!this.#to.destroyed) this.#to.write(bytes);
      this.pump(pair);
    };
    if (mode === 'slow') this.#timer = setTimeout(forward, delayMs + (bytes.length / bytesPerSecond) * 1000);
    else forward();
  }

  stop() {
    if (this.#timer) clearTimeout(this.#timer);
  }
}

class Pair {
  /** forgotten: nothing goes through any more */
  dead = false;

  /** @param {BrokenNetwork} network @param {Socket} client @param {Socket} server */
  constructor(network, client, server) {
    this.client = client;
    this.server = server;
    this.directions = [
      new Direction(network, this, client, server),
      new Direction(network, this, server, client),
    ];
  }

  pump() {
    for (const direction of this.directions) direction.pump(this);
  }

  reset() {
    for (const direction of this.directions) direction.stop();
    this.client.resetAndDestroy();
    this.server.resetAndDestroy();
  }
}

export class BrokenNetwork {
  /** @type {Set<Pair>} */
  #pairs = new Set();
  #target;
  #server;
  /** @type {Set<NodeJS.Timeout>} */
  #timers = new Set();

  /** @type {Mode} */
  mode = 'passing';
  delayMs = 0;
  bytesPerSecond = Infinity;
  port = 0;

  /** @param {{ port: number }} target of 127.0.0.1 */
  constructor(target) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: true }, client => this.#accept(client));
  }

  async listen() {
    await new Promise(resolve => this.#server.listen(0, '127.0.0.1', () => resolve(undefined)));
    this.port = /** @type {import('node:net').AddressInfo} */ (this.#server.address()).port;
  }

  silence() {
    this.#enter('silent');
  }

  /** @param {number} delayMs @param {number} bytesPerSecond */
  slow(delayMs, bytesPerSecond) {
    this.delayMs = delayMs;
    this.bytesPerSecond = bytesPerSecond;
    this.#enter('slow');
  }

  heal() {
    this.#enter('passing');
  }

  forget() {
    const forgotten = [...this.#pairs];
    for (const pair of forgotten) pair.dead = true;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      for (const pair of forgotten) pair.server.resetAndDestroy();
    }, FORGOTTEN_MS);
    this.#timers.add(timer);
    this.#enter('passing');
  }

  /** Every connection is reset. @returns {number} how many there were */
  reset() {
    const { size } = this.#pairs;
    for (const pair of this.#pairs) pair.reset();
    this.#pairs.clear();
    return size;
  }

  async close() {
    const closed = new Promise(resolve => this.#server.close(resolve));
    for (const timer of this.#timers) clearTimeout(timer);
    this.reset();
    await closed;
  }

  /** @param {Socket} client */
  #accept(client) {
    const server = connect({ port: this.#target.port, host: '127.0.0.1', allowHalfOpen: true });
    const pair = new Pair(this, client, server);
    this.#pairs.add(pair);
    for (const socket of [client, server]) {
      socket.on('close', () => {
        if (client.destroyed && server.destroyed) this.#pairs.delete(pair);
      });
    }
  }

  /** @param {Mode} mode */
  #enter(mode) {
    this.mode = mode;
    for (const pair of this.#pairs) pair.pump();
  }
}
