/**
 * A proxy of a PostgreSQL's Unix socket that breaks a connection after an exact number of bytes. It forwards everything
 * until cutAfter() is told; then the bytes of all its connections count, in one direction.
 *   close   both sides are closed; the other side gets the bytes up to the cut
 *   late    the client is closed; what it had sent beyond the cut reaches the server a while later
 *   silent  nothing is forwarded any more, in either direction; both sides stay open
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const LATE_MS = 50;

/** @typedef {'client' | 'server'} Sender */
/** @typedef {'close' | 'late' | 'silent'} How */
/** @typedef {{ sender: Sender, after: number, how: How }} Cut */
/** @typedef {{ client: net.Socket, server: net.Socket, open: boolean }} Pair */

export class CuttingProxy {
  #target;
  #dir = mkdtempSync(join(tmpdir(), 'pgc-'));
  #server = net.createServer({ allowHalfOpen: true }, client => this.#onConnection(client));
  /** @type {Set<Pair>} */
  #pairs = new Set();
  /** @type {Cut | null} */
  #cut = null;
  /** bytes forwarded since cutAfter() or count() */
  forwarded = { client: 0, server: 0 };

  /** @param {{ host: string, port: number }} target directory and port of the server's socket */
  constructor({ host, port }) {
    this.#target = join(host, `.s.PGSQL.${port}`);
  }

  /**
   * @template {{ host: string, port: number }} Options
   * @param {Options} options of the server
   * @returns {Promise<Options & { host: string }>} the same through the proxy
   */
  async start(options) {
    this.#server.listen(join(this.#dir, `.s.PGSQL.${options.port}`));
    await once(this.#server, 'listening');
    return { ...options, host: this.#dir };
  }

  /** Counts from now on. @param {Cut | null} cut null: and forwards all */
  cutAfter(cut) {
    this.#cut = cut;
    this.forwarded = { client: 0, server: 0 };
  }

  /** The cut has been made. */
  get isCut() {
    return this.#cut === null;
  }

  async stop() {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    this.#server.close();
    await once(this.#server, 'close');
    rmSync(this.#dir, { recursive: true });
  }

  /** @param {net.Socket} client */
  #onConnection(client) {
    const server = net.connect({ path: this.#target, allowHalfOpen: true });
    /** @type {Pair} */
    const pair = { client, server, open: true };
    this.#pairs.add(pair);
    for (const socket of [client, server]) {
      socket.on('error', () => {});
      socket.on('close', () => {
        if (!pair.open) return;
        pair.open = false;
        client.destroy();
        server.destroy();
        this.#pairs.delete(pair);
      });
    }
    client.on('data', bytes => this.#onData(pair, 'client', bytes));
    server.on('data', bytes => this.#onData(pair, 'server', bytes));
    client.on('end', () => pair.open && server.end());
    server.on('end', () => pair.open && client.end());
  }

  /** @param {Pair} pair @param {Sender} sender @param {Buffer} bytes */
  #onData(pair, sender, bytes) {
    if (!pair.open) return;
    const to = sender === 'client' ? pair.server : pair.client;
    const room = this.#cut?.sender === sender ? this.#cut.after - this.forwarded[sender] : Infinity;
    this.forwarded[sender] += Math.min(room, bytes.length);
    if (bytes.length < room) {
      to.write(bytes);
      return;
    }
    const how = this.#cut?.how;
    this.#cut = null;
    pair.open = false;
    const { client, server } = pair;
    if (how === 'silent') {
      to.write(bytes.subarray(0, room));
      return;
    }
    to.write(bytes.subarray(0, room));
    if (how === 'close') {
      for (const socket of [client, server]) socket.end(() => socket.destroy());
    } else {
      client.destroy();
      setTimeout(() => {
        if (sender === 'client') server.write(bytes.subarray(room));
        server.end(() => server.destroy());
      }, LATE_MS);
    }
    this.#pairs.delete(pair);
  }
}
