// The decoder of the journal's follower, against bytes that are written here by the format's definition.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import { isSameEntry } from '../../../src/codec/journal-cursor.js';
import { JournalDecoder } from '../../../src/codec/journal-export.js';
import { cursorOf, exported, field, START_US, suppressed } from '../../helpers/journal.js';

/** Decodes pieces of bytes into a list of events; pieces of a message are put together and counted. */
function decode(
  /** @type {Buffer} */ bytes,
  /** @type {number[]} */ sizes,
  /** @type {number} */ maxPieceBytes = 1 << 20,
) {
  /** @type {unknown[]} */
  const events = [];
  /** @type {Buffer[]} */
  let pieces = [];
  let largest = 0;
  const decoder = new JournalDecoder(
    {
      onFrame: frame => events.push(frame),
      onPlace: (cursor, taken) => events.push(['place', cursor, taken]),
      onLook: cursor => events.push(['look', cursor]),
      onPiece: (_, piece) => {
        largest = Math.max(largest, piece.length);
        pieces.push(Buffer.from(piece));
      },
      onEntry: (entry, rest) => {
        largest = Math.max(largest, rest.length);
        events.push(['entry', { ...entry }, Buffer.concat([...pieces, rest]).toString('latin1')]);
        pieces = [];
      },
      onLookEnd: clock => events.push(['end', clock]),
    },
    maxPieceBytes,
  );
  for (let at = 0, i = 0; at < bytes.length; i += 1) {
    const end = at + (sizes[i % sizes.length] ?? 1);
    // A copy of its own: what is kept must not be a view of the chunk.
    const chunk = Buffer.from(bytes.subarray(at, end));
    decoder.write(chunk);
    chunk.fill(0x58);
    at = end;
  }
  return { events, largest, idle: decoder.idle };
}

const cursors = [1, 2, 3, 4].map(i => cursorOf(i, START_US + i));
/** @param {number} i */
const cursor = i => cursors[i] ?? '';

/** @param {...(string | Buffer)} parts */
const bytesOf = (...parts) => Buffer.concat(parts.map(part => Buffer.from(part)));

const sample = bytesOf(
  'V 1 1790000000\n',
  `P before ${cursor(0)}\nB\n`,
  `J ${cursor(0)}\n`,
  exported({ cursor: cursor(0), timeUs: START_US + 1999, message: 'plain', pid: '17' }),
  exported({
    cursor: cursor(1),
    timeUs: START_US + 2000,
    message: 'two\nlines\n\n__CURSOR=no\0',
    lineBreak: 'line-max',
  }),
  exported({ cursor: cursor(2), ...suppressed(START_US + 3000, 5) }),
  exported({ cursor: cursor(3), ...suppressed(START_US + 4000, 6, false) }),
  `-- cursor: ${cursor(3)}\nQ 0 1790000001\n`,
  'H 1790000002 0 0 1\nW unreadable the journal\n',
  `J ${cursor(3)}\nQ 1 1790000003\n`,
);
const expected = [
  { type: 'hello', version: 1, clock: 1_790_000_000 },
  ['place', cursor(0), false],
  { type: 'begun' },
  ['look', cursor(0)],
  [
    'entry',
    { cursor: cursor(0), timeMs: START_US / 1000 + 1, pid: '17', lineBreak: '', dropped: 0 },
    'plain',
  ],
  [
    'entry',
    { cursor: cursor(1), timeMs: START_US / 1000 + 2, pid: '', lineBreak: 'line-max', dropped: 0 },
    'two\nlines\n\n__CURSOR=no\0',
  ],
  [
    'entry',
    { cursor: cursor(2), timeMs: START_US / 1000 + 3, pid: '', lineBreak: '', dropped: 5 },
    'Suppressed 5 messages from postgresql@15-main.service',
  ],
  [
    'entry',
    { cursor: cursor(3), timeMs: START_US / 1000 + 4, pid: '', lineBreak: '', dropped: 6 },
    'Suppressed 6 messages from postgresql@15-main.service',
  ],
  ['end', 1_790_000_001],
  { type: 'heartbeat', clock: 1_790_000_002, offset: 0, size: 0, behind: 1 },
  { type: 'waiting', code: 'unreadable', text: 'the journal' },
  ['look', cursor(3)],
  ['end', 1_790_000_003],
];

/** @param {string | Buffer} bytes */
const isRefused = bytes =>
  assert.throws(
    () => decode(Buffer.from(bytes), [1000]),
    error => error instanceof PgsluiceError && error.code === 'FOLLOWER_PROTOCOL',
    String(bytes).slice(0, 100),
  );

