/**
 * The HTTP endpoint: /metrics (Prometheus), /healthz (the process lives), /readyz (it takes work), /status (JSON);
 * with TLS and passwords where the configuration names their files, which are read once, here.
 * GET and HEAD only, one request a connection, no body; a client has 5 s for its request and 30 s in all. Beyond 64
 * connections a new one takes the place of the one that has waited longest, so that idle ones keep nobody out.
 * Throws PgsluiceError: DIRECTORY_UNUSABLE for the address, FILE_* and CONFIG_INVALID for the files.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { PgsluiceError } from '../base/errors.js';
import { printable, printableJson } from '../base/printable.js';
import { readSecret } from '../base/read-secret.js';
import { passwordCheck, readHttpPasswords } from './http-passwords.js';

/** @typedef {import('../config/options.js').Config['http']} HttpConfig */

/** For the TLS handshake, and again for the request. */
const REQUEST_MAX_MS = 5_000;
const CONNECTION_MAX_MS = 30_000;
const CONNECTIONS_MAX = 64;
const LIMITS = {
  requestTimeout: REQUEST_MAX_MS,
  headersTimeout: REQUEST_MAX_MS,
  connectionsCheckingInterval: 1_000, // Node looks every 30 s by default
  maxHeaderSize: 8_192,
};
const LOOPBACK = /^(?:127\.|::1$|::ffff:127\.)/;

/** @typedef {{ socket: import('node:net').Socket, answering: boolean }} Connection */

export class HttpServer {
  #options;
  #server;
  #allowed;
  #tls;
  /** @type {Map<string, Connection>} oldest first */
  #connections = new Map();

  /**
   * @param {object} options
   * @param {HttpConfig} options.http its listen null: no HTTP
   * @param {() => Error | null} options.ready null, or why not
   * @param {() => object} options.status
   * @param {() => Promise<{ type: string, text: string }>} options.metrics
   * @param {Pick<import('../base/logger.js').Logger, 'warn' | 'error'>} options.log
   * @param {number} [options.connectionMaxMs] from its beginning to its end
   */
  constructor(options) {
    const { listen, authFile, tlsCertFile, tlsKeyFile } = options.http;
    this.#options = options;
    this.#allowed = listen && authFile !== null ? passwordCheck(readHttpPasswords(authFile)) : null;
    this.#tls = listen && tlsCertFile !== null && tlsKeyFile !== null;
    this.#server = this.#tls ? tlsServer(String(tlsCertFile), String(tlsKeyFile)) : createServer(LIMITS);
    this.#server.maxRequestsPerSocket = 1;
    this.#server.on('connection', socket => this.#admit(socket));
    for (const event of ['request', 'checkContinue']) this.#server.on(event, this.#onRequest);
  }

  /** @returns {Promise<string | null>} where it listens */
  async listen() {
    const address = this.#options.http.listen;
    if (!address) return null;
    await new Promise((resolve, reject) => {
      this.#server.once('error', cause =>
        reject(
          new PgsluiceError(
            'DIRECTORY_UNUSABLE',
            `http.listen ${address.host}:${address.port} cannot be used (${cause.message}): name another address, or "none"`,
            { cause },
          ),
        ),
      );
      this.#server.listen(address.port, address.host, () => resolve(undefined));
    });
    const bound = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    const where = `${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`;
    this.#warn(bound.address, where);
    return `${this.#tls ? 'https' : 'http'}://${where}`;
  }

  async close() {
    if (!this.#server.listening) return;
    const closed = new Promise(resolve => this.#server.close(resolve));
    this.#server.closeAllConnections();
    // Those that are still in their TLS handshake are not counted among them.
    for (const { socket } of this.#connections.values()) socket.destroy();
    await closed;
  }

  /** @param {string} address @param {string} where */
  #warn(address, where) {
    if (LOOPBACK.test(address)) return;
    if (!this.#allowed) {
      this.#options.log.warn(
        `http.listen ${where} is open to other machines and asks for no password: set http.auth_file`,
      );
    } else if (!this.#tls) {
      this.#options.log.warn(
        `http.listen ${where} takes passwords over an open network: set http.tls_cert_file and http.tls_key_file`,
      );
    }
  }

  /** @param {import('node:net').Socket} socket */
  #admit(socket) {
    if (this.#connections.size >= CONNECTIONS_MAX) {
      const all = [...this.#connections.values()];
      (all.find(({ answering }) => !answering) ?? all[0])?.socket.destroy();
    }
    const key = peer(socket);
    const connection = { socket, answering: false };
    this.#connections.set(key, connection);
    const timer = setTimeout(
      () => socket.destroy(),
      this.#options.connectionMaxMs ?? CONNECTION_MAX_MS,
    ).unref();
    socket.once('close', () => {
      clearTimeout(timer);
      if (this.#connections.get(key) === connection) this.#connections.delete(key);
    });
  }

  /**
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   */
  #onRequest = (request, response) => {
    const connection = this.#connections.get(peer(request.socket));
    if (connection) connection.answering = true;
    this.#answer(request, response).catch(error => {
      this.#options.log.error({ err: error }, 'an HTTP request failed');
      if (response.headersSent) response.destroy();
      else response.writeHead(500, { 'content-type': 'text/plain' }).end('failed: the log says why\n');
    });
  };

  /**
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   */
  async #answer(request, response) {
    /** @param {number} code @param {string} type @param {string} text @param {Record<string, string>} [more] */
    const send = (code, type, text, more = {}) => {
      response.writeHead(code, {
        'content-type': type,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        ...more,
      });
      response.end(request.method === 'HEAD' ? undefined : text);
    };
    const { headers, method, url = '/' } = request;
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0)
      return send(413, 'text/plain', 'no request has a body here\n');
    if (this.#allowed && !this.#allowed(headers.authorization)) {
      const challenge = { 'www-authenticate': 'Basic realm="pgsluice", charset="UTF-8"' };
      return send(401, 'text/plain', 'user and password are needed: see http.auth_file\n', challenge);
    }
    if (method !== 'GET' && method !== 'HEAD')
      return send(405, 'text/plain', 'GET only\n', { allow: 'GET, HEAD' });
    switch (URL.canParse(url, 'http://localhost') ? new URL(url, 'http://localhost').pathname : '') {
      case '/healthz':
        return send(200, 'text/plain', 'ok\n');
      case '/readyz': {
        const reason = this.#options.ready();
        return reason
          ? send(503, 'text/plain', `${printable(reason.message)}\n`)
          : send(200, 'text/plain', 'ready\n');
      }
      case '/status':
        return send(
          200,
          'application/json',
          `${printableJson(JSON.stringify(this.#options.status(), null, 2))}\n`,
        );
      case '/metrics': {
        const { type, text } = await this.#options.metrics();
        return send(200, type, text);
      }
      default:
        return send(404, 'text/plain', 'there are /metrics, /healthz, /readyz and /status\n');
    }
  }
}

/** @param {string} certFile @param {string} keyFile */
function tlsServer(certFile, keyFile) {
  const key = readSecret(keyFile, 'http.tls_key_file');
  try {
    const cert = readFileSync(certFile);
    return createTlsServer({ ...LIMITS, cert, key, handshakeTimeout: REQUEST_MAX_MS });
  } catch (cause) {
    throw new PgsluiceError(
      'FILE_UNREADABLE',
      `http.tls_cert_file ${printable(certFile)} with http.tls_key_file ${printable(keyFile)} cannot be used: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
}

/** @param {import('node:net').Socket} socket @returns {string} the same for a TCP socket and the TLS one above it */
function peer({ remoteAddress, remotePort, localAddress }) {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
