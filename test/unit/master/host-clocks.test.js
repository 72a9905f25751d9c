import assert from 'node:assert/strict';
import { test } from 'node:test';
import { doubtClock } from '../../../src/master/host-clocks.js';

const DAY_MS = 86_400_000;

/**
 * @param {number} hostId
 * @param {number} clockSkewMs
 * @param {{ transport?: string, mode?: string, lagBytes?: number | null }} [more]
 */
function stream(hostId, clockSkewMs, { transport = 'openssh', mode = 'reading', lagBytes = 0 } = {}) {
  return /** @type {import('../../../src/master/host-clocks.js').ClockWitness} */ (
    /** @type {unknown} */ ({
      spec: { host: { hostId }, transport },
      status: { mode, lagBytes, clockSkewMs },
    })
  );
}

test('the clocks of most hosts decide', () => {
  assert.equal(doubtClock([stream(1, 0), stream(2, 3_000), stream(3, -DAY_MS)]), null);
  assert.equal(
    doubtClock([stream(1, 0), stream(2, -DAY_MS), stream(3, -DAY_MS)]),
    'the clocks of most hosts are 24 h behind ours',
  );
  assert.equal(doubtClock([stream(1, 300 * DAY_MS)]), 'the clocks of most hosts are 7200 h ahead of ours');
});

test('a host with many streams is one', () => {
  assert.equal(doubtClock([...Array(9).fill(stream(1, -DAY_MS)), stream(2, 0), stream(3, 0)]), null);
});

test('who says nothing is no witness; without any, nothing is known', () => {
  const silent = [stream(1, 0, { lagBytes: null }), stream(2, 0, { mode: 'waiting' })];
  assert.equal(doubtClock(silent), 'no host can be asked what time it is');
  assert.match(doubtClock([...silent, stream(3, -DAY_MS)]) ?? '', /24 h behind/);
});

test('this machine has but its own clock', () => {
  assert.equal(doubtClock([stream(1, 0, { transport: 'local', lagBytes: null })]), null);
  assert.equal(doubtClock([]), null);
  assert.match(doubtClock([stream(1, 0, { transport: 'local' }), stream(2, DAY_MS)]) ?? '', /ahead/);
});
