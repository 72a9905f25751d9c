/**
 * The thread that fuzzes. It tells main.js through shared memory what it works on, so that one that hangs can be named;
 * and by messages what it has done. It ends after the first input that fails, made small.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { minimise } from './minimise.js';
import { mix, Random } from './random.js';
import { TARGETS } from './targets.js';

/**
 * @typedef {object} Work
 * @property {number} seed
 * @property {number} seconds
 * @property {string | null} only name of a target
 * @property {number | null} inputSeed of a single input
 * @property {Uint8Array | null} input instead of the one that inputSeed makes
 * @property {SharedArrayBuffer} shared int32: inputs begun, index of the target, seed of the input
 */

/**
 * @typedef {{ type: 'progress', inputs: Record<string, number>, bytes: number }} Progress
 * @typedef {{ type: 'failed', target: string, inputSeed: number, message: string, input: Uint8Array, fromBytes: number }} Failed
 * @typedef {Progress | Failed | { type: 'done', inputs: Record<string, number>, bytes: number }} Message
 */

const PROGRESS_MS = 1000;
const MINIMISE_MS = 60_000;
/** A rare target gets so much less time than the others. */
const RARE_SHARE = 4;

const { seed, seconds, only, inputSeed, input, shared } = /** @type {Work} */ (workerData);
const now = new Int32Array(shared);
/** @type {Record<string, number>} */
const inputs = {};
let bytesDone = 0;

/** @param {Message} message */
const tell = message => parentPort?.postMessage(message, []);

/**
 * @param {number} index of the target
 * @param {number} ofInput
 * @param {Buffer} bytes
 * @returns {unknown} the error, or null
 */
function errorOf(index, ofInput, bytes) {
  Atomics.store(now, 1, index);
  Atomics.store(now, 2, ofInput | 0);
  Atomics.add(now, 0, 1);
  try {
    TARGETS[index]?.check(bytes, new Random(ofInput));
    return null;
  } catch (error) {
    return error ?? 'undefined was thrown';
  }
}

/**
 * @param {number} index of the target
 * @param {number} ofInput
 * @param {Uint8Array} [given]
 * @returns {boolean} whether it holds
 */
function tryOne(index, ofInput, given) {
  const target = TARGETS[index];
  if (!target) return true;
  const bytes = given ? Buffer.from(given) : target.make(new Random(ofInput));
  const error = errorOf(index, ofInput, bytes);
  inputs[target.name] = (inputs[target.name] ?? 0) + 1;
  bytesDone += bytes.length;
  if (error === null) return true;
  const small = minimise(bytes, shorter => errorOf(index, ofInput, shorter) !== null, MINIMISE_MS);
  const message = String(
    errorOf(index, ofInput, small) instanceof Error ? stackOf(index, ofInput, small) : error,
  );
  tell({
    type: 'failed',
    target: target.name,
    inputSeed: ofInput,
    message,
    input: small,
    fromBytes: bytes.length,
  });
  return false;
}

/** @param {number} index @param {number} ofInput @param {Buffer} bytes */
function stackOf(index, ofInput, bytes) {
  const error = errorOf(index, ofInput, bytes);
  return error instanceof Error ? (error.stack ?? error.message) : error;
}

function fuzz() {
  const chosen = TARGETS.map((target, index) => ({
    index,
    name: target.name,
    share: target.rare ? RARE_SHARE : 1,
  }))
    .filter(({ name }) => only === null || name === only)
    .map(each => ({ ...each, spentMs: 0, count: 0 }));
  const end = performance.now() + seconds * 1000;
  for (let told = performance.now(); performance.now() < end;) {
    // Who had the least time is next: a fast target tries more inputs.
    const next = chosen.reduce((least, each) => (each.spentMs < least.spentMs ? each : least));
    const begun = performance.now();
    const ofInput = mix(mix(seed ^ mix(next.index + 1)) + next.count);
    if (!tryOne(next.index, ofInput)) return;
    const after = performance.now();
    next.count += 1;
    next.spentMs += (after - begun) * next.share;
    if (after - told < PROGRESS_MS) continue;
    told = after;
    tell({ type: 'progress', inputs, bytes: bytesDone });
  }
  tell({ type: 'done', inputs, bytes: bytesDone });
}

if (inputSeed === null) fuzz();
else {
  const index = TARGETS.findIndex(({ name }) => name === only);
  if (tryOne(index, inputSeed, input ?? undefined)) tell({ type: 'done', inputs, bytes: bytesDone });
}
