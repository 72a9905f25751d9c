import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchSize } from '../../../src/worker/batch-size.js';

const MIB = 1024 * 1024;

test('batches are smaller while they are long on their way, and as large as allowed again afterwards', () => {
  const size = new BatchSize(8 * MIB);
  size.stored(8 * MIB, 400);
  assert.equal(size.bytes, 8 * MIB);
  for (let n = 0; n < 20; n += 1) size.stored(size.bytes, 5_000);
  assert.equal(size.bytes, MIB);
  size.stored(1000, 1);
  assert.equal(size.bytes, MIB);
  for (let n = 0; n < 20; n += 1) size.stored(size.bytes, 10);
  assert.equal(size.bytes, 8 * MIB);
});

test('never larger than allowed, and not below what was asked for', () => {
  const size = new BatchSize(MIB / 16);
  size.stored(MIB / 16, 5_000);
  assert.equal(size.bytes, MIB / 16);
  size.stored(MIB / 16, 1);
  assert.equal(size.bytes, MIB / 16);
});
