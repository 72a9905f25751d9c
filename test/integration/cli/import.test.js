/**
 * `host import` and `host export` with a real storage and a real sshd: all or nothing, by line; what is exported is
 * imported as the same.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startSshd } from '../../helpers/sshd.js';
import { cliStorage } from './support.js';

/** @type {Awaited<ReturnType<typeof cliStorage>>} */
let storage;
before(async () => {
  storage = await cliStorage();
});
after(() => storage.stop());

/** @param {string} host 1 to 63 letters @returns {string} a public key that nobody has */
function keyOf(host) {
  const blob = Buffer.alloc(51);
  blob.writeUInt32BE(11);
  blob.write('ssh-ed25519', 4);
  blob.writeUInt32BE(32, 15);
  blob.write(host, 19);
  return `ssh-ed25519 ${blob.toString('base64')}`;
}

/** @param {Record<string, unknown>[]} hosts */
const linesOf = hosts => hosts.map(host => `${JSON.stringify(host)}\n`).join('');

describe('host import and export', () => {
  test('2 000 hosts at once; again, they are there already; exported and imported elsewhere, they are the same', async () => {
    const pgsluice = await storage.fresh();
    const file = join(storage.dir, 'fleet');
    const hosts = Array.from({ length: 2_000 }, (_, n) => ({
      name: `db${n}`,
      address: `127.1.${n >> 8}.${n & 255}`,
      user: 'postgres',
      hostKeys: [keyOf(`db${n}`)],
      streams: ['/var/log/postgresql'],
    }));
    await writeFile(file, linesOf(hosts));
    assert.deepEqual(await pgsluice.json('host', 'import', file), {
      added: 2_000,
      unchanged: 0,
      errors: [],
    });
    assert.deepEqual(await pgsluice.json('host', 'import', file), {
      added: 0,
      unchanged: 2_000,
      errors: [],
    });
    const exported = await pgsluice.run('host', 'export');
    const other = await storage.fresh();
    await writeFile(file, exported.stdout);
    assert.equal((await other.json('host', 'import', file)).added, 2_000);
    assert.equal((await other.run('host', 'export', '-')).stdout, exported.stdout);
    const elsewhere = join(storage.dir, 'elsewhere');
    assert.match((await other.run('host', 'export', elsewhere)).stdout, /^2000 hosts/);
    assert.equal(await readFile(elsewhere, 'utf8'), exported.stdout);
  });

  test('everything that host add takes survives, and what host show prints is taken', async () => {
    const pgsluice = await storage.fresh();
    const log = ['--log', '/var/lib/pg/16', '--log', 'journal:postgresql.service'];
    const reading = ['--line-prefix', '%m [%p] ', '--timezone', 'Europe/Moscow', '--encoding', 'WIN1251'];
    const more = [
      '--encoding',
      'a=b=KOI8R',
      '--label',
      'env=prod',
      '--sudo',
      'postgres',
      '--jump',
      'j1,u@j2:23',
    ];
    const how = [
      '--ssh',
      'u@[::1]:2222',
      '--host-key',
      keyOf('full'),
      '--from',
      'start',
      '--format',
      'stderr',
    ];
    await pgsluice.json('host', 'add', 'full', ...log, ...reading, ...more, ...how);
    await pgsluice.json('host', 'add', 'here', '--transport', 'local', '--log', '/var/log/pg');
    await pgsluice.run('host', 'pause', 'here');
    const shown = await Promise.all(['full', 'here'].map(name => pgsluice.json('host', 'show', name)));
    const file = join(storage.dir, 'shown');
    await writeFile(file, linesOf(shown));
    assert.deepEqual(await pgsluice.json('host', 'import', file), { added: 0, unchanged: 2, errors: [] });
    const other = await storage.fresh();
    assert.equal((await other.json('host', 'import', file)).added, 2);
    assert.equal((await other.run('host', 'export')).stdout, (await pgsluice.run('host', 'export')).stdout);
  });

  test('with a line that is wrong nothing is added, and every wrong line is named', async () => {
    const pgsluice = await storage.fresh();
    const good = { name: 'a', hostKeys: [keyOf('a')], streams: ['/l'] };
    const file = join(storage.dir, 'wrong');
    const wrong = [
      'not json',
      { ...good, name: '-x' },
      { ...good, name: 'b', adress: 'x' },
      { ...good, name: 'c', port: 70_000 },
      { ...good, name: 'd', hostKeys: [] },
      { ...good, name: 'e', streams: [] },
      { ...good, name: 'f', streams: [{ path: '/l', format: 'csv' }] },
      { ...good, name: 'g', streams: ['relative'] },
      { ...good, name: 'h', hostKeys: ['ssh-ed25519 xxx'] },
      { ...good, name: 'i', identityFile: '/nowhere' },
      { ...good, name: 'j', user: '-oProxyCommand=x' },
      { ...good, name: 'k', address: '-oProxyCommand=x' },
      good,
      { ...good, name: 'l', labels: { 'a b': 'c' } },
    ];
    await writeFile(
      file,
      `${JSON.stringify(good)}\n\n${wrong.map(line => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')}`,
    );
    const { code, stdout } = await pgsluice.run('host', 'import', file, '--json');
    assert.equal(code, 2);
    const { added, errors } = JSON.parse(stdout);
    assert.equal(added, 0);
    assert.deepEqual(
      errors.map((/** @type {{ line: number }} */ { line }) => line),
      wrong.map((_, n) => n + 3),
    );
    const text = await pgsluice.run('host', 'import', file);
    assert.equal(text.code, 2);
    assert.equal(text.stdout.trim().split('\n').length, wrong.length);
    assert.match(text.stderr, /nothing was imported: 14 of 15 hosts are wrong/);
    assert.deepEqual(await pgsluice.json('host', 'list'), { hosts: [] });
  });

  test('a host that is there and differs is an error', async () => {
    const pgsluice = await storage.fresh();
    const file = join(storage.dir, 'differs');
    const host = { name: 'a', hostKeys: [keyOf('a')], streams: ['/l'] };
    await writeFile(file, linesOf([host]));
    await pgsluice.json('host', 'import', file);
    await writeFile(
      file,
      linesOf([
        { ...host, name: 'b' },
        { ...host, port: 23 },
      ]),
    );
    const { code, stdout } = await pgsluice.run('host', 'import', file, '--json');
    assert.equal(code, 2);
    assert.deepEqual(
      JSON.parse(stdout).errors.map((/** @type {{ line: number, code: string }} */ { line, code: why }) => [
        line,
        why,
      ]),
      [[2, 'HOST_EXISTS']],
    );
    assert.equal((await pgsluice.json('host', 'list')).hosts.length, 1);
  });

  test('keys are taken from the servers only when asked to', async () => {
    const sshd = await startSshd();
    try {
      const pgsluice = await storage.fresh();
      const file = join(storage.dir, 'trust');
      await writeFile(file, linesOf([{ name: 'a', address: sshd.host, port: sshd.port, streams: ['/l'] }]));
      assert.equal((await pgsluice.run('host', 'import', file)).code, 2);
      assert.equal((await pgsluice.json('host', 'import', file, '--trust-on-first-use')).added, 1);
      const { hostKeys } = await pgsluice.json('host', 'show', 'a');
      assert.equal(hostKeys[0].key, sshd.hostKey.split(' ').slice(0, 2).join(' '));
    } finally {
      await sshd.stop();
    }
  });
});
