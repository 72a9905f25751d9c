/** Only what is a message passes: whatever else a process sends is told apart, and no check throws. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  FROM_PROXY,
  FROM_WORKER,
  isKnown,
  nameOf,
  TO_PROXY,
  TO_WORKER,
} from '../../../src/ipc/known-messages.js';

const CHANNEL = { streamId: 1, attempt: 1 };
const ERROR = { code: 'SSH_PROTOCOL', message: 'm' };
const HOST = { hostId: 1, name: 'a', address: 'a', port: 22, jumpHosts: [] };

/** @type {[import('../../../src/ipc/known-messages.js').Messages, Record<string, unknown>][]} */
const GOOD = [
  [TO_WORKER, { type: 'unassign', streamId: 1, epoch: 2 }],
  [TO_WORKER, { type: 'fifo', ...CHANNEL, path: '/p' }],
  [TO_WORKER, { type: 'closed', ...CHANNEL, error: ERROR }],
  [FROM_WORKER, { type: 'released', streamId: 1, epoch: 2, fenced: false }],
  [FROM_WORKER, { type: 'outcome', ...CHANNEL, error: ERROR }],
  [TO_PROXY, { type: 'turn', ...CHANNEL, host: HOST }],
  [TO_PROXY, { type: 'forget', hostId: 1 }],
  [FROM_PROXY, { type: 'closed', ...CHANNEL, error: ERROR }],
  [FROM_PROXY, { type: 'refused', ...CHANNEL, error: ERROR }],
];

test('messages pass, and without any of their fields, or with another type in it, they do not', () => {
  for (const [messages, good] of GOOD) {
    assert.equal(isKnown(messages, good), true, JSON.stringify(good));
    for (const key of Object.keys(good)) {
      const { [key]: _, ...rest } = good;
      assert.equal(isKnown(messages, rest), false, `${String(good['type'])} without ${key}`);
      for (const wrong of [undefined, {}, [], -1, 1.5, 'constructor'])
        if (typeof wrong !== typeof good[key] || typeof wrong === 'number')
          assert.equal(
            isKnown(messages, { ...good, [key]: wrong }),
            false,
            `${String(good['type'])} with ${key} ${JSON.stringify(wrong)}`,
          );
    }
  }
});

test('no value makes a check throw', () => {
  const types = [
    '__proto__',
    'constructor',
    ...[TO_WORKER, FROM_WORKER, TO_PROXY, FROM_PROXY].flatMap(Object.keys),
  ];
  const value = fc.oneof(
    fc.anything(),
    fc
      .tuple(
        fc.constantFrom(...types),
        fc.dictionary(fc.constantFrom('streamId', 'status', 'stream', 'error', 'host'), fc.anything()),
      )
      .map(([type, fields]) => ({ ...fields, type })),
  );
  fc.assert(
    fc.property(value, fc.constantFrom(TO_WORKER, FROM_WORKER, TO_PROXY, FROM_PROXY), (one, messages) => {
      assert.equal(typeof isKnown(messages, one), 'boolean');
    }),
  );
});

test('what is logged of one that is none holds nothing of what is in it', () => {
  for (const value of [
    { type: 'configure', settings: { password: 'secret' } },
    { password: 'secret' },
    ['secret'],
    'secret',
    null,
  ])
    assert.doesNotMatch(nameOf(value), /secret/);
  assert.equal(nameOf({ type: 'a\u001b[2J' }), '"a\\u001b[2J"');
});
