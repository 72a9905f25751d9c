// COPY BINARY parts: the buffer, the framing constants, rejected rows, escaped text. Expected bytes are spelled out.
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { COPY_HEADER, COPY_TRAILER, CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CSVLOG_COLUMNS, LOG_FIELDS } from '../../../src/codec/copy-columns.js';
import { escapeText } from '../../../src/codec/copy-escape.js';
import { encodeRejected } from '../../../src/codec/copy-rejected.js';
import { unescape } from './csvlog-model.js';

/** @param {string} spaced */
const hex = spaced => spaced.replaceAll(' ', '');

test('header and trailer are those of the manual', () => {
  assert.equal(COPY_HEADER.toString('hex'), hex('5047434f50590aff0d0a00 00000000 00000000'));
  assert.equal(COPY_TRAILER.toString('hex'), 'ffff');
  assert.equal(LOG_FIELDS, 31);
  assert.equal(CSVLOG_COLUMNS.length, 26);
});

test('the buffer grows with what it holds, keeps it, and gives back what was far too much', () => {
  const buffer = new CopyBuffer(16);
  for (let index = 0; index < 1000; index += 1) {
    buffer.ensure(4);
    buffer.view.setInt32(buffer.length, index);
    buffer.length += 4;
    buffer.rows += 1;
  }
  assert.equal(buffer.bytes().length, 4000);
  for (let index = 0; index < 1000; index += 1) assert.equal(buffer.bytes().readInt32BE(index * 4), index);
  buffer.reset();
  assert.deepEqual([buffer.length, buffer.rows, buffer.buffer.length], [0, 0, 16]);

  buffer.ensure(40);
  const grown = buffer.buffer;
  buffer.reset();
  assert.equal(buffer.buffer, grown);
  buffer.ensure(1);
  assert.equal(buffer.buffer, grown);
  assert.equal(buffer.view.byteLength, grown.length);
});

test('a rejected piece is a row of seven fields, its bytes cut at the limit', () => {
  const out = new CopyBuffer(16);
  const rejected = {
    streamId: 1,
    fileNo: 2,
    offset: 2 ** 40 + 3,
    length: 5,
    reason: 'né',
    bytes: Buffer.from('abc\0\xff', 'latin1'),
  };
  encodeRejected(out, rejected, Date.UTC(2000, 0, 1) + 1.5);
  const fixed =
    '0007 00000004 00000001 00000004 00000002 00000008 0000010000000003' +
    '00000008 0000000000000005 00000008 00000000000005dc 00000003 6ec3a9';
  assert.equal(out.bytes().toString('hex'), hex(`${fixed} 00000005 61626300ff`));
  assert.equal(out.rows, 1);

  out.reset();
  encodeRejected(out, rejected, Date.UTC(2000, 0, 1) + 1.5, 2);
  assert.equal(out.bytes().toString('hex'), hex(`${fixed} 00000002 6162`));

  out.reset();
  encodeRejected(out, { ...rejected, bytes: Buffer.alloc(1024 * 1024 + 1) }, 0);
  assert.equal(out.length, 1024 * 1024 + hex(fixed).length / 2 + 4);
});

/** @param {Uint8Array} bytes */
function escaped(bytes) {
  const into = Buffer.alloc(bytes.length * 4);
  return into.subarray(0, escapeText(bytes, into, 0));
}

test('escaping: what is valid stays, every other byte and NUL become \\xNN, a backslash is doubled', () => {
  /** @type {[string, string][]} */
  const cases = [
    ['61', 'a'],
    ['5c', '\\\\'],
    ['00', '\\x00'],
    ['c3a9', 'é'],
    ['e9', '\\xe9'],
    ['c3', '\\xc3'],
    ['c328', '\\xc3('],
    ['c080', '\\xc0\\x80'],
    ['c1bf', '\\xc1\\xbf'],
    ['dfbf', '\u07ff'],
    ['e0a080', '\u0800'],
    ['e09fbf', '\\xe0\\x9f\\xbf'],
    ['e282', '\\xe2\\x82'],
    ['e28261', '\\xe2\\x82a'],
    ['ed9fbf', '\ud7ff'],
    ['eda080', '\\xed\\xa0\\x80'],
    ['ee8080', '\ue000'],
    ['f0908080', '\u{10000}'],
    ['f08fbfbf', '\\xf0\\x8f\\xbf\\xbf'],
    ['f09f9098', '🐘'],
    ['f09f90', '\\xf0\\x9f\\x90'],
    ['f48fbfbf', '\u{10ffff}'],
    ['f4908080', '\\xf4\\x90\\x80\\x80'],
    ['f5808080', '\\xf5\\x80\\x80\\x80'],
    ['80', '\\x80'],
    ['ff', '\\xff'],
  ];
  for (const [bytes, text] of cases) assert.equal(escaped(Buffer.from(bytes, 'hex')).toString(), text, bytes);
});

test('escaped text is storable, and the original bytes can be had back', () => {
  const utf8 = fc.string({ unit: 'binary', maxLength: 10 }).map(value => Buffer.from(value));
  const anything = fc.uint8Array({ maxLength: 12 }).map(bytes => Buffer.from(bytes));
  const mixed = fc.array(fc.oneof(utf8, anything)).map(parts => Buffer.concat(parts));
  fc.assert(
    fc.property(mixed, bytes => {
      const text = escaped(bytes);
      assert.ok(isUtf8(text) && !text.includes(0));
      assert.equal(unescape(text.toString('latin1')), bytes.toString('latin1'));
      // Nothing but NUL and backslashes changes when the bytes are valid.
      if (isUtf8(bytes))
        assert.equal(text.toString(), bytes.toString().replaceAll('\\', '\\\\').replaceAll('\0', '\\x00'));
    }),
    { numRuns: 1000 },
  );
});
