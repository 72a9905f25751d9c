/**
 * What master, workers and sshproxy tell each other is lost, repeated, late and malformed for a while
 * (test/helpers/faulty-channel.js), and the inventory changes meanwhile; or processes and channels end between any two
 * messages (test/helpers/ending-channel.js): master goes on, no record is stored twice, after that every stream is read
 * again, and nothing is left when the daemon stops. CHANNELS_SEED makes it another run.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { descendants, processesWith, TestDaemon } from '../helpers/daemon.js';
import { ENDING_WORKERS, LIVES } from '../helpers/ending-channel.js';
import { socketUrl, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';

const FAULTY = new URL('../helpers/faulty-channel.js', import.meta.url);
const ENDING = new URL('../helpers/ending-channel.js', import.meta.url);
const seed = Number(process.env['CHANNELS_SEED'] ?? 1);
const FAULTY_MS = 4_000;
const WAIT_MS = 60_000;
const WRITE_MS = 100;
const HOSTS = ['local', 'openssh', 'ssh2', 'local', 'openssh', 'ssh2'];
const ENDS = (ENDING_WORKERS + 1) * LIVES;

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`;

/** @type {import('../helpers/postgres.js').TestPostgres} */
let storage;

/** A daemon whose channels are not what they should be, and the logs that it reads over every transport. */
class World {
  written = 0;
  #logs;

  /** @param {string} name @param {string} base @param {import('../helpers/sshd.js').Sshd} sshd @param {TestDaemon} daemon */
  constructor(name, base, sshd, daemon) {
    this.name = name;
    this.base = base;
    this.sshd = sshd;
    this.daemon = daemon;
    this.#logs = HOSTS.map((_, n) => join(base, `log${n}.csv`));
  }

  /**
   * @param {string} name of its database
   * @param {URL} preload
   * @param {string} variable which names that file a path
   * @param {number} workers
   */
  static async make(name, preload, variable, workers) {
    const sshd = await startSshd();
    const base = mkdtempSync(join(tmpdir(), 'pgsluice-channels-'));
    chmodSync(base, 0o755);
    const daemon = new TestDaemon({
      toml: `storage.url = "${socketUrl(await storage.createDatabase(name))}"\ndaemon.workers = ${workers}`,
      env: {
        NODE_OPTIONS: `--import=${fileURLToPath(preload)}`,
        [variable]: join(base, 'faults'),
        CHANNELS_SEED: String(seed),
      },
    });
    return new World(name, base, sshd, daemon);
  }

  get faults() {
    return join(this.base, 'faults');
  }

