/**
 * A host of the inventory as commands show it: as a plain object for JSON, and as lines. Holds no secret: private
 * keys are files, named by path.
 */
import { fingerprint } from './host-key.js';

/** @typedef {import('../storage/inventory.js').HostRow} HostRow */
/** @typedef {import('./stream-positions.js').StreamPosition} StreamPosition */

/** @type {StreamPosition} */
const NOT_BEGUN = {
  begun: false,
  committedAt: null,
  foundPrefix: null,
  lostBytes: 0,
  lostEvents: 0,
  files: [],
};

/** Lines of files a stream shows as text: a directory can hold thousands. */
const SHOWN_FILES = 5;

/**
 * @typedef {object} HostDescription
 * @property {string} name
 * @property {string} address
 * @property {number} port
 * @property {string | null} user
 * @property {string | null} identityFile
 * @property {string[]} jumpHosts
 * @property {string | null} sudoUser
 * @property {{ key: string, fingerprint: string }[]} hostKeys
 * @property {string} transport
 * @property {Record<string, string>} labels
 * @property {boolean} paused
 * @property {string} addedAt
 * @property {({ path: string, format: string, linePrefix: string | null, from: string,
 *   timeZone: string | null, encoding: string | null, encodings: Record<string, string> } & StreamPosition)[]} streams
 */

/**
 * @param {HostRow} host
 * @param {ReadonlyMap<number, StreamPosition>} positions by stream
 * @returns {HostDescription}
 */
export function describeHost(host, positions) {
  return {
    name: host.name,
    address: host.address,
    port: host.port,
    user: host.username,
    identityFile: host.identityFile,
    jumpHosts: host.jumpHosts,
    sudoUser: host.sudoUser,
    hostKeys: host.hostKeys.map(key => ({ key, fingerprint: fingerprint(key) })),
    transport: host.transport,
    labels: host.labels,
    paused: host.paused,
    addedAt: host.addedAt.toISOString(),
    streams: host.streams.map(({ streamId, startAt, ...stream }) => ({
      ...stream,
      from: startAt,
      ...(positions.get(streamId) ?? NOT_BEGUN),
    })),
  };
}

/** @param {{ address: string, port: number, user: string | null }} host @returns {string} */
export function showAddress({ address, port, user }) {
  const name = address.includes(':') ? `[${address}]` : address;
  return `${user === null ? '' : `${user}@`}${name}:${port}`;
}

/** @param {Readonly<Record<string, string>>} labels @returns {string} */
export function showLabels(labels) {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ');
}

/**
 * @param {import('./output.js').Output} output
 * @param {HostDescription} host
 */
export function printHost(output, host) {
  const rows = [
    ['name', host.name],
    ...(host.transport === 'local' ? [] : [['ssh', showAddress(host)]]),
    ['transport', host.transport],
    ...(host.identityFile === null ? [] : [['identity', host.identityFile]]),
    ...(host.jumpHosts.length === 0 ? [] : [['jump', host.jumpHosts.join(',')]]),
    ...(host.sudoUser === null ? [] : [['sudo', host.sudoUser]]),
    ...host.hostKeys.map(({ key, fingerprint: print }) => ['host key', `${print} (${key.split(' ')[0]})`]),
    ...(Object.keys(host.labels).length === 0 ? [] : [['labels', showLabels(host.labels)]]),
    ['paused', host.paused ? 'yes' : 'no'],
    ['added', host.addedAt],
  ];
  for (const [label = '', text = ''] of rows) output.labelled(label.padEnd(11), text, 'bold');
  for (const stream of host.streams) {
    const committed =
      stream.committedAt === null ? 'nothing committed yet' : `committed ${stream.committedAt}`;
    output.labelled(
      'stream'.padEnd(11),
      `${stream.path} (${stream.format}, from ${stream.from}; ${committed})`,
      'bold',
    );
    for (const text of readingOf(stream)) output.line(`${' '.repeat(13)}${text}`);
    const shown = stream.files.slice(-SHOWN_FILES);
    if (shown.length < stream.files.length)
      output.line(`${' '.repeat(13)}${stream.files.length - shown.length} older files`);
    for (const { file, offset } of shown) output.line(`${' '.repeat(13)}${file} read up to byte ${offset}`);
  }
}

/** @param {HostDescription['streams'][number]} stream @returns {string[]} what was said of how it is read */
function readingOf({ linePrefix, foundPrefix, timeZone, encoding, encodings, lostEvents, lostBytes }) {
  const databases = Object.entries(encodings).map(([database, name]) => `${database}=${name}`);
  return [
    ...(linePrefix === null ? [] : [`log_line_prefix '${linePrefix}'`]),
    ...(linePrefix === null && foundPrefix !== null ? [`log_line_prefix '${foundPrefix}' (found)`] : []),
    ...(timeZone === null ? [] : [`log_timezone ${timeZone}`]),
    ...(encoding === null && databases.length === 0
      ? []
      : [`encoding ${[...(encoding === null ? [] : [encoding]), ...databases].join(', ')}`]),
    ...(lostEvents === 0
      ? []
      : [
          `lost: ${lostEvents} truncations or removals took what was not read yet${lostBytes === 0 ? '' : `, ${lostBytes} bytes for certain`}`,
        ]),
  ];
}
