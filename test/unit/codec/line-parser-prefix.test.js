// log_line_prefix that is not given: found from the lines, changed in the middle of a file, or not to be found; and real
// logs, cut at every byte.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fixture, modelOf, plainValues, run, valuesOf } from './line-parser-model.js';

const MESSAGE = 16;
const MARKS = 30;
const T = '2026-05-01 12:34:56.789 UTC';
/** What the parser looks at before it chooses. */
const SAMPLE_BYTES = 65_536;

/**
 * @param {number} count
 * @param {(number: number) => string} prefix
 */
function messages(count, prefix) {
  return Array.from({ length: count }, (_, index) => {
    const head = prefix(index);
    return `${head}ERROR:  error ${index}\n${head}STATEMENT:  select\n\t${index}\n`;
  }).join('');
}
const short = (/** @type {number} */ index) => `${T} [${100 + (index % 3)}] `;
const long = (/** @type {number} */ index) =>
  `2026-05-01 12:34:56 UTC:10.0.0.${index % 3}(50123):u@d:[${100 + (index % 3)}]:`;

/** @param {ReturnType<typeof run>} result how many rows are not messages of a known prefix */
function texts({ rows }) {
  return rows.filter(row => row[MARKS] !== null).length;
}

test('a prefix is found from the lines, and given to the next file', () => {
  const bytes = Buffer.from(messages(200, short));
  const result = run(bytes, { prefix: null });
  assert.equal(result.prefixes.current?.text, '%m [%p] ');
  assert.equal(result.prefixes.given, false);
  assert.deepEqual(
    result.rows.map(row => [Number(row[2]), plainValues(row)]),
    modelOf(bytes, '%m [%p] ', SAMPLE_BYTES).map(record => [record.start, valuesOf(record)]),
  );
});

test('nothing is released before the prefix is chosen; quiet() chooses with what there is', () => {
  const bytes = Buffer.from(`plain text\n${messages(3, short)}`);
  const waiting = run(bytes, { prefix: null, end: false });
  assert.equal(waiting.count, 1);
  assert.equal(waiting.parser.recordOffset, 'plain text\n'.length);
  const quiet = run(bytes, { prefix: null, end: false, quietEvery: 1 });
  assert.equal(quiet.count, 4);
  assert.equal(texts(quiet), 1);
});

test('a prefix that changes in the file, and back again', () => {
  const bytes = Buffer.from(messages(30, short) + messages(30, long) + messages(30, short));
  const result = run(bytes, { prefix: null });
  assert.equal(result.count, 90);
  assert.equal(texts(result), 0);
  assert.equal(result.prefixes.current?.text, '%m [%p] ');
  assert.equal(result.prefixes.former?.length, 1);
});

test('the same in any pieces, found or not', () => {
  const inputs = [
    messages(30, short) + messages(30, long) + messages(5, short),
    `ERROR:  odd\n${messages(9, short)}pgbackrest ERROR:  odd\n${messages(2, long)}`,
    messages(40, index => `${'abcdefgh'.slice(index % 5)} ${index} ~${'xyz'.repeat(index % 4)}~ `),
  ];
  for (const input of inputs) {
    const bytes = Buffer.from(input);
    const whole = run(bytes, { prefix: null });
    for (const sizes of [1, 7, 100, 4096]) {
      const cut = run(bytes, { prefix: null, sizes });
      assert.ok(cut.raw.equals(whole.raw), `pieces of ${sizes}`);
      assert.equal(cut.prefixes.current?.text, whole.prefixes.current?.text);
    }
  }
});

test('a log whose prefix cannot be found is stored line by line', () => {
  const input = messages(
    2000,
    index => `${'abcdefgh'.slice(index % 5)} ${index * 7919} ~${'xyz'.repeat(index % 4)}~ `,
  );
  const { rows, prefixes } = run(Buffer.from(input), { prefix: null });
  assert.equal(prefixes.current, null);
  assert.deepEqual(rows.map(row => row[MESSAGE]).join('\n'), input.trimEnd());
});

test('no other prefix is looked for when one is given', () => {
  const { rows, prefixes } = run(Buffer.from(messages(40, long)), { prefix: '[%p] ' });
  assert.equal(prefixes.current?.text, '[%p] ');
  assert.equal(rows.length, 120);
});

for (const [name, prefix] of [
  ['postgresql-15.log', '%m [%p] %q%u@%d '],
  ['postgresql-18.log', '%t [%p-%l] %q%u@%d '],
]) {
  test(`${name}: the same cut at every byte, and all of it messages`, () => {
    const bytes = fixture(name);
    const whole = run(bytes, { prefix });
    assert.deepEqual(whole.rejected, []);
    assert.equal(texts(whole), 0);
    const found = run(bytes, { prefix: null });
    assert.equal(found.prefixes.current?.text, prefix);
    assert.ok(found.raw.equals(whole.raw));
    for (const sizes of [1, 2, 3, 7]) assert.ok(run(bytes, { prefix, sizes }).raw.equals(whole.raw));
    // Some lines at a time, since there is a run for each byte.
    const starts = [...bytes.keys()].filter(at => at === 0 || bytes[at - 1] === 0x0a);
    for (let index = 0; index < starts.length; index += 8) {
      const lines = bytes.subarray(starts[index], starts[index + 12]);
      const uncut = run(lines, { prefix });
      for (let cut = 1; cut < lines.length; cut += 1) {
        assert.ok(run(lines, { prefix, sizes: [cut, lines.length] }).raw.equals(uncut.raw), `cut at ${cut}`);
      }
    }
  });
}
