/**
 * The forced command under dash, bash and busybox, as sshd runs it: what it lets through, and what it does not.
 * Whoever tries something has the key, speaks the protocol, and would leave a file.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { posixCksum } from '../../../src/codec/cksum.js';
import { authorizedKeysLine } from '../../../src/follower/authorized-keys.js';
import { followerCommand, followerInput } from '../../../src/follower/index.js';
import { journalCommand, journalInput } from '../../../src/follower/journal.js';
import { parseProbe, probeCommand, probeInput } from '../../../src/follower/probe.js';
import { forcedCommandOf } from '../../helpers/authorized-keys.js';
import { testShells } from '../../helpers/shells.js';

const WAIT_MS = 60_000;
const SECRET = 'secret bytes of another file\n';
const { shells, remove } = testShells();
/** @type {string} */
let dir;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-allowed-'));
  for (const name of ['logs', 'it\'s $(touch canary) `x` "y" \\ !', 'other', 'one'])
    mkdirSync(join(dir, name));
  writeFileSync(join(dir, 'logs', 'a.csv'), 'a log\n');
  writeFileSync(join(dir, 'it\'s $(touch canary) `x` "y" \\ !', 'b.csv'), 'a log\n');
  writeFileSync(join(dir, 'other', 'a.csv'), SECRET);
  writeFileSync(join(dir, 'one', 'a.log'), 'a log\n');
  writeFileSync(join(dir, 'one', 'passwords'), SECRET);
});
after(() => {
  remove();
  rmSync(dir, { recursive: true });
});

/** @returns {string[]} */
const allowed = () => [
  join(dir, 'logs'),
  join(dir, 'it\'s $(touch canary) `x` "y" \\ !'),
  join(dir, 'one', 'a.log'),
  'journal:pg.service',
];

/** @param {string} path @returns {import('../../../src/follower/index.js').FollowerParameters} */
const everything = path => ({ path, format: 'plain', from: 'start', known: [] });

