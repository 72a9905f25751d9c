/**
 * Everything that crosses between master and its children, in one place. Messages are plain JSON over the fork channel.
 * An assignment is known by its epoch: what is said of another one changes nothing. What was lost on its way is asked for
 * or said again: the reports tell who is ready and who holds which stream; open and turn are repeated until answered.
 * An attempt number counts the connections of a stream within a worker, so that news of an earlier one is recognised.
 *
 *   worker  open ->  master  -> sshproxy          the worker wants a follower on a FIFO
 *   sshproxy fifo -> master  -> worker            the FIFO exists: the worker opens it for reading
 *   worker  opened -> master -> sshproxy          ... and ssh is started with the FIFO as its stdout
 *   sshproxy closed -> master -> worker           how it ended
 *   sshproxy started -> master -> worker          ssh runs the follower
 *   worker  close -> master  -> sshproxy          the worker wants no more
 *
 *   worker  turn -> master   -> sshproxy          the worker wants to connect by itself (ssh2): whole fleet, one pace
 *   sshproxy turn -> master  -> worker            ... now
 *   worker  outcome -> master -> sshproxy         ... and how it went
 *   sshproxy refused -> master -> worker          the host refuses us: why this stream waits for its turn
 */

/**
 * How to reach a host.
 * @typedef {object} HostSpec
 * @property {number} hostId
 * @property {string} name
 * @property {string} address
 * @property {number} port
 * @property {string | null} username null: ssh's own default
 * @property {string | null} identityFile null: ssh's own defaults
 * @property {string[]} jumpHosts
 * @property {string} hostKeyAlias the name under which knownHostsFile holds the host's keys
 * @property {string} knownHostsFile
 */

/**
 * A stream as it is given to a worker.
 * @typedef {object} StreamSpec
 * @property {number} streamId
 * @property {HostSpec} host
 * @property {string} path
 * @property {import('../base/log-format.js').LogFormat} format
 * @property {string | null} linePrefix null: found from the lines
 * @property {string | null} timeZone null: as found on the host
 * @property {string | null} encoding of bytes that are not UTF-8
 * @property {Record<string, string>} encodings the same by database name
 * @property {'end' | 'current' | 'start'} startAt
 * @property {'openssh' | 'ssh2' | 'local'} transport
 * @property {string | null} sudoUser
 * @property {number} epoch
 */

/**
 * @typedef {object} WorkerSettings
 * @property {import('pg').ClientConfig} storage
 * @property {number} maxBatchBytes
 * @property {number} maxBatchDelayMs
 * @property {number} maxRecordBytes
 * @property {readonly import('../base/redact-classes.js').RedactClass[]} redact classes of secrets that are not stored
 * @property {number} connectTimeoutMs
 * @property {string} logLevel
 */

/**
 * @typedef {object} ProxySettings
 * @property {string} program
 * @property {string[]} options
 * @property {string | null} configFile null: OpenSSH's own default files
 * @property {number} connectTimeoutMs
 * @property {number} connectRate new connections a second
 * @property {string} directory private: control sockets and FIFOs
 * @property {string} logLevel
 */

/** @typedef {{ code: import('../base/errors.js').ErrorCode, message: string }} ErrorReport */

/**
 * What a worker knows of a stream; counters since the stream was assigned to it.
 * @typedef {object} StreamStatus
 * @property {number} streamId
 * @property {number} epoch of the assignment
 * @property {'claiming' | 'connecting' | 'reading' | 'waiting' | 'stopped'} mode
 * @property {ErrorReport | null} error why it waits
 * @property {string | null} notice what the follower waits for
 * @property {string | null} file
 * @property {number} bytes received
 * @property {number} records stored
 * @property {number} rejected stored as rejected
 * @property {number} lostBytes seen on the host and gone before they could be read
 * @property {number} lostEvents truncations and removals that may have taken unread bytes
 * @property {string | null} timeZone the server's log_timezone
 * @property {string | null} linePrefix log_line_prefix, given or found
 * @property {number | null} lagBytes unread on the host at the last heartbeat
 * @property {number} lastFrameAt ms since the epoch; 0: none yet
 * @property {number} clockSkewMs host minus ours, at the last heartbeat
 * @property {number} connects
 */

/**
 * @typedef {object} WorkerStatus
 * @property {boolean} ready to take streams
 * @property {StreamStatus[]} streams
 * @property {{ batches: number, records: number, rejected: number, bytes: number, commitSeconds: number, failures: number, redacted: { records: number, classes: Partial<Record<import('../base/redact-classes.js').RedactClass, number>> } }} totals since the process began
 * @property {number} rssBytes
 * @property {number} cpuSeconds
 * @property {number} loopDelayMs 99th percentile since the last report
 * @property {string | null} storageError why batches are not stored now
 */

/**
 * @typedef {{ type: 'configure', settings: WorkerSettings }
 *   | { type: 'assign', stream: StreamSpec }
 *   | { type: 'unassign', streamId: number, epoch: number }
 *   | { type: 'fifo', streamId: number, attempt: number, path: string }
 *   | { type: 'started', streamId: number, attempt: number }
 *   | { type: 'turn', streamId: number, attempt: number }
 *   | { type: 'refused', streamId: number, attempt: number, error: ErrorReport }
 *   | { type: 'closed', streamId: number, attempt: number, error: ErrorReport | null }
 *   | { type: 'stop' }} ToWorker
 */

/**
 * @typedef {{ type: 'ready' }
 *   | { type: 'open', streamId: number, attempt: number, command: string, input: string }
 *   | { type: 'opened', streamId: number, attempt: number }
 *   | { type: 'close', streamId: number, attempt: number }
 *   | { type: 'turn', streamId: number, attempt: number }
 *   | { type: 'outcome', streamId: number, attempt: number, error: ErrorReport | null }
 *   | { type: 'released', streamId: number, epoch: number, fenced: boolean }
 *   | { type: 'status', status: WorkerStatus }} FromWorker
 */

/**
 * @typedef {{ type: 'configure', settings: ProxySettings }
 *   | { type: 'open', host: HostSpec, streamId: number, attempt: number, command: string, input: string }
 *   | { type: 'opened', streamId: number, attempt: number }
 *   | { type: 'close', streamId: number, attempt: number }
 *   | { type: 'turn', host: HostSpec, streamId: number, attempt: number }
 *   | { type: 'outcome', streamId: number, attempt: number, error: ErrorReport | null }
 *   | { type: 'forget', hostId: number }
 *   | { type: 'stop' }} ToProxy
 */

/**
 * @typedef {object} ProxyStatus
 * @property {number} connections open SSH connections (masters)
 * @property {number} sessions
 * @property {number} connects since the process began
 * @property {Record<string, number>} failures by error code
 * @property {number} rssBytes
 */

/**
 * @typedef {{ type: 'ready' }
 *   | { type: 'fifo', streamId: number, attempt: number, path: string }
 *   | { type: 'started', streamId: number, attempt: number }
 *   | { type: 'turn', streamId: number, attempt: number }
 *   | { type: 'refused', streamId: number, attempt: number, error: ErrorReport }
 *   | { type: 'closed', streamId: number, attempt: number, error: ErrorReport | null }
 *   | { type: 'status', status: ProxyStatus }} FromProxy
 */

export {};
