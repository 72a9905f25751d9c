import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { FrameDecoder } from '../../../src/codec/frames.js';

/** What a follower writes, and what it means; built by hand from the protocol. */
const STREAM = Buffer.concat([
  Buffer.from('V 1 1795000000\n'),
  Buffer.from('S 12 300 300 4294967295 300 0 ./old name.csv\n'),
  Buffer.from('B\n'),
  Buffer.from('F 13 2049 0 new a.csv\n'),
  Buffer.from('D 0 12\nD 12 3\nF 1\n\n'),
  Buffer.from('D 12 1\n\n'),
  Buffer.from('T 13 7\nK 20\nT K 20\n'),
  Buffer.from('H 1795000001 20 20 7\n'),
  Buffer.from('F 18446744073709551615 2049 9007199254740 known -x \xc3\xa9\n', 'latin1'),
  Buffer.from('D 9007199254740 1\n\x00'),
  Buffer.from('G 12\n'),
  Buffer.from('W missing /var/log/postgresql\n'),
  Buffer.from('X moved\n'),
]);

const FRAMES = [
  { type: 'hello', version: 1, clock: 1795000000 },
  {
    type: 'skip',
    inode: '12',
    offset: 300,
    headLength: 300,
    headSum: 4294967295,
    tailLength: 300,
    tailSum: 0,
    name: 'old name.csv',
  },
  { type: 'begun' },
  { type: 'file', inode: '13', device: '2049', offset: 0, state: 'new', name: 'a.csv' },
  { bytes: 'D 12 3\nF 1\n\n', offset: 0 },
  { bytes: '\n', offset: 12 },
  { bytes: 'K 20\nT ', offset: 13 },
  { type: 'heartbeat', clock: 1795000001, offset: 20, size: 20, behind: 7 },
  {
    type: 'file',
    inode: '18446744073709551615',
    device: '2049',
    offset: 9007199254740,
    state: 'known',
    name: '-x é',
  },
  { bytes: '\0', offset: 9007199254740 },
  { type: 'gone', inode: '12' },
  { type: 'waiting', code: 'missing', text: '/var/log/postgresql' },
  { type: 'failed', code: 'moved', text: '' },
];

/** Adjacent bytes are one piece, however they were cut. @param {Buffer[]} chunks */
function decode(chunks) {
  /** @type {any[]} */
  const seen = [];
  const decoder = new FrameDecoder(
    frame => seen.push(frame),
    (bytes, offset) => {
      const text = Buffer.from(bytes).toString();
      const last = seen.at(-1);
      if (last?.bytes !== undefined && last.offset + last.bytes.length === offset) last.bytes += text;
      else seen.push({ bytes: text, offset });
    },
  );
  for (const chunk of chunks) decoder.write(chunk);
  return { seen, idle: decoder.idle };
}

/** The frames of bytes that follow each other are one run of bytes. */
const JOINED = FRAMES.flatMap((frame, index) => {
  if (index === 5 || index === 6) return [];
  return index === 4 ? [{ bytes: 'D 12 3\nF 1\n\n\nK 20\nT ', offset: 0 }] : [frame];
});

test('every frame, in one piece', () => {
  assert.deepEqual(decode([STREAM]), { seen: JOINED, idle: true });
});

test('the same frames, cut in two at every place, and byte by byte', () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    assert.deepEqual(decode([STREAM.subarray(0, cut), STREAM.subarray(cut)]).seen, JOINED, `cut at ${cut}`);
  }
  for (const size of [1, 2, 3, 7]) {
    const pieces = Array.from({ length: Math.ceil(STREAM.length / size) }, (_, n) =>
      STREAM.subarray(n * size, (n + 1) * size),
    );
    assert.deepEqual(decode(pieces).seen, JOINED, `pieces of ${size}`);
  }
});

