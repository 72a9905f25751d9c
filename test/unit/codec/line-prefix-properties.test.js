// Random prefixes and values: what a formatter of the test's own prints is read back; random bytes never throw.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { compileLinePrefix } from '../../../src/codec/line-prefix.js';
import { FIELD_OF, format, isMessage, match } from './line-prefix-model.js';

const LETTERS = Object.keys(FIELD_OF);
const FREE = 'audrhLbi';
const Q_ENDED = 28;

/** Between values: nothing of it is in a plain value, and no value goes on with it. */
const separator = fc.string({
  unit: fc.constantFrom(' ', ',', '[', ']', '@', '=', '|', '(', '%%'),
  minLength: 1,
  maxLength: 3,
});
const padding = fc.oneof(fc.constant(''), fc.integer({ min: -30, max: 30 }).map(String));
const pieces = fc
  .uniqueArray(fc.constantFrom(...LETTERS), { maxLength: 10 })
  .chain(letters =>
    fc.tuple(
      fc.constant(letters),
      fc.array(padding, { minLength: 10, maxLength: 10 }),
      fc.array(separator, { minLength: 11, maxLength: 11 }),
      fc.option(fc.nat(letters.length), { freq: 2 }),
    ),
  );
const prefixes = pieces.map(([letters, widths, separators, quit]) => {
  let text = separators[10] ?? '';
  for (const [index, letter] of letters.entries()) {
    if (quit === index) text += '%q';
    text += `%${widths[index]}${letter}${separators[index]}`;
  }
  return { text, letters, quit: quit !== null && quit < letters.length ? quit : null };
});

const word = fc.string({
  unit: fc.constantFrom('a', 'B', '7', '_', '.', '-', '\xe9', '\xff', '\0'),
  minLength: 1,
  maxLength: 20,
});
const digits = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }).map(String);
const hex = fc.nat().map(value => value.toString(16));
const pad = (/** @type {number} */ value, length = 2) => String(value).padStart(length, '0');
const date = fc
  .tuple(fc.nat(9999), fc.nat(99), fc.nat(99), fc.nat(23), fc.nat(59), fc.nat(59))
  .map(([y, m, d, h, min, s]) => `${pad(y, 4)}-${pad(m)}-${pad(d)} ${pad(h)}:${pad(min)}:${pad(s)}`);
const zone = fc.constantFrom('UTC', 'MSK', 'cest', '+03', '-0330', '+0545');
const time = fc.tuple(date, zone).map(([at, name]) => `${at} ${name}`);
const milliseconds = fc.nat(999).map(ms => pad(ms, 3));
/** @param {fc.Arbitrary<string>} value */
const orNone = value => fc.oneof(value, fc.constant(''));
const values = fc.record({
  a: orNone(word),
  u: orNone(word),
  d: orNone(word),
  r: orNone(fc.tuple(word, fc.nat(65_535)).map(([host, port]) => `${host}:${port}`)),
  h: orNone(word),
  L: word,
  b: word,
  i: orNone(word),
  p: digits,
  P: orNone(digits),
  t: time,
  m: fc.tuple(date, milliseconds, zone).map(([at, ms, name]) => `${at}.${ms} ${name}`),
  n: fc.tuple(fc.nat(), milliseconds).map(([seconds, ms]) => `${seconds}.${ms}`),
  e: fc.string({ unit: fc.constantFrom('0', '4', '2', 'P', 'Z'), minLength: 5, maxLength: 5 }),
  Q: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  c: fc.tuple(hex, hex).map(([seconds, pid]) => `${seconds}.${pid}`),
  l: digits,
  s: time,
  v: orNone(fc.tuple(fc.nat(), fc.nat()).map(([backend, id]) => `${backend}/${id}`)),
  x: digits,
});

/**
 * @param {string[]} letters of the values that are printed
 * @param {import('./line-prefix-model.js').Values} given
 * @param {boolean} background
 */
