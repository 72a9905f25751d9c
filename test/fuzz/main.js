/**
 * npm run fuzz -- [--seconds N] [--seed S] [--target NAME] [--input-seed S [--input FILE]]
 * Random and damaged inputs for whatever reads bytes of a host (targets.js), until the time is over or one fails. That
 * one is made small, written to a file, and how to run it again is said; exit code 1. Progress goes to stderr; the last
 * line on stdout is {"fuzz":"ok"|"failed","seed":..,"seconds":..,"inputs":{target:count},"bytes":..}.
 * The fuzzing is done in a thread, so that an input that hangs it is noticed.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { Random } from './random.js';
import { TARGETS } from './targets.js';

/** @import { Message, Work } from './worker.js' */

const DEFAULT_SECONDS = 60;
/** One input takes milliseconds; the longest, measured several times, less than two seconds. */
const HANG_MS = 20_000;
const LOOK_MS = 500;
const SAY_MS = 5000;
const SEED_LIMIT = 2 ** 32;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: String(DEFAULT_SECONDS) },
    seed: { type: 'string' },
    target: { type: 'string' },
    'input-seed': { type: 'string' },
    input: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const seed = Number(values.seed ?? Date.now() % SEED_LIMIT);
const inputSeed = values['input-seed'] === undefined ? null : Number(values['input-seed']);
const isKnown = values.target === undefined || TARGETS.some(({ name }) => name === values.target);
const seeds = [seed, inputSeed ?? 0];
if (
  !(seconds > 0) ||
  seeds.some(each => !Number.isInteger(each) || each < 0 || each >= SEED_LIMIT) ||
  !isKnown ||
  (inputSeed !== null && values.target === undefined) ||
  (values.input !== undefined && inputSeed === null)
) {
  process.stderr.write(
    `usage: npm run fuzz -- [--seconds N] [--seed 0..${SEED_LIMIT - 1}] [--target NAME] [--input-seed S [--input FILE]]\n` +
      `targets: ${TARGETS.map(({ name }) => name).join(' ')}\n`,
  );
  process.exit(2);
}

const shared = new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT);
const begun = performance.now();
/** @type {Work} */
const workerData = {
  seed,
  seconds,
  only: values.target ?? null,
  inputSeed,
  input: values.input === undefined ? null : readFileSync(values.input),
  shared,
};
const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData });
/** @type {{ inputs: Record<string, number>, bytes: number }} */
let done = { inputs: {}, bytes: 0 };
let said = begun;

worker.on('message', (/** @type {Message} */ message) => {
  if (message.type === 'failed') {
    const { target, inputSeed: ofInput, input, fromBytes } = message;
    fail(target, ofInput, Buffer.from(input), `${message.message}\n(made smaller from ${fromBytes} bytes)`);
    return;
  }
  done = message;
  if (message.type === 'done') finish('ok');
  else if (performance.now() - said > SAY_MS) {
    said = performance.now();
    const count = Object.values(done.inputs).reduce((sum, each) => sum + each, 0);
    process.stderr.write(
      `${elapsed()} s: ${count} inputs, ${Math.round(done.bytes / 1e6)} MB, seed ${seed}\n`,
    );
  }
});
worker.on('error', error => {
  process.stderr.write(`the fuzz run itself failed: ${error.stack ?? error}\n`);
  finish('failed');
});

const state = new Int32Array(shared);
let lastCount = -1;
let lastChange = begun;
const watch = setInterval(() => {
  const count = Atomics.load(state, 0);
  if (count !== lastCount) {
    lastCount = count;
    lastChange = performance.now();
  } else if (performance.now() - lastChange > HANG_MS) {
    const target = TARGETS[Atomics.load(state, 1)];
    const ofInput = Atomics.load(state, 2) >>> 0;
    if (!target) return;
    const input = workerData.input ? Buffer.from(workerData.input) : target.make(new Random(ofInput));
    fail(target.name, ofInput, input, `no result after ${HANG_MS / 1000} s`);
  }
}, LOOK_MS);

function elapsed() {
  return Math.round((performance.now() - begun) / 1000);
}

/** @param {string} target @param {number} ofInput @param {Buffer} input @param {string} message */
function fail(target, ofInput, input, message) {
  const file = join(mkdtempSync(join(tmpdir(), 'pgsluice-fuzz-')), `${target}-${ofInput}.bin`);
  writeFileSync(file, input);
  const shown = JSON.stringify(input.toString('latin1', 0, 400));
  process.stderr.write(
    `${target}: ${message}\nseed ${seed}, input of ${input.length} bytes: ${file}\n${shown}\n` +
      `again: npm run fuzz -- --target ${target} --input-seed ${ofInput} --input '${file}'\n`,
  );
  finish('failed');
}

/** @param {'ok' | 'failed'} result */
function finish(result) {
  clearInterval(watch);
  const line = { fuzz: result, seed, seconds: elapsed(), inputs: done.inputs, bytes: done.bytes };
  process.stdout.write(`${JSON.stringify(line)}\n`);
  process.exitCode = result === 'ok' ? 0 : 1;
  void worker.terminate();
}
