/**
 * What /status shows, and what /metrics and `pgsluice status` are made from: plain data about every host, stream and
 * process, as of now. Counters are since the daemon began, whatever workers came and went.
 */

/** @typedef {import('../storage/inventory.js').HostRow} HostRow */
/** @typedef {import('./fleet.js').FleetStream} FleetStream */
/** @typedef {import('../ipc/messages.js').WorkerStatus} WorkerStatus */
/** @typedef {import('../ipc/messages.js').ProxyStatus} ProxyStatus */

/**
 * @typedef {object} StreamReport
 * @property {string} path
 * @property {'reading' | 'connecting' | 'waiting' | 'unassigned' | 'paused'} state
 * @property {import('../ipc/messages.js').ErrorReport | null} error
 * @property {string | null} notice
 * @property {string | null} file
 * @property {number | null} worker number of the worker, from 1
 * @property {number} records
 * @property {number} rejected
 * @property {number} lostBytes seen on the host and gone before they could be read
 * @property {number} lostEvents truncations and removals that may have taken unread bytes
 * @property {string | null} linePrefix log_line_prefix of stderr, given or found
 * @property {string | null} timeZone log_timezone, given or found
 * @property {number} bytes
 * @property {number} bytesPerSecond
 * @property {number} connects
 * @property {number | null} lagBytes
 * @property {string | null} lastHeard ISO time of the last frame
 * @property {number} clockSkewMs
 */

/** @typedef {{ name: string, address: string, port: number, transport: string, labels: Record<string, string>, streams: StreamReport[] }} HostReport */

/**
 * @typedef {object} Status
 * @property {boolean} ready
 * @property {string | null} reason why not
 * @property {{ mode: string, error: string | null }} storage
 * @property {HostReport[]} hosts
 * @property {readonly import('../base/redact-classes.js').RedactClass[]} redact classes of secrets that are not stored
 * @property {{ pid: number | null, ready: boolean, restarts: number, streams: number, rssBytes: number, cpuSeconds: number, loopDelayMs: number, totals: WorkerStatus['totals'] | null }[]} workers
 * @property {{ pid: number | null, ready: boolean, restarts: number, status: ProxyStatus | null }} sshproxy
 * @property {{ pid: number, rssBytes: number }} master
 */

/**
 * @param {object} input
 * @param {Error | null} input.notReady
 * @param {{ mode: string, error: Error | null }} input.storage
 * @param {HostRow[]} input.hosts
 * @param {Status['redact']} input.redact
 * @param {Map<number, FleetStream>} input.streams
 * @param {{ pid: number | null, restarts: number, ready: boolean, status: WorkerStatus | null }[]} input.workers
 * @param {{ pid: number | null, restarts: number, ready: boolean, status: ProxyStatus | null }} input.proxy
 * @returns {Status}
 */
export function describeStatus({ notReady, storage, hosts, redact, streams, workers, proxy }) {
  return {
    ready: notReady === null,
    reason: notReady?.message ?? null,
    storage: { mode: storage.mode, error: storage.error?.message ?? null },
    hosts: hosts.map(host => ({
      name: host.name,
      address: host.address,
      port: host.port,
      transport: host.transport,
      labels: host.labels,
      streams: host.streams.map(({ streamId, path }) =>
        describeStream(path, streams.get(streamId), host.paused),
      ),
    })),
    redact,
    workers: workers.map(({ pid, restarts, ready, status }) => ({
      pid,
      ready,
      restarts,
      streams: status?.streams.length ?? 0,
      rssBytes: status?.rssBytes ?? 0,
      cpuSeconds: status?.cpuSeconds ?? 0,
      loopDelayMs: status?.loopDelayMs ?? 0,
      totals: status?.totals ?? null,
    })),
    sshproxy: proxy,
    master: { pid: process.pid, rssBytes: process.memoryUsage.rss() },
  };
}

/**
 * @param {string} path
 * @param {FleetStream | undefined} stream
 * @param {boolean} paused
 * @returns {StreamReport}
 */
function describeStream(path, stream, paused) {
  const status = stream?.status ?? null;
  const before = stream?.before ?? {
    bytes: 0,
    records: 0,
    rejected: 0,
    lostBytes: 0,
    lostEvents: 0,
    connects: 0,
  };
  return {
    path,
    state: stateOf(stream, paused),
    error: status?.error ?? null,
    notice: status?.notice ?? null,
    file: status?.file ?? null,
    worker: stream && stream.worker !== null ? stream.worker + 1 : null,
    records: before.records + (status?.records ?? 0),
    rejected: before.rejected + (status?.rejected ?? 0),
    lostBytes: before.lostBytes + (status?.lostBytes ?? 0),
    lostEvents: before.lostEvents + (status?.lostEvents ?? 0),
    linePrefix: status?.linePrefix ?? null,
    timeZone: status?.timeZone ?? null,
    bytes: before.bytes + (status?.bytes ?? 0),
    bytesPerSecond: Math.round(stream?.bytesPerSecond ?? 0),
    connects: before.connects + (status?.connects ?? 0),
    lagBytes: status?.lagBytes ?? null,
    lastHeard: status?.lastFrameAt ? new Date(status.lastFrameAt).toISOString() : null,
    clockSkewMs: status?.clockSkewMs ?? 0,
  };
}

/** @param {FleetStream | undefined} stream @param {boolean} paused @returns {StreamReport['state']} */
function stateOf(stream, paused) {
  if (paused) return 'paused';
  const mode = stream?.status?.mode;
  if (!mode || mode === 'stopped') return 'unassigned';
  return mode === 'claiming' ? 'connecting' : mode;
}
