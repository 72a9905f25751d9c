/**
 * The inventory: hosts and their streams, as rows. Commands edit it here, master reads it here; every edit notifies
 * the channel `pgsluice`, so a running daemon reloads at once, and one that does not run finds it at its start.
 */
import { PgsluiceError } from '../base/errors.js';

export const CHANNEL = 'pgsluice';

/** @typedef {'auto' | 'openssh' | 'ssh2' | 'local'} Transport */
/** @typedef {'end' | 'current' | 'start'} StartAt */
/** @typedef {import('../base/log-format.js').LogFormat} LogFormat */

/**
 * @typedef {object} StreamFields how the logs of a stream are read
 * @property {LogFormat} format
 * @property {string | null} linePrefix log_line_prefix; null: found from the lines
 * @property {string | null} timeZone the server's log_timezone; null: as found on the host
 * @property {string | null} encoding of bytes that are not UTF-8; null: they are kept escaped
 * @property {Record<string, string>} encodings the same by database name, which wins
 */

/** @typedef {StreamFields & { path: string, startAt: StartAt }} NewStream */
/** @typedef {NewStream & { streamId: number }} StreamRow */

/**
 * @typedef {object} HostFields what can be given and changed
 * @property {string} address
 * @property {number} port
 * @property {string | null} username
 * @property {string | null} identityFile
 * @property {string[]} jumpHosts
 * @property {string | null} sudoUser
 * @property {string[]} hostKeys public keys, each "type base64"
 * @property {Transport} transport
 * @property {Record<string, string>} labels
 * @property {boolean} paused
 */

/** @typedef {HostFields & { hostId: number, name: string, addedAt: Date, streams: StreamRow[] }} HostRow */

/** @type {Record<keyof StreamFields, string>} */
const STREAM_COLUMNS = {
  format: 'format',
  linePrefix: 'line_prefix',
  timeZone: 'time_zone',
  encoding: 'encoding',
  encodings: 'encodings',
};

/** @type {Record<keyof HostFields, string>} */
const COLUMNS = {
  address: 'address',
  port: 'port',
  username: 'username',
  identityFile: 'identity_file',
  jumpHosts: 'jump_hosts',
  sudoUser: 'sudo_user',
  hostKeys: 'host_keys',
  transport: 'transport',
  labels: 'labels',
  paused: 'paused',
};

/**
 * @param {import('pg').Client} client
 * @param {string} [name] only this host
 * @returns {Promise<HostRow[]>} by name
 */
export async function loadInventory(client, name) {
  const result = await client.query(
    `SELECT h.*, coalesce(
              (SELECT json_agg(json_build_object('streamId', s.stream_id, 'path', s.path, 'format', s.format,
                                                 'linePrefix', s.line_prefix, 'startAt', s.start_at,
                                                 'timeZone', s.time_zone, 'encoding', s.encoding,
                                                 'encodings', s.encodings)
                               ORDER BY s.stream_id)
                 FROM pgsluice.stream s WHERE s.host_id = h.host_id), '[]') AS streams
       FROM pgsluice.host h
      WHERE h.removed_at IS NULL AND ($1::text IS NULL OR h.name = $1)
      ORDER BY h.name`,
    [name ?? null],
  );
  return result.rows.map(row => ({
    hostId: row.host_id,
    name: row.name,
    address: row.address,
    port: row.port,
    username: row.username,
    identityFile: row.identity_file,
    jumpHosts: row.jump_hosts,
    sudoUser: row.sudo_user,
    hostKeys: row.host_keys,
    transport: row.transport,
    labels: row.labels,
    paused: row.paused,
    addedAt: row.added_at,
    streams: row.streams,
  }));
}

/**
 * @param {import('pg').Client} client
 * @param {string} name
 * @returns {Promise<HostRow>} throws HOST_UNKNOWN
 */
export async function loadHost(client, name) {
  const [host] = await loadInventory(client, name);
  if (!host) throw unknownHost(name);
  return host;
}

/**
 * @param {import('pg').Client} client
 * @param {string} name
 * @param {HostFields} host
 * @param {NewStream[]} streams
 * @returns {Promise<HostRow>} throws HOST_EXISTS
 */
export async function addHost(client, name, host, streams) {
  await addHosts(client, [{ name, host, streams }]);
  return loadHost(client, name);
}

/**
 * Adds all of them, or none.
 * @param {import('pg').Client} client
 * @param {{ name: string, host: HostFields, streams: NewStream[] }[]} hosts
 * @returns {Promise<void>} throws HOST_EXISTS
 */
export async function addHosts(client, hosts) {
  await transaction(client, async () => {
    for (const { name, host, streams } of hosts) await insertHost(client, name, host, streams);
  });
}