for (const shell of shells) {
  describe(`the forced command under ${shell.name}`, () => {
    /** Where sh is this shell. @type {string} */
    let bin;
    /** @type {string} */
    let loginShell;
    before(() => {
      bin = mkdtempSync(join(tmpdir(), 'pgsluice-sh-'));
      loginShell = shell.name === 'busybox' ? join(shell.path, 'sh') : `/bin/${shell.name}`;
      symlinkSync(loginShell, join(bin, 'sh'));
    });
    after(() => rmSync(bin, { recursive: true }));

    /**
     * What sshd does with a session of the client.
     * @param {string | null} command null: a login shell is asked for
     * @param {string} input
     * @param {{ until?: string, path?: string, paths?: string[] }} [options] until: end it when this is in its output
     */
    async function session(
      command,
      input,
      { until = '\nI ', path = `${bin}:${shell.path}`, paths = allowed() } = {},
    ) {
      const forced = forcedCommandOf(
        authorizedKeysLine({ key: 'ssh-ed25519 AAAA', paths, sudoUser: null, comment: 'x' }),
      );
      const [program, ...args] = [loginShell, ...shell.argv.slice(1)];
      const child = spawn(program, [...args, '-c', forced], {
        cwd: dir,
        env: { HOME: dir, PATH: path, ...(command === null ? {} : { SSH_ORIGINAL_COMMAND: command }) },
      });
      const timer = setTimeout(() => child.kill('SIGKILL'), WAIT_MS);
      let stdout = '';
      let stderr = '';
      child.stdout.setEncoding('latin1').on('data', text => {
        stdout += text;
        if (stdout.includes(until)) child.kill('SIGKILL');
      });
      child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
      child.stdin.on('error', () => {});
      child.stdin.end(input);
      const [code, signal] = await once(child, 'close');
      clearTimeout(timer);
      const leftCanary = existsSync(join(dir, 'canary'));
      if (leftCanary) unlinkSync(join(dir, 'canary'));
      assert.equal(
        leftCanary,
        false,
        `it ran: ${JSON.stringify(command)} ${JSON.stringify(input.slice(-200))}`,
      );
      return { code, ended: signal === 'SIGKILL', stdout, stderr };
    }

    test('the follower follows what is allowed, under hostile names too', async () => {
      for (const path of allowed().slice(0, 3)) {
        const { ended, stdout, stderr } = await session(
          followerCommand(null),
          followerInput(everything(path)),
          {
            until: 'a log\n',
          },
        );
        assert.ok(ended, `${path}: ${stdout}${stderr}`);
      }
    });

    test('the probe tells of what is allowed', async () => {
      const wanted = { logs: allowed(), discover: false };
      const { stdout, stderr } = await session(probeCommand(null), probeInput(wanted), { until: '\nE\n' });
      assert.equal(stderr, '');
      assert.deepEqual(
        parseProbe(Buffer.from(stdout, 'latin1'), wanted).logs.map(({ kind }) => kind),
        ['directory', 'directory', 'file', 'journal'],
      );
    });

    test('no other path is read', async () => {
      const logs = join(dir, 'logs');
      for (const path of [
        join(dir, 'other'),
        '/etc/passwd',
        dir,
        `${logs}/`,
        `${logs}/a.csv`,
        `${logs}/../other`,
        '/a.log', // the end of one
        '',
        '*',
      ]) {
        const input = followerInput({ ...everything('/'), path: '/' }).replace(/^path \/$/m, `path ${path}`);
        const { code, stdout, stderr } = await session(followerCommand(null), input);
        assert.deepEqual([code, stdout], [77, '']);
        assert.equal(stderr, `pgsluice denies: authorized_keys does not allow ${path}\n`);
        const probed = probeInput({ logs: ['/'], discover: false }).replace(/^log \/$/m, `log ${path}`);
        if (path === '') continue; // nothing is asked for
        const outcome = await session(probeCommand(null), probed);
        assert.deepEqual([outcome.code, outcome.stdout], [77, '']);
        assert.match(outcome.stderr, /^pgsluice denies: authorized_keys does not allow \S+\n$/);
      }
      const discovering = await session(probeCommand(null), probeInput({ logs: [], discover: true }));
      assert.deepEqual([discovering.code, discovering.stdout], [77, '']);
      assert.match(discovering.stderr, /^pgsluice denies: .*--log\n$/);
    });

    test('no other unit and no other journal is read', async () => {
      /** @param {Partial<import('../../../src/follower/journal.js').JournalParameters>} what */
      const journal = what =>
        session(
          journalCommand(null),
          journalInput({ unit: 'pg.service', from: 'start', cursor: null, ...what }),
        );
      for (const what of [{ unit: 'ssh.service' }, { unit: 'pg' }, { directory: '/var/log/other' }]) {
        const { code, stdout, stderr } = await journal(what);
        assert.deepEqual([code, stdout], [77, '']);
        assert.match(stderr, /^pgsluice denies: authorized_keys does not allow \S+\n$/);
      }
    });

    test('beside a file that is allowed no other is read, whatever is said to be known', async () => {
      const { ino } = statSync(join(dir, 'one', 'passwords'));
      const sum = posixCksum(Buffer.from(SECRET.slice(0, 1)));
      const known = [
        {
          inode: String(ino),
          offset: 1,
          headLength: 1,
          headSum: sum,
          tailLength: 1,
          tailSum: sum,
          name: 'passwords',
          gone: false,
          doneSize: null,
        },
      ];
      const { stdout } = await session(
        followerCommand(null),
        followerInput({ ...everything(join(dir, 'one', 'a.log')), known }),
        { until: '\nH ' },
      );
      assert.match(stdout, /^T 0 6\na log\nK 6$/m);
      assert.doesNotMatch(stdout, /ecret/);
    });

    test('nothing but the very programs is run', async () => {
      const good = followerInput(everything(join(dir, 'logs')));
      const program = good.slice(0, good.indexOf('\npath /') + 1);
      const evil = `touch ${join(dir, 'canary')};exit #`;
      for (const input of [
        evil.padEnd(program.length - 1, '#') + '\n' + good.slice(program.length),
        good.replace('LC_ALL=C', 'LC_ALL=B'),
        `${program.slice(0, -2)} \n${good.slice(program.length)}`,
        good.replace('\n', `\n${evil}\n`),
        `${evil}\n`,
        '',
      ]) {
        const { code, stdout, stderr } = await session(followerCommand(null), input);
        assert.deepEqual([code, stdout], [77, ''], stderr);
        assert.match(stderr, /^pgsluice denies: .*another version of the follower\n$/);
      }
      // A program under the name of another.
      const { code } = await session(probeCommand(null), good);
      assert.equal(code, 77);
    });

    test('the command of the client is a word to choose by, and never run', async () => {
      const canary = `touch ${join(dir, 'canary')}`;
      const input = followerInput(everything(join(dir, 'logs')));
      for (const command of [
        null,
        '',
        'id',
        canary,
        'pgsluice-follower ',
        'pgsluice-followerx',
        `pgsluice-follower; ${canary}`,
        `pgsluice-follower\n${canary}`,
        `x pgsluice-*`,
        `$(${canary})`,
        '/usr/lib/openssh/sftp-server',
        'scp -t /tmp',
        `x ${'pgsluice-follower'.repeat(5000)}`,
      ]) {
        const { code, stdout, stderr } = await session(command, input);
        assert.deepEqual([code, stdout], [77, ''], JSON.stringify(command?.slice(0, 100)));
        assert.match(stderr, /^pgsluice denies: [^\n]* nothing else\n$/);
      }
      for (const command of [
        `; ${canary}; pgsluice-follower`,
        `$(${canary}) \`${canary}\`\n\n pgsluice-follower`,
      ]) {
        const { ended, stdout, stderr } = await session(command, input);
        assert.ok(ended && stdout.includes('\nI '), stderr);
      }
    });

    test('what is said to be known is never computed with before it is known to be numbers', async () => {
      const evil = `a[$(touch\${IFS}${join(dir, 'canary')})]`;
      // Of a file that is there: its numbers are used.
      const good = [String(statSync(join(dir, 'logs', 'a.csv')).ino), 'K', '2', '2', '3', '2', '3', './x'];
      const lines = [0, 2, 3, 4, 5, 6].map(index => ['known', ...good.with(index, evil)].join(' '));
      lines.push(`known ${good.slice(0, 7).join(' ')} ${evil} ./x`, `known 1 K 2\t2\t3\t2\t3\t./${evil}`);
      lines.push(
        `known 1 K 2 2 3 2 3 ./../other/a.csv`,
        `gone ${evil}`,
        `done ${evil}/1`,
        `done 1/${evil}`,
        `done ${evil}`,
      );
      lines.push('known 1 K 2 2 3 2  3 ./x', 'known ', 'gone ', 'done ');
      for (const line of lines) {
        const input = followerInput(everything(join(dir, 'logs'))).replace(/go\n$/, `${line}\ngo\n`);
        const { code, stdout, ended } = await session(followerCommand(null), input);
        assert.deepEqual([code, stdout, ended], [2, '', false], line);
      }
    });

    test('without sha256sum nothing is run', async () => {
      const poor = mkdtempSync(join(tmpdir(), 'pgsluice-poor-'));
      symlinkSync(loginShell, join(poor, 'sh'));
      symlinkSync(shell.name === 'busybox' ? join(shell.path, 'dd') : '/bin/dd', join(poor, 'dd'));
      const input = followerInput(everything(join(dir, 'logs')));
      const { code, stdout, stderr } = await session(followerCommand(null), input, { path: poor });
      rmSync(poor, { recursive: true });
      // busybox sh finds its own applets when PATH has none.
      if (shell.name === 'busybox' && code !== 77) {
        assert.match(stdout, /\nI /);
        return;
      }
      assert.deepEqual([code, stdout], [77, '']);
      assert.match(stderr, /^pgsluice denies: sha256sum is missing on this host\n$/);
    });
  });
}
