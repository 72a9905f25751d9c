/** `host authorize`, and what a key can do on a real sshd whose authorized_keys has that line alone. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import ssh2 from 'ssh2';
import { version } from '../../../src/cli/version.js';
import { followerCommand, followerInput } from '../../../src/follower/index.js';
import { freePort, startSshd } from '../../helpers/sshd.js';
import { cliStorage, failed, portOf } from './support.js';

const WAIT_MS = 30_000;
const ROW =
  '2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n';

/** @type {import('./support.js').CliStorage} */
let storage;
/** @type {import('../../helpers/sshd.js').Sshd} */
let sshd;
/** @type {Awaited<ReturnType<import('./support.js').CliStorage['fresh']>>} */
let cli;
/** @type {string} directory of logs with a name that no shell may read */
let logs;
/** @type {string} 'type base64' of the client's key */
let key;
/** @type {string} */
let canary;

before(async () => {
  [storage, sshd] = await Promise.all([cliStorage(), startSshd()]);
  cli = await storage.fresh();
  await cli.run('init');
  await chmod(storage.dir, 0o755);
  logs = join(storage.dir, 'it\'s $(touch x) "y" `z` \\ !');
  canary = join(storage.dir, 'canary');
  await mkdir(logs, { mode: 0o755 });
  await writeFile(join(logs, 'a.csv'), ROW);
  key = (await readFile(`${sshd.identityFile}.pub`, 'utf8')).trim();
});
after(() => Promise.all([storage.stop(), sshd.stop()]));

/** @param {string} name @param {string[]} words */
async function addHost(name, ...words) {
  const target = `${sshd.user}@127.0.0.1:${sshd.port}`;
  await cli.json('host', 'add', name, '--ssh', target, '--host-key', sshd.hostKey, '--log', logs, ...words);
}

/** Lets the key do what the line for a host says, and nothing else. @param {string} name @param {(line: string) => string} [change] */
async function authorize(name, change = line => line) {
  const { stdout, code, stderr } = await cli.run('host', 'authorize', name);
  assert.equal(code, 0, stderr);
  await writeFile(sshd.authorizedKeysFile, change(stdout));
  return stdout;
}

test('prints one line: for the key of the identity file, or that which is given', async () => {
  await addHost('line', '--identity', sshd.identityFile);
  const { stdout, stderr } = await cli.run('host', 'authorize', 'line');
  assert.equal(stderr, '');
  assert.match(stdout, /^restrict,command="[^\n]*" [^\n]*\n$/);
  assert.ok(stdout.endsWith(`" ${key} pgsluice ${version()} line\n`), stdout);
  assert.deepEqual(await cli.json('host', 'authorize', 'line'), { line: stdout.trimEnd() });

  const alone = join(storage.dir, 'alone');
  await copyFile(sshd.identityFile, alone);
  await chmod(alone, 0o600);
  await addHost('alone', '--identity', alone);
  assert.ok((await cli.run('host', 'authorize', 'alone')).stdout.includes(`" ${key} `));

  const other = sshd.hostKey.split(' ').slice(0, 2).join(' ');
  assert.ok(
    (await cli.run('host', 'authorize', 'line', '--key', `${other} me@x`)).stdout.includes(
      `" ${other} pgsluice`,
    ),
  );
  const file = join(sshd.dir, 'host_key.pub');
  assert.ok(
    (await cli.run('host', 'authorize', 'line', '--key-file', file)).stdout.includes(`" ${other} pgsluice`),
  );
});

test('says what is missing', async () => {
  await addHost('nokey');
  failed(await cli.run('host', 'authorize', 'nokey'), 2, /no identity file: give the public key with --key/);
  failed(await cli.run('host', 'authorize', 'nobody'), 1, /no host is named/);
  failed(await cli.run('host', 'authorize', 'nokey', '--key', 'AAAA'), 2, /--key "AAAA" is not a public key/);
  failed(
    await cli.run('host', 'authorize', 'nokey', '--key', key, '--key-file', '/x'),
    2,
    /exclude each other/,
  );
  failed(await cli.run('host', 'authorize', 'nokey', '--key-file', '/nowhere'), 1, /cannot be read: ENOENT/);
  failed(
    await cli.run('host', 'authorize', 'nokey', '--key-file', sshd.identityFile),
    2,
    /something else than one public key/,
  );
  failed(await cli.run('host', 'authorize', 'nokey', '--key', `${key}\nssh-rsa x`), 2, /is not a public key/);
  const secret = join(storage.dir, 'secret');
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'secret', '-f', secret]);
  await rm(`${secret}.pub`);
  await addHost('secret', '--identity', secret);
  failed(await cli.run('host', 'authorize', 'secret'), 1, /incorrect passphrase.*--key/);
  await cli.json('host', 'add', 'here', '--transport', 'local', '--log', logs);
  failed(await cli.run('host', 'authorize', 'here'), 2, /without SSH/);
});