/** @param {import('pg').Client} client @param {string} name @param {HostFields} host @param {NewStream[]} streams */
async function insertHost(client, name, host, streams) {
  const keys = /** @type {(keyof HostFields)[]} */ (Object.keys(COLUMNS));
  let hostId;
  try {
    const result = await client.query(
      `INSERT INTO pgsluice.host (name, ${keys.map(key => COLUMNS[key]).join(', ')})
       VALUES ($1, ${keys.map((_, index) => `$${index + 2}`).join(', ')}) RETURNING host_id`,
      [name, ...keys.map(key => host[key])],
    );
    hostId = result.rows[0].host_id;
  } catch (error) {
    if (/** @type {{ constraint?: string }} */ (error).constraint === 'host_name_key') {
      throw new PgsluiceError(
        'HOST_EXISTS',
        `${name} is already monitored: choose another name, or change it with "pgsluice host update ${name}"`,
        { cause: error },
      );
    }
    throw error;
  }
  for (const { path, startAt, ...fields } of streams) {
    await client.query(
      `INSERT INTO pgsluice.stream (host_id, path, start_at, format, line_prefix, time_zone, encoding, encodings)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
      [
        hostId,
        path,
        startAt,
        fields.format,
        fields.linePrefix,
        fields.timeZone,
        fields.encoding,
        fields.encodings,
      ],
    );
  }
}

/**
 * @param {import('pg').Client} client
 * @param {string} name
 * @param {Partial<HostFields>} changes
 * @param {Partial<StreamFields>} [streamChanges] of all streams of the host
 * @returns {Promise<HostRow>} throws HOST_UNKNOWN
 */
export async function updateHost(client, name, changes, streamChanges = {}) {
  const host = assignments(COLUMNS, changes);
  const stream = assignments(STREAM_COLUMNS, streamChanges);
  await transaction(client, async () => {
    const found = await client.query(
      `UPDATE pgsluice.host SET ${['name = name', ...host.terms].join(', ')}
        WHERE name = $1 AND removed_at IS NULL RETURNING host_id`,
      [name, ...host.values],
    );
    if (found.rowCount === 0) throw unknownHost(name);
    if (stream.terms.length === 0) return;
    await client.query(`UPDATE pgsluice.stream SET ${stream.terms.join(', ')} WHERE host_id = $1`, [
      found.rows[0].host_id,
      ...stream.values,
    ]);
  });
  return loadHost(client, name);
}

/**
 * @template {string} Key
 * @param {Record<Key, string>} columns
 * @param {{ [key in Key]?: unknown }} changes undefined: as it is
 * @returns {{ terms: string[], values: unknown[] }} parameters begin at $2
 */
function assignments(columns, changes) {
  const keys = /** @type {Key[]} */ (Object.keys(changes)).filter(key => changes[key] !== undefined);
  return {
    terms: keys.map((key, index) => `${columns[key]} = $${index + 2}`),
    values: keys.map(key => changes[key]),
  };
}

/**
 * Stops the host's streams for good. Its records stay, under its name, unless they are purged.
 * @param {import('pg').Client} client
 * @param {string} name
 * @param {{ purge: boolean }} options
 * @returns {Promise<{ purgedRecords: number | null }>} throws HOST_UNKNOWN
 */
export async function removeHost(client, name, { purge }) {
  let purgedRecords = null;
  await transaction(client, async () => {
    const removed = await client.query(
      'UPDATE pgsluice.host SET removed_at = now() WHERE name = $1 AND removed_at IS NULL RETURNING host_id',
      [name],
    );
    const hostId = removed.rows[0]?.host_id;
    if (hostId === undefined) throw unknownHost(name);
    if (!purge) return;
    // Whoever still reads these streams cannot commit any more, so nothing comes after the purge.
    const streams = await client.query(
      'UPDATE pgsluice.stream SET epoch = epoch + 1 WHERE host_id = $1 RETURNING stream_id',
      [hostId],
    );
    const ids = streams.rows.map(row => row.stream_id);
    const records = await client.query('DELETE FROM pgsluice.record WHERE stream_id = ANY($1)', [ids]);
    purgedRecords = records.rowCount ?? 0;
    await client.query('DELETE FROM pgsluice.reject WHERE stream_id = ANY($1)', [ids]);
    await client.query('DELETE FROM pgsluice.file WHERE stream_id = ANY($1)', [ids]);
    await client.query('DELETE FROM pgsluice.stream WHERE stream_id = ANY($1)', [ids]);
    await client.query('DELETE FROM pgsluice.host WHERE host_id = $1', [hostId]);
  });
  return { purgedRecords };
}

/** @param {string} name */
function unknownHost(name) {
  return new PgsluiceError(
    'HOST_UNKNOWN',
    `no host is named "${name}": "pgsluice host list" shows those there are`,
  );
}

/**
 * @param {import('pg').Client} client
 * @param {() => Promise<void>} edit
 */
async function transaction(client, edit) {
  await client.query('BEGIN');
  try {
    await edit();
    await client.query(`NOTIFY ${CHANNEL}`);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
