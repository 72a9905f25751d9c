/**
 * Loaded before a daemon and its children (NODE_OPTIONS=--import): while the file FAULTY_CHANNELS exists, what they
 * tell each other is lost, comes twice, late or out of turn, and messages come that nobody ever sends. Nothing else is
 * changed: the processes, the channels and the handlers are the real ones. What a child is started with and stopped by
 * always arrives. What happens to the n-th message of a process follows from CHANNELS_SEED.
 */
import { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Random } from '../fuzz/random.js';

const LATE_MAX_MS = 1_500;
const ALWAYS = new Set(['configure', 'stop']);
const NONSENSE = [
  null,
  'hello',
  17,
  [],
  {},
  { type: null },
  { type: 'explode' },
  { type: '__proto__' },
  { type: 'status' },
  { type: 'status', status: { streams: 'none' } },
  { type: 'status', status: { streams: [null], totals: {} } },
  { type: 'assign' },
  { type: 'assign', stream: { streamId: 1 } },
  { type: 'unassign', streamId: '1' },
  { type: 'released', streamId: { valueOf: 1 }, fenced: 'yes' },
  { type: 'open', streamId: 1e99, attempt: -1, command: 5, input: null },
  { type: 'open', host: {}, streamId: 1, attempt: 1, command: 'true', input: '' },
  { type: 'fifo', streamId: 1, attempt: 1, path: 7 },
  { type: 'closed', streamId: 1, attempt: 1, error: 'gone' },
  { type: 'outcome', streamId: 1, attempt: 1, code: 'NO_SUCH_CODE' },
  { type: 'turn', streamId: 1, attempt: 1, host: null },
  { type: 'forget', hostId: 'all' },
];

const file = process.env['FAULTY_CHANNELS'] ?? '';
const name = process.send ? (process.argv[2] ?? 'child') : 'master';
/** another sequence in each process, the same ones in each run */
const random = new Random(
  Number(process.env['CHANNELS_SEED']) + Buffer.from(name).readUIntBE(name.length - 4, 4),
);
/** each process does so at least once: the test wants to see it from both ends */
let talkedNonsense = false;

/** @typedef {(message: any, callback?: (error: Error | null) => void) => boolean} Send */

/** @param {any} target with a channel */
function makeFaulty(target) {
  const send = target.send.bind(target);
  const sendFaulty = faulty((message, callback) => target.connected && send(message, callback));
  target.send = (/** @type {any} */ message, /** @type {any[]} */ ...more) =>
    sendFaulty(message, more.find(each => typeof each === 'function') ?? (() => {}));
}

/** @param {Send} send @returns {Send} */
const faulty = send => (message, callback) => {
  if (!existsSync(file) || ALWAYS.has(message?.type)) return send(message, callback);
  const chance = random.int(1_000) / 1_000;
  if (chance < 0.15 || !talkedNonsense) send(talkedNonsense ? random.pick(NONSENSE) : null, () => {});
  talkedNonsense = true;
  if (chance > 0.9) {
    callback?.(null);
    return true;
  }
  if (chance > 0.8) {
    callback?.(null);
    setTimeout(() => send(message, () => {}), random.int(LATE_MAX_MS)).unref();
    return true;
  }
  if (chance > 0.65) send(message, () => {});
  return send(message, callback);
};

if (file !== '') {
  // Each child's `send` is made when it is spawned.
  const prototype = /** @type {{ spawn: Function }} */ (/** @type {unknown} */ (ChildProcess.prototype));
  const { spawn } = prototype;
  prototype.spawn = function spawnFaulty(/** @type {any[]} */ ...args) {
    const result = spawn.apply(this, args);
    const child = /** @type {ChildProcess} */ (/** @type {unknown} */ (this));
    if (child.connected) makeFaulty(child);
    return result;
  };
  if (process.send) makeFaulty(process);
}