test('host check works through it, says when the line is of another version, and when a log is not in it', async () => {
  for (const transport of ['openssh', 'ssh2']) {
    const name = `check-${transport}`;
    await addHost(name, '--identity', sshd.identityFile, '--transport', transport);
    await authorize(name);
    const good = await cli.run('host', 'check', name);
    assert.equal(good.code, 0, `${good.stdout}${good.stderr}`);

    await authorize(name, line => line.replaceAll(/ h=./g, ' h=x'));
    const hint = `"pgsluice host authorize ${name}" prints the line it needs`;
    const old = await cli.run('host', 'check', name);
    failed(
      old,
      4,
      new RegExp(`^pgsluice: ${name}: authorized_keys allows another version of the follower: ${hint}$`, 'm'),
    );
    const report = JSON.parse((await cli.run('host', 'check', name, '--json')).stdout);
    assert.equal(report.ssh.error.code, 'FOLLOWER_DENIED');

    await authorize(name, line => line.replace('touch', 'touhc'));
    const elsewhere = await cli.run('host', 'check', name);
    failed(elsewhere, 4, new RegExp(`authorized_keys does not allow ${storage.dir}/it's .*: ${hint}$`, 'm'));
    await authorize(name);
    const found = await cli.run(
      'host',
      'add',
      'more',
      '--ssh',
      `${sshd.user}@127.0.0.1:${sshd.port}`,
      '--identity',
      sshd.identityFile,
      '--host-key',
      sshd.hostKey,
    );
    failed(found, 4, /authorized_keys allows no search for clusters: name the logs with --log/);
  }
});

test('with --sudo the forced command holds the sudo', async () => {
  await addHost(
    'sudo',
    '--identity',
    sshd.identityFile,
    '--sudo',
    process.getuid?.() === 0 ? 'nobody' : userInfo().username,
  );
  const line = await authorize('sudo');
  assert.match(line, /exec sudo -n -u [^ ]+ sh -c /);
  const { code, stdout, stderr } = await cli.run('host', 'check', 'sudo');
  if (process.getuid?.() === 0) {
    assert.equal(code, 0, `${stdout}${stderr}`);
    assert.match(stdout, /user nobody,/);
  } else if (code !== 0) {
    assert.match(stderr, /sudo/);
  }
});

/** @returns {Promise<ssh2.Client>} logged in with the key */
async function login() {
  const client = new ssh2.Client();
  client.connect({
    host: '127.0.0.1',
    port: sshd.port,
    username: sshd.user,
    privateKey: await readFile(sshd.identityFile),
    agent: join(storage.dir, 'no-agent'),
  });
  await once(client, 'ready');
  return client;
}

/**
 * @param {(client: ssh2.Client, done: (error?: Error | null) => void) => unknown} ask
 * @returns {Promise<string>} why it was refused; '' if it was not
 */
async function refusal(ask) {
  const client = await login();
  try {
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('no answer')), WAIT_MS);
      ask(client, error => {
        clearTimeout(timer);
        resolve(error?.message ?? '');
      });
    });
  } finally {
    client.end();
  }
}

