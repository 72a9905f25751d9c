/**
 * What the tests of the command line share: a storage of their own with a configuration file that names it, and
 * pgsluice as a child process, exactly as an operator runs it. Everything ends with the test file.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { socketUrl, startPostgres } from '../../helpers/postgres.js';
import { descendants } from '../../helpers/sshd.js';

export const PROGRAM = fileURLToPath(new URL('../../../bin/pgsluice.js', import.meta.url));

// Control characters but the newline, which ends each line.
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/;

/** @typedef {{ code: number | null, signal: string | null, stdout: string, stderr: string }} Outcome */
/** @typedef {Awaited<ReturnType<typeof cliStorage>>} CliStorage */

/** Storage, configuration file and directories for one test file. */
export async function cliStorage() {
  const dir = await mkdtemp(join(tmpdir(), 'pgsluice-cli-'));
  const postgres = await startPostgres();
  let databases = 0;
  return {
    dir,
    postgres,
    /**
     * A fresh database and a configuration file that names it.
     * @param {{ listen?: string }} [settings]
     */
    async fresh({ listen = 'none' } = {}) {
      const name = `cli${(databases += 1)}`;
      const options = await postgres.createDatabase(name);
      const config = join(dir, `${name}.toml`);
      await writeFile(config, configText({ url: socketUrl(options), dir: join(dir, name), listen }));
      return {
        config,
        /** @param {string} sql @param {unknown[]} [params] */
        query: (sql, params) => postgres.query(sql, params, name),
        /** @param {...string} words */
        run: (...words) => pgsluice([...words, '--config', config], { env: { TMPDIR: dir } }),
        /** Runs a command that must succeed. @param {...string} words @returns {Promise<any>} its JSON */
        json: async (...words) => {
          const outcome = await pgsluice([...words, '--json', '--config', config], { env: { TMPDIR: dir } });
          assert.equal(outcome.code, 0, outcome.stderr);
          return JSON.parse(outcome.stdout);
        },
      };
    },
    /** Names of what commands left in their temporary directory. */
    async leftovers() {
      return (await readdir(dir)).filter(name => name.startsWith('pgsluice-') || name.startsWith('s-'));
    },
    async stop() {
      await postgres.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** @param {{ url: string, dir: string, listen: string }} settings */
export function configText({ url, dir, listen }) {
  return [
    '[storage]',
    `url = ${JSON.stringify(url)}`,
    '[daemon]',
    `data_dir = ${JSON.stringify(join(dir, 'd'))}`,
    `runtime_dir = ${JSON.stringify(join(dir, 'r'))}`,
    '[http]',
    `listen = ${JSON.stringify(listen)}`,
    '[ssh]',
    'config_file = "none"',
    '',
  ].join('\n');
}

/**
 * @param {string[]} words
 * @param {{ env?: NodeJS.ProcessEnv, cwd?: string, program?: string[] }} [options]
 * @returns {Promise<Outcome>}
 */
export function pgsluice(words, { env, cwd, program = [PROGRAM] } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...program, ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...cleanEnvironment(), ...env },
      cwd: cwd ?? '/',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', text => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

/**
 * A daemon of this test: its output so far, and its end.
 * @param {import('node:test').TestContext} t
 * @param {string} config
 * @param {{ words?: string[], env?: NodeJS.ProcessEnv }} [options]
 */
export function startDaemon(t, config, { words = [], env } = {}) {
  const child = spawn(process.execPath, [PROGRAM, 'start', '--config', config, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...cleanEnvironment(), ...env },
  });
  let stdout = '';
  let stderr = '';
  const changes = new EventEmitter();
  child.stdout.setEncoding('utf8').on('data', text => {
    stdout += text;
    changes.emit('change');
  });
  child.stderr.setEncoding('utf8').on('data', text => {
    stderr += text;
    changes.emit('change');
  });
  /** @type {Promise<{ code: number | null, signal: string | null }>} */
  const ended = new Promise(resolve => child.once('close', (code, signal) => resolve({ code, signal })));
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const family = descendants(Number(child.pid));
      child.kill('SIGKILL');
      for (const pid of family) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It went with its parent.
        }
      }
    }
    await ended;
  });
  return {
    child,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    /** @param {() => boolean} condition */
    async until(condition) {
      while (!condition()) {
        const over = await Promise.race([
          once(changes, 'change').then(() => false),
          ended.then(() => !condition()),
        ]);
        if (over) throw new Error(`the daemon ended: ${stdout}${stderr}`);
      }
    },
  };
}

/** What the caller has set for pgsluice or what npm says of this run must not reach the tests. */
export function cleanEnvironment() {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(PGSLUICE_|npm_|PG|NODE_OPTIONS|NODE_TEST_CONTEXT)/.test(name),
    ),
  );
}

/**
 * A command failed as it should: with its exit code and one line on stderr.
 * @param {Outcome} outcome
 * @param {number} expected
 * @param {RegExp} message
 */
export function failed({ code, stdout, stderr }, expected, message) {
  assert.equal(code, expected, `${stdout}${stderr}`);
  assert.match(stderr, /^pgsluice: [^\n]+\n$/);
  assert.doesNotMatch(stderr, UNSAFE);
  assert.doesNotMatch(stdout, UNSAFE);
  assert.match(stderr, message);
}

/** @param {import('node:net').Server} server that listens @returns {number} */
export function portOf(server) {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('it has no port');
  return address.port;
}
