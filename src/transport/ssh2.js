/**
 * Runs the follower over a connection that the ssh2 package holds inside this process: 50 KB a host instead of a
 * process, for quiet hosts. The host key is checked against the same managed known_hosts file that OpenSSH uses.
 */
import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import ssh2 from 'ssh2';
import { PgsluiceError } from '../base/errors.js';
import { followerEnded } from './follower-ended.js';
import { lastWords } from './last-words.js';

// A connection that died without a word is known to be dead after 20 s.
const KEEPALIVE_INTERVAL_MS = 5_000;
const KEEPALIVE_COUNT_MAX = 3;

/** @typedef {import('./fifo.js').ByteSource} ByteSource */
/** @typedef {import('../ipc/messages.js').HostSpec} HostSpec */

/**
 * @param {HostSpec} host
 * @param {{ command: string, input: string, connectTimeoutMs: number }} follower
 * @param {{ onConnect?: () => void, onOpen?: () => void, onChunk: (chunk: Buffer) => void, onEnd: (error: PgsluiceError | null) => void }} handlers
 *   onConnect: we are logged in; onOpen: and the follower runs
 * @returns {ByteSource}
 */
export function runOverSsh2(
  host,
  { command, input, connectTimeoutMs },
  { onConnect, onOpen, onChunk, onEnd },
) {
  const client = new ssh2.Client();
  let open = true;
  let paused = false;
  let words = () => '';
  /** @type {PgsluiceError | null} */
  let hostKeyError = null;
  /** @type {import('ssh2').ClientChannel | null} */
  let channel = null;

  /** @type {NodeJS.Timeout | undefined} of the session; the connection has readyTimeout */
  let deadline;
  /** @param {PgsluiceError} error */
  const ended = error => {
    if (!open) return;
    open = false;
    clearTimeout(deadline);
    client.end();
    onEnd(error);
  };
  client.on('error', error => ended(hostKeyError ?? connectionError(host, error)));
  client.on('close', () =>
    ended(new PgsluiceError('SSH_PROTOCOL', `${host.name}: the SSH connection was closed`)),
  );
  client.on('ready', () => {
    onConnect?.();
    deadline = setTimeout(() => {
      ended(
        new PgsluiceError('SSH_SESSION_REFUSED', `${host.name}: no session within ${connectTimeoutMs} ms`),
      );
      client.destroy();
    }, connectTimeoutMs);
    client.exec(command, (error, stream) => {
      clearTimeout(deadline);
      if (error) {
        ended(new PgsluiceError('SSH_SESSION_REFUSED', `${host.name}: ${error.message}`, { cause: error }));
        return;
      }
      channel = stream;
      if (open) onOpen?.();
      if (paused) stream.pause();
      stream.on('data', (/** @type {Buffer} */ chunk) => {
        if (open) onChunk(chunk);
      });
      words = lastWords(stream.stderr);
      stream.on('close', (/** @type {number | null} */ code, /** @type {string | undefined} */ signal) => {
        const how = signal ? `was ended by ${signal}` : `ended with exit code ${code}`;
        ended(followerEnded({ host: host.name, how, words: words() }));
      });
      stream.on('error', (/** @type {Error} */ cause) => ended(connectionError(host, cause)));
      stream.end(input);
    });
  });

  try {
    if (host.jumpHosts.length > 0) {
      throw new PgsluiceError('NOT_SUPPORTED', `${host.name}: jump hosts need transport openssh`);
    }
    const pinned = pinnedKeys(host);
    client.connect({
      host: host.address,
      port: host.port,
      username: host.username ?? userInfo().username,
      ...(host.identityFile === null ? agent() : { privateKey: readKey(host.name, host.identityFile) }),
      readyTimeout: connectTimeoutMs,
      keepaliveInterval: KEEPALIVE_INTERVAL_MS,
      keepaliveCountMax: KEEPALIVE_COUNT_MAX,
      // Without a pinned key the server may show any, to be refused below.
      ...(pinned.algorithms.length > 0 && { algorithms: { serverHostKey: pinned.algorithms } }),
      hostVerifier: (/** @type {Buffer} */ key) => {
        if (pinned.blobs.some(blob => blob.equals(key))) return true;
        hostKeyError = new PgsluiceError(
          pinned.blobs.length === 0 ? 'SSH_HOST_KEY_UNKNOWN' : 'SSH_HOST_KEY_CHANGED',
          `${host.name}: the SSH server shows a key that is not the pinned one: if that is right, give the new one with --host-key`,
        );
        return false;
      },
    });
  } catch (error) {
    const known =
      error instanceof PgsluiceError ? error : connectionError(host, /** @type {Error} */ (error));
    setImmediate(() => ended(known));
  }

  return {
    pause() {
      paused = true;
      channel?.pause();
    },
    resume() {
      paused = false;
      channel?.resume();
    },
    close() {
      open = false;
      clearTimeout(deadline);
      client.destroy();
    },
  };
}

/** @param {string} name @param {string} path */
function readKey(name, path) {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new PgsluiceError(
      'FILE_UNREADABLE',
      `${name}: identity file: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
}

/** @returns {{ agent?: string }} */
function agent() {
  const socket = process.env['SSH_AUTH_SOCK'];
  return socket === undefined ? {} : { agent: socket };
}

/**
 * The managed file's lines: alias, key type, base64 key.
 * @param {HostSpec} host
 */
function pinnedKeys(host) {
  const lines = readFileSync(host.knownHostsFile, 'utf8')
    .split('\n')
    .map(line => line.split(' '))
    .filter(([alias]) => alias === host.hostKeyAlias);
  const types = new Set(lines.map(([, type = '']) => type));
  // An RSA key signs with either hash; the type in known_hosts is the same for both.
  const algorithms = [...types].flatMap(type =>
    type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [type],
  );
  return {
    blobs: lines.map(([, , key = '']) => Buffer.from(key, 'base64')),
    algorithms: /** @type {import('ssh2').ServerHostKeyAlgorithm[]} */ (algorithms),
  };
}

/** @param {HostSpec} host @param {Error & { level?: string }} error */
function connectionError(host, error) {
  const where = `${host.name} (${host.address}:${host.port})`;
  if (error.level === 'client-authentication') {
    return new PgsluiceError('SSH_AUTH_REFUSED', `${where}: ${error.message}`, { cause: error });
  }
  if (error.level === 'client-socket' || error.level === 'client-dns' || error.level === 'client-timeout') {
    return new PgsluiceError('SSH_UNREACHABLE', `${where}: ${error.message}`, { cause: error });
  }
  // A server that has no key of the pinned types any more has changed its key.
  const code = /no matching host key/i.test(error.message) ? 'SSH_HOST_KEY_CHANGED' : 'SSH_PROTOCOL';
  return new PgsluiceError(code, `${where}: ${error.message}`, { cause: error });
}
