/** Whatever fails, and however it is reported: a password in its message is not shown. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../../bin/pgsluice.js', import.meta.url));
const URL_WITH_PASSWORD = 'postgres://u:cret@h/db';
/** Throws outside of any call as soon as the program is ready for that; its own text is in the stack. */
const BUG = `data:text/javascript,${encodeURIComponent(`
  process.on('newListener', event => {
    if (event === 'uncaughtException') setImmediate(() => { throw new Error('no ${URL_WITH_PASSWORD.replace('cret', "cr' + 'et")}'); });
  })`)}`;

for (const json of [[], ['--json']]) {
  for (const [what, nodeWords, words, code] of /** @type {[string, string[], string[], number][]} */ ([
    ['a wrong command', [], [URL_WITH_PASSWORD], 2],
    ['a bug', ['--import', BUG], ['--version'], 1],
  ])) {
    test(`${what}${json.length > 0 ? ' as JSON' : ''} shows no password`, () => {
      const { status, stderr } = spawnSync(process.execPath, [...nodeWords, PROGRAM, ...words, ...json], {
        encoding: 'utf8',
      });
      assert.equal(status, code, stderr);
      assert.match(stderr, /postgres:\/\/u:\*\*\*@h\/db/);
      assert.doesNotMatch(stderr, /cret/);
    });
  }
}
