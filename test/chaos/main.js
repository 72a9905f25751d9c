/**
 * npm run chaos -- [--seconds N] [--seed S] [--only KIND,KIND]
 * Real sshds, real PostgreSQL servers under load, a real PostgreSQL as storage and the daemon (world.js), hurt at random
 * by a schedule that the seed decides (schedule.js, faults.js). Then everything is healed, the load ends, and what is
 * stored is compared with what was written (verdict.js). Progress goes to stderr; the last line on stdout is
 *   {"seed":…,"seconds":…,"faults":{kind:count},"records_written":…,"records_stored":…,"missing":0,"duplicated":0,
 *    "rejected":…,"max_recovery_s":…}
 * max_recovery_s: the longest time in which a host's log grew and nothing of it was stored, faults included.
 * Exit code 1 when a record is missing or there twice; then the evidence is kept and the line to run it again is said.
 */
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Random } from '../fuzz/random.js';
import { FAULTS } from './faults.js';
import { Progress } from './progress.js';
import { plan } from './schedule.js';
import { settleAccounts } from './verdict.js';
import { World } from './world.js';

const DEFAULT_SECONDS = 60;
const SEED_LIMIT = 2 ** 32;
const HEAL_MAX_MS = 180_000;
const SAY_MS = 10_000;

/** @typedef {{ at: number, kind: string, outcome: string }} Happened */

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: String(DEFAULT_SECONDS) },
    seed: { type: 'string' },
    only: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const seed = Number(values.seed ?? Date.now() % SEED_LIMIT);
const kinds = values.only === undefined ? Object.keys(FAULTS) : values.only.split(',');
if (
  !(seconds >= 5) ||
  !Number.isInteger(seed) ||
  seed < 0 ||
  seed >= SEED_LIMIT ||
  kinds.some(kind => !FAULTS[kind])
) {
  process.stderr.write(
    `usage: npm run chaos -- [--seconds N] [--seed 0..${SEED_LIMIT - 1}] [--only KIND,KIND]\nkinds: ${Object.keys(FAULTS).join(' ')}\n`,
  );
  process.exit(2);
}

/** @param {string} text */
const say = text => process.stderr.write(`${text}\n`);

class Run {
  #world;
  #ending = new AbortController();
  /** things that are broken now @type {Set<string>} */
  #broken = new Set();
  /** @type {Set<Promise<void>>} */
  #healing = new Set();

  /** @type {Happened[]} */
  happened = [];
  /** what went wrong apart from records @type {string[]} */
  problems = [];
  /** @type {Record<string, number>} */
  counts = {};

  /** @param {World} world */
  constructor(world) {
    this.#world = world;
  }

