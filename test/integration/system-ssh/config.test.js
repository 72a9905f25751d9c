/** What reaches ssh: jump hosts, included files, options; and hostile values that must reach nothing. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Client } from '../../../src/system-ssh/index.js';
import { readSettings } from '../../../src/system-ssh/settings.js';
import { TARGET, masterConfig, sessionConfig } from '../../../src/system-ssh/ssh-config.js';
import { clientFor, configFor, connectError, directoryFor, exec, finished, run, sshdFor } from './support.js';

/**
 * @param {import('node:test').TestContext} t
 * @param {import('../../../src/system-ssh/settings.js').ClientConfig} config
 * @param {string} [name] what ssh is told to connect to
 * @returns {Promise<Map<string, string>>} keyword in lower case -> value, as the real ssh understands it
 */
async function understood(t, config, name = TARGET) {
  const file = join(await directoryFor(t), 'config');
  await writeFile(file, masterConfig(readSettings(config), '/run/x y%h/m1'));
  const lines = execFileSync('ssh', ['-G', '-F', file, name], { encoding: 'utf8' }).trim().split('\n');
  return new Map(
    lines.map(line => {
      const [key, value] = line.split(/ (.*)/s);
      return [key, value];
    }),
  );
}

test('ssh understands the file as it is meant', async t => {
  const config = {
    host: 'fe80::1%eth0',
    port: 2222,
    username: 'first DOMAIN\\last',
    identityFile: "/tmp/id %h '#.key",
    knownHostsFile: '/tmp/known %h hosts',
    hostKeyAlias: 'al-1',
    jumpHosts: ['u@j1:2200', '[::1]:22'],
    keepaliveIntervalMs: 1500,
    connectTimeoutMs: 3001,
    options: ['Compression=yes', 'BatchMode=no', 'IdentitiesOnly=no'],
    configFile: 'none',
  };
  const values = await understood(t, config);
  const expected = {
    hostname: 'fe80::1%eth0',
    port: '2222',
    user: 'first DOMAIN\\last',
    identityfile: "/tmp/id %%h '#.key",
    identitiesonly: 'yes',
    userknownhostsfile: '/tmp/known %h hosts',
    globalknownhostsfile: '/dev/null',
    hostkeyalias: 'al-1',
    proxyjump: 'u@j1:2200,[::1]:22',
    serveraliveinterval: '2',
    serveralivecountmax: '3',
    connecttimeout: '4',
    controlmaster: 'true',
    controlpersist: 'no',
    batchmode: 'yes',
    stricthostkeychecking: 'true',
    permitlocalcommand: 'yes',
    clearallforwardings: 'yes',
    forwardagent: 'no',
    compression: 'yes',
  };
  for (const [key, value] of Object.entries(expected)) assert.equal(values.get(key), value, key);
  // A jump host's inner ssh reads the same file under its own name.
  const jump = await understood(t, config, 'j1');
  for (const [key, value] of Object.entries({
    hostname: 'j1',
    port: '22',
    batchmode: 'yes',
    compression: 'no',
    controlmaster: 'false',
    permitlocalcommand: 'no',
    identitiesonly: 'no',
    stricthostkeychecking: 'true',
  })) {
    assert.equal(jump.get(key), value, `jump ${key}`);
  }
  for (const key of ['hostkeyalias', 'proxyjump', 'controlpath'])
    assert.equal(jump.get(key), undefined, `jump ${key}`);
});

test('blocks of an included file apply to the real host name, and never override', async t => {
  const configFile = join(await directoryFor(t), 'user_config');
  await writeFile(
    configFile,
    [
      'Host db1',
      ' User wrong',
      ' Ciphers aes128-gcm@openssh.com',
      ' StrictHostKeyChecking no',
      'Host *',
      ' Ciphers aes256-gcm@openssh.com',
      ' LocalForward 7777 localhost:1',
      'Host j1',
      ' HostName 10.0.0.9',
      '',
    ].join('\n'),
  );
  const config = { host: 'db1', username: 'right', configFile };
  const values = await understood(t, config);
  assert.equal(values.get('user'), 'right');
  assert.equal(values.get('ciphers'), 'aes128-gcm@openssh.com');
  assert.equal(values.get('stricthostkeychecking'), 'true');
  assert.equal(values.get('hostname'), 'db1');
  assert.equal((await understood(t, config, 'j1')).get('hostname'), '10.0.0.9');
});

test('a keyword that this ssh does not know is refused, unless an option says that it is to be ignored', async t => {
  const config = { host: 'h', knownHostsFile: '/x', configFile: 'none' };
  const options = ['IgnoreUnknown=Future*', 'FutureKeyword=1'];
  assert.equal(
    (await understood(t, { ...config, options })).get('ignoreunknown'),
    'KnownHostsCommand,Future*',
  );
  await assert.rejects(understood(t, { ...config, options: options.slice(1) }), /Bad configuration option/);
});