function expectedFields(letters, given, background) {
  /** @type {Record<number, string>} */
  const fields = {};
  for (const letter of letters) {
    if ((letter === 't' && letters.includes('m')) || (letter === 'h' && letters.includes('r'))) continue;
    const session = 'audrhi'.includes(letter);
    const value = background && session ? '' : given[letter] || ('aud'.includes(letter) ? '[unknown]' : '');
    if (value) fields[FIELD_OF[/** @type {keyof typeof FIELD_OF} */ (letter)]] = value;
  }
  return fields;
}

test('what PostgreSQL prints is read back', () => {
  fc.assert(
    fc.property(prefixes, values, fc.boolean(), ({ text, letters, quit }, given, background) => {
      const head = format(text, given, background);
      const result = match(text, `${head}LOG:  a message`);
      const ended = background && quit !== null;
      const fields = expectedFields(ended ? letters.slice(0, quit) : letters, given, background);
      if (ended) fields[Q_ENDED] = '';
      // A free text of a process without a client is empty, so a prefix may fit at a %q that was not reached.
      assert.deepEqual(result, { after: head.length, fields }, JSON.stringify([text, head]));
    }),
    { numRuns: 3000 },
  );
});

test('whatever names hold, a message is found no later than where it is', () => {
  const nasty = fc.string({
    unit: fc.constantFrom(' ', ',', '@', '[', ']', '=', ':', 'LOG:  ', 'a', '(', '\xff', '%', '['),
    maxLength: 12,
  });
  // A host comes from a resolver or is an address: there is no blank in it.
  const host = nasty.map(text => text.replaceAll(' ', ''));
  const hostile = values.chain(plain =>
    fc
      .record({ a: nasty, u: nasty, d: nasty, r: host, h: host, i: nasty, b: nasty, L: host })
      .map(names => ({ ...plain, ...names })),
  );
  fc.assert(
    fc.property(prefixes, hostile, ({ text, letters }, given) => {
      const head = format(text, given);
      const line = `${head}LOG:  a message`;
      const result = match(text, line);
      assert.ok(result, JSON.stringify([text, head]));
      assert.ok(result.after <= head.length);
      if (letters.some(letter => FREE.includes(letter)) || text.includes('%q')) {
        const bytes = Buffer.from(line, 'latin1');
        assert.ok(isMessage(bytes, result.after, bytes.length));
      }
    }),
    { numRuns: 3000 },
  );
});

test('random prefixes and random bytes: nothing thrown but USAGE, nothing outside the line', () => {
  const settings = fc.oneof(
    prefixes.map(({ text }) => text),
    fc.string({
      unit: fc.constantFrom('%', '-', '1', '0', 'q', 'é', ' ', '\t', '\n', ...LETTERS),
      maxLength: 12,
    }),
    fc.string({ unit: 'binary', maxLength: 12 }),
  );
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    fc
      .array(
        fc.constantFrom(
          'LOG:  ',
          ' ',
          '[',
          ']',
          '@',
          '1',
          '2026-05-01 12:34:56',
          '.789',
          ' UTC',
          '3/4',
          'a.b',
          '00000',
          '%',
        ),
        {
          maxLength: 20,
        },
      )
      .map(parts => Buffer.from(parts.join(''))),
  );
  let compiled = 0;
  fc.assert(
    fc.property(settings, noise, fc.nat(20), fc.nat(20), (text, bytes, before, behind) => {
      let prefix;
      try {
        prefix = compileLinePrefix(text);
      } catch (error) {
        assert.equal(/** @type {{ code?: string }} */ (error).code, 'USAGE');
        assert.doesNotMatch(/** @type {Error} */ (error).message, /[\n\0]/);
        return;
      }
      compiled += 1;
      const at = Math.min(before, bytes.length);
      const end = Math.max(at, bytes.length - behind);
      const after = prefix.match(bytes, at, end, isMessage);
      if (after < 0) return;
      assert.ok(after >= at && after <= end);
      for (let field = 0; field < prefix.fields.length; field += 2) {
        const [start = 0, stop = 0] = prefix.fields.subarray(field, field + 2);
        assert.ok(start === -1 ? stop === -1 : start >= at && stop >= start && stop <= after);
      }
    }),
    { numRuns: 5000 },
  );
  assert.ok(compiled > 1000);
});
