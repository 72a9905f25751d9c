/**
 * The daemon's directories: data, runtime, and in that the managed known_hosts files and ssh's control sockets. All are
 * 0700, but data and runtime 0711 as root with the embedded storage, whose account must pass through them to its own.
 * Throws DIRECTORY_UNUSABLE with the directory and what to do.
 */
import { readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { preparePrivateDirectory } from '../base/private-directory.js';

/** @typedef {import('../config/load.js').Config} Config */

/**
 * @param {Config} config
 * @returns {{ ssh: string, knownHosts: string }}
 */
export function prepareDirectories({ daemon, storage }) {
  const mode = process.geteuid?.() === 0 && storage.url === 'embedded' ? 0o711 : 0o700;
  preparePrivateDirectory(daemon.dataDir, { mode, option: 'daemon.data_dir' });
  preparePrivateDirectory(daemon.runtimeDir, { mode, option: 'daemon.runtime_dir' });
  const ssh = join(daemon.runtimeDir, 'ssh');
  const knownHosts = join(daemon.runtimeDir, 'known_hosts');
  for (const path of [ssh, knownHosts]) {
    preparePrivateDirectory(path, { mode: 0o700, option: 'daemon.runtime_dir' });
  }
  return { ssh, knownHosts };
}

/** FIFOs of processes that are gone. @param {string} directory */
export function removeStaleFifos(directory) {
  for (const name of readdirSync(directory))
    if (name.startsWith('fifo-')) rmSync(join(directory, name), { force: true });
}

/**
 * Writes the managed known_hosts file of a host, if it does not say the same already; at once as a whole, because an
 * ssh that starts just now must not find half of it.
 * @param {string} directory
 * @param {{ hostId: number, hostKeys: readonly string[] }} host
 * @returns {{ knownHostsFile: string, hostKeyAlias: string }}
 */
export function writeKnownHosts(directory, { hostId, hostKeys }) {
  const hostKeyAlias = `pgsluice-host-${hostId}`;
  const knownHostsFile = join(directory, String(hostId));
  const text = hostKeys.map(key => `${hostKeyAlias} ${key}\n`).join('');
  try {
    if (textOf(knownHostsFile) !== text) {
      const unfinished = `${knownHostsFile}.new`;
      writeFileSync(unfinished, text, { mode: 0o600 });
      renameSync(unfinished, knownHostsFile);
    }
  } catch (cause) {
    throw new PgsluiceError(
      'DIRECTORY_UNUSABLE',
      `${directory} cannot be used (${/** @type {Error} */ (cause).message}): make it, or name another with daemon.runtime_dir`,
      { cause },
    );
  }
  return { knownHostsFile, hostKeyAlias };
}

/** @param {string} path @returns {string | null} */
function textOf(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
