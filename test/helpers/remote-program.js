/**
 * Runs a program on a test sshd by the transport ssh2, as a worker does, until it has written what is waited for.
 */
import { runOverSsh2 } from '../../src/transport/ssh2.js';

const CONNECT_MS = 10_000;
const WAIT_MS = 30_000;

/** @typedef {{ command: string, input: string, until?: string | Buffer }} Program until: end it when it has written this */
/** @typedef {{ bytes: Buffer, error: import('../../src/base/errors.js').PgsluiceError | null }} Outcome */

/**
 * @param {import('./sshd.js').Sshd} sshd
 * @param {string} name of the host
 * @param {string} [username]
 */
export async function hostOf(sshd, name, username = sshd.user) {
  return {
    hostId: 1,
    name,
    address: sshd.host,
    port: sshd.port,
    username,
    identityFile: sshd.identityFile,
    jumpHosts: [],
    hostKeyAlias: name,
    knownHostsFile: await sshd.knownHostsFile(name),
  };
}

/**
 * @param {import('../../src/ipc/messages.js').HostSpec} host
 * @param {Program} program
 * @param {() => void} [beforeEnd] called while it still runs
 * @returns {Promise<Outcome>} error: how it ended; null: it has written what was waited for. Rejected when neither is seen
 */
export function runRemote(host, { command, input, until }, beforeEnd = () => {}) {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const source = runOverSsh2(
      host,
      { command, input, connectTimeoutMs: CONNECT_MS },
      {
        onChunk: chunk => {
          bytes = Buffer.concat([bytes, chunk]);
          if (until === undefined || !bytes.includes(until)) return;
          clearTimeout(timer);
          beforeEnd();
          source.close();
          resolve({ bytes, error: null });
        },
        onEnd: error => {
          clearTimeout(timer);
          resolve({ bytes, error });
        },
      },
    );
    const timer = setTimeout(() => {
      source.close();
      reject(
        new Error(`not seen in ${WAIT_MS / 1000} s: ${String(until)}: ${bytes.toString('latin1', 0, 200)}`),
      );
    }, WAIT_MS);
  });
}
