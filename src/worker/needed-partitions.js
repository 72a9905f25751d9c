/**
 * Makes the partitions that a batch needs before it is copied. The times in a log are what its host says, so a host
 * decides how many days there are; making one takes a lock and milliseconds, and every stream of the worker waits:
 * each batch makes as many as fit into MAKING_MS. Rows of the others go to the default partition, from where they are
 * moved when a later batch makes what is owed.
 */
import { dayOf, ensurePartition, hasPartition } from '../storage/partitions.js';

const MAKING_MS = 250;

export class NeededPartitions {
  /** partitions that are known to exist */
  #known = new Set();
  /** days of records that are in the default partition @type {Set<number>} */
  #owed = new Set();
  /** fulfilled when the batch before has its partitions @type {Promise<void>} */
  #before = Promise.resolve();

  /** After a failure nothing is known. */
  forget() {
    this.#known.clear();
  }

  /**
   * A batch takes its turn when it is closed. While one makes partitions none after it may copy: its rows of the
   * default partition would hold the lock that the first needs, while it waits for the first to commit.
   * @returns {{ before: Promise<void>, done: () => void }}
   */
  takeTurn() {
    const before = this.#before;
    /** @type {PromiseWithResolvers<void>} */
    const { promise, resolve } = Promise.withResolvers();
    this.#before = promise;
    return { before, done: resolve };
  }

  /**
   * @param {import('pg').Client} client outside of a transaction
   * @param {{ days: Set<number>, rejected: boolean }} batch
   * @returns {Promise<{ day: number | undefined, toDefault: boolean }>} day: the only day of the batch, if it has a
   *   partition; toDefault: some rows will go to the default partition
   */
  async ensure(client, { days, rejected }) {
    const today = dayOf(Date.now());
    const until = performance.now() + MAKING_MS;
    if (rejected) await this.#ensureOne(client, 'reject', today);
    for (const day of days) if (hasPartition(day, today)) this.#owed.add(day);
    for (const day of this.#owed) {
      if (!this.#known.has(keyOf('record', day)) && performance.now() > until) break;
      if (await this.#ensureOne(client, 'record', day)) this.#owed.delete(day);
    }
    const toDefault = [...days].some(day => !this.#known.has(keyOf('record', day)));
    const [day] = days;
    return { day: days.size === 1 && !toDefault ? day : undefined, toDefault };
  }

  /** @param {import('pg').Client} client @param {'record' | 'reject'} table @param {number} day */
  async #ensureOne(client, table, day) {
    const key = keyOf(table, day);
    if (this.#known.has(key)) return true;
    const made = await ensurePartition(client, table, day);
    if (made) this.#known.add(key);
    return made;
  }
}

/** @param {'record' | 'reject'} table @param {number} day */
const keyOf = (table, day) => `${table} ${day}`;
