/**
 * A host as one line of JSON: what `host export` writes and `host import` takes. The fields are those of
 * `host show --json`, whose other fields (positions, fingerprints) may be there and mean nothing; every value is held
 * to what `host add` accepts. Text in, a host for the inventory out, and back.
 * Throws PgsluiceError USAGE and FILE_UNREADABLE.
 */
import { PgsluiceError } from '../base/errors.js';
import { showValue } from '../base/show-value.js';
import { identityFile } from './host-connection-options.js';
import { parseHostKey } from './host-key.js';
import {
  DEFAULT_SSH_PORT,
  hostNameOperand,
  jumpHosts,
  labels,
  logPath,
  sshTarget,
  startWord,
  sudoUser,
  transportWord,
} from './host-options.js';
import { ANY_LOG } from './assess-log.js';
import { changedFields, readLogOptions } from './log-options.js';

/** @typedef {import('../storage/inventory.js').HostFields} HostFields */
/** @typedef {import('../storage/inventory.js').NewStream} NewStream */
/** @typedef {{ name: string, host: HostFields, streams: NewStream[] }} HostLine */

const HOST_KEYS = new Set(
  (
    'name address port user identityFile jumpHosts sudoUser hostKeys transport labels paused streams ' +
    'addedAt notes'
  ).split(' '),
);
const STREAM_KEYS = new Set(
  (
    'path format linePrefix from timeZone encoding encodings ' +
    'begun committedAt foundPrefix lostBytes lostEvents files'
  ).split(' '),
);

/** @param {string} line @returns {HostLine} host keys may be missing */
export function readHostLine(line) {
  let value;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new PgsluiceError('USAGE', `not JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
  const given = record(value, 'a host', HOST_KEYS);
  const name = hostNameOperand(text(given, 'name') ?? '');
  const transport = transportWord(text(given, 'transport') ?? 'auto');
  const local = transport === 'local';
  const { streams = [] } = given;
  if (!Array.isArray(streams) || streams.length === 0) throw usage('"streams" is not a list with a stream');
  const read = streams.map(readStream);
  const twice = read.find(({ path }, index) => read.findIndex(other => other.path === path) < index);
  if (twice) throw usage(`the stream ${showValue(twice.path)} is there twice`);
  const identity = text(given, 'identityFile');
  const host = {
    ...(local ? { username: null, address: 'localhost', port: DEFAULT_SSH_PORT } : target(given, name)),
    identityFile: identity === null ? null : identityFile(identity),
    jumpHosts: jumpHosts(texts(given, 'jumpHosts').join(',')),
    sudoUser: sudoUser(text(given, 'sudoUser') ?? ''),
    hostKeys: hostKeys(given),
    transport,
    labels: labels(Object.entries(words(given, 'labels')).map(([key, word]) => `${key}=${word}`)),
    paused: given['paused'] === true,
  };
  if (local && (host.identityFile || host.jumpHosts.length > 0 || host.hostKeys.length > 0))
    throw usage('a local host has no identityFile, jumpHosts or hostKeys');
  return { name, host, streams: read };
}

/** @param {import('../storage/inventory.js').HostRow} row @returns {Record<string, unknown>} */
export function hostLine({ name, streams, ...host }) {
  return {
    name,
    address: host.address,
    port: host.port,
    user: host.username,
    identityFile: host.identityFile,
    jumpHosts: host.jumpHosts,
    sudoUser: host.sudoUser,
    hostKeys: host.hostKeys,
    transport: host.transport,
    labels: host.labels,
    paused: host.paused,
    streams: streams.map(({ path, format, linePrefix, startAt, timeZone, encoding, encodings }) => ({
      path,
      format,
      linePrefix,
      from: startAt,
      timeZone,
      encoding,
      encodings,
    })),
  };
}

/** @param {Record<string, unknown>} given @param {string} name */
function target(given, name) {
  const { port = DEFAULT_SSH_PORT } = given;
  const address = text(given, 'address') ?? name;
  const user = text(given, 'user');
  return sshTarget(
    `${user === null ? '' : `${user}@`}${address.includes(':') ? `[${address}]` : address}:${String(port)}`,
  );
}

/** @param {unknown} value @returns {NewStream} */
function readStream(value) {
  const given = typeof value === 'string' ? { path: value } : record(value, 'a stream', STREAM_KEYS);
  const { encoding, ...texts } = {
    format: text(given, 'format'),
    'line-prefix': text(given, 'linePrefix'),
    timezone: text(given, 'timeZone'),
    encoding: text(given, 'encoding'),
  };
  const encodings = Object.entries(words(given, 'encodings')).map(
    ([database, name]) => `${database}=${name}`,
  );
  /** @type {Record<string, string | null>} */
  const options = texts;
  const read = readLogOptions(
    {
      text: option => options[option] ?? undefined,
      list: () => (encoding === null ? encodings : [encoding, ...encodings]),
    },
    { removal: false },
  );
  return {
    ...ANY_LOG,
    ...changedFields(read, {}),
    path: logPath(text(given, 'path') ?? ''),
    startAt: startWord(text(given, 'from') ?? 'end'),
  };
}

/** @param {Record<string, unknown>} given @returns {string[]} */
function hostKeys(given) {
  const { hostKeys: keys = [] } = given;
  if (!Array.isArray(keys)) throw usage('"hostKeys" is not a list');
  return keys.map(value => {
    // As `host show --json` has it, or the key alone.
    const key = typeof value === 'string' ? value : text(record(value, 'a host key', null), 'key');
    const parsed = parseHostKey(key ?? '');
    if (parsed === null)
      throw usage(`the host key ${showValue(key)} is not a public key such as 'ssh-ed25519 AAAA...'`);
    return parsed;
  });
}

/** @param {unknown} value @param {string} what @param {Set<string> | null} known @returns {Record<string, unknown>} */
function record(value, what, known) {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw usage(`${what} is not an object: ${showValue(value)}`);
  const unknown = Object.keys(value).find(key => known !== null && !known.has(key));
  if (unknown !== undefined) throw usage(`${what} has no field ${showValue(unknown)}`);
  return /** @type {Record<string, unknown>} */ (value);
}

/** @param {Record<string, unknown>} given @param {string} key @returns {string | null} */
function text(given, key) {
  const value = given[key] ?? null;
  if (value === null || (typeof value === 'string' && value !== '')) return value;
  throw usage(`"${key}" is not a text: ${showValue(value)}`);
}

/** @param {Record<string, unknown>} given @param {string} key @returns {string[]} */
function texts(given, key) {
  const value = given[key] ?? [];
  if (Array.isArray(value) && value.every(each => typeof each === 'string' && !each.includes(',')))
    return value;
  throw usage(`"${key}" is not a list of texts: ${showValue(value)}`);
}

/** @param {Record<string, unknown>} given @param {string} key @returns {Record<string, string>} */
function words(given, key) {
  const value = record(given[key] ?? {}, `"${key}"`, null);
  if (Object.values(value).every(word => typeof word === 'string'))
    return /** @type {Record<string, string>} */ (value);
  throw usage(`"${key}" is not an object of texts: ${showValue(value)}`);
}

/** @param {string} message */
function usage(message) {
  return new PgsluiceError('USAGE', message);
}
