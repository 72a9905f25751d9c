/** What a reader of a journal takes from a follower that lies; the bytes are written by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { JournalReader } from '../../../src/worker/journal-reader.js';
import { cursorOf, field, START_US } from '../../helpers/journal.js';

const RECEIVED_MS = Date.UTC(2026, 10, 21);
const DAY_MS = 86_400_000;
const LONG_BYTES = 3 * 1024 * 1024; // handed on in pieces

function makeReader() {
  const sink = {
    rows: new CopyBuffer(1 << 23),
    days: new Set(),
    receivedAtMs: RECEIVED_MS,
    reject: () => {},
    cut: () => {},
  };
  /** @type {any} */
  const spec = { path: 'journal:postgresql.service', format: 'plain', sudoUser: null, startAt: 'start' };
  /** @type {any} */
  const status = { bytes: 0 };
  const reader = new JournalReader({
    spec,
    context: {
      streamId: 1,
      zones: new Map(),
      timeZone: null,
      decoderOf: () => null,
      maxRecordBytes: 1 << 20,
      format: 'plain',
      prefixes: { current: null, given: false },
    },
    status,
    store: work => {
      sink.receivedAtMs = RECEIVED_MS;
      work(sink);
    },
    touch: () => {},
    loss: () => {},
    onCommonFrame: () => {},
    log: { warn: () => {} },
  });
  reader.begin({ epoch: 1, begun: false, nextFileNo: 1, openFileNo: null, foundPrefix: null, files: [] });
  return { reader, sink };
}

test('a long message that comes before its time has the time of arrival', () => {
  const { reader, sink } = makeReader();
  const cursor = cursorOf(1, START_US);
  const later = cursorOf(2, START_US + 1_000_000);
  /** @param {string} place @param {number} timeUs */
  const entry = (place, timeUs) =>
    Buffer.concat([
      field('__CURSOR', place),
      field('MESSAGE', 'x\n'.repeat(LONG_BYTES / 2), true),
      field('__REALTIME_TIMESTAMP', String(timeUs)),
      field('_TRANSPORT', 'stdout'),
      field('_PID', '7'),
      Buffer.from('\n'),
    ]);
  const look = (/** @type {string} */ place) => Buffer.from(`J ${place}\n`);
  const end = Buffer.from('Q 0 1795000000\n');
  reader.write(
    Buffer.concat([
      Buffer.from(`V 1 1795000000\nB\nP before ${cursor}\n`),
      look(cursor),
      entry(cursor, START_US),
      end,
      look(cursor),
      entry(cursor, START_US),
      entry(later, START_US + 1_000_000),
      end,
    ]),
  );
  assert.ok(sink.rows.rows > 0);
  assert.ok(
    [...sink.days].every(day => Number.isInteger(day)),
    JSON.stringify([...sink.days]),
  );
  assert.ok([...sink.days].includes(RECEIVED_MS / DAY_MS));
});

test('before hello nothing is taken, and hello comes once', () => {
  const place = cursorOf(1, START_US);
  for (const text of ['B\n', `P before ${place}\n`, `J ${place}\n`, 'V 1 1795000000\nV 1 1795000000\n']) {
    assert.throws(() => makeReader().reader.write(Buffer.from(text)), { code: 'FOLLOWER_PROTOCOL' }, text);
  }
});
