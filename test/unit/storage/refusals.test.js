import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRefusal } from '../../../src/storage/refusals.js';

test('only what the data are at fault for is a refusal', () => {
  const refusals = ['22003', '22021', '22P03', '23502', '23505', '23514', '23P01', '54000', 'P0001'];
  const others = [
    ['53100', '53200', '57014', '57P01', '08006', '25006', '40001', '40P01', '42501', '42P01', '55P03'],
    ['28000', '58030', 'P0002', 'P0004', 'XX000', 'F0000', '2F005', 'ECONNRESET', 'EPIPE', 'FENCED', ''],
  ].flat();
  assert.deepEqual(
    [...refusals, ...others].filter(code =>
      isRefusal(Object.assign(new Error('x'), { code, routine: 'ExecConstraints' })),
    ),
    refusals,
  );
  // "violates partition constraint": the partition was made while the COPY ran.
  assert.equal(
    isRefusal(Object.assign(new Error('x'), { code: '23514', routine: 'ExecPartitionCheckEmitError' })),
    false,
  );
  assert.equal(isRefusal(new Error('the connection ended')), false);
});
