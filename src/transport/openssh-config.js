/**
 * How a host of the inventory is reached by the system's OpenSSH: the one place where a host specification becomes
 * a configuration of system-ssh, for the daemon and for `host check` alike.
 */

// With ssh's three unanswered ones a connection that died without a word is known to be dead after 20 s.
const KEEPALIVE_INTERVAL_MS = 5_000;

/**
 * @param {import('../ipc/messages.js').HostSpec} spec
 * @param {{ program: string, options: readonly string[], configFile: string | null, connectTimeoutMs: number }} ssh
 *   configFile: 'none', a path, or null for OpenSSH's own default files
 * @param {string} controlDirectory private, with a short path
 * @returns {import('../system-ssh/settings.js').ClientConfig}
 */
export function opensshConfig(spec, { program, options, configFile, connectTimeoutMs }, controlDirectory) {
  return {
    host: spec.address,
    port: spec.port,
    ...(spec.username === null ? {} : { username: spec.username }),
    ...(spec.identityFile === null ? {} : { identityFile: spec.identityFile }),
    jumpHosts: spec.jumpHosts,
    knownHostsFile: spec.knownHostsFile,
    hostKeyAlias: spec.hostKeyAlias,
    connectTimeoutMs,
    keepaliveIntervalMs: KEEPALIVE_INTERVAL_MS,
    options: [...options],
    program,
    ...(configFile === null ? {} : { configFile }),
    controlDirectory,
  };
}
