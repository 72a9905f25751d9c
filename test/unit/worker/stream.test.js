/** A stream that always has something to do gives way to the others of its worker; one that says nothing is given up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createLogger } from '../../../src/base/logger.js';
import { Batcher } from '../../../src/worker/batcher.js';
import { Stream } from '../../../src/worker/stream.js';

/** @import { StreamSpec } from '../../../src/ipc/messages.js' */

/** A stream whose follower is the test. @param {import('node:test').TestContext} t */
async function startStream(t) {
  const batcher = new Batcher({
    redactor: null,
    settings: { maxBatchBytes: 1 << 20, maxBatchDelayMs: 600_000 },
    connect: () => Promise.reject(new Error('nothing is committed here')),
    onRoom: () => {},
    onFailure: () => {},
    onRefused: () => {},
    onFenced: () => {},
  });
  /** @type {string[]} */
  const calls = [];
  /** @type {(chunk: Buffer) => void} */
  let give = () => {};
  let onOpened = () => {};
  const stream = new Stream(
    /** @type {StreamSpec} */ (
      /** @type {unknown} */ ({
        streamId: 1,
        host: { name: 'a' },
        path: '/log',
        format: 'csvlog',
        linePrefix: null,
        timeZone: null,
        encoding: null,
        encodings: {},
        startAt: 'start',
        sudoUser: null,
        epoch: 1,
      })
    ),
    {
      batcher,
      zones: new Map(),
      maxRecordBytes: 1 << 20,
      claim: () =>
        Promise.resolve({
          epoch: 1,
          begun: true,
          nextFileNo: 1,
          openFileNo: null,
          foundPrefix: null,
          files: [],
        }),
      open: (_spec, _attempt, _follower, { onOpen, onChunk }) => {
        give = onChunk;
        onOpened = onOpen;
        return {
          pause: () => calls.push('pause'),
          resume: () => calls.push('resume'),
          close: () => calls.push('close'),
        };
      },
      onFenced: () => {},
      log: createLogger({ name: 'test', level: 'silent' }),
    },
  );
  stream.start();
  t.after(async () => {
    stream.stop();
    await batcher.close();
  });
  while (stream.status.mode !== 'connecting') await turn();
  return {
    stream,
    calls,
    give: (/** @type {string} */ text) => give(Buffer.from(text)),
    open: () => onOpened(),
  };
}

test('after a share of a turn its source pauses until all others had theirs', async t => {
  const { calls, give } = await startStream(t);
  give('V 1 1795000000\n');
  // As many tiny frames as take a second, if nobody stops them.
  const chunk = 'H 1795000000 0 0 0\n'.repeat(3_000);
  const began = performance.now();
  while (calls.length === 0 && performance.now() - began < 1_000) give(chunk);
  assert.deepEqual(calls, ['pause']);
  await turn();
  assert.deepEqual(calls, ['pause', 'resume']);
});

test('a follower that says nothing for 25 s is given up, though its connection may live', async t => {
  const { stream, calls, give, open } = await startStream(t);
  const later = (/** @type {number} */ ms) => stream.tick(performance.now() + ms);
  later(3_600_000);
  assert.equal(
    stream.status.mode,
    'connecting',
    'the transport has limits of its own, until the follower runs',
  );
  open();
  later(24_000);
  give('V 1 1795000000\n');
  later(24_000);
  assert.equal(stream.status.mode, 'reading');
  later(26_000);
  assert.equal(stream.status.mode, 'waiting');
  assert.match(stream.status.error?.message ?? '', /nothing came for 25 s, not even a heartbeat/);
  assert.deepEqual(calls, ['close']);
});

test('a follower that never says a word is given up, too', async t => {
  const { stream, open } = await startStream(t);
  open();
  stream.tick(performance.now() + 26_000);
  assert.equal(stream.status.error?.code, 'SSH_PROTOCOL');
});