test('a session process never connects by itself, even where its name would resolve', async t => {
  const sshd = await sshdFor(t);
  const file = join(await directoryFor(t), 'config');
  await writeFile(file, sessionConfig('/nonexistent/m1'));
  const args = ['-F', file, '-o', `HostName=${sshd.host}`, '-o', `Port=${sshd.port}`, '--', TARGET, 'true'];
  const { code, stderr } = await promisify(execFile)('ssh', args).catch(error => error);
  assert.equal(code, 255, stderr);
  // The server's log is in order: what came before this connection has been read when it is there.
  await clientFor(t, await configFor(sshd));
  assert.equal(sshd.connections(), 1);
});

test('through a jump host that has another key, user file and host key', async t => {
  const target = await sshdFor(t);
  const jump = await sshdFor(t, { settings: ['MaxSessions 0'] });
  const configFile = join(await directoryFor(t), 'user_config');
  const jumpKnownHosts = await jump.knownHostsFile();
  await writeFile(
    configFile,
    [
      'Host jump',
      ' HostName 127.0.0.1',
      ` Port ${jump.port}`,
      ` IdentityFile ${jump.identityFile}`,
      ` UserKnownHostsFile ${jumpKnownHosts}`,
      ` User ${jump.user}`,
      '',
    ].join('\n'),
  );
  const client = await clientFor(t, await configFor(target, { jumpHosts: ['jump'], configFile }));
  assert.equal((await run(client, 'echo through')).stdout, 'through\n');
  assert.equal(jump.connections(), 1);
  assert.equal(target.connections(), 1);

  const closed = new Promise(resolve => client.once('close', resolve));
  client.end();
  await closed;
  await target.stop();
  const unreachable = await connectError(
    t,
    await configFor(
      { ...target, knownHostsFile: async () => '/dev/null' },
      { jumpHosts: ['jump'], configFile },
    ),
  );
  assert.equal(unreachable.code, 'SSH_UNREACHABLE');
  await writeFile(jumpKnownHosts, '');
  const unknown = await connectError(
    t,
    await configFor(
      { ...target, knownHostsFile: async () => '/dev/null' },
      { jumpHosts: ['jump'], configFile },
    ),
  );
  assert.equal(unknown.code, 'SSH_HOST_KEY_UNKNOWN');
});

test('hostile values run nothing', async t => {
  const sshd = await sshdFor(t);
  const dir = await directoryFor(t);
  const mark = join(dir, 'mark');
  const hosts = [
    `-oProxyCommand=touch ${mark}`,
    `$(touch ${mark})`,
    `h\nProxyCommand touch ${mark}`,
    `h;touch ${mark}`,
    `"\nProxyCommand touch ${mark}`,
  ];
  for (const host of hosts) {
    for (const config of [{ host }, { host: 'h', jumpHosts: [host] }, { host: 'h', username: host }]) {
      assert.throws(() => new Client().connect(config), { code: 'USAGE' });
    }
  }
  // A user name that ssh takes: it reaches the server and nothing else.
  const error = await connectError(t, await configFor(sshd, { username: `x touch ${mark}` }));
  assert.equal(error.code, 'SSH_AUTH_REFUSED', error.message);
  assert.match(sshd.log(), /x touch /);
  assert.equal(existsSync(mark), false);
});

test('a command that begins with a dash is a command', async t => {
  const sshd = await sshdFor(t);
  const client = await clientFor(t, await configFor(sshd));
  const mark = join(await directoryFor(t), 'mark');
  for (const command of [
    `-oProxyCommand=touch ${mark}`,
    `-oLocalCommand=touch ${mark}`,
    '-W',
    '--',
    '-V',
    '-O exit',
  ]) {
    const stream = await exec(client, command);
    stream.end();
    const { exit, stderr } = await finished(stream);
    // The remote shell takes it for an option of its own or for a command that it does not find.
    assert.notEqual(exit[0], 0, command);
    assert.doesNotMatch(stderr, /^OpenSSH_/);
  }
  assert.equal(existsSync(mark), false);
  assert.equal((await run(client, 'echo alive')).stdout, 'alive\n');
});

test('paths with spaces, percent signs and quotes work for real', async t => {
  const sshd = await sshdFor(t);
  const odd = join(await directoryFor(t), "o d%h'#$x");
  await mkdir(odd, { mode: 0o700 });
  await copyFile(sshd.identityFile, join(odd, 'id %u'));
  const knownHostsFile = join(odd, 'known %h');
  await writeFile(knownHostsFile, `tested ${sshd.hostKey}\n`);
  const config = await configFor(sshd, {
    identityFile: join(odd, 'id %u'),
    knownHostsFile,
    controlDirectory: odd,
  });
  const client = await clientFor(t, config);
  assert.equal((await run(client, 'echo fine')).stdout, 'fine\n');
  assert.equal((await readdir(odd)).length, 3);
});
