/**
 * A real sshd for tests: its own temporary directory, host key and client key, on a free port of 127.0.0.1, as
 * root and as an ordinary user (who can then only log in as himself). Nothing of the machine's configuration is
 * used. The log (VERBOSE) is kept: it counts connections and sessions. stop() ends the listener and everything
 * that was started for its connections. Throws an Error that says what to install when there is no sshd.
 */
import { execFile, spawn } from 'node:child_process';
import { accessSync, constants, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { appendFile, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Where distributions put it; it insists on being started by its absolute path. */
const PROGRAMS = ['/usr/sbin/sshd', '/usr/local/sbin/sshd', '/usr/bin/sshd'];

/** Another process can take the port between our close and sshd's bind. */
const PORT_ATTEMPTS = 5;

/** sshd changes into it when it starts as root. */
const PRIVILEGE_SEPARATION_DIRECTORY = '/run/sshd';

/**
 * @typedef {object} Sshd
 * @property {'127.0.0.1'} host
 * @property {number} port
 * @property {string} user who may log in
 * @property {string} hostKey 'ssh-ed25519 AAAA…'
 * @property {string} identityFile private key that is authorized
 * @property {string} authorizedKeysFile
 * @property {(alias?: string) => Promise<string>} knownHostsFile writes one; default name: [127.0.0.1]:port
 * @property {number} pid of the listener
 * @property {string} dir
 * @property {() => string} log everything it wrote so far, over restarts
 * @property {() => number} connections how many TCP connections it has accepted so far
 * @property {() => number[]} connectionPids one process for each connection that is served now
 * @property {(signal: NodeJS.Signals) => void} signalConnections sends it to all that serves connections, commands
 *   included: for users other than root a connection is a monitor and the process that holds the socket
 * @property {() => Promise<void>} stop
 * @property {() => Promise<void>} restart on the same port; ends all connections
 */

/**
 * @param {object} [options]
 * @param {string} [options.dir] default: a fresh one, which stop() removes
 * @param {number} [options.port] default: a free one
 * @param {string[]} [options.settings] lines of sshd_config, which win over the defaults here
 * @param {'ed25519' | 'ecdsa' | 'rsa'} [options.hostKeyType]
 * @returns {Promise<Sshd>}
 */
export async function startSshd({
  dir: given,
  port: wantedPort,
  settings = [],
  hostKeyType = 'ed25519',
} = {}) {
  const program = findProgram();
  const user = userInfo().username;
  const dir = given ?? (await mkdtemp(join(tmpdir(), 'pgsluice-sshd-')));
  const file = (/** @type {string} */ name) => join(dir, name);
  await run('ssh-keygen', ['-q', '-t', hostKeyType, '-N', '', '-C', '', '-f', file('host_key')]);
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file('client_key')]);
  await copyFile(file('client_key.pub'), file('authorized_keys'));
  await writeFile(file('sshd.log'), '');
  const hostKey = (await readFile(file('host_key.pub'), 'utf8')).trim();
  if (process.getuid?.() === 0) mkdirSync(PRIVILEGE_SEPARATION_DIRECTORY, { recursive: true, mode: 0o755 });

  let log = '';
  /** @type {import('node:child_process').ChildProcess | undefined} */
  let child;

  /** @param {number} port @returns {Promise<boolean>} false: somebody else has the port */
  const listen = async port => {
    await writeFile(file('sshd_config'), configText(file, port, settings));
    const sshd = spawn(program, ['-D', '-e', '-f', file('sshd_config')], {
      detached: true, // Ctrl-C in a terminal is for whoever started this
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const outcome = await new Promise(resolve => {
      let said = '';
      sshd.stderr.setEncoding('utf8').on('data', text => {
        log += text;
        said += text;
        if (/^Server listening on 127\.0\.0\.1 /m.test(said)) resolve('listening');
      });
      sshd.once('error', error => resolve(error.message));
      sshd.once('close', () => resolve(said));
    });
    if (outcome === 'listening') {
      child = sshd;
      return true;
    }
    if (/Bind to port \d+ .* failed: Address already in use/.test(outcome)) return false;
    throw new Error(`sshd did not start: ${outcome}`);
  };

  const end = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = child;
    // The pipe closes when the last process that serves a connection is gone.
    const gone = new Promise(resolve => ended.once('close', resolve));
    const serving = descendants(Number(ended.pid));
    ended.kill('SIGTERM');
    for (const pid of serving) kill(pid, 'SIGKILL');
    await gone;
  };

  let port = wantedPort ?? (await freePort());
  try {
    for (let attempt = 1; !(await listen(port)); attempt += 1) {
      if (wantedPort !== undefined || attempt === PORT_ATTEMPTS) throw new Error(`port ${port} is in use`);
      port = await freePort();
    }
  } catch (error) {
    if (given === undefined) await rm(dir, { recursive: true, force: true });
    throw error;
  }

  return {
    host: '127.0.0.1',
    port,
    user,
    hostKey,
    identityFile: file('client_key'),
    authorizedKeysFile: file('authorized_keys'),
    dir,
    get pid() {
      return Number(child?.pid);
    },
    knownHostsFile: async (alias = `[127.0.0.1]:${port}`) => {
      const path = file('known_hosts');
      await appendFile(path, `${alias} ${hostKey}\n`);
      return path;
    },
    log: () => log,
    connections: () => log.match(/^Connection from /gm)?.length ?? 0,
    connectionPids: () => childrenOf(Number(child?.pid)),
    signalConnections: signal => {
      for (const pid of descendants(Number(child?.pid))) kill(pid, signal);
    },
    stop: async () => {
      await end();
      if (given === undefined) await rm(dir, { recursive: true, force: true });
    },
    restart: async () => {
      await end();
      if (!(await listen(port))) throw new Error(`port ${port} was taken while sshd was down`);
    },
  };
}

/** @returns {Promise<number>} a port of 127.0.0.1 that was free a moment ago */
export async function freePort() {
  const server = createServer();
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = server.address();
  await new Promise(resolve => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** @returns {string} */
function findProgram() {
  for (const program of PROGRAMS) {
    try {
      accessSync(program, constants.X_OK);
      return program;
    } catch {
      // The next place.
    }
  }
  throw new Error(`no sshd in ${PROGRAMS.join(', ')}: install the OpenSSH server (Debian: openssh-server)`);
}

/**
 * sshd_config takes the first value of a keyword, so the caller's lines come first; Match blocks reach to the end.
 * @param {(name: string) => string} file
 * @param {number} port
 * @param {string[]} settings
 */
function configText(file, port, settings) {
  const firstMatch = settings.findIndex(line => /^\s*Match\s/i.test(line));
  const general = firstMatch === -1 ? settings : settings.slice(0, firstMatch);
  return `${[
    ...general,
    `Port ${port}`,
    'ListenAddress 127.0.0.1',
    `HostKey "${file('host_key')}"`,
    `AuthorizedKeysFile "${file('authorized_keys')}"`,
    'PidFile none',
    // A login shell reads no profile of the user who runs the tests: one that is killed in it may hold up the next.
    `SetEnv "HOME=${file('.')}"`,
    // The directory lies below a temporary one that all can write.
    'StrictModes no',
    'UsePAM no',
    'PermitRootLogin prohibit-password',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    'UseDNS no',
    'AllowTcpForwarding yes',
    'AllowStreamLocalForwarding yes',
    'MaxStartups 1000',
    'PrintMotd no',
    'LogLevel VERBOSE',
    ...settings.slice(general.length),
  ].join('\n')}\n`;
}

/**
 * Every process below another. Children of a command that left its session are found too, as long as none of
 * the processes between has ended. /proc/PID/stat: "pid (name) state ppid …", the name may hold anything.
 * @param {number} root
 * @returns {number[]}
 */
export function descendants(root) {
  const direct = childrenOf(root);
  return [...direct, ...direct.flatMap(descendants)];
}

/** @param {number} parent @returns {number[]} */
function childrenOf(parent) {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && parentOf(name) === parent)
    .map(Number);
}

/** @param {string} pid @returns {number | undefined} */
function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

/** @param {number} pid @param {NodeJS.Signals} signal */
function kill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // Already gone.
  }
}
