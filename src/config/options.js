/**
 * Every option there is, as data. load.js reads files and the environment by this tree, print.js writes by it,
 * config/pgsluice.toml is compared with it by a test, and no other place holds a default.
 * `key` is the table and key of the TOML file; PGSLUICE_SECTION_KEY is the same in the environment; the name in
 * the Config object is the key in camelCase, with a unit where the value has one.
 * Defaults are written as in the file. One that depends on the machine or the user is a function.
 */

import path from 'node:path';
import { LOG_LEVELS } from '../base/logger.js';

/**
 * What pgsluice runs with. Frozen. Paths are absolute; sizes are bytes, durations ms, bit rates bit/s.
 * @typedef {object} Config
 * @property {Readonly<{ url: string, passwordFile: string | null }>} storage url: 'embedded' or postgres://...
 * @property {Readonly<{ dataDir: string, runtimeDir: string, workers: number, logLevel: string }>} daemon
 * @property {Readonly<{ listen: Readonly<import('./types.js').Address> | null, authFile: string | null,
 *   tlsCertFile: string | null, tlsKeyFile: string | null }>} http listen null: no HTTP; both TLS files or none
 * @property {Readonly<{ program: string, connectRate: number, connectTimeoutMs: number,
 *   options: readonly string[], configFile: string | null }>} ssh configFile: a path, 'none', or null for
 *   OpenSSH's own default files; connectRate: new connections a second
 * @property {Readonly<{ opensshAboveBps: number, ssh2BelowBps: number }>} transport Bps: bits a second
 * @property {Readonly<{ maxBytes: number, maxDelayMs: number, maxRecordBytes: number }>} batch
 * @property {Readonly<{ redact: readonly import('../base/redact-classes.js').RedactClass[] }>} log redact: classes
 *   of secrets that are not stored
 * @property {Readonly<{ days: number }>} retention
 */

/**
 * What a default may depend on.
 * @typedef {object} Surroundings
 * @property {boolean} root the effective user is root
 * @property {string} home home directory
 * @property {number} cpus processors this process may use
 * @property {NodeJS.ProcessEnv} env
 * @property {(key: string) => any} valueOf the value of an option that stands earlier in OPTIONS
 */

/**
 * @typedef {object} Option
 * @property {string} key 'section.key'
 * @property {string} name in the Config's section
 * @property {import('./types.js').TypeName} type
 * @property {string | number | readonly string[] | ((surroundings: Surroundings) => string | number)} default
 * @property {string} about one line
 * @property {string} [arithmetic] where the default comes from
 * @property {readonly string[]} [values] of an enum
 * @property {string | number} [min] as in the file
 * @property {string | number} [max] as in the file
 * @property {string} [because] the reason for min and max
 */

