// Names and decoders, with characters spelled out; every sequence is compared with PostgreSQL in the oracle test.
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ENCODING_NAMES, encodingNamed } from '../../../src/codec/encodings.js';

const DECODED = ENCODING_NAMES.filter(name => name !== 'UTF8' && name !== 'SQL_ASCII');

/**
 * @param {string} name
 * @param {string | Uint8Array} bytes hex, with spaces
 * @returns {string | null}
 */
function decode(name, bytes) {
  const decoder = encodingNamed(name)?.decode;
  assert.ok(decoder, name);
  const given = typeof bytes === 'string' ? Buffer.from(bytes.replaceAll(' ', ''), 'hex') : bytes;
  return decoder(given)?.toString('utf8') ?? null;
}

test('names in any spelling that PostgreSQL takes', () => {
  for (const [spelling, name] of [
    ['WIN1251', 'WIN1251'],
    ['win', 'WIN1251'],
    ['Windows-1251', 'WIN1251'],
    ['win 12_51', 'WIN1251'],
    ['ALT', 'WIN866'],
    ['KOI8', 'KOI8R'],
    ['koi8-r', 'KOI8R'],
    ['ISO 8859-1', 'LATIN1'],
    ['iso_8859_9', 'LATIN5'],
    ['ISO-8859-5', 'ISO_8859_5'],
    ['TCVN', 'WIN1258'],
    ['ABC', 'WIN1258'],
    ['Mskanji', 'SJIS'],
    ['Shift_JIS', 'SJIS'],
    ['euc-jis-2004', 'EUC_JIS_2004'],
    ['Unicode', 'UTF8'],
    ['utf-8', 'UTF8'],
    ['sql_ascii', 'SQL_ASCII'],
  ]) {
    assert.equal(encodingNamed(spelling ?? '')?.name, name, spelling);
  }
  for (const name of ENCODING_NAMES) assert.equal(encodingNamed(name)?.name, name);
  assert.equal(encodingNamed('win'), encodingNamed('WIN1251'));
});

test('unknown, known with nothing to decode, and known with a decoder are three things', () => {
  for (const name of ['', '-', 'cp1251', 'latin11', 'WIN1251x', 'constructor', '__proto__'])
    assert.equal(encodingNamed(name), null, name);
  assert.deepEqual(encodingNamed('UTF8'), { name: 'UTF8', decode: null });
  assert.deepEqual(encodingNamed('SQL_ASCII'), { name: 'SQL_ASCII', decode: null });
  assert.equal(DECODED.length, 40);
  for (const name of DECODED) assert.equal(typeof encodingNamed(name)?.decode, 'function', name);
});

test('known characters', () => {
  for (const [name, hex, text] of [
    ['WIN1251', 'cff0e8e2e5f22c20ecb8f020 b9 88', 'Привет, мёр №€'],
    ['WIN866', '8f e0 a8 a2 a5 e2 f0 fc', 'ПриветЁ№'],
    ['KOI8R', 'f0d2c9d7c5d4 a3', 'Приветё'],
    ['KOI8U', 'a4a6a7ad', 'єіїґ'],
    ['ISO_8859_5', 'bfe0d8d2d5e2f0', 'Привет№'],
    ['ISO_8859_6', 'e3d1cdc8c7', 'كرحبا'],
    ['ISO_8859_7', 'c3e5e9dc', 'Γειά'],
    ['ISO_8859_8', 'f9ece5ed', 'שלום'],
    ['LATIN1', '47 72 fc df 65 80 a4', 'Grüße\u0080¤'],
    ['LATIN2', 'b1 b6 e6', 'ąść'],
    ['LATIN5', 'd0 fd fe', 'Ğış'],
    ['LATIN9', 'a4', '€'],
    ['WIN1252', '80 93 94 9f', '€“”Ÿ'],
    ['WIN1250', '9c bf', 'śż'],
    ['WIN1258', '41 cc fe', 'A\u0300₫'],
    ['WIN874', 'ca c7 d1 80', 'สวั€'],
    ['EUC_JP', 'c6fccbdcb8ec 8eb1 8fb0a1 5c7e', '日本語ｱ丂\\~'],
    ['SJIS', '93fa967b8cea b1 955c 5c7e', '日本語ｱ表\\~'],
    ['EUC_JIS_2004', 'c6fc a4f7 8fa1a1', '日か\u309a\u{20089}'],
    ['SHIFT_JIS_2004', '93fa 82f5 8663', '日か\u309aæ\u0300'],
    ['EUC_KR', 'c7d1b1db a2e6', '한글€'],
    ['UHC', 'c7d1b1db 8141', '한글갂'],
    ['JOHAB', '41 d9a1', 'A⇒'],
    ['EUC_CN', 'd6d0cec4', '中文'],
    ['GBK', 'd6d0cec4 81 40', '中文丂'],
    ['GB18030', 'd6d0cec4 81308130 8431a439 90308130 e3329a35', '中文\u0080\uffff\u{10000}\u{10ffff}'],
    ['BIG5', 'a4a4a4e5 a55c', '中文功'],
    ['EUC_TW', 'c4e3 c5c6 8ea1c4e3 8ea2a1a1', '中文中乂'],
    [
      'MULE_INTERNAL',
      '41 81fc 82b1 8bf0 92c6fc 89b1 94b0a1 91d6d0 93c7d1 95c4e3 96a1a1',
      'AüąП日ｱ丂中한中乂',
    ],
  ]) {
    assert.equal(decode(name ?? '', hex ?? ''), text, name ?? '');
  }
});

