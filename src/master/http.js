/**
 * The HTTP endpoint: /metrics (Prometheus), /healthz (the process lives), /readyz (it takes work), /status (JSON).
 * GET and HEAD only, no body is read, slow clients are cut off.
 */
import { createServer } from 'node:http';
import { PgsluiceError } from '../base/errors.js';

const REQUEST_MAX_MS = 5_000;
const HEADER_MAX_BYTES = 8_192;
const CONNECTIONS_MAX = 64;

export class HttpServer {
  #options;
  #server;

  /**
   * @param {object} options
   * @param {import('../config/types.js').Address | null} options.listen null: no HTTP
   * @param {() => Error | null} options.ready null, or why not
   * @param {() => object} options.status
   * @param {() => Promise<{ type: string, text: string }>} options.metrics
   */
  constructor(options) {
    this.#options = options;
    this.#server = createServer(
      { requestTimeout: REQUEST_MAX_MS, headersTimeout: REQUEST_MAX_MS, maxHeaderSize: HEADER_MAX_BYTES },
      (request, response) => {
        this.#answer(request, response).catch(error => {
          response.statusCode = 500;
          response.end(`${error.message}\n`);
        });
      },
    );
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** @returns {Promise<string | null>} where it listens */
  async listen() {
    const address = this.#options.listen;
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
    return `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`;
  }

  async close() {
    if (!this.#server.listening) return;
    const closed = new Promise(resolve => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /**
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   */
  async #answer(request, response) {
    /** @param {number} code @param {string} type @param {string} text */
    const send = (code, type, text) => {
      response.writeHead(code, {
        'content-type': type,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      });
      response.end(request.method === 'HEAD' ? undefined : text);
    };
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(405, 'text/plain', 'GET only\n');
    switch (new URL(request.url ?? '/', 'http://localhost').pathname) {
      case '/healthz':
        return send(200, 'text/plain', 'ok\n');
      case '/readyz': {
        const reason = this.#options.ready();
        return reason ? send(503, 'text/plain', `${reason.message}\n`) : send(200, 'text/plain', 'ready\n');
      }
      case '/status':
        return send(200, 'application/json', `${JSON.stringify(this.#options.status(), null, 2)}\n`);
      case '/metrics': {
        const { type, text } = await this.#options.metrics();
        return send(200, type, text);
      }
      default:
        return send(404, 'text/plain', 'there are /metrics, /healthz, /readyz and /status\n');
    }
  }
}
