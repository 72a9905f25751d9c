/** Names that a host gives back or is asked for, under real shells: the bytes come, under that name, and nothing is run. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { FollowerRun } from '../../helpers/follower.js';
import { testShells } from '../../helpers/shells.js';

const RUNS = 4;
const { shells, remove } = testShells();
after(remove);

/** What a shell, ssh, printf, find or test could take for something else than text; the follower runs in the directory. */
const PIECES = [
  '-',
  '-n',
  '-exec',
  '!',
  '(',
  '$(touch canary)',
  '`touch canary`',
  ';touch canary;',
  "'",
  '"',
  '\\',
  '\\n',
];
PIECES.push(
  '%s',
  '%h',
  '{}',
  '~',
  '*',
  '?',
  '[a]',
  ' ',
  '  ',
  '&',
  '|',
  '>canary',
  '<',
  '$IFS',
  '$((1))',
  '#',
  '=',
  'é',
  '\u{1f600}',
);
PIECES.push('\u202e', ' K 1 1 1 1 1 .', ' S 1 1 .', 'x'.repeat(100));

const name = fc
  .array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 5 })
  .map(pieces => pieces.join(''))
  .filter(text => Buffer.byteLength(text) <= 240 && !/^\.{1,2}$/.test(text));

for (const shell of shells) {
  describe(`hostile names under ${shell.name}`, () => {
    test('of directories and files', async () => {
      await fc.assert(
        fc.asyncProperty(name, fc.uniqueArray(name, { minLength: 2, maxLength: 6 }), async (own, names) => {
          const base = mkdtempSync(join(tmpdir(), 'pgsluice-hostile-'));
          const dir = join(base, own);
          mkdirSync(dir);
          for (const each of names) writeFileSync(join(dir, `${each}.csv`), `bytes of ${each}\n`);
          // A control character in a name is not followed: a frame is a line.
          for (const each of ['new\nline', '\u001b[2J', 'D 0 9\n'])
            writeFileSync(join(dir, `${each}.csv`), 'never\n');
          const run = new FollowerRun(shell, { path: dir, format: 'csvlog', from: 'start' });
          try {
            for (const each of names) {
              const expected = `bytes of ${each}\n`;
              await run.until(() => run.bytes(`${each}.csv`).toString() === expected, each);
            }
            const seen = [...run.files.values()].flat().map(file => file.name);
            assert.deepEqual(seen.toSorted(), names.map(each => `${each}.csv`).toSorted());
            assert.equal(run.stderr, '');
            assert.equal(readdirSync(dir).length, names.length + 3);
            assert.equal(existsSync(join(dir, 'canary')), false);
          } finally {
            await run.stop();
            rmSync(base, { recursive: true });
          }
        }),
        { numRuns: RUNS },
      );
    });

    test('of one file', async () => {
      await fc.assert(
        fc.asyncProperty(name, async own => {
          const base = mkdtempSync(join(tmpdir(), 'pgsluice-hostile-'));
          writeFileSync(join(base, own), 'bytes\n');
          const run = new FollowerRun(shell, { path: join(base, own), format: 'plain', from: 'start' });
          try {
            await run.until(() => run.bytes(own).toString() === 'bytes\n', own);
            assert.deepEqual([run.stderr, readdirSync(base)], ['', [own]]);
          } finally {
            await run.stop();
            rmSync(base, { recursive: true });
          }
        }),
        { numRuns: RUNS },
      );
    });
  });
}
