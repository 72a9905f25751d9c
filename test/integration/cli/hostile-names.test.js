/**
 * Nothing that is given on the command line is ever a shell word or an option of ssh: a value is refused with exit code 2
 * and one line, or it is kept as it is, and connecting with it runs nothing. The payloads would leave a file.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import * as fc from 'fast-check';
import { startSshd } from '../../helpers/sshd.js';
import { cliStorage, failed } from './support.js';

const RUNS = 3; // of each option: every one is several commands and a connection

/** @type {import('./support.js').CliStorage} */
let storage;
/** @type {import('../../helpers/sshd.js').Sshd} */
let sshd;
/** @type {Awaited<ReturnType<import('./support.js').CliStorage['fresh']>>} */
let cli;
/** @type {string} */
let canary;
before(async () => {
  [storage, sshd] = await Promise.all([cliStorage(), startSshd()]);
  cli = await storage.fresh();
  await cli.run('init');
  canary = join(storage.dir, 'canary');
});
after(() => Promise.all([storage.stop(), sshd.stop()]));

/** What would run a command, be an option, end a line or a word, or be expanded, if it were not data. */
const hostile = () =>
  fc
    .tuple(
      fc.constantFrom('', 'a', '-', '--', '/tmp/x', '~', 'x@'),
      fc.constantFrom(
        `-oProxyCommand=touch ${canary}`,
        `-oLocalCommand=touch\${IFS}${canary}`,
        `$(touch ${canary})`,
        `$(touch\${IFS}${canary})`,
        `\`touch ${canary}\``,
        `;touch ${canary};`,
        `' ; touch ${canary} ; '`,
        `" ; touch ${canary} ; "`,
        `'"$(touch ${canary})"'`,
        `\nProxyCommand touch ${canary}\n`,
        `\ntouch ${canary}\n`,
        `|touch ${canary}`,
        `&touch ${canary}&`,
        `%h%n{}\${HOME}~root*?[a]!\\`,
        `é\u202e\u{1f600}`,
        `x\u001b[2J`,
        `%d/../x`,
      ),
      fc.constantFrom('', 'z', ' ', ',x', ':22'),
    )
    .map(parts => parts.join(''));

/** @type {Record<string, (value: string) => { words: string[], name?: string }>} */
const OPTIONS = {
  NAME: value => ({ words: [], name: value }),
  '--ssh': value => ({ words: [`--ssh=${value}`] }),
  'the user of --ssh': value => ({ words: [`--ssh=${value}@127.0.0.1:${sshd.port}`] }),
  '--identity': value => ({ words: [`--identity=${value}`] }),
  '--jump': value => ({ words: [`--jump=${value}`] }),
  '--sudo': value => ({ words: [`--sudo=${value}`] }),
  '--log': value => ({ words: [`--log=/srv/${value}`] }),
  'a journal': value => ({ words: [`--log=journal:${value}`] }),
  '--label': value => ({ words: [`--label=a=${value}`] }),
  '--line-prefix': value => ({ words: [`--line-prefix=${value}`] }),
};

let hosts = 0;
for (const [option, wordsOf] of Object.entries(OPTIONS)) {
  test(`a hostile value of ${option} is refused or stays text`, async () => {
    await fc.assert(
      fc.asyncProperty(hostile(), async value => {
        const { words, name = `h${(hosts += 1)}` } = wordsOf(value);
        const given = words.join(' ');
        const own = [
          ...(given.includes('--ssh') ? [] : ['--ssh', `${sshd.user}@127.0.0.1:${sshd.port}`]),
          ...(given.includes('--identity') ? [] : ['--identity', sshd.identityFile]),
          ...(given.includes('--log') ? [] : ['--log', '/srv/none']),
        ];
        const key = ['--host-key', sshd.hostKey];
        // A name that begins with a dash is an option that nobody knows.
        const added = await cli.run('host', 'add', ...own, ...key, ...words, name, '--json');
        assert.equal(existsSync(canary), false);
        if (added.code !== 0) {
          assert.ok(added.code === 2 || (option === '--identity' && added.code === 1), added.stderr);
          assert.equal(added.stdout, '');
          assert.match(added.stderr, /^[^\n]+\n$/);
          return;
        }
        const shown = JSON.parse((await cli.run('host', 'show', name, '--json')).stdout);
        const texts = [shown.user, shown.address, shown.streams[0].path, shown.streams[0].linePrefix];
        texts.push(...shown.jumpHosts, ...Object.values(shown.labels), shown.sudoUser, shown.name);
        assert.ok(
          texts.some(text => text !== null && value.includes(text)) ||
            texts.includes(`/srv/${value}`.replaceAll(/\/+/g, '/').replace(/\/$/, '')) ||
            texts.includes(`journal:${value}.service`),
          `${JSON.stringify(value)} became ${JSON.stringify(texts)}`,
        );
        // Really connects, as far as that goes.
        const checked = await cli.run('host', 'check', name);
        assert.ok([1, 4].includes(checked.code ?? 0), `${checked.stdout}${checked.stderr}`);
        if (checked.code === 4) failed(checked, 4, /./);
        assert.equal(existsSync(canary), false);
        await cli.run('host', 'remove', name);
      }),
      { numRuns: RUNS },
    );
  });
}

test('a key file and a log with a hostile name are used under that name, over each transport', async () => {
  const name = `-o\u{a0}'x' $(touch canary) \`touch canary\` ;touch canary; %h %d ~ {} * \\n é #`;
  const place = join(storage.dir, name);
  mkdirSync(place);
  copyFileSync(sshd.identityFile, join(place, name));
  writeFileSync(join(place, `${name}.csv`), 'not a record\n');
  for (const transport of ['openssh', 'ssh2']) {
    const host = `h${(hosts += 1)}`;
    const own = [
      '--ssh',
      `${sshd.user}@127.0.0.1:${sshd.port}`,
      '--host-key',
      sshd.hostKey,
      '--transport',
      transport,
    ];
    await cli.json('host', 'add', host, ...own, '--identity', join(place, name), '--log', place);
    const { logs } = JSON.parse((await cli.run('host', 'check', host, '--json')).stdout);
    assert.deepEqual([logs[0].path, logs[0].files, logs[0].newest.name], [place, 1, `${name}.csv`]);
  }
});
