/** Waits for what happens by itself, by looking again and again. */
import { setTimeout as sleep } from 'node:timers/promises';

const LIMIT_MS = 120_000; // the machine may be busy with other tests
const POLL_MS = 50;

/**
 * @param {() => unknown} condition or a promise of it
 * @param {string | (() => unknown)} [what] it stands for, or what there is instead, when it does not come about
 * @param {number} [limitMs]
 */
export async function until(condition, what = () => String(condition), limitMs = LIMIT_MS) {
  const deadline = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      const words = typeof what === 'function' ? await what() : what;
      const text = typeof words === 'string' ? words : JSON.stringify(words);
      throw new Error(`not seen in ${limitMs / 1000} s: ${text}`);
    }
    await sleep(POLL_MS);
  }
}
