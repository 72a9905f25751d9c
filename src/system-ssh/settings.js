/**
 * The configuration of a connection: checked, completed, and safe to be written into an ssh_config file.
 * In: what the caller of Client.connect gave. Out: Settings, in which every text is free of characters with
 * which it could leave its place in the file, become an option, or be read by the shell that runs a
 * ProxyCommand (ssh itself refuses most of these only since 9.6). Pure but for the current directory.
 * Throws PgsluiceError USAGE that names the field.
 */
import { isAbsolute, resolve } from 'node:path';
import { PgsluiceError } from '../base/errors.js';

/**
 * @typedef {object} ClientConfig
 * @property {string} host name or address
 * @property {number} [port] default: ssh's (22, or what the included ssh_config says)
 * @property {string} [username] default: ssh's
 * @property {string} [identityFile] private key; then no other key of the user or an agent is offered first
 * @property {string[]} [jumpHosts] each '[user@]host[:port]', nearest first; they are set up with the user's
 *   and the system's ssh_config alone, nothing that is meant for the target reaches them
 * @property {string} [knownHostsFile] then the only source of host keys for the target
 * @property {string} [hostKeyAlias] the name under which the key is looked up
 * @property {number} [keepaliveIntervalMs] default 10000; the connection is given up after three unanswered
 * @property {number} [connectTimeoutMs] default 20000; from the start to an authenticated connection
 * @property {string[]} [options] 'Key=Value' lines of ssh_config for the target; what pgsluice sets itself wins
 * @property {string} [program] default 'ssh'
 * @property {string} [configFile] 'none', or the one file to include instead of the user's and the system's
 * @property {string} [controlDirectory] existing private directory; a subdirectory is made there
 * @property {() => Promise<void>} [beforeConnection] awaited before each further connection that sessions beyond
 *   maxSessions need; when it rejects, they fail
 * @property {number} [maxSessions] default 10, as MaxSessions in sshd_config
 */

/** @typedef {{ user?: string, host: string, port?: number }} JumpHost */

/**
 * @typedef {object} Settings
 * @property {string} host
 * @property {number | undefined} port
 * @property {string | undefined} username
 * @property {string | undefined} identityFile
 * @property {JumpHost[]} jumpHosts
 * @property {string | undefined} knownHostsFile
 * @property {string | undefined} hostKeyAlias
 * @property {number} keepaliveIntervalMs
 * @property {number} connectTimeoutMs
 * @property {{ key: string, value: string }[]} options
 * @property {string} program
 * @property {string[]} includes
 * @property {string | undefined} controlDirectory
 * @property {() => Promise<void>} beforeConnection
 * @property {number} maxSessions
 */

const KEEPALIVE_INTERVAL_MS = 10_000;
/** ssh2 calls the same limit readyTimeout and has the same default. */
const CONNECT_TIMEOUT_MS = 20_000;
const MAX_SESSIONS = 10;
const USER_AND_SYSTEM = ['~/.ssh/config', '/etc/ssh/ssh_config'];

