/** The policy alone: connections and sessions are objects that the test answers for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PgsluiceError } from '../../../src/base/errors.js';
import { SessionPool } from '../../../src/system-ssh/session-pool.js';

/** @typedef {import('../../../src/system-ssh/session-pool.js').SessionEvents} SessionEvents */

/** @param {number} maxSessions */
function world(maxSessions) {
  const master = () => {
    /** @type {any} a Master as far as the policy looks at it */
    const made = {
      ready: true,
      occupied: 0,
      everOpened: false,
      everEnded: false,
      limit: maxSessions,
      restUntilMs: 0,
      closed: false,
      close: () => {
        made.closed = true;
        made.ready = false;
      },
    };
    return made;
  };
  /** @type {PromiseWithResolvers<any>[]} */
  const connecting = [];
  /** @type {{ master: any, command: string, events: SessionEvents }[]} */
  const started = [];
  /** @type {string[]} */
  const outcomes = [];
  const pool = new SessionPool(
    maxSessions,
    () => {
      connecting.push(Promise.withResolvers());
      return connecting[connecting.length - 1].promise;
    },
    (on, { command }, events) => started.push({ master: on, command, events }),
  );
  const primary = master();
  pool.add(primary);
  return {
    pool,
    primary,
    master,
    connecting,
    outcomes,
    started,
    request: (/** @type {string} */ command) =>
      pool.request({
        command,
        stdio: 'pipe',
        open: () => outcomes.push(`${command} opened`),
        fail: error => outcomes.push(`${command} ${error.code}`),
      }),
    next: () => {
      const session = started.shift();
      assert.ok(session, 'a session was started');
      return session;
    },
  };
}

const refusal = () => new PgsluiceError('SSH_SESSION_REFUSED', 'refused');

/** @param {{ events: SessionEvents }} session */
function refuse({ events }) {
  events.failed(refusal());
  events.gone();
}

/** @param {{ events: SessionEvents }} session */
function open({ events }) {
  /** @type {any} */
  const stream = {};
  events.opened(stream);
}

const settled = () => new Promise(resolve => setImmediate(resolve));

test('one more connection for every maxSessions that wait, no more', () => {
  const { request, connecting, started } = world(3);
  for (let index = 0; index < 10; index += 1) request(`c${index}`);
  assert.equal(started.length, 3);
  assert.equal(connecting.length, 3);
});

test('an idle additional connection is closed, the first one never', async () => {
  const { request, connecting, next, master, primary } = world(1);
  request('a');
  request('b');
  const second = master();
  connecting[0].resolve(second);
  await settled();
  const [a, b] = [next(), next()];
  assert.equal(b.master, second);
  open(a);
  open(b);
  b.events.gone();
  assert.equal(second.closed, true);
  a.events.gone();
  assert.equal(primary.closed, false);
});

test('a refusal on a connection whose sessions all live is the limit of the server', () => {
  const { request, connecting, next, started, outcomes } = world(10);
  for (const command of ['a', 'b', 'c']) request(command);
  const [a, b, c] = [next(), next(), next()];
  open(a);
  open(b);
  refuse(c);
  assert.equal(connecting.length, 1);
  request('d');
  assert.equal(started.length, 0);
  assert.equal(connecting.length, 1, 'two places on the new connection are enough for c and d');
  request('e');
  assert.equal(connecting.length, 2);
  assert.deepEqual(outcomes, ['a opened', 'b opened']);
});

test('a refusal where a session has ended before is no evidence: that connection rests, the limit stays', async () => {
  const { request, connecting, next, master, started, primary } = world(2);
  request('a');
  const a = next();
  open(a);
  a.events.gone();
  request('b');
  refuse(next());
  assert.equal(connecting.length, 1);
  const second = master();
  connecting[0].resolve(second);
  await settled();
  assert.equal(next().master, second);
  request('c');
  const c = next();
  assert.equal(c.master, second, 'the limit is still two');
  primary.restUntilMs = 0;
  request('d');
  assert.equal(next().master, primary, 'rested');
  assert.equal(started.length, 0);
});

test('a fresh connection that refuses its only session is final', () => {
  const { request, next, outcomes, connecting } = world(10);
  request('a');
  refuse(next());
  assert.deepEqual(outcomes, ['a SSH_SESSION_REFUSED']);
  assert.equal(connecting.length, 0);
});

test('a connection that cannot be made fails those it was for, without another try', async () => {
  const { request, connecting, outcomes } = world(2);
  for (const command of ['a', 'b', 'c', 'd', 'e']) request(command);
  assert.equal(connecting.length, 2);
  connecting[0].reject(new PgsluiceError('SSH_UNREACHABLE', 'gone'));
  await settled();
  assert.deepEqual(outcomes, ['c SSH_UNREACHABLE', 'd SSH_UNREACHABLE']);
  assert.equal(connecting.length, 2);
});

test('close() answers what waits and what comes later', () => {
  const { pool, request, outcomes, next } = world(1);
  request('a');
  request('b');
  const a = next();
  pool.close(new PgsluiceError('SSH_PROTOCOL', 'over'));
  request('c');
  refuse(a);
  assert.deepEqual(outcomes, ['b SSH_PROTOCOL', 'c SSH_PROTOCOL', 'a SSH_SESSION_REFUSED']);
});
