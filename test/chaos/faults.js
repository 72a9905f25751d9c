/**
 * The kinds of faults. Each does something to the world and gives how to heal it, or null when there is nothing to heal,
 * or false when there was nothing to hurt just now. Kinds that hurt the same thing name it, so that they do not overlap:
 * a fault whose thing is still broken is passed over.
 */
import { linkSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { csvFiles } from '../helpers/conservation.js';
import { descendants, processesWith } from '../helpers/daemon.js';
import { secondDaemon } from './second-daemon.js';

/** @import { Random } from '../fuzz/random.js' */
/** @import { World } from './world.js' */

/** @typedef {{ heal: () => unknown, ms: number } | null | false} Hurt */
/** @typedef {{ thing: string, hurt: (world: World, random: Random) => Promise<Hurt> | Hurt }} Fault */

const COMMAND_MAX_MS = 150_000; // the storage may be away again and again
const FILL_TRIES = 20;

const shortMs = (/** @type {Random} */ random) => random.between(500, 4_000);
/** Longer than silence is endured without a word. */
const longMs = (/** @type {Random} */ random) => random.pick([1_000, 3_000, 8_000, 35_000]);

const PROCESSES = {
  worker: (/** @type {string} */ command) => command.includes('/src/worker/main.js'),
  sshproxy: (/** @type {string} */ command) => command.includes('/src/sshproxy/main.js'),
  // As system-ssh starts them: the process that holds the connection, and one for each session of it.
  ssh_master: (/** @type {string} */ command) => /^\S*ssh -F \S+ -N /.test(command),
  ssh_mux: (/** @type {string} */ command) => /^\S*ssh -F \S+ -E /.test(command),
  follower: (/** @type {string} */ command) => command.includes('pgsluice-follower'),
};

/** @param {World} world @param {keyof typeof PROCESSES} which @param {Random} random @returns {number | undefined} a pid */
function victim(world, which, random) {
  const family = new Set([
    ...descendants(world.daemon.pid),
    ...world.sshds.flatMap(({ pid }) => descendants(pid)),
  ]);
  const found = processesWith('').filter(({ pid, command }) => family.has(pid) && PROCESSES[which](command));
  return found.length === 0 ? undefined : random.pick(found).pid;
}

/** @param {number} pid @param {NodeJS.Signals} signal @returns {boolean} whether it was there */
function signalled(pid, signal) {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** @param {keyof typeof PROCESSES} which @returns {Fault} */
const killing = which => ({
  thing: 'daemon process',
  hurt(world, random) {
    const pid = victim(world, which, random);
    return pid !== undefined && signalled(pid, 'SIGKILL') ? null : false;
  },
});

/** @param {keyof typeof PROCESSES} which @returns {Fault} */
const stopping = which => ({
  thing: `stopped ${which}`,
  hurt(world, random) {
    const pid = victim(world, which, random);
    if (pid === undefined || !signalled(pid, 'SIGSTOP')) return false;
    return { ms: longMs(random), heal: () => signalled(pid, 'SIGCONT') };
  },
});

/** @param {(world: World, random: Random) => Promise<unknown>} hurt @returns {Fault} */
const restarting = hurt => ({
  thing: 'daemon',
  async hurt(world, random) {
    if (world.daemon.pid === 0) return false;
    await hurt(world, random);
    return { ms: random.pick([0, 0, 1_000, 5_000]), heal: () => world.daemon.start() };
  },
});

/** @type {Record<string, Fault>} */
export const FAULTS = {
  kill_worker: killing('worker'),
  kill_sshproxy: killing('sshproxy'),
  kill_ssh_master: killing('ssh_master'),
  kill_ssh_mux: killing('ssh_mux'),
  kill_follower: killing('follower'),
  stop_worker: stopping('worker'),
  stop_sshproxy: stopping('sshproxy'),
  stop_ssh_master: stopping('ssh_master'),
  stop_follower: stopping('follower'),
  kill_master: restarting(world => world.daemon.kill()),
  kill_daemon: restarting(world => world.daemon.kill({ children: true })),
  end_daemon: restarting(async world => {
    const ms = await world.daemon.stop();
    if (ms > 10_000) throw new Error(`SIGTERM: it took ${Math.round(ms)} ms to end`);
  }),
  stop_master: {
    thing: 'daemon',
    hurt(world, random) {
      const { pid } = world.daemon;
      if (pid === 0 || !signalled(pid, 'SIGSTOP')) return false;
      return { ms: longMs(random), heal: () => signalled(pid, 'SIGCONT') };
    },
  },
  second_daemon: {
    thing: 'second daemon',
    hurt: (world, random) => secondDaemon(world, random.between(2_000, 8_000)),
  },

  kill_sshd_session: {
    thing: 'sshd',
    hurt(world, random) {
      const sshd = random.pick(world.sshds);
      const pids = sshd.connectionPids();
      return pids.length > 0 && signalled(random.pick(pids), 'SIGKILL') ? null : false;
    },
  },
  restart_sshd: {
    thing: 'sshd',
    async hurt(world, random) {
      await random.pick(world.sshds).restart();
      return null;
    },
  },
  network_silent: network((broken, random) => {
    broken.silence();
    return { ms: longMs(random), heal: () => broken.heal() };
  }),
  network_forgotten: network((broken, random) => {
    broken.silence();
    return { ms: shortMs(random), heal: () => broken.forget() };
  }),
  network_slow: network((broken, random) => {
    broken.slow(random.pick([100, 500, 1_500]), random.pick([20_000, 200_000, 5_000_000]));
    return { ms: longMs(random), heal: () => broken.heal() };
  }),
  network_reset: network(broken => (broken.reset() > 0 ? null : false)),

  storage_kill: {
    thing: 'storage',
    async hurt({ storage }, random) {
      await storage.kill();
      return { ms: random.pick([0, 500, 3_000, 8_000]), heal: () => storage.start() };
    },
  },
  storage_restart: {
    thing: 'storage',
    async hurt({ storage }, random) {
      await storage.halt(random.pick(['fast', 'immediate']));
      return { ms: shortMs(random), heal: () => storage.start() };
    },
  },
  storage_backends: {
    thing: 'storage',
    async hurt({ storage }) {
      const { rowCount } = await storage.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      );
      return (rowCount ?? 0) > 0 ? null : false;
    },
  },
  storage_read_only: {
    thing: 'storage',
    async hurt(world, random) {
      await setReadOnly(world, 'ALTER SYSTEM SET default_transaction_read_only = on');
      return {
        ms: shortMs(random),
        heal: () => setReadOnly(world, 'ALTER SYSTEM RESET default_transaction_read_only'),
      };
    },
  },
  storage_disk_full: {
    thing: 'storage',
    hurt(world, random) {
      if (world.disk === null) return false;
      for (let tries = 1; ; tries += 1) {
        try {
          world.fillDisk();
          break;
        } catch (error) {
          // PostgreSQL has taken of it between the look and the change.
          if (tries === FILL_TRIES) throw error;
        }
      }
      return {
        ms: random.between(1_000, 5_000),
        async heal() {
          world.emptyDisk();
          // PostgreSQL itself may have ended: it panics when it cannot write its WAL.
          await world.storage.start();
        },
      };
    },
  },
  storage_silent: {
    thing: 'storage network',
    hurt({ storageNetwork }, random) {
      storageNetwork.silence();
      return { ms: shortMs(random), heal: () => storageNetwork.heal() };
    },
  },
  storage_forgotten: {
    thing: 'storage network',
    hurt({ storageNetwork }, random) {
      storageNetwork.silence();
      return { ms: shortMs(random), heal: () => storageNetwork.forget() };
    },
  },
  storage_reset: {
    thing: 'storage network',
    hurt: ({ storageNetwork }) => (storageNetwork.reset() > 0 ? null : false),
  },
  storage_slow: {
    thing: 'storage network',
    hurt({ storageNetwork }, random) {
      storageNetwork.slow(random.pick([50, 300]), random.pick([100_000, 1_000_000]));
      return { ms: shortMs(random), heal: () => storageNetwork.heal() };
    },
  },

  log_rotate: {
    thing: 'source',
    async hurt(world, random) {
      await random.pick(world.sources).query('SELECT pg_rotate_logfile()');
      return null;
    },
  },
  log_remove: {
    thing: 'removed logs',
    hurt: world => removeStoredLogs(world),
  },
  source_restart: {
    thing: 'source',
    async hurt(world, random) {
      const source = random.pick(world.sources);
      await source.halt('fast');
      return { ms: shortMs(random), heal: () => source.start() };
    },
  },
  text_rename: textual(text => text.rename()),
  text_copytruncate: textual(text => text.copyTruncate()),
  text_truncate: textual(text => text.truncate()),

  host_pause: {
    thing: 'inventory',
    async hurt(world, random) {
      const name = random.pick([...world.readers.keys(), 'text']);
      await world.command(['host', 'pause', name], COMMAND_MAX_MS);
      return { ms: shortMs(random), heal: () => world.command(['host', 'resume', name], COMMAND_MAX_MS) };
    },
  },
  host_moved: {
    thing: 'inventory',
    async hurt(world, random) {
      const transport = random.pick(['openssh', 'ssh2']);
      await world.command(['host', 'update', 'moved', '--transport', transport], COMMAND_MAX_MS);
      return null;
    },
  },
  host_added: {
    thing: 'inventory',
    async hurt(world, random) {
      const name = `extra${random.int(1_000_000)}`;
      const [, source] = world.sources;
      const log = source.dataDir;
      await world.command(
        ['host', 'add', name, '--log', log, '--from', 'start', '--transport', 'local'],
        COMMAND_MAX_MS,
      );
      if (random.oneIn(4)) {
        world.readers.set(name, source);
        return null;
      }
      return {
        ms: shortMs(random),
        heal: () => world.command(['host', 'remove', name, '--purge'], COMMAND_MAX_MS),
      };
    },
  },
};

/** @param {(broken: import('./network.js').BrokenNetwork, random: Random) => Hurt} hurt @returns {Fault} */
function network(hurt) {
  return { thing: 'network', hurt: (world, random) => hurt(random.pick(world.networks), random) };
}

/** @param {(text: import('./text-log.js').TextLog) => Promise<void>} rotate @returns {Fault} */
function textual(rotate) {
  return {
    thing: 'text',
    async hurt({ text }) {
      await rotate(text);
      return null;
    },
  };
}

/**
 * Removes the oldest csv files of source one that both of its hosts have stored. They are kept elsewhere for the account.
 * @param {World} world
 * @returns {Promise<Hurt>}
 */
async function removeStoredLogs(world) {
  const [source] = world.sources;
  const files = (await csvFiles(source.logDir)).toSorted().slice(0, -2);
  const client = await world.connect();
  let removed = 0;
  try {
    for (const file of files.slice(0, 3)) {
      const { rows } = await client.query(
        `SELECT f."offset" FROM pgsluice.file f JOIN pgsluice.stream USING (stream_id) JOIN pgsluice.host h USING (host_id)
          WHERE h.name IN ('openssh', 'ssh2') AND f.name = $1 AND f.gone_at IS NULL`,
        [basename(file)],
      );
      const { size } = statSync(file);
      if (rows.length !== 2 || rows.some(row => Number(row.offset) !== size)) continue;
      const kept = join(world.dir ?? '', 'archive');
      mkdirSync(kept, { recursive: true });
      const copy = join(kept, basename(file));
      linkSync(file, copy);
      // Whoever removes old logs removes both; alone, it would be read: its messages are in no better file any more.
      rmSync(file.replace(/csv$/, 'log'), { force: true });
      rmSync(file);
      world.archived.get(source)?.push(copy);
      removed += 1;
    }
  } finally {
    await client.end();
  }
  return removed > 0 ? null : false;
}

/** @param {World} world @param {string} statement */
async function setReadOnly(world, statement) {
  const client = await world.connect();
  try {
    await client.query(statement);
    await client.query('SELECT pg_reload_conf()');
  } finally {
    await client.end();
  }
}