describe('journal export', () => {
  test('is the same for every cut into two, and for pieces of every size', () => {
    for (let at = 1; at < sample.length; at += 1) {
      assert.deepEqual(decode(sample, [at, sample.length]).events, expected, `cut at ${at}`);
    }
    for (const size of [1, 2, 3, 7, 64, 1000]) {
      const { events, idle } = decode(sample, [size]);
      assert.deepEqual(events, expected, `pieces of ${size}`);
      assert.equal(idle, true);
    }
  });

  test('is not idle in an entry or a look', () => {
    const text = String(sample);
    for (const end of [text.indexOf('MESSAGE='), text.indexOf('Q 0'), text.indexOf('__CURSOR'), 5]) {
      assert.equal(decode(sample.subarray(0, end), [100]).idle, false, `at ${end}`);
    }
  });

  test('a long message comes in pieces that are no longer than the limit', () => {
    const message = Buffer.alloc(1_000_000, 'long text, ');
    for (const asBlob of [false, true]) {
      const entry = exported({ cursor: cursor(0), timeUs: START_US, message: 'x' });
      const at = entry.indexOf('MESSAGE=x');
      const bytes = bytesOf(
        `J ${cursor(0)}\n`,
        entry.subarray(0, at),
        field('MESSAGE', message, asBlob),
        '\nQ 0 1\n',
      );
      for (const size of [777, 65_536, 2_000_000]) {
        const { events, largest } = decode(bytes, [size], 10_000);
        assert.equal(largest, 10_000);
        assert.deepEqual(events[1], [
          'entry',
          { cursor: cursor(0), timeMs: START_US / 1000, pid: '', lineBreak: '', dropped: 0 },
          message.toString('latin1'),
        ]);
      }
    }
  });

  test('any fields, in any pieces', () => {
    const message = fc.uint8Array({ maxLength: 60 }).map(bytes => Buffer.from(bytes));
    const other = fc.tuple(
      fc.constantFrom('_COMM', 'CODE_LINE', 'A'),
      fc.uint8Array({ maxLength: 30 }),
      fc.boolean(),
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(message, fc.boolean(), fc.array(other, { maxLength: 3 })), { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 40 }),
        (list, sizes, maxPieceBytes) => {
          const parts = list.map(([text, blob, others], i) =>
            bytesOf(
              field('__CURSOR', cursorOf(i, START_US + i)),
              field('__REALTIME_TIMESTAMP', String(START_US + i)),
              ...others.map(([name, value, asBlob]) =>
                field(name, Buffer.from(value), asBlob || value.includes(10)),
              ),
              field('MESSAGE', text, blob || text.includes(10)),
              '\n',
            ),
          );
          const { events } = decode(bytesOf(`J ${cursor(0)}\n`, ...parts, 'Q 0 1\n'), sizes, maxPieceBytes);
          const got = events.flatMap(event =>
            Array.isArray(event) && event[0] === 'entry' ? [event[2]] : [],
          );
          assert.deepEqual(
            got,
            list.map(([text]) => text.toString('latin1')),
          );
        },
      ),
    );
  });

  test('refuses what the follower never sends', () => {
    const look = `J ${cursor(0)}\n`;
    const entry = exported({ cursor: cursor(0), timeUs: START_US, message: 'x' }).toString();
    isRefused('Welcome to host\n');
    isRefused('D 0 5\nabcde');
    isRefused('F 1 2 0 new name\n');
    isRefused(entry);
    isRefused('Q 0 1\n');
    isRefused('J x\n');
    isRefused(`P sideways ${cursor(0)}\n`);
    isRefused(`${look}H 1 0 0 0\n`);
    isRefused(`${look}${look}`);
    isRefused(`${look}_PID=1\n\n`);
    isRefused(`${look}__CURSOR=s=1;i=$(reboot)\n`);
    isRefused(`${look}__CURSOR=${cursor(0)}\n\n`);
    isRefused(`${look}__CURSOR=${cursor(0)}\n__CURSOR=${cursor(1)}\n`);
    isRefused(`${look}__CURSOR=${cursor(0)}\n__REALTIME_TIMESTAMP=soon\n`);
    isRefused(`${look}__CURSOR=${'s'.repeat(5000)}`);
    isRefused(`${look}__CURSOR=${cursor(0)}\nlower=1\n`);
    isRefused(`${look}__CURSOR=${cursor(0)}\n${'A'.repeat(65)}=1\n`);
    isRefused(`${look}__CURSOR=${cursor(0)}\n=1\n`);
    isRefused(bytesOf(`${look}__CURSOR=${cursor(0)}\nMESSAGE\n`, Buffer.alloc(8, 0xff)));
    isRefused(
      bytesOf(`${look}__CURSOR=${cursor(0)}\nMESSAGE\n`, Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]), 'ab'),
    );
    isRefused('x'.repeat(5000));
  });

  test('an entry that breaks off is noticed', () => {
    const look = bytesOf(
      `J ${cursor(0)}\n`,
      exported({ cursor: cursor(0), timeUs: START_US, message: 'some text' }),
    );
    const after = bytesOf(`Q 141 1790000001\nH 1790000002 0 0 0\nJ ${cursor(0)}\n`);
    for (let at = look.indexOf('__CURSOR') + 1; at < look.length; at += 1) {
      isRefused(bytesOf(look.subarray(0, at), after));
    }
  });

  test('random bytes are refused or wait, and are never taken for an entry', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 400 }), fc.boolean(), (random, looking) => {
        try {
          const { events } = decode(bytesOf(looking ? `J ${cursor(0)}\n` : '', Buffer.from(random)), [50]);
          assert.ok(!events.some(event => Array.isArray(event) && event[0] === 'entry'));
        } catch (error) {
          assert.ok(error instanceof PgsluiceError, String(error));
        }
      }),
    );
  });
});

test('an entry is the same when only its sequence is another', () => {
  const one = cursorOf(5, START_US, 'a'.repeat(32));
  const copied = one.replace('s=aaaa', 's=baaa').replace('i=5', 'i=9');
  assert.equal(isSameEntry(one, one), true);
  assert.equal(isSameEntry(one, copied), true);
  assert.equal(isSameEntry(one, one.replace('i=5', 'i=9')), false);
  assert.equal(isSameEntry(one, copied.replace(/x=.*/, 'x=1')), false);
  assert.equal(isSameEntry(one, cursorOf(6, START_US + 1, 'a'.repeat(32))), false);
});
