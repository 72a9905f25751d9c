import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Fleet } from '../../../src/master/fleet.js';

/** @typedef {import('../../../src/master/fleet.js').WantedStream} WantedStream */

const EPOCH = 7;

/** @param {number} streamId @param {Partial<WantedStream>} [changes] @returns {WantedStream} */
const stream = (streamId, changes = {}) => ({
  streamId,
  host: {
    hostId: 1,
    name: 'db1',
    address: 'h',
    port: 22,
    username: null,
    identityFile: null,
    jumpHosts: [],
    hostKeyAlias: 'a',
    knownHostsFile: 'k',
  },
  path: `/log/${streamId}`,
  format: 'csvlog',
  linePrefix: null,
  timeZone: null,
  encoding: null,
  encodings: {},
  startAt: 'end',
  transport: 'openssh',
  sudoUser: null,
  ...changes,
});

/** @param {number} streamId @param {number} bytes @returns {import('../../../src/ipc/messages.js').StreamStatus} */
const status = (streamId, bytes) => ({
  streamId,
  epoch: EPOCH,
  mode: 'reading',
  error: null,
  notice: null,
  file: null,
  bytes,
  records: bytes / 100,
  rejected: 0,
  lostBytes: 0,
  lostEvents: 0,
  timeZone: null,
  linePrefix: null,
  lagBytes: 0,
  lastFrameAt: 1,
  clockSkewMs: 0,
  connects: 1,
});

/** @param {Fleet} fleet @param {number[]} workers */
const assign = (fleet, workers) =>
  fleet.assign(workers).map(({ streamId, worker }) => {
    assert.equal(fleet.assigned({ streamId, worker, epoch: EPOCH }), true);
    return [streamId, worker];
  });

test('quiet streams are spread over the workers, and assigned once', () => {
  const fleet = new Fleet();
  fleet.want([1, 2, 3, 4].map(id => stream(id)));
  assert.deepEqual(assign(fleet, []), []);
  assert.deepEqual(assign(fleet, [0, 1]), [
    [1, 0],
    [2, 1],
    [3, 0],
    [4, 1],
  ]);
  assert.deepEqual(assign(fleet, [0, 1]), []);
});

test('a new stream goes to the worker with the least measured bytes', () => {
  const fleet = new Fleet();
  fleet.want([1, 2, 3].map(id => stream(id)));
  assign(fleet, [0, 1]);
  fleet.report(0, [status(1, 0), status(3, 0)], 1);
  fleet.report(1, [status(2, 50_000_000)], 1);
  fleet.want([1, 2, 3, 4, 5].map(id => stream(id)));
  assert.deepEqual(assign(fleet, [0, 1]), [
    [4, 0],
    [5, 0],
  ]);
});

test('a changed stream is put down first, then assigned with its new specification', () => {
  const fleet = new Fleet();
  fleet.want([stream(1)]);
  assign(fleet, [0]);
  const changed = stream(1, { transport: 'ssh2' });
  assert.deepEqual(fleet.want([changed]), [{ streamId: 1, worker: 0, epoch: EPOCH }]);
  assert.deepEqual(fleet.want([changed]), [], 'asked for once');
  assert.deepEqual(assign(fleet, [0, 1]), [], 'not before its worker has put it down');
  fleet.released(1);
  const [assignment] = fleet.assign([0]);
  assert.equal(assignment?.spec.transport, 'ssh2');
});

test('a removed stream is put down and forgotten', () => {
  const fleet = new Fleet();
  fleet.want([stream(1), stream(2)]);
  assign(fleet, [0]);
  assert.deepEqual(fleet.want([stream(2)]), [{ streamId: 1, worker: 0, epoch: EPOCH }]);
  fleet.released(1);
  assert.deepEqual([...fleet.streams.keys()], [2]);
});

