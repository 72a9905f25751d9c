import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DatabaseError } from 'pg';
import { mayBeRefusal } from '../../../src/storage/refusals.js';

/** @param {string} code @param {string} [routine] */
const errorOf = (code, routine = 'ExecConstraints') =>
  Object.assign(new DatabaseError('x', 1, 'error'), { code, routine });

test('what cannot be the fault of the data is no refusal', () => {
  const refusals = ['22003', '22021', '22P03', '23502', '23505', '23514', '23P01', '54000', 'P0001'];
  const perhaps = ['P0002', 'P0004', 'MY001', '45000', '99999', '21000', '44000'];
  const others = [
    [
      '53100',
      '53200',
      '53300',
      '57014',
      '57P01',
      '08006',
      '25006',
      '25P02',
      '40001',
      '40P01',
      '42501',
      '42P01',
    ],
    [
      '28000',
      '58030',
      '55P03',
      '0A000',
      '38000',
      '3D000',
      'HV00N',
      'XX000',
      'XX001',
      'F0000',
      '2F005',
      '2BP01',
    ],
  ].flat();
  const all = [...refusals, ...perhaps, ...others];
  assert.deepEqual(
    all.filter(code => mayBeRefusal(errorOf(code))),
    [...refusals, ...perhaps],
  );
  // "violates partition constraint": the partition was made while the COPY ran.
  assert.equal(mayBeRefusal(errorOf('23514', 'ExecPartitionCheckEmitError')), false);
  // Not of PostgreSQL, though five letters may look like it.
  assert.equal(mayBeRefusal(Object.assign(new Error('x'), { code: 'EPIPE' })), false);
  assert.equal(mayBeRefusal(new Error('the connection ended')), false);
});
