/** The kind of a log is told by its first record. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { describeFirstRecord } from '../../../src/follower/first-record.js';

/** @param {string} text */
const describe = text => describeFirstRecord(Buffer.from(text));

test('csvlog of real servers', () => {
  for (const version of [15, 18]) {
    const file = new URL(`../../fixtures/csvlog/postgresql-${version}.csv`, import.meta.url);
    assert.deepEqual(describeFirstRecord(readFileSync(file).subarray(0, 8192)), {
      format: 'csvlog',
      columns: 26,
    });
  }
});

/** @param {string} message */
const row = message => `2024-01-01 00:00:00.000 MSK,,,1,"${message}",,\nnext,row\n`;

test('commas, newlines and doubled quotes inside quotes are not counted', () => {
  for (const message of ['', 'a,b', 'a\nb', '""', 'a "","" b', ',""\n,']) {
    assert.deepEqual(describe(row(message)), { format: 'csvlog', columns: 7 }, JSON.stringify(message));
  }
  assert.deepEqual(describe('2024-01-01 00:00:00.000 +03,"a\n'), { format: 'csvlog', columns: null });
});

test('jsonlog and text', () => {
  assert.equal(describe('{"timestamp":"2024-01-01 00:00:00.000 UTC"}\n').format, 'jsonlog');
  for (const text of [
    '2024-01-01 00:00:00.000 UTC [1] LOG:  a, b\n',
    'x',
    '{',
    ',,,\n',
    '\u0000\u0000',
    '2024-01-01 00:00:00.000 UTC',
  ]) {
    assert.deepEqual(describe(text), { format: 'text', columns: null }, text);
  }
});
