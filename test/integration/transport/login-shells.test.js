/**
 * Login shells that are no POSIX shells, or others than those of the tests of the follower: sshd gives them what the
 * client asks for, and the forced command of an authorized_keys line, after -c. They must hand both to sh unchanged.
 * ForceCommand stands in for the shell field of passwd, which only root can change: what the shell gets is the same.
 */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { authorizedKeysLine } from '../../../src/follower/authorized-keys.js';
import { followerCommand, followerInput } from '../../../src/follower/index.js';
import { journalCommand, journalInput } from '../../../src/follower/journal.js';
import { parseProbe, probeCommand, probeInput } from '../../../src/follower/probe.js';
import { forcedCommandOf } from '../../helpers/authorized-keys.js';
import { loginShells } from '../../helpers/login-shells.js';
import { hostOf, runRemote } from '../../helpers/remote-program.js';
import { startSshd } from '../../helpers/sshd.js';

const UNIT = 'postgresql@15-main.service';
const ROW = 'a record of the log\n';
/** What csh, fish or a POSIX shell read in some quotes. */
const HOSTILE = 'it\'s $(touch canary) `touch canary` "y" \\ \\\\ !! !x ~ {a,b} *';

/** @typedef {import('../../helpers/remote-program.js').Program} Program */

/** Root may become another user without a rule of sudo's. */
const sudoUsers = process.getuid?.() === 0 ? ['nobody'] : [];

/** @type {string} */
let dir;
/** @type {string} */
let logs;

before(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-login-'));
  chmodSync(dir, 0o755);
  logs = join(dir, HOSTILE);
  mkdirSync(logs);
  writeFileSync(join(logs, 'a.csv'), ROW);
});
after(() => rmSync(dir, { recursive: true }));

const wanted = () => ({ logs: [logs, `journal:${UNIT}`], discover: false });

/** @returns {Program[]} */
const programs = () => [
  {
    command: followerCommand(null),
    input: followerInput({ path: logs, format: 'plain', from: 'start', known: [] }),
    until: `\n${ROW}`,
  },
  { command: probeCommand(null), input: probeInput(wanted()), until: '\nE\n' },
  journal(null),
];

/** What it says after its first line depends on the journal of this machine. @param {string | null} sudoUser @returns {Program} */
const journal = sudoUser => ({
  command: journalCommand(sudoUser),
  input: journalInput({ unit: UNIT, from: 'start', cursor: null }),
  until: '\n',
});

for (const { name, path, program } of loginShells().shells) {
  describe(`the login shell ${name}`, () => {
    /** @type {Awaited<ReturnType<typeof startSshd>>} */
    let sshd;
    /** @type {import('../../../src/ipc/messages.js').HostSpec} */
    let host;
    /** Of the line in authorized_keys; without it the shell gets what the client asks for. @type {string} */
    let forced;

    before(async () => {
      forced = join(dir, `forced-${name}`);
      const text = `$(cat ${forced} 2>/dev/null || printf %s "$SSH_ORIGINAL_COMMAND")`;
      sshd = await startSshd({ settings: [`ForceCommand exec ${path} -c "${text}"`] });
      host = await hostOf(sshd, name);
    });
    after(() => sshd.stop());

    /** @param {Program[]} some */
    async function work(some) {
      const outcomes = await Promise.all(some.map(program => runRemote(host, program)));
      assert.deepEqual(
        outcomes.map(({ error }) => error),
        some.map(() => null),
      );
      assert.equal(existsSync(join(dir, 'canary')) || existsSync(join(sshd.dir, 'canary')), false);
      return outcomes.map(({ bytes }) => bytes);
    }

    async function allWork() {
      const [, probed = Buffer.alloc(0), read] = await work(programs());
      assert.deepEqual(
        parseProbe(probed, wanted()).logs.map(({ kind }) => kind),
        ['directory', 'journal'],
      );
      assert.match(String(read), /^V 1 \d+\n/);
    }

    test('it is the one that is asked', async () => {
      const { bytes } = await runRemote(host, {
        command: "sh -c 'readlink /proc/$PPID/exe; :'; true",
        input: '',
      });
      assert.equal(bytes.toString(), `${program}\n`);
    });

    test('runs the follower, the probe and the follower of a journal', async () => {
      await allWork();
      await work(sudoUsers.map(journal));
    });

    test('runs them through the forced command of an authorized_keys line, and nothing else', async () => {
      const what = { key: 'ssh-ed25519 AAAA', paths: wanted().logs, comment: 'x' };
      for (const sudoUser of sudoUsers) {
        writeFileSync(forced, forcedCommandOf(authorizedKeysLine({ ...what, sudoUser })));
        await work([journal(sudoUser)]);
      }
      writeFileSync(forced, forcedCommandOf(authorizedKeysLine({ ...what, sudoUser: null })));
      await allWork();
      const canary = join(dir, 'canary');
      for (const command of [`touch ${canary}`, `'; touch ${canary}; echo '`, `!!; \`touch ${canary}\`\n`]) {
        const { bytes, error } = await runRemote(host, { command, input: '' });
        assert.equal(bytes.toString(), '');
        assert.equal(error?.code, 'FOLLOWER_DENIED', error?.message);
      }
      assert.equal(existsSync(canary), false);
    });
  });
}