test('it is idle between frames only', () => {
  assert.equal(decode([Buffer.from('V 1 1\nF 1')]).idle, false);
  assert.equal(decode([Buffer.from('D 0 3\nab')]).idle, false);
  assert.equal(decode([Buffer.from('D 0 3\nabc')]).idle, true);
  assert.equal(decode([Buffer.from('T 0 3\nabc')]).idle, false);
  assert.equal(decode([Buffer.from('T 0 3\nabcK 3\n')]).idle, true);
});

test('tentative bytes are told of when they are said to hold, and not before', () => {
  const most = 'x'.repeat(65_536);
  for (const [text, rest] of [
    ['T 5 3\nabc', 'K 8\n'],
    [`T 5 65536\n${most}K 65541`, '\n'],
  ]) {
    assert.deepEqual(decode([Buffer.from(text)]).seen, []);
    const bytes = text.startsWith('T 5 3') ? 'abc' : most;
    assert.deepEqual(decode([Buffer.from(text), Buffer.from(rest)]).seen, [{ bytes, offset: 5 }]);
  }
});

for (const [what, text] of [
  ['an unknown letter', 'Q 1\n'],
  ['words of a login shell', 'Welcome to db1!\n'],
  ['an empty line', '\n'],
  ['a negative offset', 'D -1 5\n'],
  ['a frame of no bytes', 'D 0 0\n'],
  ['a number beyond 2^53', 'D 99999999999999999 1\n'],
  ['an offset whose bytes would end beyond 2^53', 'D 9007199254740991 9\n'],
  ['a number with a leading zero', 'H 1 02 3 4\n'],
  ['a file without a name', 'F 1 2 3 new \n'],
  ['an unknown state', 'F 1 2 3 other a\n'],
  ['a prefix that no server has', `P ${'x'.repeat(257)}\n`],
  ['a time zone with a name that no zone has', `Z ${'x'.repeat(65)}\n`],
  ['a time zone that is a path to elsewhere', 'Z ../../etc/passwd\n'],
  ['an inode that no file system has', `G ${'9'.repeat(21)}\n`],
  ['a device that no host has', `F 1 ${'9'.repeat(21)} 0 new a\n`],
  ['a header without end', 'x'.repeat(5000)],
  ['more than may be tentative', 'T 0 65537\n'],
  ['tentative bytes of which nothing more is said', 'T 0 1\nxH 1 1 1 1\n'],
  ['tentative bytes after tentative ones', 'T 0 1\nxT 1 1\nx'],
  ['tentative bytes that hold elsewhere', 'T 0 1\nxK 2\n'],
  ['a word of tentative bytes that were not sent', 'K 0\n'],
  ['the same twice', 'T 0 1\nxK 1\nK 1\n'],
]) {
  test(`${what} is not a frame`, () => {
    assert.throws(() => decode([Buffer.from(text)]), { code: 'FOLLOWER_PROTOCOL' });
  });
}

test('random bytes throw a coded error or nothing, and memory stays at one header', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), chunks => {
      try {
        decode(chunks.map(chunk => Buffer.from(chunk)));
      } catch (error) {
        assert.equal(/** @type {{ code?: string }} */ (error).code, 'FOLLOWER_PROTOCOL');
      }
    }),
  );
});

test('a name may hold what looks like the end of a line, but no NUL', () => {
  assert.deepEqual(decode([Buffer.from('F 1 1 0 new a\u2028\r.csv\n')]).seen, [
    { type: 'file', inode: '1', device: '1', offset: 0, state: 'new', name: 'a\u2028\r.csv' },
  ]);
  for (const header of ['F 1 1 0 new a\0', 'P %m\0', 'W missing \0', 'L removed 1 \0'])
    assert.throws(() => decode([Buffer.from(`${header}\n`)]), { code: 'FOLLOWER_PROTOCOL' }, header);
});

test('the lengths under a sum are integers of the storage', () => {
  for (const lengths of ['2147483648 1 1 1', '1 1 2147483648 1'])
    assert.throws(() => decode([Buffer.from(`S 1 5 ${lengths} ./a\n`)]), { code: 'FOLLOWER_PROTOCOL' });
});