/** @param {string} program @param {string[]} args @param {string} [input] */
function run(program, args, input = '') {
  const common = ['-F', 'none', '-i', sshd.identityFile, '-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes'];
  const hosts = [
    '-o',
    'StrictHostKeyChecking=no',
    '-o',
    'UserKnownHostsFile=/dev/null',
    '-o',
    'LogLevel=ERROR',
  ];
  return new Promise(resolve => {
    const child = execFile(
      program,
      [...common, ...hosts, ...args],
      { timeout: WAIT_MS },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        resolve({ code, stdout, stderr });
      },
    );
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

test('the key can do nothing else: no command, shell, terminal, file transfer, forwarding or agent', async () => {
  await addHost('attack', '--identity', sshd.identityFile);
  await authorize('attack');
  const port = ['-p', String(sshd.port)];
  const target = `${sshd.user}@127.0.0.1`;
  const denied = 'pgsluice denies: authorized_keys lets this key run pgsluice and nothing else\n';
  for (const command of [
    [`touch ${canary}`],
    [],
    ['id'],
    [`; touch ${canary}`],
    [`$(touch ${canary})`],
    [`x\ntouch ${canary}\n`],
    [`pgsluice-follower; touch ${canary}`],
    ['x'.repeat(100_000)],
  ]) {
    assert.deepEqual(
      await run('ssh', [...port, target, ...command], `touch ${canary}\n`),
      { code: 77, stdout: '', stderr: denied },
      command[0]?.slice(0, 80),
    );
  }
  // The command names the follower, and holds more.
  for (const command of [`touch ${canary}; pgsluice-follower`, `$(touch ${canary}) pgsluice-follower`]) {
    const { code, stdout } = await run('ssh', [...port, target, command], `touch ${canary}\n`);
    assert.deepEqual({ code, stdout }, { code: 77, stdout: '' });
  }
  const terminal = await run('ssh', [...port, '-tt', target]);
  assert.match(terminal.stderr, /PTY allocation request failed/);

  const local = join(storage.dir, 'local');
  await writeFile(local, 'x');
  const transfers = [
    ['scp', ['-P', String(sshd.port), local, `${target}:${canary}`]],
    ['scp', ['-O', '-P', String(sshd.port), local, `${target}:${canary}`]],
    ['sftp', ['-P', String(sshd.port), '-b', '-', target]],
  ];
  for (const [program, args] of /** @type {[string, string[]][]} */ (transfers)) {
    const { code } = await run(program, args, `put ${local} ${canary}\n`);
    assert.notEqual(code, 0, program);
  }

  const server = createServer(socket => socket.end('reached'));
  const socketPath = join(storage.dir, 'target.sock');
  const socketServer = createServer(socket => socket.end('reached'));
  server.listen(0, '127.0.0.1');
  socketServer.listen(socketPath);
  await Promise.all([once(server, 'listening'), once(socketServer, 'listening')]);
  const free = await freePort();
  try {
    assert.match(
      await refusal((client, done) => client.forwardOut('127.0.0.1', 1, '127.0.0.1', portOf(server), done)),
      /administratively prohibited|open failed/,
    );
    assert.match(
      await refusal((client, done) => client.openssh_forwardOutStreamLocal(socketPath, done)),
      /administratively prohibited|open failed/,
    );
    assert.match(
      await refusal((client, done) => client.forwardIn('127.0.0.1', free, done)),
      /[Uu]nable to bind/,
    );
    assert.match(
      await refusal((client, done) =>
        client.openssh_forwardInStreamLocal(join(storage.dir, 'in.sock'), done),
      ),
      /[Uu]nable to bind/,
    );
    // ssh2 has the option, its types do not.
    const agentForward = /** @type {ssh2.ExecOptions} */ ({ agentForward: true });
    assert.match(await refusal((client, done) => client.exec('id', agentForward, done)), /agent/i);
  } finally {
    server.close();
    socketServer.close();
  }
  assert.equal(existsSync(canary), false);
});

test('the key reads no other log, and runs no other program', async () => {
  await addHost('paths', '--identity', sshd.identityFile);
  await authorize('paths');
  const target = ['-p', String(sshd.port), `${sshd.user}@127.0.0.1`];
  const other = join(storage.dir, 'other');
  await mkdir(other, { recursive: true });
  await writeFile(join(other, 'a.csv'), ROW);
  for (const path of [other, '/etc/passwd', '/etc', storage.dir]) {
    const input = followerInput({ path, format: 'plain', from: 'start', known: [] });
    assert.deepEqual(await run('ssh', [...target, followerCommand(null)], input), {
      code: 77,
      stdout: '',
      stderr: `pgsluice denies: authorized_keys does not allow ${path}\n`,
    });
  }
  const good = followerInput({ path: logs, format: 'csvlog', from: 'start', known: [] });
  const { code, stdout, stderr } = await run(
    'ssh',
    [...target, followerCommand(null)],
    good.replace('LC_ALL=C', 'LC_ALL=D'),
  );
  assert.deepEqual({ code, stdout }, { code: 77, stdout: '' });
  assert.match(stderr, /^pgsluice denies: authorized_keys allows another version of the follower\n$/);
});