/** Letters, digits, dots, colons of IPv6 and the % of its zone; no shell or ssh_config syntax. */
const HOST = /^[\p{L}\p{N}_.:][\p{L}\p{N}_.:%-]*$/u;
/** Anything printable but what ssh 9.6 refuses in a user name, and what ssh_config would expand. */
const USER = /^[^\p{Cc}'"`;&<>|(){}$%\\ -][^\p{Cc}'"`;&<>|(){}$%]*$/u;
/** ssh puts a jump host's user unquoted into a command line: no white space, no shell syntax. */
const JUMP_USER = /^[\p{L}\p{N}_.][\p{L}\p{N}_.+-]*$/u;
/** These would open or close a block of the file. */
const STRUCTURAL = new Set(['host', 'match', 'include']);

/** @param {ClientConfig} config @returns {Settings} */
export function readSettings(config) {
  if (typeof config !== 'object' || config === null) throw usage('the SSH configuration is not an object');
  const { configFile, maxSessions = MAX_SESSIONS } = config;
  if (!Number.isInteger(maxSessions) || maxSessions < 1)
    throw usage('maxSessions is not a whole number above 0');
  const includes =
    configFile === undefined
      ? USER_AND_SYSTEM
      : configFile === 'none'
        ? []
        : [filePath('configFile', configFile)];
  const { program = 'ssh' } = config;
  if (typeof program !== 'string' || program === '' || program.includes('\0')) {
    throw usage('the SSH program is not a file name');
  }
  return {
    host: hostName('host', config.host),
    port: config.port === undefined ? undefined : portNumber('port', config.port),
    username: config.username === undefined ? undefined : userName(config.username),
    identityFile:
      config.identityFile === undefined ? undefined : filePath('identityFile', config.identityFile),
    jumpHosts: (config.jumpHosts ?? []).map(jumpHost),
    knownHostsFile:
      config.knownHostsFile === undefined ? undefined : filePath('knownHostsFile', config.knownHostsFile),
    hostKeyAlias: config.hostKeyAlias === undefined ? undefined : keyAlias(config.hostKeyAlias),
    keepaliveIntervalMs: milliseconds(
      'keepaliveIntervalMs',
      config.keepaliveIntervalMs ?? KEEPALIVE_INTERVAL_MS,
      0,
    ),
    connectTimeoutMs: milliseconds('connectTimeoutMs', config.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, 1),
    options: (config.options ?? []).map(option),
    program,
    includes,
    controlDirectory: config.controlDirectory,
    beforeConnection: config.beforeConnection ?? (async () => {}),
    maxSessions,
  };
}

/**
 * Refuses what double quotes of an ssh_config file cannot hold in every version: argv_split() of 8.7 and later
 * treats a backslash before a quote or another backslash as an escape, strdelim() before it does not.
 * @param {string} field
 * @param {unknown} value
 * @returns {string}
 */
export function plainText(field, value) {
  if (typeof value !== 'string' || value === '') throw usage(`${field} is not a text`);
  if (/\p{Cc}/u.test(value)) throw usage(`${field} holds a control character: ${JSON.stringify(value)}`);
  if (value.includes('"')) throw usage(`${field} holds a double quote: ${JSON.stringify(value)}`);
  if (value.includes('${'))
    throw usage(`${field} holds \${, which ssh would expand: ${JSON.stringify(value)}`);
  if (/\\(?:["'\\]|$)/.test(value))
    throw usage(`${field} holds an ambiguous backslash: ${JSON.stringify(value)}`);
  return value;
}

/** @param {string} field @param {unknown} value @returns {string} */
export function hostName(field, value) {
  const text = plainText(field, value);
  if (!HOST.test(text)) throw usage(`${field} is not a host name or address: ${JSON.stringify(text)}`);
  return text;
}

/** @param {string} field @param {unknown} value @returns {number} */
export function portNumber(field, value) {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > 65535) {
    throw usage(`${field} is not a port number: ${String(value)}`);
  }
  return value;
}

/** @param {string} message @returns {PgsluiceError} */
export function usage(message) {
  return new PgsluiceError('USAGE', message);
}

/** @param {unknown} value @returns {string} */
function userName(value) {
  const text = plainText('username', value);
  // A dash after white space is refused as ssh 9.6 does: such a name can become an option of a ProxyCommand.
  if (!USER.test(text) || /\s-/u.test(text))
    throw usage(`username is not acceptable to ssh: ${JSON.stringify(text)}`);
  return text;
}

/** @param {unknown} value @returns {string} */
function keyAlias(value) {
  const text = plainText('hostKeyAlias', value);
  if (/[\s,*?!|#]/u.test(text) || text.startsWith('-')) {
    throw usage(`hostKeyAlias cannot be a name in known_hosts: ${JSON.stringify(text)}`);
  }
  return text;
}

/** A path from the caller's directory or from ~, as ssh takes it. @param {string} field @param {unknown} value */
function filePath(field, value) {
  const text = plainText(field, value);
  return isAbsolute(text) || text.startsWith('~/') ? text : resolve(text);
}

/** @param {string} field @param {unknown} value @param {number} least @returns {number} */
function milliseconds(field, value, least) {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < least || value > 0x7fffffff) {
    throw usage(`${field} is not a number of milliseconds: ${String(value)}`);
  }
  return value;
}

/** @param {string} spec '[user@]host[:port]', an IPv6 address in brackets @returns {JumpHost} */
function jumpHost(spec) {
  const match = /^(?:([^@]*)@)?(?:\[([^\]]*)\]|([^:[\]]*))(?::(\d{1,5}))?$/u.exec(
    plainText('jumpHosts', spec),
  );
  if (!match) throw usage(`jump host is not [user@]host[:port]: ${JSON.stringify(spec)}`);
  const [, user, bracketed, bare, port] = match;
  if (user !== undefined && !JUMP_USER.test(user)) {
    throw usage(`jump host has a user name that ssh cannot pass on: ${JSON.stringify(spec)}`);
  }
  const host = hostName('jump host', bracketed ?? bare);
  if (host.includes('%')) throw usage(`jump host holds a %: ${JSON.stringify(spec)}`);
  return {
    user,
    host,
    port: port === undefined ? undefined : portNumber('port of the jump host', Number(port)),
  };
}

/** @param {string} line 'Key=Value' @returns {{ key: string, value: string }} */
function option(line) {
  const match = typeof line === 'string' ? /^([A-Za-z][A-Za-z0-9]*)\s*=\s*(\P{Cc}+)$/u.exec(line) : null;
  if (!match) throw usage(`SSH option is not Key=Value: ${JSON.stringify(line)}`);
  const [, key, value] = match;
  if (STRUCTURAL.has(key.toLowerCase()))
    throw usage(`SSH option ${key} is not possible here: write it into ssh_config`);
  return { key, value };
}
