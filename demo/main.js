/**
 * npm run demo [-- --seconds N]: the main job in front of your eyes. Starts a real PostgreSQL under load that writes
 * csvlog, a real sshd on loopback, the daemon with its embedded storage, adds the host, shows what arrives, and ends
 * with a check: what is stored against PostgreSQL's own COPY of the same files. Everything is temporary and removed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { checkConservation, csvFiles, waitUntilDrained } from '../test/helpers/conservation.js';
import { descendants, processesWith, TestDaemon } from '../test/helpers/daemon.js';
import { startLoad } from '../test/helpers/load.js';
import { csvlogSettings, startPostgres } from '../test/helpers/postgres.js';
import { LiveView } from './live-view.js';
import { startServer } from './server.js';

const DEFAULT_SECONDS = 20;
const LOOK_MS = 1_000;
const DRAIN_MS = 60_000;
const FOLLOWER_END_MS = 10_000; // it notices at its next heartbeat that nobody reads
const HOST = 'demo';

/** @param {string} line */
const say = line => process.stdout.write(`${line}\n`);

/** what to stop at the end, the last started first @type {(() => Promise<unknown>)[]} */
const releasers = [];
const ending = new AbortController();

async function main() {
  const seconds = readSeconds();
  let interrupted = () => {};
  const interruption = new Promise(resolve => {
    interrupted = () => resolve(undefined);
  });
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.on(signal, () => {
      if (!ending.signal.aborted) say('\nending...');
      ending.abort();
      interrupted();
    });
  }

  say('1. a PostgreSQL that writes csvlog, rotated at 1 MB');
  const source = await startPostgres({ settings: csvlogSettings({ rotationSize: '1MB' }) });
  releasers.push(() => source.stop());
  say('2. an SSH server on loopback');
  const server = await startServer(say);
  releasers.push(() => server.stop());
  say('3. the daemon, with its embedded storage');
  const daemon = new TestDaemon({ toml: 'daemon.workers = 1' });
  releasers.push(() => daemon.remove());
  await daemon.start();
  say(`   ${daemon.url}/status, /metrics, /healthz, /readyz`);
  say(
    `4. pgsluice host add ${HOST} --ssh ${server.user}@127.0.0.1:${server.port} --log ${source.dataDir} --from start`,
  );
  await daemon.addHost(HOST, { log: source.dataDir, server, transport: server.transport });
  const storage = new Client({
    host: `${daemon.dir}/run/storage`,
    user: 'pgsluice',
    database: 'pgsluice',
  });
  await storage.connect();
  releasers.push(() => storage.end());
  say(`5. load, for ${seconds} s (Ctrl-C ends it earlier)\n`);
  const load = startLoad(source.connectionOptions, { payload: 4_096 });
  releasers.push(() => load.stop());

  const view = new LiveView({ daemon, storage, host: HOST });
  const until = Date.now() + seconds * 1000;
  while (!ending.signal.aborted && Date.now() < until) {
    await Promise.race([interruption, new Promise(resolve => setTimeout(resolve, LOOK_MS))]);
    await view.show();
  }
  const { statements } = await load.stop();
  say(`\nthe load has ended after ${statements} statements; waiting until all of its log is stored`);
  await waitUntilDrained(storage, HOST, source.logDir, DRAIN_MS);
  // Once the connection is closed nothing tells any more whose they are.
  const onHost = new Set(descendants(server.pid));
  releasers.unshift(() =>
    followersEnded(processesWith('pgsluice-follower').filter(({ pid }) => onHost.has(pid))),
  );

  const files = await csvFiles(source.logDir);
  const {
    source: written,
    stored,
    missing,
    duplicated,
    rejected,
  } = await checkConservation(storage, HOST, files);
  say(
    `\nCOPY of the source's ${files.length} csv files against pgsluice.log, all 26 columns (EXCEPT ALL both ways):`,
  );
  say(`  records in the source's csv files  ${written}`);
  say(`  records stored                     ${stored}`);
  say(`  missing                            ${missing}`);
  say(`  duplicated                         ${duplicated}`);
  say(`  rejected                           ${rejected}`);
  const good = written > 0 && missing === 0 && duplicated === 0 && rejected === 0 && written === stored;
  say(good ? '\nevery record exactly once' : '\nTHE CHECK FAILED');
  return good ? 0 : 1;
}

/** @param {{ pid: number }[]} followers */
async function followersEnded(followers) {
  const deadline = Date.now() + FOLLOWER_END_MS;
  const left = () =>
    processesWith('pgsluice-follower').some(({ pid }) => followers.some(one => one.pid === pid));
  while (left() && Date.now() < deadline) await sleep(100);
}

function readSeconds() {
  const { values } = parseArgs({
    options: { seconds: { type: 'string', default: String(DEFAULT_SECONDS) } },
  });
  const seconds = Number(values.seconds);
  if (!(seconds >= 1 && seconds <= 86_400)) throw new Error('--seconds takes a number from 1 to 86400');
  return seconds;
}

let code = 1;
try {
  code = await main();
} catch (error) {
  process.stderr.write(`demo: ${/** @type {Error} */ (error).message}\n`);
}
for (const release of releasers.toReversed()) {
  await release().catch(error => process.stderr.write(`demo: ${error.message}\n`));
}
process.exit(code);
