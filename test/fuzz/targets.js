/**
 * All that is fuzzed. A target makes an input from random numbers and checks what must hold for it; check() gets
 * random numbers that begin anew from the same seed, whatever the input has become, so an input can be made smaller.
 */
import { growthTargets } from './growth-targets.js';
import { parserTargets } from './parser-targets.js';
import { redactTargets } from './redact-targets.js';
import { streamTargets } from './stream-targets.js';
import { valueTargets } from './value-targets.js';

/** @import { Random } from './random.js' */

/**
 * @typedef {object} Target
 * @property {string} name
 * @property {boolean} [rare] gets less of the time than others
 * @property {(random: Random) => Buffer} make
 * @property {(bytes: Buffer, random: Random) => void} check throws when something does not hold
 */

/** @type {readonly Target[]} */
export const TARGETS = [
  ...parserTargets,
  ...redactTargets,
  ...streamTargets,
  ...valueTargets,
  ...growthTargets,
];
