import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { posixCksum } from '../../../src/codec/cksum.js';
import { fixture } from './csvlog-model.js';

test('the checksum is what cksum(1) prints', () => {
  const bytes = fixture('postgresql-18.csv');
  for (const length of [0, 1, 2, 255, 256, 257, 4096, bytes.length]) {
    const part = bytes.subarray(0, length);
    const printed = execFileSync('cksum', { input: part, encoding: 'latin1' });
    assert.equal(printed.trim(), `${posixCksum(part)} ${length}`);
  }
});