/** @type {readonly Option[]} an option may refer to earlier ones only */
export const OPTIONS = [
  {
    key: 'storage.url',
    name: 'url',
    type: 'storageUrl',
    default: 'embedded',
    about:
      'Where records go: "embedded" runs a PostgreSQL of its own in the data directory, "postgres://USER@HOST:PORT/DATABASE" uses another.',
  },
  {
    key: 'storage.password_file',
    name: 'passwordFile',
    type: 'optionalPath',
    default: '',
    about: 'A file whose first line is the password for storage.url; "" for none.',
  },
  {
    key: 'daemon.data_dir',
    name: 'dataDir',
    type: 'path',
    default: ({ root, home, env }) =>
      root
        ? '/var/lib/pgsluice'
        : path.join(xdg(env['XDG_STATE_HOME']) ?? path.join(home, '.local/state'), 'pgsluice'),
    about: 'What must survive a restart: the embedded PostgreSQL and private files.',
  },
  {
    key: 'daemon.runtime_dir',
    name: 'runtimeDir',
    type: 'path',
    // Without XDG_RUNTIME_DIR the private data directory serves: a predictable name in /tmp could be taken by others.
    default: ({ root, env, valueOf }) => {
      if (root) return '/run/pgsluice';
      const runtime = xdg(env['XDG_RUNTIME_DIR']);
      return runtime === undefined
        ? path.join(valueOf('daemon.data_dir'), 'run')
        : path.join(runtime, 'pgsluice');
    },
    max: 70,
    because: 'it holds sockets of ssh, whose path may have 90 bytes, and their names take 20',
    about: 'What need not survive a restart: sockets and FIFOs.',
  },
  {
    key: 'daemon.workers',
    name: 'workers',
    type: 'int',
    default: ({ cpus }) => Math.min(4, Math.max(1, cpus - 1)),
    min: 1,
    max: 64,
    because: 'each is a process with its own connection to the storage',
    about: 'How many worker processes read, parse and write.',
    arithmetic:
      'One processor stays free for ssh and the storage; one worker parses more than 100 MB/s, so four are enough for most fleets.',
  },
  {
    key: 'daemon.log_level',
    name: 'logLevel',
    type: 'enum',
    values: LOG_LEVELS,
    default: 'info',
    about:
      "The least important level of pgsluice's own log on stderr: fatal, error, warn, info, debug or trace.",
  },
  {
    key: 'http.listen',
    name: 'listen',
    type: 'address',
    default: '127.0.0.1:9870',
    about:
      'Where /metrics, /healthz, /readyz and /status are served; port 0 takes any free one, "none" turns it off.',
  },
  {
    key: 'http.auth_file',
    name: 'authFile',
    type: 'optionalPath',
    default: '',
    about:
      'Who may ask: a file of USER:PASSWORD lines that no other user can read, "" for everybody who can connect.',
  },
  {
    key: 'http.tls_cert_file',
    name: 'tlsCertFile',
    type: 'optionalPath',
    default: '',
    about: 'The certificate for HTTPS, with its chain, in PEM; "" for plain HTTP.',
  },
  {
    key: 'http.tls_key_file',
    name: 'tlsKeyFile',
    type: 'optionalPath',
    default: '',
    about: 'The private key of http.tls_cert_file, in PEM, in a file that no other user can read.',
  },
  {
    key: 'ssh.program',
    name: 'program',
    type: 'program',
    default: 'ssh',
    about: 'The OpenSSH client: a name on PATH, or a path.',
  },
  {
    key: 'ssh.connect_rate',
    name: 'connectRate',
    type: 'int',
    default: 20,
    min: 1,
    max: 1000,
    because: 'each connection is a key exchange for both sides',
    about: 'How many new connections are opened in a second, over the whole fleet.',
    arithmetic:
      'A key exchange costs 6 ms (curve25519) to 76 ms (sntrup761) of processor time, so 20 a second take 0.1 to 1.5 processors while they last; 1000 hosts take 50 s.',
  },
  {
    key: 'ssh.connect_timeout',
    name: 'connectTimeoutMs',
    type: 'duration',
    default: '10s',
    min: '1s',
    max: '5min',
    because: 'OpenSSH counts this in whole seconds, and a host that is away must not hold a place for long',
    about: 'How long a connection may take to be ready.',
  },
  {
    key: 'ssh.options',
    name: 'options',
    type: 'sshOptions',
    default: [],
    about:
      'More OpenSSH options for every host, each "Keyword=value"; those pgsluice sets itself come first and win.',
  },
  {
    key: 'ssh.config_file',
    name: 'configFile',
    type: 'sshConfig',
    default: '',
    about: 'The ssh_config to read: a path, "none", or "" for OpenSSH\'s own default files.',
  },
  {
    key: 'transport.openssh_above',
    name: 'opensshAboveBps',
    type: 'bitrate',
    default: '1Mbit/s',
    max: '1000Gbit/s',
    because: 'no link is faster',
    about: 'A host with transport "auto" that sends more than this moves to OpenSSH.',
    arithmetic:
      'At 1 Mbit/s (0.125 MB/s) reading through ssh2 costs 0.03 % of a processor and 50 KB of memory a host, so 1000 such hosts take a third of a processor; through OpenSSH it costs a worker a fifth of that, but 1.4 MB or more a host.',
  },
  {
    key: 'transport.ssh2_below',
    name: 'ssh2BelowBps',
    type: 'bitrate',
    default: '500kbit/s',
    max: '1000Gbit/s',
    because: 'no link is faster',
    about: 'A host with transport "auto" that sends less than this moves back to ssh2.',
    arithmetic: 'Half of openssh_above, so that a host near one limit does not reconnect again and again.',
  },
  {
    key: 'batch.max_bytes',
    name: 'maxBytes',
    type: 'size',
    default: '8MiB',
    min: '64KiB',
    max: '256MiB',
    because: 'below, the cost of a commit dominates; above, memory is spent for nothing',
    about: 'A batch is committed when it has this size.',
    arithmetic: 'COPY of logged rows runs at about 125 MB/s, so 8 MiB are 65 ms beside a commit of a few.',
  },
  {
    key: 'batch.max_delay',
    name: 'maxDelayMs',
    type: 'duration',
    default: '1s',
    min: '10ms',
    max: '60s',
    because: 'below, nearly every record is a commit of its own; above, what is queried is old',
    about: 'A batch is committed when its oldest record has waited this long, whatever its size.',
  },
  {
    key: 'batch.max_record_bytes',
    name: 'maxRecordBytes',
    type: 'size',
    default: '64MiB',
    min: '64KiB',
    max: '128MiB',
    because: 'PostgreSQL takes at most 1 GB at once, and a byte that has to be escaped becomes four',
    about: 'Of a longer record the beginning is stored, with the length and the hash of the whole.',
  },
  {
    key: 'log.redact',
    name: 'redact',
    type: 'redact',
    default: 'none',
    about:
      'Secrets that are taken out of records before they are stored: "none", "all", or some of credential, parsing_error, statement_text, statement_parameter, table_data, ops, unidentified, with commas.',
  },
  {
    key: 'retention.days',
    name: 'days',
    type: 'int',
    default: 30,
    min: 1,
    max: 36_500,
    because: 'whole days are dropped, and the day of today is being written',
    about: 'How many days of records are kept; older days are dropped whole.',
  },
];

/**
 * @param {string} key
 * @returns {string} the name of its environment variable
 */
export function environmentName(key) {
  return `PGSLUICE_${key.replace('.', '_').toUpperCase()}`;
}

/**
 * @param {Pick<Surroundings, 'root' | 'home' | 'env'>} surroundings
 * @returns {string} the configuration file that is read when none is named
 */
export function defaultConfigFile({ root, home, env }) {
  if (root) return '/etc/pgsluice/pgsluice.toml';
  return path.join(xdg(env['XDG_CONFIG_HOME']) ?? path.join(home, '.config'), 'pgsluice/pgsluice.toml');
}

/**
 * @param {string | undefined} directory
 * @returns {string | undefined} relative ones are to be ignored (XDG Base Directory Specification)
 */
function xdg(directory) {
  return directory !== undefined && path.isAbsolute(directory) ? directory : undefined;
}
