/**
 * --sudo with a login user that is not root, and a real sudo with rules of its own: what it lets through, and what is
 * said when it does not. Only root can make rules and a user who has them: test/run.js leaves this file out for others.
 * For each setting of sudo there is another user that he wants to become.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FrameDecoder } from '../../../src/codec/frames.js';
import { authorizedKeysLine } from '../../../src/follower/authorized-keys.js';
import { followerCommand, followerInput } from '../../../src/follower/index.js';
import { processesWith } from '../../helpers/daemon.js';
import { hostOf, runRemote } from '../../helpers/remote-program.js';
import { descendants, startSshd } from '../../helpers/sshd.js';

const LOGIN_USER = `pgs-test-${process.pid}`;
const RULES = `
Defaults>nobody !use_pty
Defaults>games use_pty, env_reset
Defaults>news requiretty
${LOGIN_USER} ALL=(nobody, games, news) NOPASSWD: /bin/sh
${LOGIN_USER} ALL=(mail) /bin/sh
${LOGIN_USER} ALL=(lp) NOPASSWD: /usr/bin/id
`;
const rulesFile = `/etc/sudoers.d/pgsluice-test-${process.pid}`;
const HINT =
  ': sudo there must let the SSH user run /bin/sh as the other, without a password and without a terminal';
/** What a terminal in between would change is all in it. */
const log = Buffer.concat([randomBytes(300_000), Buffer.from('\r\n\t\u0003\u0004 the end\n')]);
const GONE_MS = 30_000;

/** @type {string} */
let dir;
/** @type {import('../../helpers/sshd.js').Sshd} */
let sshd;
/** @type {import('../../../src/ipc/messages.js').HostSpec} */
let host;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-sudo-'));
  chmodSync(dir, 0o755);
  mkdirSync(join(dir, 'sshd'), { mode: 0o755 });
  sshd = await startSshd({ dir: join(dir, 'sshd') });
  host = await hostOf(sshd, 'db1', LOGIN_USER);
  // Not locked, as an account without a password is for sshd.
  execFileSync('useradd', [
    '--system',
    '--home-dir',
    '/',
    '--shell',
    '/bin/sh',
    '--password',
    '*',
    LOGIN_USER,
  ]);
  writeFileSync(rulesFile, RULES, { mode: 0o440 });
  execFileSync('visudo', ['-c', '-q', '-f', rulesFile]);
});
after(async () => {
  rmSync(rulesFile, { force: true });
  await sshd.stop();
  await removeUser();
  rmSync(dir, { recursive: true });
});

/** As soon as the last follower has noticed that nobody reads it. */
async function removeUser() {
  for (const deadline = Date.now() + GONE_MS; ; await sleep(200)) {
    try {
      execFileSync('userdel', [LOGIN_USER], { stdio: 'ignore' });
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

/** @param {string} user @returns {string} a directory with a log that the login user cannot enter */
function logsOf(user) {
  const logs = join(dir, user);
  const [uid, gid] = ['-u', '-g'].map(option => Number(execFileSync('id', [option, user])));
  mkdirSync(logs, { mode: 0o700 });
  writeFileSync(join(logs, 'a.csv'), log);
  for (const path of [join(logs, 'a.csv'), logs]) chownSync(path, uid ?? 0, gid ?? 0);
  return logs;
}

/** @param {string} path @param {string} user */
const follower = (path, user) => ({
  command: followerCommand(user),
  input: followerInput({ path, format: 'plain', from: 'start', known: [] }),
});

/** Those of the log among what the follower wrote, whose last frame may be cut. @param {Buffer} frames */
function logBytes(frames) {
  /** @type {Buffer[]} */
  const pieces = [];
  const decoder = new FrameDecoder(
    () => {},
    piece => pieces.push(Buffer.from(piece)),
  );
  decoder.write(frames);
  return Buffer.concat(pieces);
}

/** Whom the login user may become: Debian's sudo puts a pseudo-terminal in between, others do not. */
const READERS = ['nobody', 'games'];

test('the login user alone cannot read the logs', async () => {
  for (const user of READERS) {
    const alone = { ...follower(logsOf(user), user), command: followerCommand(null), until: '\nW ' };
    const { bytes } = await runRemote(host, alone);
    assert.match(bytes.toString(), /\nW (unreadable|missing) /);
  }
});

test('with and without use_pty a log arrives byte by byte, and its follower ends with its reader', async () => {
  for (const outcome of await Promise.all(READERS.map(readAndLeave))) {
    assert.ok(outcome.whole);
    assert.ok(outcome.followers > 0);
    assert.deepEqual(outcome.left, []);
  }
});

/** @param {string} user */
async function readAndLeave(user) {
  const path = join(dir, user);
  const mine = () => processesWith(`-u ${user} `).flatMap(({ pid }) => [pid, ...descendants(pid)]);
  /** @type {number[]} */
  let started = [];
  const { bytes, error } = await runRemote(host, { ...follower(path, user), until: '\nI ' }, () => {
    const session = descendants(sshd.pid);
    started = mine().filter(pid => session.includes(pid));
  });
  assert.equal(error, null);
  const left = () => started.filter(pid => existsSync(`/proc/${pid}`));
  const deadline = Date.now() + GONE_MS;
  while (left().length > 0 && Date.now() < deadline) await sleep(50);
  return { whole: logBytes(bytes).equals(log), followers: started.length, left: left() };
}

test('so it is with the line of host authorize, which allows nothing else', async () => {
  const key = execFileSync('ssh-keygen', ['-y', '-f', sshd.identityFile], { encoding: 'utf8' }).trim();
  try {
    for (const user of READERS) {
      const path = join(dir, user);
      const line = authorizedKeysLine({ key, paths: [path], sudoUser: user, comment: 'x' });
      writeFileSync(sshd.authorizedKeysFile, `${line}\n`);
      const { bytes, error } = await runRemote(host, { ...follower(path, user), until: '\nI ' });
      assert.equal(error, null);
      assert.ok(logBytes(bytes).equals(log));
      const command = await runRemote(host, { command: 'id', input: '' });
      assert.equal(command.error?.code, 'FOLLOWER_DENIED', command.error?.message);
      const other = await runRemote(host, follower('/etc', user));
      assert.match(other.error?.message ?? '', /does not allow \/etc: "pgsluice host authorize db1"/);
    }
  } finally {
    writeFileSync(sshd.authorizedKeysFile, `${key}\n`);
  }
});

for (const { name, user, words } of [
  { name: 'that wants a terminal', user: 'news', words: 'sudo: sorry, you must have a tty to run sudo' },
  { name: 'that wants a password', user: 'mail', words: 'sudo: a password is required' },
  { name: 'that allows another program', user: 'lp', words: 'sudo: a password is required' },
  { name: 'that allows nothing', user: 'backup', words: 'sudo: a password is required' },
]) {
  test(`a sudo ${name} ends at once, and says so in a line with what to do`, async () => {
    const { bytes, error } = await runRemote(host, follower('/', user));
    assert.equal(bytes.length, 0);
    assert.equal(error?.code, 'FOLLOWER_FAILED');
    assert.equal(error?.message, `db1: the follower ended with exit code 1: ${words}${HINT}`);
  });
}