  write() {
    for (const log of this.#logs) appendFileSync(log, row(this.written));
    this.written += 1;
  }

  async addHosts() {
    const { user, port, identityFile, hostKey } = this.sshd;
    const server = { address: '127.0.0.1', port, user, identityFile, hostKeys: [hostKey] };
    const lines = HOSTS.map((transport, n) =>
      JSON.stringify({
        name: `h${n}`,
        transport,
        ...(transport === 'local' ? {} : server),
        streams: [{ path: this.#logs[n], from: 'start' }],
      }),
    );
    const file = join(this.base, 'hosts');
    writeFileSync(file, `${lines.join('\n')}\n`);
    await this.daemon.run('host', 'import', file);
  }

  async counts() {
    const { rows } = await storage.query(
      `SELECT host, count(*)::int AS n, count(DISTINCT session_line_num)::int AS distinct
         FROM pgsluice.log GROUP BY host ORDER BY host`,
      [],
      this.name,
    );
    return rows;
  }

  /** All that was written is stored, and once. */
  async isWhole() {
    const whole = async () => {
      const counts = await this.counts();
      return counts.length === HOSTS.length && counts.every(({ distinct }) => distinct >= this.written);
    };
    for (const deadline = Date.now() + WAIT_MS; !(await whole()); await sleep(200))
      if (Date.now() > deadline) break;
    const expected = HOSTS.map((_, n) => ({ host: `h${n}`, n: this.written, distinct: this.written }));
    const status = JSON.stringify(await this.daemon.status()).slice(0, 6_000);
    assert.deepEqual(await this.counts(), expected, status);
  }

  /** Each stream stays where it is, and is read on. */
  async isCalm() {
    await sleep(1_500);
    const before = (await this.daemon.status()).hosts.map(({ streams }) => streams[0]?.connects);
    this.write();
    await this.isWhole();
    await sleep(1_500);
    const { hosts } = await this.daemon.status();
    assert.deepEqual(
      hosts.map(({ streams }) => [streams[0]?.state, streams[0]?.connects]),
      before.map(connects => ['reading', connects]),
    );
  }

  /** The daemon stops, and with it all that it or one of its children has started here and on the hosts. */
  async leavesNothing() {
    // Whoever has lost its parent has one of the directories in its arguments, or is served by sshd.
    const started = descendants(this.daemon.pid);
    assert.ok(started.length > 0);
    await this.daemon.stop();
    const left = () => [
      ...processesWith(this.daemon.dir),
      ...processesWith(this.base).filter(({ command }) => !command.includes('sshd')),
      ...started.filter(pid => isAlive(pid)),
      ...descendants(this.sshd.pid),
    ];
    for (const deadline = Date.now() + 10_000; left().length > 0 && Date.now() < deadline;) await sleep(50);
    assert.deepEqual(left(), []);
  }

  async remove() {
    await this.daemon.remove();
    await this.sshd.stop();
    rmSync(this.base, { recursive: true });
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

describe(`channels that fail, from seed ${seed}`, { concurrency: true }, () => {
  before(async () => {
    storage = await startPostgres();
  });
  after(() => storage.stop());

  test('after a time of faults all is read, and nothing twice', async t => {
    const world = await World.make('faulty', FAULTY, 'FAULTY_CHANNELS', 3);
    t.after(() => world.remove());
    const { daemon, faults } = world;
    await daemon.start();
    const master = daemon.pid;
    world.write();
    await world.addHosts();
    writeFileSync(faults, '');
    const end = Date.now() + FAULTY_MS;
    for (let n = 0; Date.now() < end; n = (n + 1) % HOSTS.length) {
      world.write();
      // Streams are put down and assigned anew all the while.
      await daemon.run('host', n % 2 === 0 ? 'pause' : 'resume', `h${n - (n % 2)}`);
      const worker = (await daemon.status()).workers[n % 3];
      if (n % 3 === 2 && worker?.pid) process.kill(worker.pid, 'SIGKILL');
    }
    await Promise.all(HOSTS.map((_, n) => daemon.run('host', 'resume', `h${n}`)));
    rmSync(faults);
    world.write();
    await world.isWhole();
    assert.equal(daemon.pid, master);
    assert.equal(await daemon.ready(), true, 'the same master is ready');
    await world.isCalm();
    const zones = await storage.query(
      'SELECT arrival_time FROM pgsluice.marked WHERE arrival_time',
      [],
      world.name,
    );
    assert.deepEqual(zones.rows, [], 'no time was read before the zones were known');
    const odd = daemon.output.split('\n').filter(line => line.includes('not understood'));
    t.diagnostic(`${world.written} rows each, ${odd.length} messages not understood`);
    assert.ok(odd.some(line => line.includes('a message of master')));
    assert.ok(odd.some(line => !line.includes('a message of master')));
    assert.doesNotMatch(daemon.output, /\n +at /, 'no stack');
    await world.leavesNothing();
  });

  test('processes and channels that end between any two messages', async t => {
    const world = await World.make('ending', ENDING, 'ENDING_CHANNELS', ENDING_WORKERS);
    t.after(() => world.remove());
    const { daemon, faults } = world;
    mkdirSync(faults);
    const ends = join(faults, 'ends');
    writeFileSync(ends, '');
    await daemon.start();
    const master = daemon.pid;
    await world.addHosts();
    const seen = () => readFileSync(ends, 'utf8').trim().split('\n');
    for (const deadline = Date.now() + WAIT_MS; seen().length < ENDS && Date.now() < deadline;) {
      world.write();
      await sleep(WRITE_MS);
    }
    assert.equal(seen().length, ENDS, seen().join('\n'));
    world.write();
    await world.isWhole();
    assert.equal(daemon.pid, master);
    assert.equal(await daemon.ready(), true, 'the same master is ready');
    await world.isCalm();
    t.diagnostic(`${world.written} rows each, ${ENDS} ends`);
    assert.doesNotMatch(daemon.output, /\n +at /, 'no stack');
    await world.leavesNothing();
  });
});
