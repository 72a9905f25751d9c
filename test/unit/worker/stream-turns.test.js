/** A stream that always has something to do gives way to the others of its worker. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createLogger } from '../../../src/base/logger.js';
import { Batcher } from '../../../src/worker/batcher.js';
import { Stream } from '../../../src/worker/stream.js';

/** @import { StreamSpec } from '../../../src/ipc/messages.js' */

test('after a share of a turn its source pauses until all others had theirs', async () => {
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
      open: (_spec, _attempt, _follower, { onChunk }) => {
        give = onChunk;
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
  while (stream.status.mode !== 'connecting') await turn();
  give(Buffer.from('V 1 1795000000\n'));
  // As many tiny frames as take a second, if nobody stops them.
  const chunk = Buffer.from('H 1795000000 0 0 0\n'.repeat(3_000));
  const began = performance.now();
  while (calls.length === 0 && performance.now() - began < 1_000) give(chunk);
  assert.deepEqual(calls, ['pause']);
  await turn();
  assert.deepEqual(calls, ['pause', 'resume']);
  stream.stop();
  await batcher.close();
});
