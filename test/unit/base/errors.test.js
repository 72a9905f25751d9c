import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ERRORS, PgsluiceError } from '../../../src/base/errors.js';

test('the README lists every error code with its exit code and meaning, and no other', () => {
  const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
  const listed = [...readme.matchAll(/^\| `([A-Z0-9_]+)` *\| (\d) *\| (.+?) *\|$/gm)].map(
    ([, code, exit, about]) => ({
      code,
      exit: Number(exit),
      about,
    }),
  );
  const known = Object.entries(ERRORS).map(([code, { exit, about }]) => ({ code, exit, about }));
  assert.deepEqual(listed, known);
});

test('an error knows its class, its exit code and its cause', () => {
  const cause = new Error('why');
  const error = new PgsluiceError('STORAGE_UNREACHABLE', 'what happened', { cause });
  assert.deepEqual(
    [error.class, error.exitCode, error.cause, error.message],
    ['retry', 3, cause, 'what happened'],
  );
});
