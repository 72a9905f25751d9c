/**
 * Loaded before a daemon and its children (NODE_OPTIONS=--import): while the file FAULTY_CHANNELS exists, what they
 * tell each other is lost, comes twice, late or out of turn, and messages come that nobody ever sends. Nothing else is
 * changed: the processes, the channels and the handlers are the real ones. What a child is started with and stopped by
 * always arrives.
 */
import { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';

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

/** @typedef {(message: any, callback?: (error: Error | null) => void) => boolean} Send */

/** @param {Send} send @returns {Send} */
const faulty = send => (message, callback) => {
  if (!existsSync(file) || ALWAYS.has(message?.type)) return send(message, callback);
  const chance = Math.random();
  if (chance < 0.15) send(NONSENSE[Math.floor(Math.random() * NONSENSE.length)]);
  if (chance > 0.9) {
    callback?.(null);
    return true;
  }
  if (chance > 0.8) {
    callback?.(null);
    setTimeout(() => send(message, () => {}), Math.random() * LATE_MAX_MS).unref();
    return true;
  }
  if (chance > 0.65) send(message, () => {});
  return send(message, callback);
};

if (file !== '') {
  const prototype = /** @type {{ send: Function }} */ (/** @type {unknown} */ (ChildProcess.prototype));
  const { send } = prototype;
  prototype.send = function sendFaulty(/** @type {any} */ message, /** @type {any} */ callback) {
    const { connected } = /** @type {any} */ (this);
    return faulty((one, done) => connected && send.call(this, one, done))(message, callback);
  };
  const child = /** @type {{ send?: Send }} */ (/** @type {unknown} */ (process));
  const own = child.send?.bind(process);
  if (own) child.send = faulty((one, done) => process.connected && own(one, done));
}
