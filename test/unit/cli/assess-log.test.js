/** What is wrong with a log, and that every problem comes with its remedy. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assessLog } from '../../../src/cli/assess-log.js';

/** @typedef {import('../../../src/follower/probe.js').LogFacts} LogFacts */

const READER = { user: 'monitor', sudo: false };
const none = { count: 0, bytes: 0, unreadable: 0 };
const csvRow = (/** @type {number} */ columns) =>
  Buffer.from(`2024-01-01 00:00:00.000 UTC${','.repeat(columns - 1)}\n`);

/** @param {Partial<LogFacts>} [changes] @returns {LogFacts} a data directory in which all is well */
function facts(changes) {
  return {
    path: '/data',
    kind: 'data',
    version: '15',
    destinations: ['csvlog'],
    directory: '/data/log',
    files: { csv: { count: 2, bytes: 300, unreadable: 0 }, json: none, log: { ...none, count: 2 } },
    newest: { name: 'b.csv', size: 100, modifiedAt: 1_700_000_000 },
    sample: csvRow(26),
    denied: null,
    ...changes,
  };
}

/** @param {Partial<LogFacts>} changes @param {RegExp} pattern @param {typeof READER} [reader] */
function problem(changes, pattern, reader = READER) {
  const { problems } = assessLog(facts(changes), reader);
  assert.equal(problems.length, 1, JSON.stringify(problems));
  assert.match(problems[0] ?? '', pattern);
}

test('a log that can be followed', () => {
  assert.deepEqual(assessLog(facts(), READER), {
    path: '/data',
    kind: 'data directory',
    readable: true,
    directory: '/data/log',
    files: 2,
    bytes: 300,
    newest: { name: 'b.csv', size: 100, modifiedAt: '2023-11-14T22:13:20.000Z' },
    format: 'csvlog',
    columns: 26,
    version: '15',
    problems: [],
  });
});

test('every version of csvlog is fine, other counts are not', () => {
  for (const columns of [22, 23, 24, 26])
    assert.deepEqual(assessLog(facts({ sample: csvRow(columns) }), READER).problems, []);
  for (const columns of [21, 25, 27])
    problem({ sample: csvRow(columns) }, new RegExp(`has ${columns} columns`));
  // A first record longer than what was looked at.
  const long = Buffer.concat([csvRow(10).subarray(0, -1), Buffer.from(`,"${'x'.repeat(100)}`)]);
  assert.equal(assessLog(facts({ sample: long }), READER).columns, null);
  assert.deepEqual(assessLog(facts({ sample: long }), READER).problems, []);
});

test('other formats', () => {
  problem({ sample: Buffer.from('{"timestamp":"x"}\n') }, /b\.csv holds jsonlog.*log_destination = 'csvlog'/);
  problem({ sample: Buffer.from('2024-01-01 00:00:00 UTC [1] LOG:  x\n') }, /b\.csv holds text/);
});

test('a cluster without csvlog', () => {
  const files = { csv: none, json: { ...none, count: 3 }, log: { ...none, count: 3 } };
  const empty = { newest: null, sample: null };
  problem(
    { ...empty, files, destinations: ['stderr', 'jsonlog'] },
    /no csvlog in \/data\/log, only jsonlog and stderr: add csvlog.*reload/,
  );
  problem(
    { ...empty, files: { csv: none, json: none, log: none }, destinations: [], directory: '/data/pg_log' },
    /no csvlog in \/data: set logging_collector = on.*restart/,
  );
  // Debian: one file of pg_ctl, no collector.
  problem(
    {
      ...empty,
      kind: 'directory',
      destinations: [],
      files: { csv: none, json: none, log: { ...none, count: 1 } },
      directory: '/var/log/postgresql',
    },
    /only stderr: set logging_collector = on/,
  );
});

test('files that are still empty are what csvlog begins with', () => {
  assert.deepEqual(assessLog(facts({ sample: null }), READER).problems, []);
  assert.deepEqual(assessLog(facts({ kind: 'file', sample: null, directory: null }), READER).problems, []);
});

test('places that are not there', () => {
  problem({ kind: 'missing', sample: null, newest: null }, /^\/data does not exist/);
  problem({ kind: 'other', sample: null, newest: null }, /neither a file nor a directory/);
  assert.equal(assessLog(facts({ kind: 'missing' }), READER).readable, false);
});

test('permissions name the owner and both remedies', () => {
  const denied = {
    need: /** @type {const} */ ('search'),
    mode: '700',
    path: '/data',
    owner: 'postgres',
    group: 'dba',
  };
  const empty = { newest: null, sample: null, files: { csv: none, json: none, log: none } };
  problem(
    { ...empty, denied },
    /^\/data cannot be entered by monitor \(postgres:dba, mode 700\): put monitor into group dba.*or use --sudo postgres$/,
  );
  problem({ ...empty, denied: { ...denied, need: 'read' } }, /cannot be listed/);
  problem({ ...empty, denied }, /or use --sudo with a user who may$/, { user: 'nobody', sudo: true });
  problem(
    {
      sample: null,
      files: { csv: { count: 5, bytes: 1, unreadable: 3 }, json: none, log: none },
      denied: { ...denied, need: 'read', mode: '600', path: '/data/log/a.csv' },
    },
    /^3 of 5 csv files cannot be read by monitor, such as \/data\/log\/a\.csv.*log_file_mode = 0640, or use --sudo postgres$/,
  );
});

test('a time beyond all calendars', () => {
  const report = assessLog(
    facts({ newest: { name: 'x', size: 1, modifiedAt: 999_999_999_999_999 } }),
    READER,
  );
  assert.equal(report.newest?.modifiedAt, '+275760-09-13T00:00:00.000Z');
});
