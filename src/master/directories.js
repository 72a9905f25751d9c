/**
 * The daemon's directories: data (0711 as root, where the embedded PostgreSQL's account must pass through it, else
 * 0700), runtime (0700 but for that account), and in it the managed known_hosts files and ssh's control sockets.
 * Throws DIRECTORY_UNUSABLE with the directory and what to do.
 */
import { chmodSync, lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PgsluiceError } from '../base/errors.js';

/** @typedef {import('../config/load.js').Config} Config */

/**
 * @param {Config} config
 * @returns {{ ssh: string, knownHosts: string }}
 */
export function prepareDirectories({ daemon }) {
  const root = process.geteuid?.() === 0;
  prepare(daemon.dataDir, root ? 0o711 : 0o700, 'daemon.data_dir');
  prepare(daemon.runtimeDir, root ? 0o711 : 0o700, 'daemon.runtime_dir');
  const ssh = join(daemon.runtimeDir, 'ssh');
  const knownHosts = join(daemon.runtimeDir, 'known_hosts');
  prepare(ssh, 0o700, 'daemon.runtime_dir');
  prepare(knownHosts, 0o700, 'daemon.runtime_dir');
  return { ssh, knownHosts };
}

/** FIFOs of processes that are gone. @param {string} directory */
export function removeStaleFifos(directory) {
  for (const name of readdirSync(directory))
    if (name.startsWith('fifo-')) rmSync(join(directory, name), { force: true });
}

/**
 * Writes the managed known_hosts file of a host.
 * @param {string} directory
 * @param {{ hostId: number, hostKeys: readonly string[] }} host
 * @returns {{ knownHostsFile: string, hostKeyAlias: string }}
 */
export function writeKnownHosts(directory, { hostId, hostKeys }) {
  const hostKeyAlias = `pgsluice-host-${hostId}`;
  const knownHostsFile = join(directory, String(hostId));
  writeFileSync(knownHostsFile, hostKeys.map(key => `${hostKeyAlias} ${key}\n`).join(''), { mode: 0o600 });
  return { knownHostsFile, hostKeyAlias };
}

/** @param {string} path @param {number} mode @param {string} option */
function prepare(path, mode, option) {
  try {
    mkdirSync(path, { recursive: true, mode });
    const found = lstatSync(path);
    if (!found.isDirectory() || found.isSymbolicLink()) throw new Error('it is not a directory');
    if (process.geteuid && found.uid !== process.geteuid()) throw new Error('it belongs to another user');
    chmodSync(path, mode);
  } catch (cause) {
    throw new PgsluiceError(
      'DIRECTORY_UNUSABLE',
      `${path} cannot be used (${/** @type {Error} */ (cause).message}): make it, or name another with ${option}`,
      { cause },
    );
  }
}
