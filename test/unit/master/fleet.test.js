import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fleet } from '../../../src/master/fleet.js';

/** @typedef {import('../../../src/master/fleet.js').WantedStream} WantedStream */

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
const assign = (fleet, workers) => fleet.assign(workers).map(({ streamId, worker }) => [streamId, worker]);

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
  assert.deepEqual(fleet.want([changed]), [{ streamId: 1, worker: 0 }]);
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
  assert.deepEqual(fleet.want([stream(2)]), [{ streamId: 1, worker: 0 }]);
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
