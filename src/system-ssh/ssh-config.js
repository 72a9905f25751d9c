/**
 * The ssh_config texts that the client hands to ssh with -F. Settings in, text out; no I/O.
 *
 *   master   one a connection: where to, as whom, with which keys; includes the user's and the system's file
 *   session  one a master: nothing but the control socket; what a command needs is already decided
 *   forward  one a forwarding: the session's text with a LocalForward line
 *
 * Everything that comes from outside stands here in quotes and never on a command line. The name on the
 * command line is always TARGET. Format: ssh_config(5); the first value of a keyword wins.
 */

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {{ host: string, port: number } | { socketPath: string }} Destination */

/** The only host name that ever stands on a command line of ssh. */
export const TARGET = 'pgsluice-target';

/** What the master's LocalCommand writes to its stdout when its control socket accepts sessions. */
export const READY = 'pgsluice-ready';

/** Environment variable of the master: the directory to remove when its parent is gone. */
export const DIRECTORY_VARIABLE = 'PGSLUICE_CONTROL_DIRECTORY';

const KEEPALIVE_COUNT_MAX = 3;

/**
 * ssh runs this after its control socket listens (ssh.c, ssh_session2). The subshell outlives it and reads
 * the master's stdin, whose other end only the parent holds: its end means that the parent is gone, however it
 * went. A kill that fails means that the master was gone first, and the parent still needs its files.
 */
const LOCAL_COMMAND = [
  'exec 3<&0;',
  `(read -r x <&3 || { kill $PPID && rm -rf "$${DIRECTORY_VARIABLE}"; }) >/dev/null 2>&1 &`,
  `echo ${READY}`,
].join(' ');

/**
 * Put before OpenSSH's own list, unless an option or an included file says otherwise: with the processor's AES they
 * cost about half the CPU time of chacha20-poly1305, which comes first there.
 */
const PREFERRED_CIPHERS = '^aes128-gcm@openssh.com,aes256-gcm@openssh.com';

/**
 * The file is read twice. First for TARGET, when only our own lines apply; then, because of "Match final", for
 * the name in HostName: so blocks like "Host db*" in the included files work although ssh was given TARGET.
 * A jump host's inner ssh inherits -F and sees "Host *" and the included files only.
 * @param {Settings} settings
 * @param {string} controlPath
 * @returns {string}
 */
export function masterConfig(settings, controlPath) {
  const lines = [ignoreUnknown(settings), `Host ${TARGET}`, `HostName ${quoted(settings.host)}`];
  if (settings.port !== undefined) lines.push(`Port ${settings.port}`);
  // User is not expanded before OpenSSH 10; the characters that would be are refused in settings.js.
  if (settings.username !== undefined) lines.push(`User "${settings.username}"`);
  if (settings.identityFile !== undefined) {
    lines.push(`IdentityFile ${quoted(settings.identityFile)}`, 'IdentitiesOnly yes');
  }
  if (settings.knownHostsFile !== undefined) {
    lines.push(
      `UserKnownHostsFile ${quoted(settings.knownHostsFile)}`,
      'GlobalKnownHostsFile /dev/null',
      'KnownHostsCommand none',
      'NoHostAuthenticationForLocalhost no',
    );
  }
  if (settings.hostKeyAlias !== undefined) lines.push(`HostKeyAlias "${settings.hostKeyAlias}"`);
  if (settings.jumpHosts.length > 0) lines.push(`ProxyJump ${settings.jumpHosts.map(jumpText).join(',')}`);
  lines.push(
    'ControlMaster yes',
    `ControlPath ${quoted(controlPath)}`,
    'PermitLocalCommand yes',
    `LocalCommand ${LOCAL_COMMAND}`,
    'RemoteCommand none',
    'Host *',
    'BatchMode yes',
    'StrictHostKeyChecking yes',
    'ControlMaster no',
    'ControlPath none',
    'ControlPersist no',
    'PermitLocalCommand no',
    'ClearAllForwardings yes',
    'Tunnel no',
    'ForwardAgent no',
    'ForwardX11 no',
    'UpdateHostKeys no',
    'VerifyHostKeyDNS no',
    'CheckHostIP no',
    'RequestTTY no',
    'EscapeChar none',
    'LogLevel INFO',
    `ServerAliveInterval ${Math.ceil(settings.keepaliveIntervalMs / 1000)}`,
    `ServerAliveCountMax ${KEEPALIVE_COUNT_MAX}`,
    `ConnectTimeout ${Math.ceil(settings.connectTimeoutMs / 1000)}`,
  );
  if (settings.options.length > 0) {
    lines.push(`Host ${TARGET}`, ...settings.options.map(({ key, value }) => `${key} ${value}`));
  }
  if (settings.includes.length > 0) {
    lines.push('Match final all', `Host * !${TARGET}`, ...settings.includes.map(file => `Include "${file}"`));
  }
  lines.push('Match final all', `Ciphers ${PREFERRED_CIPHERS}`);
  return `${lines.join('\n')}\n`;
}

/**
 * When the master refuses a session, ssh falls back to a connection of its own; ProxyCommand lets that
 * connection end at once. A session over the control socket never runs it. DEBUG2 is the level at which ssh
 * says that a session was opened and which exit status the server sent.
 * @param {string} controlPath
 * @returns {string}
 */
export function sessionConfig(controlPath) {
  return `${[
    'Host *',
    'HostName master-refused.invalid',
    'ControlMaster no',
    `ControlPath ${quoted(controlPath)}`,
    'ProxyCommand false',
    'BatchMode yes',
    'IdentityFile none',
    'IdentitiesOnly yes',
    'RequestTTY no',
    'EscapeChar none',
    'LogLevel DEBUG2',
  ].join('\n')}\n`;
}

/**
 * @param {string} controlPath
 * @param {string} socketPath local Unix socket that will listen
 * @param {Destination} destination as seen from the server; already checked
 * @returns {string}
 */
export function forwardConfig(controlPath, socketPath, destination) {
  const to =
    'socketPath' in destination
      ? quoted(destination.socketPath.replaceAll(':', String.raw`\:`))
      : `"[${destination.host}]:${destination.port}"`;
  const from = quoted(socketPath.replaceAll(':', String.raw`\:`));
  return `${sessionConfig(controlPath)}LocalForward ${from} ${to}\n`;
}

/**
 * ssh before 8.5 does not know KnownHostsCommand, and refuses a file with a keyword that it does not know. Only the
 * first IgnoreUnknown counts, so the caller's is part of it; in an included file it never had an effect, because the
 * first reading does not apply what it finds there.
 * @param {Settings} settings
 */
function ignoreUnknown({ options }) {
  const theirs = options.filter(({ key }) => key.toLowerCase() === 'ignoreunknown').map(({ value }) => value);
  return `IgnoreUnknown ${['KnownHostsCommand', ...theirs].join(',')}`;
}

/** A value of a keyword that expands %-tokens. @param {string} value @returns {string} */
function quoted(value) {
  return `"${value.replaceAll('%', '%%')}"`;
}

/** @param {import('./settings.js').JumpHost} jump @returns {string} */
function jumpText({ user, host, port }) {
  const name = host.includes(':') ? `[${host}]` : host;
  return `${user === undefined ? '' : `${user}@`}${name}${port === undefined ? '' : `:${port}`}`;
}
