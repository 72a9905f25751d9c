/** What a reader of log files takes from a follower, and what it refuses; the bytes are written by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { FILES_MAX } from '../../../src/worker/file-limits.js';
import { FileReader } from '../../../src/worker/file-reader.js';

/** @import { StreamClaim } from '../../../src/storage/positions.js' */

const MAX_RECORD_BYTES = 100_000;
const BEGUN = 'V 1 1795000000\nB\n';

/** @type {StreamClaim} */
const CLAIM = { epoch: 1, begun: false, nextFileNo: 1, openFileNo: null, foundPrefix: null, files: [] };

function makeReader() {
  /** @type {number[]} */
  const rejected = [];
  const sink = {
    rows: new CopyBuffer(1 << 20),
    days: new Set(),
    receivedAtMs: 0,
    reject: (/** @type {{ length: number }} */ { length }) => rejected.push(length),
    cut: () => {},
  };
  /** @type {any} */
  const spec = { path: '/log', format: 'csvlog', sudoUser: null, startAt: 'start' };
  /** @type {any} */
  const status = { bytes: 0 };
  const reader = new FileReader({
    spec,
    context: {
      streamId: 1,
      zones: new Map(),
      timeZone: null,
      decoderOf: () => null,
      maxRecordBytes: MAX_RECORD_BYTES,
      format: 'csvlog',
      prefixes: { current: null, given: false },
    },
    status,
    store: work => work(sink),
    touch: () => {},
    loss: () => {},
    onCommonFrame: () => {},
    log: { warn: () => {} },
  });
  reader.begin(CLAIM);
  return { reader, rejected };
}

/** @param {string} text */
const refused = text =>
  assert.throws(() => makeReader().reader.write(Buffer.from(text)), { code: 'FOLLOWER_PROTOCOL' }, text);

test('what a follower never says is refused', () => {
  for (const text of ['B\n', `${BEGUN}V 1 1795000000\n`]) refused(text);
  refused(`${BEGUN}D 0 1\nx`);
  const file = `${BEGUN}F 7 1 0 new a.csv\n`;
  for (const offset of [1, 999_999_999_999_999]) refused(`${file}D ${offset} 1\nx`);
  refused(`${file}D 0 2\nx\nD 1 2\nx\n`);
  refused(`${BEGUN}F 7 1 5 new a.csv\n`);
  for (const state of ['known', 'shrunk']) refused(`${BEGUN}F 7 1 5 ${state} a.csv\n`);
  refused(`${file}D 0 2\nx\nF 7 1 9 known a.csv\n`);
  refused(`${BEGUN}C 7 8 a.csv.1\n`);
  refused(`${BEGUN}E 7 100\n`);
});

test('a stream has a bounded number of files, also over many attempts', () => {
  const { reader } = makeReader();
  reader.write(Buffer.from(BEGUN));
  let count = 0;
  assert.throws(
    () => {
      for (; count < FILES_MAX * 2; count += 1)
        reader.write(Buffer.from(`F ${count + 1} 1 0 new ${count}.csv\n`));
    },
    { code: 'FOLLOWER_PROTOCOL' },
  );
  assert.equal(count, FILES_MAX);
  reader.takeAdvance();
  reader.begin({ ...CLAIM, begun: true });
  reader.write(Buffer.from(BEGUN));
  assert.throws(
    () => {
      // What has come to the allowance meanwhile is a few.
      for (let n = 0; n < FILES_MAX / 2; n += 1)
        reader.write(Buffer.from(`F ${n + 1} 1 0 new again${n}.csv\n`));
    },
    { code: 'FOLLOWER_PROTOCOL' },
  );
});

test('a stream that knows as many files as it may gets no other one, however slowly they are named', () => {
  const { reader } = makeReader();
  const files = Array.from({ length: FILES_MAX }, (_, n) => {
    const nothing = { offset: 0, headLength: 0, headSum: 0, tailLength: 0, tailSum: 0 };
    return {
      fileNo: n + 1,
      inode: `${n + 1}`,
      name: `${n}.csv`,
      ...nothing,
      gone: false,
      doneSize: null,
      cursor: null,
    };
  });
  reader.begin({ ...CLAIM, begun: true, nextFileNo: FILES_MAX + 1, files });
  reader.write(Buffer.from(`${BEGUN}F 1 1 0 known 0.csv\n`));
  assert.throws(() => reader.write(Buffer.from(`F ${FILES_MAX + 1} 1 0 new a.csv\n`)), {
    code: 'FOLLOWER_PROTOCOL',
  });
});

test('files that were left with an unfinished record hold together what one record may have', () => {
  const { reader, rejected } = makeReader();
  reader.write(Buffer.from(BEGUN));
  const part = `2026-11-20 12:00:00.000 UTC,"${'x'.repeat(40_000)}`;
  for (let n = 1; n <= 10; n += 1)
    reader.write(Buffer.from(`F ${n} 1 0 new ${n}.csv\nD 0 ${part.length}\n${part}`));
  // Two are held, and the open one.
  assert.deepEqual(rejected, Array(7).fill(part.length));
  const small = makeReader();
  small.reader.write(Buffer.from(BEGUN));
  for (let n = 1; n <= 200; n += 1) small.reader.write(Buffer.from(`F ${n} 1 0 new ${n}.csv\nD 0 1\n"`));
  assert.equal(small.rejected.length, 200 - 1 - 64);
});
