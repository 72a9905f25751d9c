/** `host check` against a real sshd: what is usable, what is not, and hosts that lie. */
import assert from 'node:assert/strict';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fingerprint } from '../../../src/cli/host-key.js';
import { csvlogSettings, startPostgres } from '../../helpers/postgres.js';
import { freePort, startSshd } from '../../helpers/sshd.js';
import { cliStorage, failed } from './support.js';

/** @type {import('./support.js').CliStorage} */
let storage;
/** @type {import('../../helpers/sshd.js').Sshd} */
let sshd;
/** @type {import('../../helpers/postgres.js').TestPostgres} */
let monitored;
/** @type {Awaited<ReturnType<import('./support.js').CliStorage['fresh']>>} */
let cli;
before(async () => {
  [storage, sshd, monitored] = await Promise.all([
    cliStorage(),
    startSshd(),
    startPostgres({ settings: csvlogSettings() }),
  ]);
  cli = await storage.fresh();
  await cli.run('init');
});
after(() => Promise.all([storage.stop(), sshd.stop(), monitored.stop()]));

let names = 0;

/**
 * Adds a host and checks it.
 * @param {string[]} words for `host add`
 * @param {import('../../helpers/sshd.js').Sshd} [server]
 */
async function check(words, server = sshd) {
  const name = `h${(names += 1)}`;
  await cli.json(
    'host',
    'add',
    name,
    '--ssh',
    `${server.user}@127.0.0.1:${server.port}`,
    '--identity',
    server.identityFile,
    '--host-key',
    server.hostKey,
    ...words,
  );
  const text = await cli.run('host', 'check', name);
  const json = await cli.run('host', 'check', name, '--json');
  assert.equal(json.code, text.code, `${json.stderr}${text.stderr}`);
  assert.deepEqual(await storage.leftovers(), []);
  return { name, text, json, report: JSON.parse(json.stdout) };
}

/** As root the monitored server has another owner, whom root may still read. */
test('a data directory that can be followed, with each transport', async () => {
  for (const transport of ['auto', 'openssh', 'ssh2']) {
    const { text, report, name } = await check(['--log', monitored.dataDir, '--transport', transport]);
    assert.equal(text.code, 0, `${text.stdout}${text.stderr}`);
    assert.equal(report.ok, true);
    assert.equal(report.host, name);
    const { connectMs, ...ssh } = report.ssh;
    assert.ok(connectMs >= 0);
    assert.deepEqual(ssh, {
      ok: true,
      transport,
      address: '127.0.0.1',
      port: sshd.port,
      user: sshd.user,
      hostKeys: [{ type: 'ssh-ed25519', fingerprint: fingerprint(sshd.hostKey) }],
      error: null,
    });
    assert.equal(report.remote.user, sshd.user);
    assert.match(report.remote.system, /^Linux /);
    assert.deepEqual(report.remote.missingTools, []);
    assert.ok(Math.abs(report.remote.clockSkewMs) <= 2000, String(report.remote.clockSkewMs));
    const [log] = report.logs;
    assert.equal(log.kind, 'data directory');
    assert.equal(log.readable, true);
    assert.equal(log.directory, monitored.logDir);
    assert.equal(log.version, String(monitored.major));
    assert.equal(log.format, 'csvlog');
    assert.equal(log.columns, 26);
    assert.ok(log.files >= 1 && log.bytes > 0 && log.newest.size > 0);
    assert.match(log.newest.name, /^postgresql-.*\.csv$/);
    assert.deepEqual(log.problems, []);
    assert.match(
      text.stdout,
      new RegExp(`^ok +ssh \\S+@127\\.0\\.0\\.1:${sshd.port} \\(${transport}\\), connected in \\d+ ms$`, 'm'),
    );
    assert.match(text.stdout, /^ok +tools of the follower$/m);
    assert.match(
      text.stdout,
      /: data directory of PostgreSQL \d+; .*; read as csvlog with 26 columns \(.*\); log_timezone UTC \(configured\)$/m,
    );
    assert.doesNotMatch(text.stdout, /^bad/m);
  }
});

