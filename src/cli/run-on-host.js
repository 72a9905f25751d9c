/**
 * Runs one small program on a host and collects its answer, the way the daemon would reach the host: the pinned keys
 * in a known_hosts file of their own, ssh.program, ssh.options, ssh.config_file and ssh.connect_timeout, the host's
 * transport. Everything it makes here is private, temporary, and gone when it returns.
 * The answer is bounded in bytes and time, whatever the host sends. Throws PgsluiceError SSH_*, FOLLOWER_FAILED or _DENIED,
 * FOLLOWER_PROTOCOL (an answer that is too long) and those of the directories; the message begins with the host.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { writeKnownHosts } from '../master/directories.js';
import { Client } from '../system-ssh/index.js';
import { followerEnded } from '../transport/follower-ended.js';
import { runLocal } from '../transport/local.js';
import { opensshConfig } from '../transport/openssh-config.js';
import { runOverSsh2 } from '../transport/ssh2.js';

/** @typedef {import('../storage/inventory.js').HostFields} HostFields */
/** @typedef {import('../transport/fifo.js').ByteSource} ByteSource */
/** @typedef {{ onChunk: (chunk: Buffer) => void, onEnd: (error: PgsluiceError | null) => void }} Handlers */

/**
 * @typedef {object} RemoteProgram
 * @property {string} command
 * @property {string} input for its stdin
 * @property {number} maxBytes of its answer
 * @property {number} timeoutMs from the connection to the end of the answer
 * @property {string} end ASCII with which the answer ends, and which is nowhere else in it
 */

/**
 * @typedef {object} RemoteAnswer
 * @property {Buffer} bytes
 * @property {number} connectMs until the server accepted us (ssh2, local: until the first byte came)
 * @property {number} receivedAt Date.now() at the first byte
 */

/** No host of the inventory has it. */
const TEMPORARY_HOST_ID = 0;
const WORDS_MAX_CHARS = 500;

/**
 * @param {HostFields & { name: string }} host
 * @param {RemoteProgram} program
 * @param {import('./context.js').Context} context
 * @returns {Promise<RemoteAnswer>}
 */
export async function runOnHost(host, program, context) {
  const directory = makeDirectory();
  const removeDirectory = context.onExit(() => rmSync(directory, { recursive: true, force: true }));
  try {
    return await collect(host, program, context, directory);
  } catch (error) {
    if (!(error instanceof PgsluiceError)) throw error;
    const { code } = error;
    const message = error.message.startsWith(host.name) ? error.message : `${host.name}: ${error.message}`;
    throw new PgsluiceError(code, `${message}${hint(code, host.name)}`, { cause: error });
  } finally {
    await removeDirectory();
  }
}

/** @param {import('../base/errors.js').ErrorCode} code @param {string} name @returns {string} what to do next */
function hint(code, name) {
  switch (code) {
    case 'SSH_AUTH_REFUSED':
      return `; name a key with "pgsluice host update ${name} --identity FILE" and put its public half into authorized_keys there`;
    case 'SSH_HOST_KEY_CHANGED':
    case 'SSH_HOST_KEY_UNKNOWN':
      return `; if the server was made anew, pin its new key with "pgsluice host update ${name} --host-key KEY"`;
    case 'SSH_UNREACHABLE':
      return '; is the address right and the SSH server running?';
    default:
      return '';
  }
}

/** @returns {string} private to this user */
function makeDirectory() {
  try {
    return mkdtempSync(join(tmpdir(), 'pgsluice-'));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new PgsluiceError('DIRECTORY_UNUSABLE', `no temporary directory can be made (${why}): set TMPDIR`, {
      cause,
    });
  }
}

/**
 * @param {HostFields & { name: string }} host
 * @param {RemoteProgram} program
 * @param {import('./context.js').Context} context
 * @param {string} directory
 */
async function collect(host, { command, input, maxBytes, timeoutMs, end }, context, directory) {
  const { ssh } = context.config;
  const row = { ...host, hostId: TEMPORARY_HOST_ID };
  const spec = { ...row, ...writeKnownHosts(directory, row) };
  const begin = performance.now();
  let connectMs = -1;
  let receivedAt = 0;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  /** @type {(() => Promise<void>) | undefined} */
  let disconnect;
  /** @type {Buffer[]} */
  const pieces = [];
  let length = 0;
  let tail = '';
  try {
    /** @type {Promise<Buffer>} */
    const answered = new Promise((resolve, reject) => {
      /** @type {Handlers} */
      const handlers = {
        onChunk: chunk => {
          if (receivedAt === 0) receivedAt = Date.now();
          if (connectMs < 0) connectMs = performance.now() - begin;
          pieces.push(chunk);
          length += chunk.length;
          if (length > maxBytes)
            reject(new PgsluiceError('FOLLOWER_PROTOCOL', `the host sent more than ${maxBytes} bytes`));
          tail = (tail + chunk.toString('latin1')).slice(-end.length);
          if (tail === end) resolve(Buffer.concat(pieces));
        },
        onEnd: error => reject(error ?? new PgsluiceError('FOLLOWER_FAILED', 'the answer ended too early')),
      };
      const tooLate = () =>
        reject(new PgsluiceError('FOLLOWER_FAILED', `no whole answer came within ${timeoutMs / 1000} s`));
      const connected = () => {
        connectMs = performance.now() - begin;
        timer = setTimeout(tooLate, timeoutMs);
      };
      if (host.transport === 'local' || host.transport === 'ssh2') {
        timer = setTimeout(tooLate, timeoutMs + ssh.connectTimeoutMs);
        const source =
          host.transport === 'local'
            ? runLocal({ command, input }, handlers)
            : runOverSsh2(spec, { command, input, connectTimeoutMs: ssh.connectTimeoutMs }, handlers);
        disconnect = context.onExit(() => source.close());
      } else {
        const client = new Client();
        const closed = new Promise(done => client.once('close', done));
        overOpenSsh(client, { host: host.name, command, input }, connected, handlers);
        // Throws when it did not even begin; then nothing closes either.
        client.connect(opensshConfig(spec, ssh, directory));
        disconnect = context.onExit(async () => {
          client.end();
          await closed;
        });
      }
    });
    const bytes = await answered;
    return { bytes, connectMs: Math.max(connectMs, 0), receivedAt };
  } finally {
    clearTimeout(timer);
    await disconnect?.();
  }
}

/**
 * @param {Client} client
 * @param {{ host: string, command: string, input: string }} program
 * @param {() => void} connected
 * @param {Handlers} handlers
 */
function overOpenSsh(client, { host, command, input }, connected, { onChunk, onEnd }) {
  client.on('error', onEnd);
  client.on('close', () => onEnd(null));
  client.once('ready', () => {
    connected();
    client.exec(command, (error, stream) => {
      if (error) {
        onEnd(error);
        return;
      }
      let words = '';
      stream.on('data', onChunk);
      stream.stderr?.on('data', chunk => (words = (words + String(chunk)).slice(-WORDS_MAX_CHARS)));
      stream.on('error', () => {}); // close says why
      stream.on('close', (/** @type {number | null} */ code, /** @type {string | undefined} */ signal) => {
        const how = code === null ? `was ended (${signal})` : `ended with exit code ${code}`;
        onEnd(followerEnded({ host, what: 'the remote program', how, words }));
      });
      stream.end(input);
    });
  });
}
