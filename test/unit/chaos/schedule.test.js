import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAULTS } from '../../chaos/faults.js';
import { plan } from '../../chaos/schedule.js';

const KINDS = Object.keys(FAULTS);

test('a seed decides the schedule, another seed another one', () => {
  assert.deepEqual(plan(7, 60, KINDS), plan(7, 60, KINDS));
  assert.notDeepEqual(plan(7, 60, KINDS), plan(8, 60, KINDS));
});

test('every kind comes, in ten minutes often', () => {
  const counts = new Map(KINDS.map(kind => [kind, 0]));
  const planned = plan(1, 600, KINDS);
  for (const { kind } of planned) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  assert.ok(planned.length > 300, `${planned.length} faults`);
  assert.ok(Math.min(...counts.values()) >= 5);
  assert.ok(planned.every(({ atMs }, index) => index === 0 || atMs > (planned[index - 1]?.atMs ?? 0)));
});