/** What `log_destination` names, and what is read of it. @type {[string, string, string, RegExp][]} */
const DESTINATIONS = [
  [
    'stderr',
    'stderr',
    'log',
    /read as stderr \(current_logfiles names no other\); log_line_prefix '%m \[%p\] %q%u@%d ' \(configured\); log_timezone Europe\/Moscow \(configured\)$/m,
  ],
  [
    'csvlog,stderr',
    'csvlog',
    'csv',
    /read as csvlog with 26 columns \(of csvlog, stderr in current_logfiles it tells the most\); log_timezone Europe\/Moscow/,
  ],
  [
    'jsonlog',
    'jsonlog',
    'json',
    /read as jsonlog \(current_logfiles names no other\); log_timezone Europe\/Moscow/,
  ],
  [
    'stderr,csvlog,jsonlog',
    'csvlog',
    'csv',
    /\(of csvlog, jsonlog, stderr in current_logfiles it tells the most\)/,
  ],
];

test('every format: which is read and why, its prefix and time zone', async () => {
  for (const [destination, format, suffix, shown] of DESTINATIONS) {
    const server = await startPostgres({
      settings: {
        logging_collector: 'on',
        log_destination: destination,
        log_timezone: 'Europe/Moscow',
        log_line_prefix: '%m [%p] %q%u@%d ',
        log_statement: 'all',
      },
    });
    try {
      await server.query('SELECT 1');
      const { text, report } = await check(['--log', server.dataDir]);
      assert.equal(text.code, 0, text.stdout);
      assert.match(text.stdout, shown);
      const [log] = report.logs;
      assert.equal(log.format, format);
      assert.ok(log.newest.name.endsWith(`.${suffix}`), log.newest.name);
      assert.deepEqual([log.timeZone, log.timeZoneFrom], ['Europe/Moscow', 'configured']);
      assert.equal(log.linePrefix, format === 'stderr' ? '%m [%p] %q%u@%d ' : null);
      assert.deepEqual(log.notes, []);
      // The log directory alone says the same, by its files.
      const alone = (await check(['--log', server.logDir])).report.logs[0];
      assert.deepEqual(
        [alone.format, alone.timeZone, alone.linePrefix],
        [format, log.timeZone, log.linePrefix],
      );
    } finally {
      await server.stop();
    }
  }
});

test('what was said of a log is held against what is there', async () => {
  const server = await startPostgres({
    settings: {
      logging_collector: 'on',
      log_destination: 'stderr',
      log_timezone: 'Asia/Kolkata',
      log_line_prefix: '%t [%p] ',
    },
  });
  try {
    const at = ['--log', server.dataDir];
    const wrong = await check([...at, '--line-prefix', '%m [%p] ']);
    assert.equal(wrong.text.code, 1);
    assert.match(
      wrong.text.stdout,
      /^bad +log_line_prefix '%m \[%p\] ' fits no line of postgresql-.*\.log: give it with --line-prefix/m,
    );
    await cli.json('host', 'update', wrong.name, '--line-prefix', '%t [%p] ', '--timezone', 'UTC');
    const { stdout, code } = await cli.run('host', 'check', wrong.name);
    assert.equal(code, 0, stdout);
    assert.match(stdout, /log_line_prefix '%t \[%p\] ' \(given\); log_timezone UTC \(given\)$/m);
    // Of a file whose server is not known the prefix is found, the zone is not.
    const dir = join(storage.dir, 'alone');
    await mkdir(dir);
    const [name] = await readdir(server.logDir);
    await copyFile(join(server.logDir, name ?? ''), join(dir, 'x.log'));
    const alone = await check(['--log', join(dir, 'x.log')]);
    assert.equal(alone.text.code, 0, alone.text.stdout);
    assert.deepEqual(
      [alone.report.logs[0].linePrefix, alone.report.logs[0].linePrefixFrom, alone.report.logs[0].timeZone],
      ['%t [%p] ', 'found', null],
    );
    assert.match(alone.text.stdout, /^note +log_timezone was not found in configuration files.*--timezone/m);
    const csv = await check([...at, '--format', 'csvlog']);
    assert.equal(csv.text.code, 1);
    assert.match(
      csv.report.logs[0].problems.join(),
      /^no csvlog in .*, only stderr: use --format auto, or add csvlog to log_destination$/,
    );
  } finally {
    await server.stop();
  }
});

