/**
 * Loaded before a daemon and its children (NODE_OPTIONS=--import): in the first LIVES lives of each worker and of
 * sshproxy, the process or its channel ends after its N-th message, sent or received: by itself, by closing its end,
 * or by master's closing the other. Which N and which of these, CHANNELS_SEED decides. What has ended is one line each
 * in the file ends of the directory ENDING_CHANNELS. Nothing else is changed.
 */
import { ChildProcess } from 'node:child_process';
import { appendFileSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Random } from '../fuzz/random.js';

/** @typedef {{ after: number, how: 'exit' | 'child closes' | 'master closes' }} End */

export const LIVES = 3; // more would wait for master, which starts again later and later what dies young
export const ENDING_WORKERS = 5;
const HOWS = /** @type {const} */ (['exit', 'child closes', 'master closes']);

const directory = process.env['ENDING_CHANNELS'] ?? '';
const seed = Number(process.env['CHANNELS_SEED']);

/**
 * Every N from 1 to LIVES * ENDING_WORKERS ends a worker; sshproxy, of which there is one, ends after some of them.
 * @param {string} name @param {number} life from 1 @returns {End | null}
 */
function endOf(name, life) {
  if (life > LIVES) return null;
  const random = new Random(seed);
  // In an order of chance.
  const numbers = Array.from({ length: LIVES * ENDING_WORKERS }, (_, n) => ({
    n: n + 1,
    at: random.int(2 ** 30),
  }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ n }) => n);
  const worker = name === 'sshproxy' ? 0 : Number(name.split('-')[1]) - 1;
  const after = numbers[worker * LIVES + life - 1] ?? 1;
  return { after, how: HOWS[(worker + life) % HOWS.length] ?? 'exit' };
}

/**
 * Calls `end` after the N-th message that `target` sends or that comes for it.
 * @param {any} target @param {End} planned @param {() => void} end
 */
function countMessages(target, { after }, end) {
  let count = 0;
  const one = () => {
    count += 1;
    if (count === after) end();
  };
  const { send, emit } = target;
  target.send = (/** @type {any[]} */ ...args) => {
    const sent = send.apply(target, args);
    one();
    return sent;
  };
  target.emit = (/** @type {string} */ event, /** @type {any[]} */ ...args) => {
    const heard = emit.call(target, event, ...args);
    if (event === 'message') one();
    return heard;
  };
}

/** @param {string} name @param {number} life @param {End} end */
const tell = (name, life, { after, how }) =>
  appendFileSync(join(directory, 'ends'), `${name} life ${life} message ${after}: ${how}\n`);

function endMyself() {
  const name = process.argv[2] ?? '';
  const lives = join(directory, name);
  appendFileSync(lives, '.');
  const life = readFileSync(lives).length;
  const end = endOf(name, life);
  if (end === null || end.how === 'master closes') return;
  countMessages(process, end, () => {
    tell(name, life, end);
    if (end.how === 'exit') process.exit(7);
    process.disconnect();
  });
}

function endChildren() {
  /** @type {Map<string, number>} */
  const lives = new Map();
  const prototype = /** @type {{ spawn: Function }} */ (/** @type {unknown} */ (ChildProcess.prototype));
  const { spawn } = prototype;
  prototype.spawn = function spawnToEnd(/** @type {any[]} */ ...args) {
    const result = spawn.apply(this, args);
    const child = /** @type {ChildProcess} */ (/** @type {unknown} */ (this));
    if (!child.connected) return result;
    const name = child.spawnargs.at(-1) ?? '';
    const life = (lives.get(name) ?? 0) + 1;
    lives.set(name, life);
    const end = endOf(name, life);
    if (end?.how === 'master closes')
      countMessages(child, end, () => {
        tell(name, life, end);
        child.disconnect();
      });
    return result;
  };
}

if (directory !== '') {
  if (process.send && basename(process.argv[1] ?? '') === 'main.js') endMyself();
  else endChildren();
}
