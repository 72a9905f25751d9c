/** What the tests of the system's ssh client share: connections that end with the test, commands, processes. */
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '../../../src/system-ssh/index.js';
import { startSshd } from '../../helpers/sshd.js';

/** @typedef {import('node:test').TestContext} TestContext */
/** @typedef {import('../../helpers/sshd.js').Sshd} Sshd */
/** @typedef {import('../../../src/system-ssh/settings.js').ClientConfig} ClientConfig */

/** @type {WeakMap<TestContext, (() => unknown)[]>} */
const releasers = new WeakMap();

/**
 * Like t.after, but the last is released first: a connection before its server.
 * @param {TestContext} t
 * @param {() => unknown} release
 */
export function releaseAfter(t, release) {
  const list = releasers.get(t) ?? [];
  if (list.length === 0) {
    releasers.set(t, list);
    t.after(async () => {
      for (const each of list.toReversed()) await each();
    });
  }
  list.push(release);
}

/** @param {TestContext} t @param {Parameters<typeof startSshd>[0]} [options] @returns {Promise<Sshd>} */
export async function sshdFor(t, options) {
  const sshd = await startSshd(options);
  releaseAfter(t, () => sshd.stop());
  return sshd;
}

/** @param {TestContext} t @returns {Promise<string>} 0700, removed after the test */
export async function directoryFor(t) {
  const dir = await mkdtemp(join(tmpdir(), 'pgsluice-test-'));
  releaseAfter(t, () => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** @param {Sshd} sshd @param {Partial<ClientConfig>} [overrides] @returns {Promise<ClientConfig>} */
export async function configFor(sshd, overrides = {}) {
  return {
    host: sshd.host,
    port: sshd.port,
    username: sshd.user,
    identityFile: sshd.identityFile,
    knownHostsFile: await sshd.knownHostsFile('tested'),
    hostKeyAlias: 'tested',
    configFile: 'none',
    ...overrides,
  };
}

/**
 * @param {TestContext} t
 * @param {ClientConfig} config
 * @returns {Promise<Client>} ready; its end is awaited after the test
 */
export async function clientFor(t, config) {
  const client = new Client();
  const closed = new Promise(resolve => client.once('close', resolve));
  client.connect(config);
  releaseAfter(t, async () => {
    client.on('error', () => {});
    client.end();
    await closed;
  });
  await once(client, 'ready');
  return client;
}

/**
 * @param {TestContext} t
 * @param {ClientConfig} config of a connection that must fail
 * @returns {Promise<import('../../../src/base/errors.js').PgsluiceError>} after `close`
 */
export async function connectError(t, config) {
  const client = new Client();
  releaseAfter(t, () => client.end());
  /** @type {Promise<any>} */
  const outcome = new Promise((resolve, reject) => {
    client.once('error', resolve);
    client.once('ready', () => reject(new Error('the connection was made')));
  });
  const closed = new Promise(resolve => client.once('close', resolve));
  client.connect(config);
  const error = await outcome;
  await closed;
  return error;
}

/**
 * @param {Client} client
 * @param {string} command
 * @param {import('../../../src/system-ssh/client.js').ExecOptions} [options]
 * @returns {Promise<import('../../../src/system-ssh/mux-stream.js').MuxStream>}
 */
export function exec(client, command, options = {}) {
  return new Promise((resolve, reject) => {
    client.exec(command, options, (error, stream) => (error ? reject(error) : resolve(stream)));
  });
}

/**
 * Works for the streams of both clients.
 * @param {import('node:stream').Duplex & { stderr?: import('node:stream').Readable | import('node:stream').Duplex }} stream
 * @returns {Promise<{ stdout: string, stderr: string, exit: unknown[], close: unknown[] }>}
 */
export async function finished(stream) {
  let stdout = '';
  let stderr = '';
  /** @type {unknown[]} */
  let exit = ['no exit event'];
  stream.on('data', chunk => (stdout += String(chunk)));
  stream.stderr?.on('data', chunk => (stderr += String(chunk)));
  stream.on('exit', (...values) => (exit = values));
  const close = await new Promise(resolve => stream.once('close', (...values) => resolve(values)));
  return { stdout, stderr, exit, close };
}

/** @param {Client} client @param {string} command */
export async function run(client, command) {
  const stream = await exec(client, command);
  stream.end();
  return finished(stream);
}

/**
 * Every process whose command line or environment holds a text, be it an orphan.
 * @param {string} text
 * @returns {number[]}
 */
export function processesWith(text) {
  const holds = (/** @type {string} */ pid, /** @type {string} */ name) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, 'latin1').includes(text);
    } catch {
      return false;
    }
  };
  return readdirSync('/proc')
    .filter(pid => /^\d+$/.test(pid) && Number(pid) !== process.pid)
    .filter(pid => holds(pid, 'cmdline') || holds(pid, 'environ'))
    .map(Number);
}

/**
 * Waits for something that another process does and that tells nobody.
 * @param {() => boolean} condition
 * @param {string} what for the error
 */
export async function eventually(condition, what) {
  const giveUpMs = Date.now() + 15_000;
  while (!condition()) {
    if (Date.now() > giveUpMs) throw new Error(`did not happen: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** @param {import('node:net').Server} server that listens on TCP @returns {number} */
export function portOf(server) {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on TCP');
  return address.port;
}