test('a journal', async () => {
  const { text, report } = await check(['--log', 'journal:pgsluice-none']);
  assert.equal(text.code, 1);
  const [log] = report.logs;
  assert.deepEqual([log.kind, log.unit, log.format], ['journald', 'pgsluice-none.service', 'stderr']);
  assert.equal(log.problems.length, 1);
  assert.match(
    text.stdout,
    /^bad +journal:pgsluice-none\.service: journald, unit pgsluice-none\.service; read as stderr \(a journal has what a unit writes to stderr\)\nbad +(the journal|there are no journal files|journalctl)/m,
  );
});

test('this machine without SSH', async () => {
  await cli.json('host', 'add', 'here', '--transport', 'local', '--log', monitored.logDir);
  const { code, stdout } = await cli.run('host', 'check', 'here');
  assert.equal(code, 0, stdout);
  assert.match(stdout, /^ok +local: this machine, without SSH$/m);
  assert.match(stdout, /: log directory of PostgreSQL \d+;/);
});

test('logs that cannot be followed say why, with exit code 1', async () => {
  const dir = join(storage.dir, 'logs');
  await mkdir(join(dir, 'empty'), { recursive: true });
  await writeFile(join(dir, 'a.csv'), '{"timestamp":"2024-01-01"}\n');
  const { text, report } = await check([
    '--log',
    dir,
    '--log',
    join(dir, 'empty'),
    '--log',
    join(dir, 'absent'),
    '--log',
    '/dev/null',
    '--log',
    monitored.logDir,
  ]);
  assert.equal(text.code, 1);
  assert.equal(report.ok, false);
  assert.deepEqual(
    report.logs.map((/** @type {any} */ { kind, format }) => [kind, format]),
    [
      ['log directory', 'csvlog'],
      ['log directory', null],
      ['missing', null],
      ['unknown', null],
      ['log directory', 'csvlog'],
    ],
  );
  const problems = report.logs.map((/** @type {any} */ log) => log.problems.join());
  assert.match(problems[0], /a\.csv holds jsonlog/);
  assert.match(problems[1], /no log files in .*empty: .* or set logging_collector = on/);
  assert.match(problems[2], /absent does not exist/);
  assert.match(problems[3], /neither a file nor a directory/);
  assert.equal(problems[4], '');
  assert.match(text.stdout, /^bad .*absent: missing\nbad +.*absent does not exist: correct the path/m);
});

test('a host that is away, refuses us, or shows another key: exit code 4', async t => {
  const port = await freePort();
  await cli.json(
    'host',
    'add',
    'away',
    '--ssh',
    `x@127.0.0.1:${port}`,
    '--host-key',
    sshd.hostKey,
    '--log',
    '/x',
  );
  failed(
    await cli.run('host', 'check', 'away'),
    4,
    /^pgsluice: away: .*Connection refused.*is the address right/,
  );
  const json = await cli.run('host', 'check', 'away', '--json');
  assert.equal(json.code, 4);
  const report = JSON.parse(json.stdout);
  assert.equal(report.ok, false);
  assert.equal(report.ssh.ok, false);
  assert.equal(report.ssh.error.code, 'SSH_UNREACHABLE');
  assert.equal(JSON.parse(json.stderr).error.code, 'SSH_UNREACHABLE');

  const other = await startSshd();
  t.after(() => other.stop());
  const add = (/** @type {string[]} */ ...words) =>
    cli.json('host', 'add', ...words, '--log', '/x', '--ssh', `${sshd.user}@127.0.0.1:${sshd.port}`);
  for (const transport of ['openssh', 'ssh2']) {
    await add(
      `key-${transport}`,
      '--identity',
      sshd.identityFile,
      '--host-key',
      other.hostKey,
      '--transport',
      transport,
    );
    failed(await cli.run('host', 'check', `key-${transport}`), 4, /host key|shows a key/i);
    await add(
      `auth-${transport}`,
      '--identity',
      other.identityFile,
      '--host-key',
      sshd.hostKey,
      '--transport',
      transport,
    );
    failed(
      await cli.run('host', 'check', `auth-${transport}`),
      4,
      /Permission denied|authentication.*--identity FILE/,
    );
  }
  assert.deepEqual(await storage.leftovers(), []);
  failed(await cli.run('host', 'check', 'unknown'), 1, /no host is named "unknown"/);
});