test('bytes that mean nothing, sequences cut off, and NUL', () => {
  for (const [name, ...list] of [
    ['WIN1251', '98'],
    ['WIN1252', '81', '8d', '8f', '90', '9d'],
    ['ISO_8859_6', 'a1'],
    ['EUC_JP', 'c6', 'c641', 'ff', '8e', '8e41', '8f', '8fb0', '8fb041', '80'],
    ['SJIS', '93', '9320', 'fd', 'a0', '80'],
    ['EUC_JIS_2004', 'a4', '8f', '8fa1'],
    ['EUC_TW', '8e', '8ea2', '8ea2a1', '8ea0a1a1', '8ea8a1a1', '8fa1a1'],
    ['GB18030', '81', '8130', '813081', '81308139ff', '8431a530', 'e3329a36', 'fe39fe39', '80', 'ff'],
    ['MULE_INTERNAL', '81', '8141', '92c6', '92c641', '92 00c6', '80', '8ca1', '9df6a1a1', 'ff', '928fb0a1'],
    ['JOHAB', '88', '8841'],
  ]) {
    for (const hex of list) {
      assert.equal(decode(name ?? '', hex), null, `${name} ${hex}`);
      assert.equal(decode(name ?? '', `61${hex.replaceAll(' ', '')}`), null, `${name} a ${hex}`);
    }
  }
  for (const name of DECODED) {
    assert.equal(decode(name, ''), '', name);
    assert.equal(decode(name, '00'), null, name);
    assert.equal(decode(name, '6100'), null, name);
  }
});

test('texts that grow threefold, of every length', () => {
  for (let length = 0; length < 70; length += 1) {
    assert.equal(decode('WIN1252', '80'.repeat(length)), '€'.repeat(length));
    assert.equal(decode('EUC_JIS_2004', 'a4f7'.repeat(length)), 'か\u309a'.repeat(length));
    assert.equal(decode('GB18030', `41${'90308130'.repeat(length)}`), `A${'\u{10000}'.repeat(length)}`);
  }
});

test('a view into other bytes is read, and only that; the result is no view of it', () => {
  const memory = new Uint8Array(16).fill(0x93);
  memory.set([0x93, 0xfa], 5);
  const view = memory.subarray(5, 7);
  const decoder = encodingNamed('SJIS')?.decode;
  const decoded = decoder?.(view);
  memory.fill(0x20);
  assert.equal(decoded?.toString('utf8'), '日');
  assert.equal(decode('SJIS', Uint8Array.of(0x93, 0xfa, 0x93).subarray(0, 1)), null);
});

test('ASCII is ASCII in every encoding, and any bytes give text or null', () => {
  const ascii = fc.string({ unit: fc.integer({ min: 1, max: 127 }).map(code => String.fromCharCode(code)) });
  fc.assert(
    fc.property(fc.constantFrom(...DECODED), ascii, (name, text) => {
      assert.equal(decode(name, Buffer.from(text)), text);
    }),
    { numRuns: 300 },
  );
  let texts = 0;
  fc.assert(
    fc.property(fc.constantFrom(...DECODED), fc.uint8Array({ maxLength: 12 }), (name, bytes) => {
      const decoded = encodingNamed(name)?.decode?.(bytes) ?? null;
      if (decoded === null) return;
      texts += 1;
      assert.ok(isUtf8(decoded) && !decoded.includes(0));
      // What comes before and after is decoded as it is alone.
      const twice = encodingNamed(name)?.decode?.(Buffer.concat([bytes, Buffer.from('a'), bytes]));
      assert.equal(twice?.toString('hex'), `${decoded.toString('hex')}61${decoded.toString('hex')}`);
    }),
    { numRuns: 4000, seed: 1 },
  );
  assert.ok(texts > 500, `${texts} texts`);
});
