/**
 * Turns to connect: the rate, who comes first, one attempt at a time to a host that is not proven, and who gives up.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectGate } from '../../../src/sshproxy/connect-gate.js';
import { HostPace } from '../../../src/sshproxy/host-pace.js';

const FAST = 1_000_000;

/** @param {Promise<unknown>} promise */
async function isPending(promise) {
  let pending = true;
  const settled = () => {
    pending = false;
  };
  promise.then(settled, settled);
  // A few turns of the event loop: more than what is fulfilled already needs.
  for (let n = 0; n < 5; n += 1) await new Promise(resolve => setImmediate(resolve));
  return pending;
}

test('the gate lets those through first whose last attempt did not fail, and forgets who left', async () => {
  const gate = new ConnectGate(50);
  const signal = new AbortController().signal;
  /** @type {string[]} */
  const order = [];
  const ask = (/** @type {string} */ name, retry = false) =>
    gate.turn({ retry, signal }).then(() => order.push(name));
  const leaving = new AbortController();
  const turns = [ask('a'), ask('dead 1', true), ask('dead 2', true), ask('b'), ask('c')];
  const left = gate.turn({ retry: false, signal: leaving.signal });
  leaving.abort(new Error('gone'));
  await assert.rejects(left, /gone/);
  await Promise.all(turns);
  assert.deepEqual(order, ['a', 'b', 'c', 'dead 1', 'dead 2']);
});

test('one attempt at a time until one succeeds; then all', async () => {
  const pace = new HostPace(new ConnectGate(FAST));
  const first = await pace.turn();
  const second = pace.turn();
  const third = pace.turn();
  assert.ok(await isPending(second));
  first.succeeded();
  await Promise.all([second, third]);
});

test('an attempt that was given up makes room for the next', async () => {
  const pace = new HostPace(new ConnectGate(FAST));
  const first = await pace.turn();
  const second = pace.turn();
  first.abandoned();
  first.failed('SSH_AUTH_REFUSED'); // told once only
  assert.ok(
    await Promise.race([second, sleep(10_000, null, { ref: false })]),
    'no back-off of 24 s and more',
  );
});

test('after a refusal nobody gets a turn for long, after another failure soon', async () => {
  const refused = new HostPace(new ConnectGate(FAST));
  (await refused.turn()).failed('SSH_AUTH_REFUSED');
  const waiting = refused.turn();
  const started = performance.now();
  const away = new HostPace(new ConnectGate(FAST));
  (await away.turn()).failed('SSH_UNREACHABLE');
  await away.turn();
  assert.ok(performance.now() - started >= 350, 'the first back-off is 400 ms at least');
  assert.ok(await isPending(waiting));
  refused.end(new Error('removed'));
  await assert.rejects(waiting, /removed/);
});

test('a success ends the back-off, and the next one begins anew', async () => {
  const banned = new HostPace(new ConnectGate(FAST));
  (await banned.turn()).succeeded();
  const [one, other] = [await banned.turn(), await banned.turn()];
  one.failed('SSH_AUTH_REFUSED');
  other.succeeded();
  assert.ok(await Promise.race([banned.turn(), sleep(10_000, null, { ref: false })]), 'no wait of 24 s');

  /** @param {boolean} connectsBetween */
  const threeFailures = async connectsBetween => {
    const pace = new HostPace(new ConnectGate(FAST));
    for (let n = 0; n < 3; n += 1) {
      (await pace.turn()).failed('SSH_UNREACHABLE');
      if (connectsBetween) (await pace.turn()).succeeded();
    }
    await pace.turn();
    return connectsBetween;
  };
  assert.equal(await Promise.race([threeFailures(false), threeFailures(true)]), true);
});

test('connections of a proven host that fail together count as one failure', async () => {
  const pace = new HostPace(new ConnectGate(FAST));
  (await pace.turn()).succeeded();
  const attempts = await Promise.all(Array.from({ length: 12 }, () => pace.turn()));
  for (const attempt of attempts) attempt.failed('SSH_UNREACHABLE');
  const started = performance.now();
  await pace.turn();
  assert.ok(performance.now() - started < 5_000, 'not the twelfth back-off');
});

test('a caller that leaves does not keep the others waiting', async () => {
  const pace = new HostPace(new ConnectGate(FAST));
  const leaving = new AbortController();
  const first = await pace.turn();
  const second = pace.turn(leaving.signal);
  const third = pace.turn();
  leaving.abort(new Error('gone'));
  await assert.rejects(second, /gone/);
  first.abandoned();
  await third;
});
