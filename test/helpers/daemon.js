/**
 * The real daemon as a child process, with its own directories and configuration file, and commands run against it.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../bin/pgsluice.js', import.meta.url));
const READY_MS = 60_000;

/** @typedef {{ user: string, port: number, identityFile: string, hostKey: string }} SshServer */
/** @typedef {{ code: number, stdout: string, stderr: string }} CommandResult */

export class TestDaemon {
  /** @type {import('node:child_process').ChildProcess | null} */
  #child = null;
  #limits;
  /** everything it wrote */
  output = '';
  url = '';

  /**
   * @param {{ toml?: string, env?: NodeJS.ProcessEnv, limits?: string }} [options] toml: more lines of the
   *   configuration file; env: more environment; limits: what a shell does before it becomes the daemon, such as
   *   'ulimit -n 100'
   */
  constructor({ toml = '', env = {}, limits = ':' } = {}) {
    this.toml = toml;
    this.env = { ...process.env, ...env };
    this.#limits = limits;
    this.dir = mkdtempSync(join(tmpdir(), 'pgd-'));
    // The embedded PostgreSQL runs under another account when we are root.
    chmodSync(this.dir, 0o711);
    this.configFile = join(this.dir, 'pgsluice.toml');
    writeFileSync(
      this.configFile,
      `daemon.data_dir = "${this.dir}/data"\ndaemon.runtime_dir = "${this.dir}/run"\n` +
        `http.listen = "127.0.0.1:0"\nssh.config_file = "none"\n${toml}\n`,
    );
  }

  get pid() {
    return this.#child?.pid ?? 0;
  }

  async start() {
    const program = [process.execPath, PROGRAM, 'start', '--config', this.configFile];
    const child = spawn('/bin/sh', ['-c', `${this.#limits}; exec "$0" "$@"`, ...program], {
      env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // Ctrl-C in a terminal is for whoever started this
    });
    this.#child = child;
    this.url = '';
    let seen = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', chunk => {
        this.output += chunk;
        seen += chunk;
        this.url = /http:\/\/127\.0\.0\.1:\d+/.exec(seen)?.[0] ?? '';
      });
    }
    const deadline = Date.now() + READY_MS;
    while (!(await this.ready())) {
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error(`the daemon did not become ready: ${this.output}`);
      await sleep(50);
    }
  }

  async ready() {
    if (this.url === '') return false;
    const response = await fetch(`${this.url}/readyz`).catch(() => null);
    return response?.status === 200;
  }

  /** @returns {Promise<import('../../src/master/status.js').Status>} */
  async status() {
    const response = await fetch(`${this.url}/status`);
    return /** @type {import('../../src/master/status.js').Status} */ (await response.json());
  }

  /**
   * Runs a command with this configuration.
   * @param {...string} args
   * @returns {Promise<CommandResult>}
   */
  command(...args) {
    // The configuration says "any free port"; a command must know which one it became.
    const env = this.url ? { ...this.env, PGSLUICE_HTTP_LISTEN: new URL(this.url).host } : this.env;
    return new Promise(resolve => {
      execFile(
        process.execPath,
        [PROGRAM, ...args, '--config', this.configFile],
        { env },
        (error, stdout, stderr) => {
          resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, stdout, stderr });
        },
      );
    });
  }

  /** @param {...string} args @returns {Promise<string>} stdout of a command that must succeed */
  async run(...args) {
    const { code, stdout, stderr } = await this.command(...args);
    if (code !== 0) throw new Error(`pgsluice ${args.join(' ')}: exit code ${code}: ${stderr}`);
    return stdout;
  }

  /**
   * host add, over the given server, or with transport local without one.
   * @param {string} name
   * @param {{ log: string, server?: SshServer, transport?: string, from?: string, more?: string[] }} options
   */
  addHost(name, { log, server, transport = server ? 'auto' : 'local', from = 'start', more = [] }) {
    const how = ['--log', log, '--from', from, '--transport', transport, ...more];
    if (server) {
      const { user, port, identityFile, hostKey } = server;
      how.push('--ssh', `${user}@127.0.0.1:${port}`, '--identity', identityFile, '--host-key', hostKey);
    }
    return this.run('host', 'add', name, ...how);
  }

  /**
   * Kills it with -9: master alone, whose children must notice, or all of its processes at once.
   * @param {{ children?: boolean }} [options]
   */
  async kill({ children = false } = {}) {
    const child = this.#child;
    if (!child) return;
    const exited = once(child, 'exit');
    const victims = children ? descendants(child.pid ?? 0) : [];
    child.kill('SIGKILL');
    for (const pid of victims) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it ended by itself just now
      }
    }
    await exited;
    this.#child = null;
  }

  /** @returns {Promise<number>} milliseconds it took to end after SIGTERM; it must end with exit code 0 */
  async stop() {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return 0;
    const started = performance.now();
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const [code, signal] = await exited;
    this.#child = null;
    if (code !== 0) throw new Error(`the daemon ended with ${code ?? signal}: ${this.output}`);
    return performance.now() - started;
  }

  /** Processes that have this daemon's directory in their arguments, or run in its session. */
  processes() {
    return processesWith(this.dir);
  }

  /** Stops it and removes its directories. */
  async remove() {
    // A test that failed may have left some of it stopped.
    const own = this.pid === 0 ? [] : [this.pid, ...descendants(this.pid)];
    for (const pid of own) {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // gone meanwhile
      }
    }
    try {
      await this.stop();
    } finally {
      await this.#stopEmbedded();
      rmSync(this.dir, { recursive: true, force: true });
    }
  }

  /** A daemon that was killed leaves its embedded PostgreSQL running, so that the next one finds it. */
  async #stopEmbedded() {
    for (const { pid, command } of this.processes()) {
      if (!command.includes('postgres')) continue;
      try {
        process.kill(pid, 'SIGQUIT');
      } catch {
        // gone meanwhile
      }
    }
    const deadline = Date.now() + 10_000;
    while (this.processes().length > 0 && Date.now() < deadline) await sleep(50);
  }
}

/**
 * @param {string} text
 * @returns {{ pid: number, command: string }[]} processes with the text in their arguments
 */
export function processesWith(text) {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap(name => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
        readlinkSync(`/proc/${name}/exe`); // a zombie has none
        return command.includes(text) ? [{ pid: Number(name), command }] : [];
      } catch {
        return [];
      }
    });
}

/**
 * @param {number} ancestor
 * @returns {number[]} pids
 */
export function descendants(ancestor) {
  const parents = new Map(
    readdirSync('/proc')
      .filter(name => /^\d+$/.test(name))
      .map(name => [Number(name), parentOf(Number(name))]),
  );
  const found = new Set([ancestor]);
  for (let before = 0; before !== found.size;) {
    before = found.size;
    for (const [pid, parent] of parents) if (parent !== null && found.has(parent)) found.add(pid);
  }
  found.delete(ancestor);
  return [...found];
}

/** @param {number} pid */
function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return null;
  }
}
