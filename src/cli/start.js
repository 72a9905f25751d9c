/**
 * `pgsluice start`: runs the daemon in the foreground until SIGTERM or SIGINT, then stops it and returns 0.
 * A second signal changes nothing. SIGHUP does nothing: edits of the inventory reach the daemon through the storage.
 * When stopping takes too long it returns 1; what was not committed is read again. Throws what the daemon throws
 * when it cannot begin.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { redactUrl } from '../base/redact-url.js';
import { Daemon } from '../master/daemon.js';
import { Output } from './output.js';
import { ownCommand } from './own-command.js';
import { version } from './version.js';

/** @typedef {import('./context.js').Context} Context */

/** systemd waits 90 s by default, a container 10. */
const STOP_LIMIT_MS = 10_000;
/** How long a start that is under way is waited for, so that a storage that is just being started ends as well. */
const START_GRACE_MS = 2000;

const EXAMPLE =
  'host add db1 --ssh postgres@db1.example --log /var/lib/postgresql/15/main --trust-on-first-use';

/** @param {Context} context @returns {Promise<number>} */
export async function start(context) {
  const { config } = context;
  process.on('SIGHUP', () => {});
  /** @type {Promise<void>} */
  const asked = new Promise(resolve => {
    for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => resolve());
  });
  const daemon = new Daemon(config);
  const started = daemon.start();
  const first = await Promise.race([started, asked]);
  if (first) {
    announce(context, first.listening);
    await asked;
  }
  return stop(daemon, started);
}

/** @param {Context} context @param {string | null} listening */
function announce({ config, json, output }, listening) {
  const { url } = config.storage;
  const storage = url === 'embedded' ? `the embedded PostgreSQL in ${config.daemon.dataDir}` : redactUrl(url);
  if (json) {
    output.json({ version: version(), pid: process.pid, listening, storage });
    return;
  }
  output.line(`pgsluice ${version()} runs (pid ${process.pid}); Ctrl-C stops it`);
  output.line(`http     ${listening === null ? 'none' : `${listening}/status, /metrics, /healthz, /readyz`}`);
  output.line(`storage  ${storage}`);
  output.line(`next     ${ownCommand(EXAMPLE)}`);
}

/**
 * @param {Daemon} daemon
 * @param {Promise<unknown>} started
 * @returns {Promise<number>}
 */
async function stop(daemon, started) {
  const stopped = Promise.race([started.catch(() => {}), sleep(START_GRACE_MS)])
    .then(() => daemon.stop())
    .then(() => 0);
  // Not a timer that keeps nothing alive: it is the one thing that must come.
  const late = sleep(STOP_LIMIT_MS).then(() => {
    new Output(process.stderr).line(
      `pgsluice: stopping took more than ${STOP_LIMIT_MS / 1000} s and was given up; what is not committed is read again`,
    );
    return 1;
  });
  return Promise.race([stopped, late]);
}
