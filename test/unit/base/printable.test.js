// Text from hosts: no character that acts on a terminal comes through, all others do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { printable } from '../../../src/base/printable.js';
import { showValue } from '../../../src/base/show-value.js';

test('control characters become visible escapes', () => {
  /** @type {[string, string][]} */
  const cases = [
    ['\u001b[2J\u001b]0;title\u0007', '\\x1b[2J\\x1b]0;title\\x07'],
    ['a\r\nb\tc\0d', 'a\\r\\nb\\tc\\x00d'],
    ['\u007f\u0080\u009b31m', '\\x7f\\x80\\x9b31m'],
    ['safe\u202efdp.exe\u202c', 'safe\\u202efdp.exe\\u202c'],
    ['\u2066x\u2069', '\\u2066x\\u2069'],
    ['one\u2028two\u2029', 'one\\u2028two\\u2029'],
  ];
  for (const [text, shown] of cases) assert.equal(printable(text), shown);
});

test('all other text stays as it is', () => {
  const text = 'ОШИБКА: "C:\\new" — 日本語 😀 ~ \u00a0é';
  assert.equal(printable(text), text);
});

test('newline and tab can stay, a carriage return cannot', () => {
  assert.equal(printable('a\tb\r\nc\u001b', { keepLayout: true }), 'a\tb\\r\nc\\x1b');
});

// The sets are written down again here, as numbers, so that the pattern under test is not its own measure.
/** @param {number} code */
const acts = code =>
  code < 0x20 ||
  (code >= 0x7f && code <= 0x9f) ||
  (code >= 0x202a && code <= 0x202e) ||
  (code >= 0x2066 && code <= 0x2069);

const TEXT = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(fc.oneof(fc.integer({ min: 0, max: 0xff }), fc.integer({ min: 0x2000, max: 0x2070 })))
    .map(codes => String.fromCharCode(...codes)),
);

test('nothing that acts on a terminal is left, in any text', () => {
  fc.assert(
    fc.property(TEXT, fc.boolean(), (text, keepLayout) => {
      for (const character of printable(text, { keepLayout })) {
        const kept = keepLayout && (character === '\n' || character === '\t');
        assert.ok(kept || !acts(character.charCodeAt(0)), JSON.stringify(character));
      }
    }),
  );
});

test('doing it twice changes nothing more', () => {
  fc.assert(fc.property(TEXT, text => assert.equal(printable(printable(text)), printable(text))));
});

test('a value in a message is quoted, short and on one line', () => {
  assert.equal(showValue('a\n\u009b"b"'), '"a\\n\\x9b\\"b\\""');
  assert.equal(showValue('x'.repeat(200)), `"${'x'.repeat(79)}...`);
  assert.equal(showValue([1, 'a']), '[1,"a"]');
  assert.equal(showValue({ a: 'x'.repeat(200) }).length, 83);
  assert.equal(showValue(12n), '12');
  assert.equal(showValue(undefined), 'undefined');
  assert.equal(showValue(null), 'null');
});
