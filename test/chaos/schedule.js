/**
 * Which fault comes when: a list that the seed decides alone, so that a run can be had again. Each fault has a seed of
 * its own, so that what one of them chooses does not depend on how the others went.
 */
import { Random } from '../fuzz/random.js';

/** One fault starts about so often. */
const MEAN_GAP_MS = 1_600;
const LAST_BEFORE_END_MS = 3_000;

/** @typedef {{ atMs: number, kind: string, seed: number }} Planned */

/**
 * @param {number} seed
 * @param {number} seconds
 * @param {readonly string[]} kinds
 * @returns {Planned[]} every kind comes once before any comes twice
 */
export function plan(seed, seconds, kinds) {
  const random = new Random(seed);
  /** @type {Planned[]} */
  const planned = [];
  /** @type {string[]} */
  let bag = [];
  for (let atMs = MEAN_GAP_MS; atMs < seconds * 1000 - LAST_BEFORE_END_MS;) {
    if (bag.length === 0) bag = shuffled(kinds, random);
    planned.push({ atMs, kind: bag.pop() ?? '', seed: random.int(2 ** 32) });
    atMs += random.between(MEAN_GAP_MS / 4, (MEAN_GAP_MS * 7) / 4);
  }
  return planned;
}

/** @param {readonly string[]} list @param {Random} random */
function shuffled(list, random) {
  const left = [...list];
  const taken = [];
  while (left.length > 0) taken.push(...left.splice(random.int(left.length), 1));
  return taken;
}