/** @param {string[]} words @param {import('../../helpers/sshd.js').Sshd} [server] */
async function checkFails(words, server = sshd) {
  const name = `h${(names += 1)}`;
  await cli.json(
    'host',
    'add',
    name,
    '--ssh',
    `${server.user}@127.0.0.1:${server.port}`,
    '--identity',
    server.identityFile,
    '--host-key',
    server.hostKey,
    ...words,
  );
  return { name, text: await cli.run('host', 'check', name) };
}

test('a user that may not use sudo is told what sudo says', async () => {
  // Whether there is a sudo or not, this user is none.
  const { text } = await checkFails(['--log', '/x', '--sudo', 'pgsluice_nobody']);
  failed(text, 4, /h\d+: the remote program ended with exit code \d+: .*sudo/);
});

test('hosts that answer something else', async () => {
  const lies = {
    'yes garbage': /sent more than 1048576 bytes/,
    "printf 'Welcome!\\nE\\n'": /h\d+: the probe's answer is not usable .*Welcome!.*login shell/,
    "printf 'V 1 1\\033[2J\\nE\\n'": /answer is not usable/,
    "printf 'V 1 1\\nU x\\nN y\\nL /other\\nK missing\\nE\\n'": /for other logs than it was asked for/,
    'printf nothing': /ended with exit code 0/,
    "printf '\\033[31mgo away' >&2; exit 7": /ended with exit code 7: .*go away/,
  };
  const server = await startSshd();
  try {
    for (const [command, message] of Object.entries(lies)) {
      const script = join(server.dir, 'lie');
      await writeFile(script, `${command}\n`);
      await writeFile(server.authorizedKeysFile, `command="sh ${script}" ${await publicKey(server)}`);
      const { text } = await checkFails(['--log', '/x'], server);
      failed(text, 4, message);
    }
    assert.deepEqual(await storage.leftovers(), []);
  } finally {
    await server.stop();
  }
});

/** @param {import('../../helpers/sshd.js').Sshd} server */
async function publicKey(server) {
  return readFile(`${server.identityFile}.pub`, 'utf8');
}

test('names and answers of a host reach the terminal as text', async () => {
  const server = await startSshd({
    settings: [
      `ForceCommand printf 'V 1 1\\nU \\033[2Jx\\nN m\\233\\nL /x\\nK file\\nZ z\\033[2J\\nP %%m\\033]0;x\\007\\nF log 1 5 0\\nM 1 5 \\033]0;title\\007.log\\nE\\n'`,
    ],
  });
  try {
    const { text, json, report } = await check(['--log', '/x'], server);
    assert.equal(text.code, 1, `${text.stdout}${text.stderr}`);
    for (const output of [text.stdout, json.stdout])
      // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
      assert.doesNotMatch(output, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    assert.match(text.stdout, /system \\x1b\[2Jx/);
    assert.match(text.stdout, /clock \d+ s behind ours.*\n(?:.*\n)*note +its clock is/);
    assert.equal(report.logs[0].newest.name, '\u001b]0;title\u0007.log');
    assert.equal(report.warnings.length, 1);
    assert.match(text.stdout, /log_line_prefix '%m\\x1b\]0;x\\x07' \(configured\); log_timezone z\\x1b\[2J/);
    assert.deepEqual(
      [report.logs[0].linePrefix, report.logs[0].timeZone],
      ['%m\u001b]0;x\u0007', 'z\u001b[2J'],
    );
  } finally {
    await server.stop();
  }
});
