/** What a host makes a stream write into the daemon's log is bounded, in lines and in their length. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../../../src/base/logger.js';
import { SparingLog } from '../../../src/worker/sparing-log.js';

const BURST = 20;

/** @param {import('node:test').TestContext} t */
function capture(t) {
  /** @type {string[]} */
  const lines = [];
  const destination = { isTTY: false, write: (/** @type {string} */ line) => lines.push(line) };
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  return {
    log: new SparingLog(createLogger({ name: 'worker-1', level: 'info', destination })),
    lines,
    last: () => JSON.parse(lines.at(-1) ?? ''),
    pass: (/** @type {number} */ ms) => (now += ms),
  };
}

test('a burst is written, then one in a while, which says how many were left out', t => {
  const { log, lines, last, pass } = capture(t);
  for (let n = 0; n < 10 * BURST; n += 1) log.warn({ n }, 'something');
  assert.equal(lines.length, BURST);
  for (let n = 0; n < 100; n += 1) {
    pass(1_001);
    log.warn({ n }, 'something');
  }
  assert.equal(lines.length, BURST + 10, 'ten in 100 s');
  assert.equal(last().warningsLeftOut, 9);
  // A stream that was quiet for a day has the burst again, and no more.
  pass(86_400_000);
  for (let n = 0; n < 10 * BURST; n += 1) log.warn({ n }, 'something');
  assert.equal(lines.length, BURST + 10 + BURST);
  assert.equal(lines.map(line => JSON.parse(line)).filter(({ warningsLeftOut: n }) => n > 180).length, 1);
});

test('a line is short, whatever the host has sent', t => {
  const { log, lines } = capture(t);
  log.warn({ file: 'x'.repeat(100_000), bytes: 1 }, 'y'.repeat(100_000));
  assert.equal(lines.length, 1);
  assert.ok((lines[0]?.length ?? 0) < 3_000, `${lines[0]?.length} characters`);
});
