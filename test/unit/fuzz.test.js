// What the fuzz run stands on: a seed decides everything, a wrong row is noticed, a failing input is made small; and
// a few inputs of each target.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readRows } from '../fuzz/copy-rows.js';
import { minimise } from '../fuzz/minimise.js';
import { addMarks, marksIn } from '../fuzz/mutate.js';
import { mix, Random } from '../fuzz/random.js';
import { TARGETS } from '../fuzz/targets.js';

const INPUTS = 20;
const TEXT_FIELD = 4;
const FIELDS = 31;

/** A row whose numbers are 0 and whose other fields are NULL. @param {Buffer} [text] of user_name */
function row(text) {
  const count = Buffer.alloc(2);
  count.writeInt16BE(FIELDS);
  const fields = Array.from({ length: FIELDS }, (_, field) => {
    const value = [Buffer.alloc(4), Buffer.alloc(4), Buffer.alloc(8), Buffer.alloc(8)][field] ?? null;
    const bytes = field === TEXT_FIELD ? (text ?? null) : value;
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes === null ? -1 : bytes.length);
    return bytes === null ? length : Buffer.concat([length, bytes]);
  });
  return Buffer.concat([count, ...fields]);
}

test('a seed makes the same input every time, and another seed another', () => {
  for (const { make } of TARGETS) {
    const inputs = [1, 2, 3].map(seed => make(new Random(mix(seed))));
    assert.deepEqual(
      [1, 2, 3].map(seed => make(new Random(mix(seed)))),
      inputs,
    );
    assert.ok(new Set(inputs.map(bytes => bytes.toString('latin1'))).size > 1);
  }
});

test('random numbers are within their bounds and reach them', () => {
  const random = new Random(5);
  const seen = new Set(Array.from({ length: 1000 }, () => random.between(3, 7)));
  assert.deepEqual(
    [...seen].toSorted((a, b) => a - b),
    [3, 4, 5, 6, 7],
  );
  const sizes = Array.from({ length: 1000 }, () => random.size(1, 1000));
  assert.ok(sizes.every(size => size >= 1 && size <= 1000));
  const small = sizes.filter(size => size < 32).length;
  assert.ok(small > 400 && small < 600, `${small} of 1000 are below the geometric middle`);
});

describe('rows', () => {
  test('well-formed ones are read', () => {
    const rows = readRows(Buffer.concat([row(), row(Buffer.from('é'))]));
    assert.deepEqual(
      rows.map(({ offset, day, marks }) => ({ offset, day, marks })),
      Array.from({ length: 2 }, () => ({ offset: 0, day: 10_957, marks: 0n })),
    );
  });

  for (const [what, bytes] of /** @type {[string, Buffer][]} */ ([
    ['a byte that is no UTF-8', row(Buffer.from([0xe9]))],
    ['a NUL', row(Buffer.from([0x61, 0]))],
    ['a byte too many', Buffer.concat([row(), Buffer.alloc(1)])],
    ['a byte too few', row().subarray(0, -1)],
    ['another number of fields', Buffer.concat([Buffer.from([0, 30]), row().subarray(2)])],
    [
      'a number of another length',
      Buffer.concat([row().subarray(0, 5), Buffer.from([3]), row().subarray(7)]),
    ],
  ])) {
    test(`${what} is noticed`, () => {
      assert.throws(() => readRows(bytes));
    });
  }
});

test('an input is made as small as what makes it fail', () => {
  const input = Buffer.from(`${'a'.repeat(1000)}x${'b'.repeat(777)}y${'c'.repeat(300)}`);
  const fails = (/** @type {Buffer} */ bytes) => /x.*y/.test(bytes.toString());
  assert.equal(minimise(input, fails, 60_000).toString(), 'xy');
});

test('marks are found where they were put', () => {
  const marked = addMarks(new Random(3), Buffer.from('some text'));
  const marks = marksIn(marked);
  assert.ok(marks.length > 0);
  for (const { mark, at } of marks) assert.equal(marked.indexOf(mark, at), at);
  assert.equal(marked.length, 9 + 9 * marks.length);
});

for (const { name, rare, make, check } of TARGETS) {
  if (rare) continue;
  test(`${INPUTS} inputs of ${name}`, () => {
    for (let input = 0; input < INPUTS; input += 1) {
      const seed = mix(input);
      check(make(new Random(seed)), new Random(seed));
    }
  });
}
