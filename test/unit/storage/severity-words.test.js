// The numbers of severity words are stored in rows for ever: the table that a view translates them by must be the list.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SEVERITY_WORDS } from '../../../src/codec/languages.js';

test('the migrations fill pgsluice.severity_word with SEVERITY_WORDS', () => {
  const directory = fileURLToPath(new URL('../../../src/storage/migrations', import.meta.url));
  const sql = globSync('*.sql', { cwd: directory })
    .toSorted()
    .map(file => readFileSync(`${directory}/${file}`, 'utf8'))
    .join('\n');
  const rows = [...sql.matchAll(/^ {2}\((\d+), '([^']+)', '([A-Z]+)'\)[,;]$/gm)];
  assert.deepEqual(
    rows.map(([, number, word, tag]) => [Number(number), { word, tag }]),
    SEVERITY_WORDS.map((row, number) => [number, row]).slice(1),
  );
});