test('the streams of a worker that is gone are assigned to others, with their totals', () => {
  const fleet = new Fleet();
  fleet.want([stream(1), stream(2)]);
  assign(fleet, [0, 1]);
  fleet.report(0, [status(1, 1000)], 1);
  fleet.workerGone(0);
  assert.deepEqual(assign(fleet, [1]), [[1, 1]]);
  fleet.report(1, [status(1, 500)], 1);
  const reported = fleet.streams.get(1);
  assert.equal((reported?.before.bytes ?? 0) + (reported?.status?.bytes ?? 0), 1500);
});

test('a report of a worker that no longer has the stream changes nothing', () => {
  const fleet = new Fleet();
  fleet.want([stream(1)]);
  assign(fleet, [0]);
  fleet.report(1, [status(1, 1000)], 1);
  assert.equal(fleet.streams.get(1)?.status, null);
});

/** What a faulty channel can make of the news of two workers. */
const NEWS = fc.oneof(
  fc.record({ kind: fc.constant('reconcile'), wanted: fc.subarray([1, 2, 3]) }),
  fc.record({ kind: fc.constant('gone'), worker: fc.nat(1) }),
  fc.record({
    kind: fc.constantFrom('released', 'report'),
    worker: fc.nat(1),
    streamId: fc.integer({ min: 1, max: 4 }),
    epoch: fc.nat(12),
  }),
);

test('whatever workers say, and however often, the last one told has the stream, and no stream is forgotten', () => {
  fc.assert(
    fc.property(fc.array(NEWS, { maxLength: 60 }), news => {
      const fleet = new Fleet();
      let epoch = 0;
      /** by stream: who was told last @type {Map<number, { worker: number, epoch: number }>} */
      const told = new Map();
      const reconcile = (/** @type {number[]} */ wanted) => {
        fleet.want(wanted.map(id => stream(id)));
        for (const { streamId, worker } of fleet.assign([0, 1])) {
          epoch += 1;
          const before = told.get(streamId);
          if (fleet.assigned({ streamId, worker, epoch })) told.set(streamId, { worker, epoch });
          assert.ok(!before, `stream ${streamId} is put down before another gets it`);
        }
      };
      for (const one of news) {
        if (one.kind === 'reconcile' && 'wanted' in one) reconcile(one.wanted);
        if (one.kind === 'gone' && 'worker' in one && !('streamId' in one)) {
          fleet.workerGone(one.worker);
          for (const [id, { worker }] of told) if (worker === one.worker) told.delete(id);
        }
        if (!('streamId' in one)) continue;
        const { streamId, worker } = one;
        const holder = told.get(streamId);
        const isHolder = holder?.worker === worker && holder.epoch === one.epoch;
        if (one.kind === 'released') {
          fleet.releasedBy({ streamId, worker, epoch: one.epoch });
          if (isHolder) told.delete(streamId);
        } else {
          const strays = fleet.report(worker, [{ ...status(streamId, 1), epoch: one.epoch }], 1);
          if (!isHolder) assert.deepEqual(strays, [{ streamId, worker, epoch: one.epoch }]);
          for (const [id, { worker: owner }] of told)
            if (owner === worker && fleet.streams.get(id)?.worker !== worker) told.delete(id);
        }
      }
      // Two workers that have lost everything and say so.
      reconcile([1, 2, 3]);
      for (let n = 0; n < 40; n += 1) for (const worker of [0, 1]) fleet.report(worker, [], 1);
      told.clear();
      reconcile([1, 2, 3]);
      assert.deepEqual(
        [...told.keys()].toSorted((a, b) => a - b),
        [1, 2, 3],
      );
    }),
  );
});

test('an assignment that was taken back before its worker was told is not told any more', () => {
  const fleet = new Fleet();
  fleet.want([stream(1)]);
  fleet.assign([0]);
  assert.deepEqual(fleet.want([]), []);
  assert.equal(fleet.assigned({ streamId: 1, worker: 0, epoch: EPOCH }), false);
  assert.equal(fleet.streams.size, 0);
  fleet.want([stream(1)]);
  fleet.assign([0]);
  fleet.workerGone(0);
  assert.equal(fleet.assigned({ streamId: 1, worker: 0, epoch: EPOCH }), false);
  assert.deepEqual(assign(fleet, [1]), [[1, 1]]);
});