  /** Breaks things as planned, and returns when all are healed. */
  async break() {
    const begun = performance.now();
    const at = () => Math.round(performance.now() - begun);
    let said = 0;
    for (const { atMs, kind, seed: own } of plan(seed, seconds, kinds)) {
      await sleep(Math.max(0, atMs - at()));
      if (interrupted) break;
      this.#hurt(kind, new Random(own), at);
      if (at() - said > SAY_MS) {
        said = at();
        say(
          `${Math.round(said / 1000)} s: ${sum(this.counts)} faults; broken now: ${[...this.#broken].join(', ') || 'nothing'}`,
        );
      }
    }
    if (!interrupted) await sleep(Math.max(0, seconds * 1000 - at()));
    this.#ending.abort();
    const limit = sleep(HEAL_MAX_MS, 'late', { ref: false });
    if ((await Promise.race([Promise.all(this.#healing), limit])) === 'late')
      this.problems.push(`after ${HEAL_MAX_MS / 1000} s still broken: ${[...this.#broken].join(', ')}`);
  }

  /** @param {string} kind @param {Random} random @param {() => number} at */
  #hurt(kind, random, at) {
    const { thing, hurt } = FAULTS[kind];
    /** @type {Happened} */
    const happened = { at: at(), kind, outcome: 'passed over' };
    this.happened.push(happened);
    if (this.#broken.has(thing)) return;
    this.#broken.add(thing);
    const done = (async () => {
      let hurting;
      try {
        hurting = await hurt(this.#world, random);
      } catch (error) {
        happened.outcome = /** @type {Error} */ (error).message;
        if (/SIGTERM/.test(happened.outcome)) this.problems.push(`${kind}: ${happened.outcome}`);
        return;
      }
      if (hurting === false) return;
      this.counts[kind] = (this.counts[kind] ?? 0) + 1;
      happened.outcome = 'done';
      if (hurting === null) return;
      happened.outcome = `for ${hurting.ms} ms`;
      await sleep(hurting.ms, undefined, { signal: this.#ending.signal }).catch(() => {});
      try {
        await hurting.heal();
        happened.outcome += `, healed at ${at()}`;
      } catch (error) {
        say(`could not heal ${kind}`);
        this.problems.push(
          `${kind} at ${happened.at} ms could not be healed: ${/** @type {Error} */ (error).message}`,
        );
      }
    })().finally(() => {
      this.#broken.delete(thing);
      this.#healing.delete(done);
    });
    this.#healing.add(done);
  }
}

/** @param {Record<string, number>} counts */
function sum(counts) {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/**
 * What is needed to find out what happened.
 * @param {World} world @param {Run} run @param {object} result
 * @returns {string} the directory
 */
function keepEvidence(world, run, result) {
  const directory = mkdtempSync(join(tmpdir(), 'pgsluice-chaos-'));
  const write = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    writeFileSync(join(directory, name), typeof value === 'string' ? value : JSON.stringify(value, null, 1));
  write('result.json', result);
  write('faults.json', run.happened);
  write('problems.json', run.problems);
  write('daemon.log', world.daemon?.output ?? '');
  write('text-written.json', world.text?.written ?? []);
  world.sources.forEach((source, index) => {
    const to = join(directory, `source-${index + 1}`);
    mkdirSync(to);
    cpSync(source.logDir, to, { recursive: true });
    for (const file of world.archived.get(source) ?? []) cpSync(file, join(to, `removed-${basename(file)}`));
  });
  if (world.storage) {
    cpSync(world.storage.serverLog, join(directory, 'storage.log'));
    cpSync(world.storage.dataDir, join(directory, 'storage'), { recursive: true });
  }
  return directory;
}

let interrupted = false;
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => {
    if (!interrupted) say('ending...');
    interrupted = true;
  });
}

const again = `npm run chaos -- --seconds ${seconds} --seed ${seed}${values.only === undefined ? '' : ` --only ${values.only}`}`;
const world = new World();
const run = new Run(world);
const progress = new Progress(world);
/** @type {import('./verdict.js').Account | null} */
let account = null;
try {
  await world.start();
  if (world.disk === null) say('storage_disk_full is left out: no tmpfs may be mounted here');
  say(`${seconds} s of chaos: ${again}`);
  progress.start();
  await run.break();
  say('healed; waiting until everything is stored');
  await world.stopLoad();
  account = await settleAccounts(world);
} catch (error) {
  run.problems.push(/** @type {Error} */ (error).stack ?? String(error));
}
await progress.stop();
const result = {
  seed,
  seconds,
  faults: Object.fromEntries(Object.entries(run.counts).toSorted(([a], [b]) => (a < b ? -1 : 1))),
  records_written: account?.written ?? null,
  records_stored: account?.stored ?? null,
  missing: account?.missing ?? null,
  duplicated: account?.duplicated ?? null,
  rejected: account?.rejected ?? null,
  max_recovery_s: Math.round(progress.longestMs / 100) / 10,
};
const good =
  account !== null && account.missing === 0 && account.duplicated === 0 && run.problems.length === 0;
if (!good) {
  for (const problem of run.problems) say(problem);
  if (account) say(JSON.stringify(account.hosts, null, 1));
  say(`evidence: ${keepEvidence(world, run, { ...result, hosts: account?.hosts })}\nagain: ${again}`);
}
await world.stop();
process.stdout.write(`${JSON.stringify(result)}\n`);
process.exitCode = good ? 0 : 1;
