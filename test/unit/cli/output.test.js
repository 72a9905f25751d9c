/** Nothing that came from elsewhere reaches a terminal as it is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Output, toJson } from '../../../src/cli/output.js';
import { bytesText } from '../../../src/cli/status.js';

// oxlint-disable-next-line no-control-regex -- control characters are what must not be there
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

/** @param {boolean} [isTTY] */
function recorder(isTTY = false) {
  let text = '';
  return {
    isTTY,
    write: (/** @type {string} */ part) => void (text += part),
    text: () => text,
  };
}

test('lines, labels and tables show control characters as escapes', () => {
  const stream = recorder();
  const output = new Output(stream);
  output.line('a\u001b[2Jb\nc');
  output.labelled('x\r', 'y\u009b31m', 'red');
  output.table(
    ['H', 'T'],
    [
      ['1\u0007', 'two'],
      ['long cell', '\u202e'],
    ],
  );
  assert.equal(
    stream.text(),
    ['a\\x1b[2Jb\\nc', 'x\\ry\\x9b31m', 'H          T', '1\\x07      two', 'long cell  \\u202e', ''].join(
      '\n',
    ),
  );
});

test('colours are for terminals', () => {
  const terminal = recorder(true);
  new Output(terminal).labelled('bad ', 'text', 'red');
  assert.equal(terminal.text(), '\u001b[31mbad \u001b[39mtext\n');
  const pipe = recorder();
  new Output(pipe).labelled('bad ', 'text', 'red');
  assert.equal(pipe.text(), 'bad text\n');
});

test('JSON keeps every value and holds no character that a terminal acts on', () => {
  fc.assert(
    fc.property(fc.json(), fc.string({ unit: 'binary' }), (json, text) => {
      const value = { value: JSON.parse(json), text: `${text}\u009b\u202e\u2028\u007f\u001b` };
      for (const indent of [0, 2]) {
        const shown = toJson(value, indent);
        assert.doesNotMatch(shown, UNSAFE);
        assert.deepEqual(JSON.parse(shown), JSON.parse(JSON.stringify(value)));
      }
    }),
  );
});

test('sizes for eyes', () => {
  assert.deepEqual([0, 1023, 1024, 1536, 1024 ** 3, 1024 ** 4].map(bytesText), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '1.0 GiB',
    '1.0 TiB',
  ]);
});
