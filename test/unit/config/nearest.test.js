// Suggestions: close names are found, far ones are not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { nearest } from '../../../src/config/nearest.js';

const KNOWN = ['batch.max_bytes', 'batch.max_delay', 'http.listen', 'ssh.program'];

test('a name with few wrong letters is recognised', () => {
  /** @type {[string, string | null][]} */
  const cases = [
    ['batch.max_byte', 'batch.max_bytes'],
    ['batch.maxbytes', 'batch.max_bytes'],
    ['BATCH.MAX_DELAY', 'batch.max_delay'],
    ['http.lisen', 'http.listen'],
    ['http.listne', 'http.listen'],
    ['ssh.key', null],
    ['', null],
    ['x'.repeat(1_000_000), null],
  ];
  for (const [name, known] of cases) assert.equal(nearest(name, KNOWN), known);
});

test('the closest of several wins', () => {
  assert.equal(nearest('abcdef', ['abcdxx', 'abcdex', 'abxxef']), 'abcdex');
});

test('one letter inserted, removed or replaced is always recognised', () => {
  fc.assert(
    fc.property(fc.constantFrom(...KNOWN), fc.nat(), fc.constantFrom('', 'z', 'zz'), (name, at, put) => {
      const index = at % name.length;
      assert.equal(nearest(name.slice(0, index) + put + name.slice(index + 1), KNOWN), name);
    }),
  );
});
