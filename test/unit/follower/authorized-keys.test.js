/** The authorized_keys line: its form, for hostile paths too. What it does is tested with real shells and sshd. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { authorizedKeysLine } from '../../../src/follower/authorized-keys.js';
import { followerCommand } from '../../../src/follower/index.js';
import { journalCommand } from '../../../src/follower/journal.js';
import { probeCommand } from '../../../src/follower/probe.js';
import { forcedCommandOf } from '../../helpers/authorized-keys.js';

const KEY = 'ssh-ed25519 AAAA';

/** @param {string[]} paths @param {string | null} [sudoUser] */
const line = (paths, sudoUser = null) =>
  authorizedKeysLine({ key: KEY, paths, sudoUser, comment: 'pgsluice 1' });

test('one physical line of ASCII: options, key, comment', () => {
  for (const sudoUser of [null, 'postgres']) {
    const text = line(['/var/log/postgresql', 'journal:postgresql.service'], sudoUser);
    assert.match(text, /^restrict,command="[ !#-~]([ !#-~]|\\")*" ssh-ed25519 AAAA pgsluice 1$/);
    assert.ok(text.length < 3000);
  }
});

test('it names the labels that the remote commands end with, and those alone that the streams need', () => {
  const last = (/** @type {string} */ command) => ` ${command.split(' ').at(-1)}\\") n=`;
  const [follower, journal, probe] = [followerCommand(null), journalCommand(null), probeCommand(null)].map(
    last,
  );
  const files = line(['/a']);
  assert.ok(files.includes(follower ?? '') && files.includes(probe ?? '') && !files.includes(journal ?? ''));
  const units = line(['journal:a.service']);
  assert.ok(!units.includes(follower ?? '') && units.includes(probe ?? '') && units.includes(journal ?? ''));
});

test('any path reaches the program as it is, whatever it holds', () => {
  const path = fc.string({
    unit: fc.constantFrom(...Array.from(`a/ '"\\$()\`!%{};&|<>*?[]~#é\u{1f600}-0`)),
    minLength: 1,
  });
  fc.assert(
    fc.property(fc.array(path, { minLength: 1, maxLength: 4 }), paths => {
      const text = line(paths);
      assert.match(text, /^[ -~]+$/);
      const command = forcedCommandOf(text);
      // Nothing of it means anything to csh or fish.
      assert.doesNotMatch(command, /!|\\\\|\\'|\n/);
      const set = /; (pgsluice_allowed=.*); eval "\$p"'$/.exec(command)?.[1] ?? '';
      assert.equal(
        execFileSync('sh', ['-c', `${set}; printf %s "$pgsluice_allowed"`]).toString(),
        paths.join('\n'),
      );
    }),
    { numRuns: 60 },
  );
});

test('what would not fit, and what cannot be, is refused', () => {
  assert.throws(() => line([]), /no log/);
  assert.throws(() => line(Array.from({ length: 90 }, (_, i) => `/${'a'.repeat(100)}${i}`)), /bytes/);
  assert.throws(() => line(['/a'], 'a; id'), /not a user name/);
});
