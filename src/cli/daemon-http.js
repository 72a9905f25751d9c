/**
 * Asks the running daemon over HTTP, at http.listen of the configuration. Answers are bounded in bytes and time, for
 * it could be anybody who listens there.
 */
import { request } from 'node:http';

/** @typedef {import('../config/types.js').Address} Address */

/** A host is about 600 bytes of /status. */
const MAX_BYTES = 128 * 1024 * 1024;
const TIMEOUT_MS = 5000;

/** Where to connect when the daemon listens on every address. @type {Record<string, string>} */
const LOOPBACK_OF = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/**
 * @param {Address} listen
 * @param {string} path
 * @returns {Promise<string>} the body; throws an Error with one line for whatever is not an answer with status 200
 */
export function askDaemon(listen, path) {
  return new Promise((resolve, reject) => {
    const options = {
      host: LOOPBACK_OF[listen.host] ?? listen.host,
      port: listen.port,
      path,
      agent: false,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    };
    const call = request(options, response => {
      /** @type {Buffer[]} */
      const pieces = [];
      let length = 0;
      response.on('data', (/** @type {Buffer} */ piece) => {
        pieces.push(piece);
        length += piece.length;
        if (length > MAX_BYTES) call.destroy(new Error(`the answer has more than ${MAX_BYTES} bytes`));
      });
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode === 200) resolve(Buffer.concat(pieces).toString('utf8'));
        else reject(new Error(`the answer has HTTP status ${response.statusCode}`));
      });
    });
    call.on('error', reject);
    call.end();
  });
}

/**
 * @param {Address | null} listen
 * @returns {Promise<boolean | undefined>} undefined: the configuration does not tell where to ask
 */
export async function daemonAnswers(listen) {
  if (listen === null || listen.port === 0) return undefined;
  try {
    await askDaemon(listen, '/healthz');
    return true;
  } catch {
    return false;
  }
}
