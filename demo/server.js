/**
 * The demo's SSH server: the system's sshd and ssh, installed if they are missing and that is possible (root and apt),
 * otherwise the ssh2 package's server and client, which it says.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { startSshd } from '../test/helpers/sshd.js';
import { startSsh2Server } from './ssh2-server.js';

/**
 * @typedef {object} DemoServer
 * @property {string} user
 * @property {number} pid what runs the commands
 * @property {number} port
 * @property {string} hostKey
 * @property {string} identityFile
 * @property {'openssh' | 'ssh2'} transport
 * @property {() => Promise<void>} stop
 */

/**
 * @param {(line: string) => void} say
 * @returns {Promise<DemoServer>}
 */
export async function startServer(say) {
  const missing = missingPrograms();
  if (missing.length > 0) installOpenssh(missing, say);
  if (missingPrograms().length === 0) return { ...(await startSshd()), transport: 'openssh' };
  say(
    `   ${missingPrograms().join(' and ')} not installed: using the server and client of the ssh2 package instead`,
  );
  return { ...(await startSsh2Server()), transport: 'ssh2' };
}

function missingPrograms() {
  const path = (process.env['PATH'] ?? '').split(':');
  return ['ssh', 'sshd'].filter(
    name => ![...path, '/usr/sbin', '/usr/local/sbin'].some(dir => isProgram(`${dir}/${name}`)),
  );
}

/** @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** @param {string[]} missing @param {(line: string) => void} say */
function installOpenssh(missing, say) {
  if (process.geteuid?.() !== 0 || !isProgram('/usr/bin/apt-get')) return;
  say(`   ${missing.join(' and ')} not installed: apt-get install openssh-client openssh-server`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  spawnSync('apt-get', ['update'], { stdio: 'ignore', env });
  spawnSync('apt-get', ['install', '-y', '--no-install-recommends', 'openssh-client', 'openssh-server'], {
    stdio: 'ignore',
    env,
  });
}
