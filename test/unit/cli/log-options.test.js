/** How logs are read, from the command line: every option, its wrong values, and their removal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PgsluiceError } from '../../../src/base/errors.js';
import { readArguments } from '../../../src/cli/arguments.js';
import { COMMANDS } from '../../../src/cli/commands.js';
import { Context } from '../../../src/cli/context.js';
import { changedFields, readLogOptions } from '../../../src/cli/log-options.js';
import { Output } from '../../../src/cli/output.js';
import { LOG_FORMATS } from '../../../src/base/log-format.js';

/** @param {'add' | 'update'} command @param {string[]} words */
function contextOf(command, words) {
  const { operands, values } = readArguments(['host', command, 'x', ...words], COMMANDS);
  return new Context({ operands, values, output: new Output({ write: () => {} }) });
}

/** @param {...string} words */
const added = (...words) => changedFields(readLogOptions(contextOf('add', words), { removal: false }), {});

/** @param {Record<string, string>} before @param {...string} words */
const updated = (before, ...words) =>
  changedFields(readLogOptions(contextOf('update', words), { removal: true }), before);

/** @param {() => unknown} action @param {RegExp} message */
function refused(action, message) {
  assert.throws(action, error => {
    assert.ok(error instanceof PgsluiceError, String(error));
    assert.equal(error.code, 'USAGE');
    // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
    assert.doesNotMatch(error.message, /[\u0000-\u001f\u007f-\u009f]/);
    assert.match(error.message, message);
    return true;
  });
}

test('nothing given is nothing to change', () => {
  assert.deepEqual(added(), {});
  assert.deepEqual(updated({ a: 'LATIN1' }), {});
});

test('--format', () => {
  assert.deepEqual(LOG_FORMATS, ['auto', 'csvlog', 'jsonlog', 'stderr', 'plain']);
  for (const format of LOG_FORMATS) assert.deepEqual(added('--format', format), { format });
  assert.deepEqual(updated({}, '--format', 'auto'), { format: 'auto' });
  refused(() => added('--format', 'jsonlg'), /^--format "jsonlg" is unknown: did you mean jsonlog\?$/);
  refused(
    () => added('--format', 'xml\u001b[31m'),
    /^--format .* is unknown: one of auto, csvlog, jsonlog, stderr, plain$/,
  );
  refused(() => updated({}, '--format='), /^--format "" is unknown/);
});

test('--line-prefix', () => {
  for (const linePrefix of ['%m [%p] ', '<%u%%%d> ', '%t [%p-%l] %q%u@%d ', ''])
    assert.deepEqual(added(`--line-prefix=${linePrefix}`), { linePrefix });
  assert.deepEqual(updated({}, '--line-prefix', '%m [%p] '), { linePrefix: '%m [%p] ' });
  assert.deepEqual(updated({}, '--line-prefix', ''), { linePrefix: null });
  // Two names with nothing between them cannot be told apart.
  refused(() => added('--line-prefix', '%u%d '), /^--line-prefix "%u%d ": /);
  refused(() => added('--line-prefix', '%m\n'), /^--line-prefix "%m\\n": /);
  refused(() => added('--line-prefix', `%m${'x'.repeat(5000)}`), /^--line-prefix /);
});

test('--timezone', () => {
  for (const timeZone of ['UTC', 'Europe/Moscow', 'Etc/GMT-3', '<+03>-3'])
    assert.deepEqual(added('--timezone', timeZone), { timeZone });
  assert.deepEqual(updated({}, '--timezone', ''), { timeZone: null });
  for (const wrong of ['', 'MSK', 'Europe/Moskow', 'Mars/Olympus', '../etc/passwd', 'UTC\u001b[2J'])
    refused(() => added('--timezone', wrong), /^--timezone .* is not a time zone of the IANA database/);
});

test('--encoding of a new host', () => {
  assert.deepEqual(added('--encoding', 'win1251'), { encoding: 'WIN1251' });
  assert.deepEqual(
    added('--encoding', 'ISO-8859-1', '--encoding', 'shop=euc_jp', '--encoding', 'old=Shift_JIS'),
    {
      encoding: 'LATIN1',
      encodings: { shop: 'EUC_JP', old: 'SJIS' },
    },
  );
  // The last = parts: a database may have one in its name, an encoding never.
  assert.deepEqual(added('--encoding', 'a=b=latin1', '--encoding', 'a==latin2'), {
    encodings: { 'a=b': 'LATIN1', 'a=': 'LATIN2' },
  });
  const { encodings } = added('--encoding', '__proto__=latin1', '--encoding', 'constructor=latin1');
  assert.deepEqual(Object.entries(encodings ?? {}), [
    ['__proto__', 'LATIN1'],
    ['constructor', 'LATIN1'],
  ]);
  refused(
    () => added('--encoding', 'latin11'),
    /^--encoding "latin11": .*no encoding of that name: did you mean LATIN\d+\?$/,
  );
  refused(
    () => added('--encoding', 'shop=klingon'),
    /^--encoding "shop=klingon": .*: one of BIG5, .*WIN1258$/,
  );
  refused(() => added('--encoding', ''), /^--encoding "": /);
  refused(() => added('--encoding', 'shop='), /^--encoding "shop=": /);
  refused(() => added('--encoding', '=latin1'), /^--encoding "=latin1" names no database before the =$/);
  refused(() => added('--encoding', 'latin1', '--encoding', 'latin2'), /for all databases is given twice$/);
  refused(
    () => added('--encoding', 'x\u001b=latin1', '--encoding', 'x\u001b=latin2'),
    /for database "x\\u001b" is given twice$/,
  );
});

test('--encoding that is changed and removed', () => {
  const before = { shop: 'EUC_JP', old: 'SJIS' };
  assert.deepEqual(updated(before, '--encoding', 'shop='), { encodings: { old: 'SJIS' } });
  assert.deepEqual(updated(before, '--encoding', 'new=latin1', '--encoding', 'old=UTF8', '--encoding', ''), {
    encoding: null,
    encodings: { shop: 'EUC_JP', old: 'UTF8', new: 'LATIN1' },
  });
  assert.deepEqual(updated(before, '--encoding', 'latin1'), { encoding: 'LATIN1' });
  assert.deepEqual(before, { shop: 'EUC_JP', old: 'SJIS' });
  refused(
    () => updated(before, '--encoding', 'none='),
    /^--encoding "none=" removes an encoding that was not set$/,
  );
  refused(() => updated(before, '--encoding', '='), /names no database/);
  refused(() => updated(before, '--encoding', 'shop=', '--encoding', 'shop=latin1'), /given twice$/);
  refused(() => updated(before, '--encoding', '', '--encoding', 'latin1'), /given twice$/);
});
