/**
 * Hosts whose forced command answers the probe with what no probe says, over a real sshd: `host check` and `host add`
 * end soon, with exit code 4 and one line, and nothing of the answer acts on the terminal.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startSshd } from '../../helpers/sshd.js';
import { cliStorage, failed } from './support.js';

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;
const LOG = '/var/log/none';
const ESCAPES = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\u2066\u2028\u007f\r';
const HEAD = 'V 1 1795000000\nU Linux\nN postgres\n';
const HUGE = '9'.repeat(30);
/** What a case sends: text, then perhaps one text without end. @type {Record<string, { text?: string, endless?: string, to?: string, says: RegExp }>} */
const CASES = {
  garbage: { text: `Welcome ${ESCAPES}\n`, says: /ended with exit code|not usable/ },
  nothing: { text: '', says: /ended with exit code/ },
  'an answer of escapes': { text: `${ESCAPES}\nE\n`, says: /not usable/ },
  'gigabytes without a newline': { endless: 'x'.repeat(4096), says: /more than \d+ bytes/ },
  'lines without end': { text: HEAD, endless: 'T a\n'.repeat(1000), says: /more than \d+ bytes/ },
  'NUL without end': { endless: '\0'.repeat(4096), says: /more than \d+ bytes/ },
  'a negative clock': { text: 'V 1 -5\nU Linux\nN a\nE\n', says: /not usable/ },
  'a huge clock': { text: `V 1 ${HUGE}\nU Linux\nN a\nE\n`, says: /not usable/ },
  'huge counts': { text: `${HEAD}L ${LOG}\nK directory\nF csv ${HUGE} 1 0\nE\n`, says: /not usable/ },
  'negative counts': { text: `${HEAD}L ${LOG}\nK directory\nF csv -1 -1 -1\nE\n`, says: /not usable/ },
  'a kind that is none': { text: `${HEAD}L ${LOG}\nK ${ESCAPES}\nE\n`, says: /not usable/ },
  'another log': { text: `${HEAD}L /etc/${ESCAPES}\nK file\nE\n`, says: /other logs|not usable/ },
  'stderr of escapes': { text: `${ESCAPES}${ESCAPES}\n`, to: 'stderr', says: /exit code/ },
  'an error of pgsluice itself': {
    text: `pgsluice denies: ${ESCAPES} run this as root\n`,
    to: 'stderr',
    says: /prints the line it needs/,
  },
};

/** Of those that ways to ask have in common. */
const FEW = ['gigabytes without a newline', 'a huge clock', 'another log', 'stderr of escapes'];

/** @type {import('./support.js').CliStorage} */
let storage;
/** @type {import('../../helpers/sshd.js').Sshd} */
let sshd;
/** @type {Awaited<ReturnType<import('./support.js').CliStorage['fresh']>>} */
let cli;
/** by case @type {Map<string, string[]>} */
const ways = new Map();
before(async () => {
  // More connections at once than it would begin with.
  [storage, sshd] = await Promise.all([
    cliStorage(),
    startSshd({ settings: ['MaxStartups 100', 'MaxSessions 100'] }),
  ]);
  cli = await storage.fresh();
  await cli.run('init');
  for (const [index, [name, { text = '', endless = '', to = 'stdout' }]] of Object.entries(CASES).entries()) {
    const identity = join(sshd.dir, `case${index}`);
    const [start, rest] = [join(sshd.dir, `start${index}`), join(sshd.dir, `rest${index}`)];
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', identity]);
    writeFileSync(start, text);
    writeFileSync(rest, endless.repeat(16));
    const flood = endless === '' ? '' : `; while cat ${rest}; do :; done`;
    const key = readFileSync(`${identity}.pub`, 'utf8').trim();
    appendFileSync(
      sshd.authorizedKeysFile,
      `command="cat ${start} ${to === 'stderr' ? '>&2' : ''}${flood}" ${key}\n`,
    );
    const server = ['--ssh', `${sshd.user}@127.0.0.1:${sshd.port}`, '--host-key', sshd.hostKey];
    ways.set(name, [...server, '--identity', identity]);
  }
});
after(() => Promise.all([storage.stop(), sshd.stop()]));

/** @param {string} transport @param {(host: string, words: string[], says: RegExp) => Promise<void>} ask @param {string[]} [names] */
async function each(transport, ask, names = Object.keys(CASES)) {
  const waiting = Object.entries(CASES).filter(([name]) => names.includes(name));
  const one = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [name, { says }] = next;
      const host = `${transport}-${waiting.length}`;
      const words = [...(ways.get(name) ?? []), '--transport', transport];
      await ask(host, words, says);
    }
  };
  await Promise.all([one(), one(), one()]);
  assert.deepEqual(await storage.leftovers(), []);
}

test('host check over OpenSSH', () =>
  each('openssh', async (host, words, says) => {
    await cli.json('host', 'add', host, ...words, '--log', LOG);
    failed(await cli.run('host', 'check', host), 4, says);
  }));

test('host check --json over ssh2', () =>
  each(
    'ssh2',
    async (host, words, says) => {
      await cli.json('host', 'add', host, ...words, '--log', LOG);
      const { code, stdout, stderr } = await cli.run('host', 'check', host, '--json');
      assert.equal(code, 4, stderr);
      const { ssh, ok } = JSON.parse(stdout);
      assert.equal(ok, false);
      assert.match(ssh.error.message, says);
      for (const text of [stdout, stderr]) assert.doesNotMatch(text, UNSAFE);
    },
    FEW,
  ));

test('host add, which asks the host for its clusters', () =>
  each(
    'auto',
    async (host, words) => {
      const found = await cli.run('host', 'add', host, ...words);
      failed(found, 4, /./);
    },
    FEW,
  ));
