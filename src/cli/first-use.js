/**
 * Asks an SSH server for its host key by one connection that ends before authentication: for
 * --trust-on-first-use. The key is recorded and refused, so nothing of ours is offered to a server that nobody knows.
 * Throws PgsluiceError SSH_UNREACHABLE or SSH_PROTOCOL.
 */
import ssh2 from 'ssh2';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { hostKeyFromBlob } from './host-key.js';

/** In the order of OpenSSH's own preference, so that the daemon's ssh is shown the same key. */
const ALGORITHMS = /** @type {import('ssh2').ServerHostKeyAlgorithm[]} */ ([
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
]);

/**
 * @param {{ address: string, port: number }} target
 * @param {number} timeoutMs
 * @returns {Promise<string>} 'type base64'
 */
export function fetchHostKey({ address, port }, timeoutMs) {
  const client = new ssh2.Client();
  /** @type {string | null} */
  let key = null;
  return new Promise((resolve, reject) => {
    client.on('error', error => {
      if (key !== null) resolve(key);
      else reject(connectionError(`${address}:${port}`, error));
    });
    client.on('close', () => {
      if (key !== null) resolve(key);
      else
        reject(
          new PgsluiceError(
            'SSH_PROTOCOL',
            `${address}:${port}: the connection was closed before a host key came`,
          ),
        );
    });
    client.connect({
      host: address,
      port,
      // Never sent: the host key is refused before a user is named.
      username: 'nobody',
      readyTimeout: timeoutMs,
      algorithms: { serverHostKey: ALGORITHMS },
      hostVerifier: (/** @type {Buffer} */ blob) => {
        key = hostKeyFromBlob(blob);
        return false;
      },
    });
  }).finally(() => client.destroy());
}

/** @param {string} where @param {Error & { level?: string }} error */
function connectionError(where, error) {
  const away = error.level === 'client-socket' || error.level === 'client-timeout';
  const hint = away ? ': correct --ssh, or start the SSH server' : '';
  const code = away ? 'SSH_UNREACHABLE' : 'SSH_PROTOCOL';
  return new PgsluiceError(code, `${where}: ${printable(error.message)}${hint}`, { cause: error });
}
