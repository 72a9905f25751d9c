/**
 * Asks the running daemon over HTTP, at http.listen of the configuration, with the passwords and the certificate that
 * it names. Answers are bounded in bytes and time, for it could be anybody who listens there: over TLS nothing is
 * asked, and no password shown, before the server has proven to hold the key of exactly that certificate, whatever
 * name or date is in it.
 * Throws PgsluiceError FILE_UNREADABLE, FILE_EXPOSED, CONFIG_INVALID for those files; else an Error with one line.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { readHttpPasswords } from '../master/http-passwords.js';

/** @typedef {import('../config/options.js').Config['http']} HttpConfig */

/** A host is about 600 bytes of /status. */
const MAX_BYTES = 128 * 1024 * 1024;
const TIMEOUT_MS = 5000;

/** Where to connect when the daemon listens on every address. @type {Record<string, string>} */
const LOOPBACK_OF = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/**
 * @param {HttpConfig} http with an address and a port to ask at
 * @param {string} path
 * @returns {Promise<string>} the body of an answer with status 200
 */
export async function askDaemon({ listen, authFile, tlsCertFile }, path) {
  if (listen === null) throw new Error('http.listen is "none"');
  const auth = authFile === null ? undefined : readHttpPasswords(authFile)[0];
  const pinned = tlsCertFile === null ? null : readCertificate(tlsCertFile);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const socket = await connectTo(LOOPBACK_OF[listen.host] ?? listen.host, listen.port, pinned, signal);
  try {
    return await ask(socket, { path, signal, ...(auth !== undefined && { auth }) });
  } finally {
    socket.destroy();
  }
}

/**
 * @param {HttpConfig} http
 * @returns {Promise<boolean | undefined>} undefined: the configuration does not tell where or how to ask
 */
export async function daemonAnswers(http) {
  if (http.listen === null || http.listen.port === 0) return undefined;
  try {
    await askDaemon(http, '/healthz');
    return true;
  } catch (error) {
    return error instanceof PgsluiceError ? undefined : false;
  }
}

/** @param {string} file */
function readCertificate(file) {
  try {
    return new X509Certificate(readFileSync(file));
  } catch (cause) {
    const why = /** @type {Error} */ (cause).message;
    throw new PgsluiceError(
      'FILE_UNREADABLE',
      `http.tls_cert_file ${printable(file)} cannot be read: ${why}`,
      { cause },
    );
  }
}

/**
 * @param {string} host
 * @param {number} port
 * @param {X509Certificate | null} pinned
 * @param {AbortSignal} signal
 * @returns {Promise<import('node:net').Socket>} which has proven the certificate
 */
function connectTo(host, port, pinned, signal) {
  return new Promise((resolve, reject) => {
    // The comparison below is stricter than any authority's word.
    const socket = pinned
      ? connectTls({ host, port, rejectUnauthorized: false })
      : connectTcp({ host, port });
    const tooLate = () => socket.destroy(new Error(`no answer in ${TIMEOUT_MS / 1000} s`));
    signal.addEventListener('abort', tooLate, { once: true });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the connection was closed')));
    socket.once(pinned ? 'secureConnect' : 'connect', () => {
      signal.removeEventListener('abort', tooLate);
      const shown = 'getPeerX509Certificate' in socket ? socket.getPeerX509Certificate() : undefined;
      if (pinned && !shown?.raw.equals(pinned.raw)) {
        socket.destroy(new Error('it shows another certificate than http.tls_cert_file'));
      } else {
        resolve(socket);
      }
    });
  });
}

/**
 * @param {import('node:net').Socket} socket
 * @param {{ path: string, signal: AbortSignal, auth?: string }} options
 * @returns {Promise<string>}
 */
function ask(socket, options) {
  return new Promise((resolve, reject) => {
    const call = request({ ...options, createConnection: () => socket }, response => {
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
