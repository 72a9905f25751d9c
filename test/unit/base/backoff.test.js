// Back-off: its documented formula, its ceiling, its random share, and reset().
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Backoff } from '../../../src/base/backoff.js';

/** @param {Backoff} backoff @param {number} count */
const take = (backoff, count) => Array.from({ length: count }, () => backoff.next());

test('without jitter the waits double up to the ceiling and stay there', () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 1000, jitter: 0 });
  assert.deepEqual(take(backoff, 6), [100, 200, 400, 800, 1000, 1000]);
});

test('reset() begins again', () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 1000, factor: 3, jitter: 0 });
  assert.deepEqual(take(backoff, 3), [100, 300, 900]);
  backoff.reset();
  assert.deepEqual(take(backoff, 2), [100, 300]);
});

test('the random share goes from nothing to all of the jitter', () => {
  const settings = { initialMs: 1000, maxMs: 1000 };
  assert.equal(new Backoff({ ...settings, random: () => 0 }).next(), 1000);
  assert.equal(new Backoff({ ...settings, random: () => 0.5 }).next(), 750);
  assert.equal(new Backoff({ ...settings, random: () => 1 - Number.EPSILON }).next(), 500);
  assert.equal(new Backoff({ ...settings, jitter: 1, random: () => 0.75 }).next(), 250);
});

test('a wait is never zero: a loop of failures must not spin', () => {
  assert.equal(
    new Backoff({ initialMs: 1, maxMs: 1, jitter: 1, random: () => 1 - Number.EPSILON }).next(),
    1,
  );
});

test('every wait keeps to the formula, however many there were', () => {
  fc.assert(
    fc.property(
      fc.record({
        initialMs: fc.integer({ min: 1, max: 10_000 }),
        factor: fc.double({ min: 1, max: 10, noNaN: true }),
        jitter: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      fc.integer({ min: 1, max: 2000 }),
      ({ initialMs, factor, jitter }, count) => {
        const maxMs = 60_000;
        const waits = take(new Backoff({ initialMs, maxMs, factor, jitter }), count);
        for (const [index, wait] of waits.entries()) {
          const ceiling = Math.min(maxMs, initialMs * factor ** index);
          assert.ok(Number.isInteger(wait) && wait >= 1, `${wait}`);
          // The ceiling is reached by repeated multiplication: a rounding of the last digit may differ.
          assert.ok(wait <= Math.round(ceiling * (1 + 1e-9)), `${wait} > ${ceiling}`);
          assert.ok(
            wait >= Math.round(ceiling * (1 - jitter) * (1 - 1e-9)),
            `${wait} < ${ceiling} * (1 - ${jitter})`,
          );
        }
      },
    ),
    { numRuns: 50 },
  );
});

test('settings without sense are refused', () => {
  for (const wrong of [
    { initialMs: 0, maxMs: 10 },
    { initialMs: Number.NaN, maxMs: 10 },
    { initialMs: 100, maxMs: 10 },
    { initialMs: 10, maxMs: Infinity },
    { initialMs: 10, maxMs: 10, factor: 0.5 },
    { initialMs: 10, maxMs: 10, jitter: 1.1 },
    { initialMs: 10, maxMs: 10, jitter: -0.1 },
  ]) {
    assert.throws(() => new Backoff(wrong), RangeError);
  }
});
