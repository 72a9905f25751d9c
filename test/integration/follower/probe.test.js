/** The probe in real shells, on real directories and a running PostgreSQL; as root also without root's powers. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parseProbe, probeCommand, probeInput } from '../../../src/follower/probe.js';
import { START_US, UNIT, writeJournal } from '../../helpers/journal.js';
import { csvlogSettings, startPostgres } from '../../helpers/postgres.js';
import { testShells } from '../../helpers/shells.js';

/** @typedef {import('../../helpers/shells.js').Shell} Shell */

const { shells, remove } = testShells();
/** @type {string} */
let dir;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'pgsluice-probe-'));
  await chmod(dir, 0o755);
  // For the ordinary user.
  for (const { name, path } of shells) if (name === 'busybox') await chmod(path, 0o755);
});
after(async () => {
  remove();
  // What was closed to its owner cannot be emptied.
  execFileSync('chmod', ['-R', 'u+rwx', dir]);
  await rm(dir, { recursive: true, force: true });
});

const NO_FILES = { count: 0, bytes: 0, unreadable: 0, newest: null, sample: null, denied: null };

/** Without the powers of root, so that permissions are what they are for a monitoring user. */
const ORDINARY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/**
 * @param {Shell} shell
 * @param {{ logs?: string[], discover?: boolean, ordinary?: boolean, instead?: Record<string, string> }} wanted
 *   instead: words of the program that others of the same length stand for
 */
async function probe(shell, { logs = [], discover = false, ordinary = false, instead = {} }) {
  const [program = 'sh', ...args] = shell.argv;
  const child = spawn(
    program,
    [...args, '-c', probeCommand(null).replace(/^exec sh /, `exec ${shell.argv.join(' ')} `)],
    {
      stdio: ['pipe', 'pipe', 'pipe'],
      // SHLVL: with a socket as its stdin, an outermost bash takes itself for rshd's and reads ~/.bashrc.
      env: { PATH: shell.path, SHLVL: '2' },
      cwd: '/',
      ...(ordinary ? ORDINARY : {}),
    },
  );
  /** @type {Buffer[]} */
  const chunks = [];
  let stderr = '';
  child.stdout.on('data', chunk => chunks.push(chunk));
  child.stderr.on('data', chunk => (stderr += String(chunk)));
  child.stdin.on('error', () => {});
  let input = probeInput({ logs, discover });
  for (const [word, other] of Object.entries(instead)) {
    assert.equal(Buffer.byteLength(other), Buffer.byteLength(word));
    assert.ok(input.includes(word));
    input = input.replaceAll(word, other);
  }
  child.stdin.end(input);
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  assert.equal(stderr, '');
  assert.equal(code, 0);
  return parseProbe(Buffer.concat(chunks), { logs, discover });
}

/** @param {string} name @param {(shell: Shell, place: string) => Promise<void>} body */
function inEachShell(name, body) {
  for (const shell of shells) {
    test(`${shell.name}: ${name}`, async () => {
      const place = await mkdtemp(join(dir, 'p-'));
      await chmod(place, 0o755);
      await body(shell, place);
    });
  }
}

inEachShell('the host itself', async shell => {
  const before = Math.floor(Date.now() / 1000);
  const { clock, system, user, missingTools, logs } = await probe(shell, {});
  assert.ok(clock >= before && clock <= Date.now() / 1000 + 1);
  assert.match(system, /^Linux \S/);
  assert.equal(user, userInfo().username);
  assert.deepEqual(missingTools, []);
  assert.deepEqual(logs, []);
});

inEachShell('a log directory: files, the newest, its beginning', async (shell, place) => {
  const record = Buffer.concat([
    Buffer.from('2024-01-01 00:00:00.000 UTC,"\u0000\xff\n'),
    Buffer.alloc(20_000, 'x'),
  ]);
  await writeFile(join(place, 'a.csv'), record);
  await writeFile(join(place, 'z.csv'), 'old');
  await writeFile(join(place, "n e'w$(x).csv"), '');
  await writeFile(join(place, 'bad\nname.csv'), 'not seen');
  await writeFile(join(place, 'b.log'), 'text');
  await mkdir(join(place, 'sub.csv'));
  await utimes(join(place, 'z.csv'), 1000, 1000);
  await utimes(join(place, 'a.csv'), 2000, 2000);
  await utimes(join(place, "n e'w$(x).csv"), 3000, 3000);
  await utimes(join(place, 'b.log'), 4000, 4000);
  const [log] = (await probe(shell, { logs: [place] })).logs;
  assert.equal(log?.kind, 'directory');
  assert.equal(log?.directory, place);
  assert.deepEqual(log?.files, {
    csv: {
      count: 3,
      bytes: record.length + 3,
      unreadable: 0,
      newest: { name: "n e'w$(x).csv", size: 0, modifiedAt: 3000 },
      // The newest with a content.
      sample: record.subarray(0, 8192),
      denied: null,
    },
    json: NO_FILES,
    log: {
      count: 1,
      bytes: 4,
      unreadable: 0,
      newest: { name: 'b.log', size: 4, modifiedAt: 4000 },
      sample: Buffer.from('text'),
      denied: null,
    },
  });
  assert.equal(log?.denied, null);
  assert.equal(log?.version, null);
});

inEachShell('a data directory, and where its logs are', async (shell, place) => {
  for (const name of ['log', 'elsewhere', 'old/pg_log']) await mkdir(join(place, name), { recursive: true });
  await writeFile(join(place, 'PG_VERSION'), '15\n');
  await writeFile(join(place, 'elsewhere', 'x.csv'), 'x');
  await writeFile(join(place, 'log', 'y.csv'), 'yy');
  const first = (await probe(shell, { logs: [place] })).logs[0];
  assert.deepEqual(
    [first?.kind, first?.version, first?.directory, first?.files.csv.bytes],
    ['data', '15', `${place}/log`, 2],
  );
  await writeFile(join(place, 'current_logfiles'), 'stderr elsewhere/x.log\ncsvlog elsewhere/x.csv\n');
  const second = (await probe(shell, { logs: [place] })).logs[0];
  assert.deepEqual(
    [second?.directory, second?.destinations, second?.files.csv.bytes],
    [`${place}/elsewhere`, ['stderr', 'csvlog'], 1],
  );
  await writeFile(join(place, 'current_logfiles'), `csvlog ${place}/log/y.csv\n`);
  assert.equal((await probe(shell, { logs: [place] })).logs[0]?.directory, `${place}/log`);
  // A log directory tells its version when it is that of a data directory.
  assert.equal((await probe(shell, { logs: [join(place, 'log')] })).logs[0]?.version, '15');
  await writeFile(join(place, 'old', 'PG_VERSION'), '9.6\n');
  const old = (await probe(shell, { logs: [join(place, 'old')] })).logs[0];
  assert.deepEqual([old?.version, old?.directory], ['9.6', `${place}/old/pg_log`]);
});

inEachShell('files, links, and what is neither file nor directory', async (shell, place) => {
  const file = join(place, 'a file.txt');
  await writeFile(file, '{"x":1}\n');
  await utimes(file, 5000, 5000);
  await symlink(file, join(place, 'link'));
  const { logs } = await probe(shell, {
    logs: [file, join(place, 'link'), '/dev/null', join(place, 'absent'), join(file, 'below')],
  });
  assert.deepEqual(
    logs.map(({ kind }) => kind),
    ['file', 'file', 'other', 'missing', 'missing'],
  );
  for (const log of logs.slice(0, 2)) {
    assert.deepEqual(log.files.log, {
      ...NO_FILES,
      count: 1,
      bytes: 8,
      newest: { name: log.path.slice(place.length + 1), size: 8, modifiedAt: 5000 },
      sample: Buffer.from('{"x":1}\n'),
    });
  }
});

inEachShell('what an ordinary user may not see, and who owns it', async (shell, place) => {
  const closed = join(place, 'closed');
  const unlisted = join(place, 'unlisted');
  const files = join(place, 'files');
  for (const each of [closed, unlisted, files]) await mkdir(each);
  await writeFile(join(files, 'a.csv'), 'a', { mode: 0o600 });
  await writeFile(join(files, 'b.csv'), 'b', { mode: 0o644 });
  await writeFile(join(closed, 'c.csv'), 'c');
  await chmod(join(files, 'a.csv'), 0o000);
  await chmod(closed, 0o600);
  await chmod(unlisted, 0o311);
  const logs = [closed, join(closed, 'c.csv'), unlisted, files, join(files, 'a.csv')];
  const found = (await probe(shell, { logs, ordinary: true })).logs;
  const owner = { owner: userInfo().username, group: found[0]?.denied?.group };
  assert.ok(owner.group);
  assert.deepEqual(
    found.map(({ kind, denied, files: { csv } }) => [kind, denied ?? csv.denied]),
    [
      ['directory', { need: 'search', mode: '600', path: closed, ...owner }],
      ['hidden', { need: 'search', mode: '600', path: closed, ...owner }],
      ['directory', { need: 'read', mode: '311', path: unlisted, ...owner }],
      ['directory', { need: 'read', mode: '0', path: join(files, 'a.csv'), ...owner }],
      ['file', { need: 'read', mode: '0', path: join(files, 'a.csv'), ...owner }],
    ],
  );
  const { count, bytes, unreadable, sample } = found[3]?.files.csv ?? NO_FILES;
  assert.deepEqual([count, bytes, unreadable, sample?.toString()], [2, 2, 1, 'b']);
  assert.equal(found[4]?.files.csv.sample, null);
});

inEachShell(
  'each kind of files by their names, rotated ones too, without those that are compressed',
  async (shell, place) => {
    /** @type {Record<'csv' | 'json' | 'log', string[]>} */
    const names = {
      csv: ['a.csv', 'a.csv.1', 'a.csv-20240101', 'b.log.csv'],
      json: ['a.json', 'a.json.2', 'a.json-20240101'],
      log: ['a.log', 'a.log.1', 'postgres', 'csv', 'a.csvx', 'x.json_old', 'postgresql-Mon'],
    };
    const others = [
      'a.csv.gz',
      'a.csv.1.gz',
      'a.log.xz',
      'b.csv.bz2',
      'c.csv.zst',
      'd.csv.zip',
      '.a.csv.swp',
    ];
    for (const name of [...Object.values(names).flat(), ...others]) await writeFile(join(place, name), name);
    for (const [kind, all] of Object.entries(names)) {
      // The last is the newest.
      for (const [index, name] of all.entries()) await utimes(join(place, name), 1000 + index, 1000 + index);
      const newest = all.at(-1) ?? '';
      const { files } = (await probe(shell, { logs: [place] })).logs[0] ?? {};
      assert.deepEqual(files?.[/** @type {'csv'} */ (kind)], {
        ...NO_FILES,
        count: all.length,
        bytes: all.join('').length,
        newest: { name: newest, size: newest.length, modifiedAt: 1000 + all.length - 1 },
        sample: Buffer.from(newest),
      });
    }
  },
);

/** @param {Shell} shell @param {string} path @param {{ ordinary?: boolean, instead?: Record<string, string> }} [how] */
async function settingsOf(shell, path, how = {}) {
  const [log] = (await probe(shell, { logs: [path], ...how })).logs;
  return [log?.timeZone ?? null, log?.linePrefix ?? null];
}

/** @param {string} place @returns {Promise<string>} an empty data directory with its log directory */
async function dataDirectory(place) {
  const data = await mkdtemp(join(place, 'data-'));
  await chmod(data, 0o755);
  await mkdir(join(data, 'log'));
  await writeFile(join(data, 'PG_VERSION'), '15\n');
  return data;
}

inEachShell('settings in every form that PostgreSQL takes', async (shell, place) => {
  const data = await dataDirectory(place);
  /** @type {[string, string | null, string | null][]} */
  const cases = [
    ["log_timezone = 'Europe/Moscow'\nlog_line_prefix = '%m [%p] '\n", 'Europe/Moscow', '%m [%p] '],
    ['log_timezone=UTC', 'UTC', null],
    ["log_timezone Etc/GMT-3 # as agreed\n\t log_line_prefix\t'%t '#x", 'Etc/GMT-3', '%t '],
    ["LOG_TimeZone='Asia/Tokyo'\nLog_Line_Prefix='%p '\n", 'Asia/Tokyo', '%p '],
    ['log_timezone = GMT\r\n', 'GMT', null],
    ["log_timezone='UTC'\r\nlog_line_prefix = '%m '\r\n", 'UTC', '%m '],
    ["log_line_prefix = 'it''s \\'%m\\' \\\\ # ' # Bob's 'own'", null, "it's '%m' \\ # "],
    ["log_line_prefix = '%m # '  # e.g. '<%u%%%d> '", null, '%m # '],
    ["log_line_prefix = '<%u%%%d> \u00e4'", null, '<%u%%%d> \u00e4'],
    // The last one holds.
    ["log_timezone = 'UTC'\nlog_timezone = 'GMT'\nlog_line_prefix='a'\nlog_line_prefix='b'\n", 'GMT', 'b'],
    ["log_line_prefix='a'\nlog_line_prefix=''\n", null, null],
    // Not these settings, or not settings.
    ["#log_timezone = 'UTC'\n  # log_line_prefix = 'x'\n", null, null],
    [
      "log_timezone_x = 'UTC'\nxlog_line_prefix = 'x'\nmy.log_timezone = 'UTC'\nlog_line_prefix.x = 'x'\n",
      null,
      null,
    ],
    ["application_name = 'log_timezone = UTC'\n", null, null],
    // What PostgreSQL would not start with, or what is of no use.
    ["log_line_prefix = 'x\nlog_timezone =\n", null, null],
    ["log_line_prefix = 'x\\n'\n", null, null],
    ["log_timezone = '$(id)'\n", null, null],
    ['', null, null],
  ];
  for (const [conf, zone, prefix] of cases) {
    await writeFile(join(data, 'postgresql.conf'), conf);
    assert.deepEqual(await settingsOf(shell, data), [zone, prefix], conf);
  }
});

inEachShell('settings: which file has the last word', async (shell, place) => {
  const data = await dataDirectory(place);
  const etc = join(place, 'etc');
  await mkdir(join(etc, 'conf.d'), { recursive: true });
  const of = () => settingsOf(shell, data);
  const write = (/** @type {string} */ name, /** @type {string[]} */ ...lines) =>
    writeFile(name, lines.map(line => `${line}\n`).join(''));
  await write(join(data, 'postgresql.conf'), "log_timezone = 'UTC'", "log_line_prefix = 'conf '");
  assert.deepEqual(await of(), ['UTC', 'conf ']);
  await write(join(data, 'postgresql.auto.conf'), "log_line_prefix = 'auto '");
  assert.deepEqual(await of(), ['UTC', 'auto ']);
  await write(
    join(data, 'postmaster.opts'),
    `/usr/bin/postgres "-D" "${data}" "-c" "config_file=${etc}/my.conf" "-c" "log_statement=all"`,
  );
  await write(join(etc, 'my.conf'), "log_timezone = 'Asia/Tokyo'");
  assert.deepEqual(await of(), ['Asia/Tokyo', 'auto ']);
  // Files that are included count where they are.
  await write(
    join(etc, 'my.conf'),
    "include 'base.conf'",
    "log_timezone = 'Asia/Tokyo'",
    "include_if_exists = 'none.conf'",
    "INCLUDE_DIR 'conf.d'",
  );
  await write(join(etc, 'base.conf'), "log_timezone = 'GMT'", "log_line_prefix = 'base '");
  await rm(join(data, 'postgresql.auto.conf'));
  assert.deepEqual(await of(), ['Asia/Tokyo', 'base ']);
  // Whatever their order in the directory.
  for (const number of [17, 12, 20, 11, 19, 13, 18, 14])
    await write(
      join(etc, 'conf.d', `${number}.conf`),
      `log_timezone = 'Europe/${number === 20 ? 'Rome' : 'Paris'}'`,
    );
  await write(join(etc, 'conf.d', '10.conf'), "log_timezone = 'Europe/Oslo'", `include '${etc}/deep.conf'`);
  await write(join(etc, 'conf.d', '30.conf.bak'), "log_timezone = 'Europe/Bern'");
  await write(join(etc, 'conf.d', '.40.conf'), "log_timezone = 'Europe/Bern'");
  await write(join(etc, 'deep.conf'), "log_line_prefix = 'deep '");
  assert.deepEqual(await of(), ['Europe/Rome', 'deep ']);
  // The command line is above all.
  await write(
    join(data, 'postmaster.opts'),
    `/usr/bin/postgres "-D" "${data}" "--config-file=${etc}/my.conf" "-clog_timezone=GMT" "--log-line-prefix=%m argv "`,
  );
  assert.deepEqual(await of(), ['GMT', '%m argv ']);
  // The log directory and its files belong to the same server, and so do files beside it.
  await writeFile(join(data, 'log', 'a.csv'), '');
  await writeFile(join(data, 'server.log'), '');
  await symlink(etc, join(data, 'elsewhere'));
  for (const path of ['log', 'log/a.csv', 'server.log', 'elsewhere'])
    assert.deepEqual(await settingsOf(shell, join(data, path)), ['GMT', '%m argv '], path);
  assert.deepEqual(await settingsOf(shell, etc), [null, null]);
});

inEachShell('settings of a cluster that Debian keeps', async (shell, place) => {
  // Directories of the same lengths stand for /etc/postgresql and /var/lib/postgresql.
  const [etc, lib] = await Promise.all([mkdtemp('/tmp/etc-'), mkdtemp('/tmp/var-lib-')]);
  try {
    const instead = { '/etc/postgresql': etc, '/var/lib/postgresql': lib };
    for (const [root, name, line] of /** @type {const} */ ([
      [etc, 'postgresql.conf', "log_timezone = 'Europe/Berlin'\nlog_line_prefix = '%m [%p] %q%u@%d '\n"],
      [lib, 'postgresql.auto.conf', "log_line_prefix = '%t '\n"],
    ])) {
      await mkdir(join(root, '15', 'my-main'), { recursive: true });
      await writeFile(join(root, '15', 'my-main', name), line);
    }
    for (const name of [
      'postgresql-15-my-main.log',
      'postgresql-15-other.log',
      'postgresql-2024-01-01_000000.log',
    ])
      await writeFile(join(place, name), '');
    const of = (/** @type {string} */ name) => settingsOf(shell, join(place, name), { instead });
    assert.deepEqual(await of('postgresql-15-my-main.log'), ['Europe/Berlin', '%t ']);
    await rm(join(lib, '15'), { recursive: true });
    assert.deepEqual(await of('postgresql-15-my-main.log'), ['Europe/Berlin', '%m [%p] %q%u@%d ']);
    assert.deepEqual(await of('postgresql-15-other.log'), [null, null]);
    assert.deepEqual(await of('postgresql-2024-01-01_000000.log'), [null, null]);
  } finally {
    for (const each of [etc, lib]) await rm(each, { recursive: true });
  }
});

inEachShell('configuration files that cannot be read, or are none', async (shell, place) => {
  const data = await dataDirectory(place);
  const conf = join(data, 'postgresql.conf');
  await writeFile(conf, "log_timezone = 'UTC'\n");
  await chmod(conf, 0o000);
  assert.deepEqual(await settingsOf(shell, data, { ordinary: true }), [null, null]);
  await rm(conf);
  assert.deepEqual(await settingsOf(shell, data), [null, null]);
  await mkdir(conf);
  assert.deepEqual(await settingsOf(shell, data), [null, null]);
  await rm(conf, { recursive: true });
  // Nobody writes into it: who opened it would wait for ever.
  for (const name of ['postgresql.conf', 'postgresql.auto.conf', 'postmaster.opts'])
    execFileSync('mkfifo', [join(data, name)]);
  assert.deepEqual(await settingsOf(shell, data), [null, null]);
});

inEachShell('hostile configuration files cost little and are never run', async (shell, place) => {
  const data = await dataDirectory(place);
  const canary = join(place, 'canary');
  const conf = join(data, 'postgresql.conf');
  const opts = join(data, 'postmaster.opts');
  for (const evil of [
    `$(touch ${canary})`,
    `\`touch ${canary}\``,
    `'; touch ${canary}; '`,
    `\\'; touch ${canary} #`,
  ]) {
    await writeFile(
      conf,
      `log_timezone = '${evil}'\nlog_timezone = ${evil}\nlog_line_prefix = ${evil}\ninclude '${evil}'\ninclude_dir ${evil}\n`,
    );
    await writeFile(opts, `"log_timezone=${evil}" "config_file=${evil}"\n`);
    await settingsOf(shell, data);
    await writeFile(opts, `"log_timezone=${evil}" "log_line_prefix=%m ${evil}"\n`);
    const [zone, prefix] = await settingsOf(shell, data);
    assert.equal(zone, null);
    assert.ok(prefix?.startsWith('%m '));
  }
  assert.equal((await probe(shell, { logs: [canary] })).logs[0]?.kind, 'missing');
  await writeFile(opts, 'log_timezone=\u001b[2J');
  // Escapes, NUL and what is no UTF-8.
  for (const evil of ['a\u001b[31m', 'a\u0000b', 'a\u0007', 'a\u007f', 'a\tb']) {
    await writeFile(conf, `log_timezone = '${evil}'\nlog_line_prefix = '${evil}'\n`);
    assert.deepEqual(await settingsOf(shell, data), [null, null], JSON.stringify(evil));
  }
  await rm(opts);
  // What no frame of the follower holds.
  await writeFile(conf, `log_timezone = '${'a'.repeat(65)}'\nlog_line_prefix = '${'b'.repeat(257)}'\n`);
  assert.deepEqual(await settingsOf(shell, data), [null, null]);
  await writeFile(conf, `log_timezone = '${'a'.repeat(64)}'\nlog_line_prefix = '${'b'.repeat(256)}'\n`);
  assert.deepEqual(await settingsOf(shell, data), ['a'.repeat(64), 'b'.repeat(256)]);

  const line = "log_line_prefix = 'x'\n";
  const many = line.repeat(100_000);
  const long = `log_line_prefix = '${"''".repeat(1_000_000)}'\n`;
  const loop = "include 'postgresql.conf'\n".repeat(50) + "include_dir '.'\n".repeat(50);
  for (const huge of [
    many,
    long,
    '\n'.repeat(3_000_000),
    'x'.repeat(5_000_000),
    Buffer.alloc(5_000_000),
    loop,
  ]) {
    await writeFile(conf, huge);
    await writeFile(join(data, 'postgresql.auto.conf'), huge);
    await writeFile(opts, huge);
    await writeFile(join(data, 'PG_VERSION'), huge);
    const begin = performance.now();
    const [log] = (await probe(shell, { logs: [data] })).logs;
    const seconds = (performance.now() - begin) / 1000;
    // Alone it takes one or two; what it must not do is go on for as long as the file is long.
    assert.ok(seconds < 60, `${seconds} s for ${String(huge.slice(0, 20))}`);
    assert.equal(log?.linePrefix ?? null, huge === many ? 'x' : null);
    assert.equal(log?.version, null);
  }
});

inEachShell('destinations that PostgreSQL does not have', async (shell, place) => {
  const data = await dataDirectory(place);
  const words = [
    'eventlog log/x.log',
    '\u001b[2J log/y',
    'stderr log/z.log',
    '$(id) log/a',
    'jsonlog log/z.json',
  ];
  await writeFile(join(data, 'current_logfiles'), `${words.join('\n')}\n`);
  const [log] = (await probe(shell, { logs: [data] })).logs;
  assert.deepEqual([log?.destinations, log?.directory], [['stderr', 'jsonlog'], `${data}/log`]);
});

/** @param {string} place @param {string} script @returns {Promise<string>} a directory with this journalctl */
async function fakeJournalctl(place, script) {
  const bin = await mkdtemp(join(place, 'bin-'));
  await chmod(bin, 0o755);
  await writeFile(join(bin, 'journalctl'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return bin;
}

inEachShell('the journal of a unit', async (shell, place) => {
  /** @param {string} script @param {{ unit?: string }} [options] */
  const journal = async (script, { unit = 'pg.service' } = {}) => {
    const path = `${await fakeJournalctl(place, script)}:${shell.path}`;
    const [log] = (await probe({ ...shell, path }, { logs: [`journal:${unit}`] })).logs;
    assert.equal(log?.kind, 'journal');
    return {
      state: log?.journal?.state,
      text: log?.journal?.text,
      sample: log?.files.log.sample?.toString(),
    };
  };
  const nothing = { text: '', sample: undefined };
  assert.deepEqual(await journal('[ "$1" = -q ] && echo "$*"'), {
    state: 'readable',
    text: '',
    sample: '-q --no-pager -o cat -n 100 _SYSTEMD_UNIT=pg.service _TRANSPORT=stdout\n',
  });
  for (const [unit, whole] of [
    ['postgresql', 'postgresql.service'],
    ['srv-data.mount', 'srv-data.mount'],
    ['pg@15-main.service', 'pg@15-main.service'],
  ]) {
    const { sample } = await journal('[ "$1" = -q ] && echo "$*"', { unit });
    assert.ok(sample?.includes(` _SYSTEMD_UNIT=${whole} `), sample);
  }
  assert.deepEqual(await journal('exit 0'), { state: 'empty', ...nothing });
  assert.deepEqual(await journal('[ "$1" = -q ] || echo No journal files were found. >&2'), {
    state: 'missing',
    ...nothing,
  });
  const hint = 'Hint: You are currently not seeing messages from other users and the system.';
  assert.deepEqual(await journal(`[ "$1" = -q ] || echo ${hint} >&2`), { state: 'denied', ...nothing });
  assert.deepEqual(await journal("printf '\\033[2JFailed to %s' open >&2; exit 1"), {
    state: 'failed',
    text: ' [2JFailed to open',
    sample: undefined,
  });
  // More than is wanted, and never an end.
  const { state, sample } = await journal('yes 0123456789');
  assert.deepEqual([state, sample?.length], ['readable', 8192]);
  const [none] = (await probe(shell, { logs: ['journal:x'], instead: { journalctl: 'journalxxx' } })).logs;
  assert.deepEqual(none?.journal, { state: 'tool', text: '' });
});

test('the journal as journalctl shows it', async () => {
  const place = await mkdtemp(join(dir, 'journal-'));
  await writeJournal(join(place, 'system.journal'), [
    { timeUs: START_US, message: 'of another', unit: 'ssh.service', pid: '9' },
    { timeUs: START_US + 1, message: '2026-01-01 00:00:00 UTC [7] LOG:  one', pid: '7' },
    { timeUs: START_US + 2, message: 'by syslog', pid: '7', transport: 'syslog' },
    { timeUs: START_US + 3, message: '2026-01-01 00:00:01 UTC [7] LOG:  two', pid: '7' },
  ]);
  const bin = await fakeJournalctl(place, `exec /usr/bin/journalctl -D ${place} "$@"`);
  for (const shell of shells) {
    const found = await probe(
      { ...shell, path: `${bin}:${shell.path}` },
      { logs: [`journal:${UNIT}`, 'journal:none.service'] },
    );
    const [log, none] = found.logs;
    assert.deepEqual([log?.journal?.state, none?.journal?.state], ['readable', 'empty']);
    assert.equal(
      log?.files.log.sample?.toString(),
      '2026-01-01 00:00:00 UTC [7] LOG:  one\n2026-01-01 00:00:01 UTC [7] LOG:  two\n',
    );
  }
});

inEachShell('paths are data: nothing of them is run', async (shell, place) => {
  const canary = join(place, 'canary');
  const logs = [
    `/$(touch ${canary})`,
    `/\`touch ${canary}\``,
    `/x; touch ${canary}`,
    `/' ; touch ${canary} '`,
    '/*',
    '/-n',
    '/a\\nb',
  ];
  const found = (await probe(shell, { logs })).logs;
  assert.deepEqual(
    found.map(({ path }) => path),
    logs,
  );
  assert.deepEqual(new Set(found.map(({ kind }) => kind)), new Set(['missing']));
  assert.equal((await probe(shell, { logs: [canary] })).logs[0]?.kind, 'missing');
});

test('running clusters are found, once each, by their owner and by others', async t => {
  const postgres = await startPostgres({ settings: csvlogSettings() });
  t.after(() => postgres.stop());
  for (const shell of shells) {
    for (const ordinary of [false, true]) {
      const { logs } = await probe(shell, { discover: true, ordinary });
      const paths = logs.map(({ path }) => path);
      assert.equal(
        paths.filter(path => path === postgres.dataDir).length,
        1,
        `${shell.name}: ${paths.join()}`,
      );
      const log = logs.find(({ path }) => path === postgres.dataDir);
      if (ordinary && process.getuid?.() === 0) {
        assert.equal(log?.denied?.path, postgres.dataDir);
        assert.equal(log?.denied?.mode, '700');
      } else {
        assert.equal(log?.kind, 'data');
        assert.equal(log?.version, String(postgres.major));
        assert.ok((log?.files.csv.count ?? 0) >= 1);
      }
    }
    // What is asked for comes first, and is not found again.
    const both = await probe(shell, { logs: [postgres.dataDir], discover: true });
    assert.equal(both.logs[0]?.path, postgres.dataDir);
    assert.equal(both.logs.filter(({ path }) => path === postgres.dataDir).length, 1);
  }
});

test('a cluster without a collector is followed where its stderr goes', async t => {
  const postgres = await startPostgres({ settings: { logging_collector: 'off' } });
  t.after(() => postgres.stop());
  for (const shell of shells) {
    const own = (await probe(shell, { discover: true })).logs.map(({ path }) => path);
    assert.equal(own.filter(path => path === postgres.serverLog).length, 1, own.join());
    assert.ok(!own.includes(postgres.dataDir));
    if (process.getuid?.() !== 0) continue;
    // Where stderr goes is not for others to know.
    const others = (await probe(shell, { discover: true, ordinary: true })).logs.map(({ path }) => path);
    assert.ok(others.includes(postgres.dataDir) && !others.includes(postgres.serverLog), others.join());
  }
});

inEachShell('a cluster that Debian keeps, without a collector', async (shell, place) => {
  // Directories of the same lengths stand for /var/lib/postgresql and /var/log/postgresql.
  const [lib, log] = await Promise.all([mkdtemp('/tmp/var-lib-'), mkdtemp('/tmp/var-log-')]);
  const script = join(place, 'postgres');
  await writeFile(script, '#!/bin/sh\nread -r line\n', { mode: 0o755 });
  /** @type {import('node:child_process').ChildProcess[]} */
  let processes = [];
  try {
    for (const each of [lib, log]) await chmod(each, 0o755);
    const data = (/** @type {string} */ name) => join(lib, '15', name);
    for (const name of ['main', 'collected', 'fresh']) await mkdir(data(name), { recursive: true });
    await writeFile(join(data('collected'), 'current_logfiles'), 'csvlog log/x.csv\n');
    for (const name of ['main', 'collected']) await writeFile(join(log, `postgresql-15-${name}.log`), 'x');
    processes = ['main', 'collected', 'fresh'].map(name =>
      spawn(script, ['-D', data(name)], {
        cwd: '/',
        stdio: ['pipe', 'ignore', 'ignore'],
        ...(ORDINARY.uid && { uid: 1 }),
      }),
    );
    await Promise.all(processes.map(child => once(child, 'spawn')));
    const instead = { '/var/lib/postgresql': lib, '/var/log/postgresql': log };
    const { logs } = await probe(shell, { discover: true, ordinary: true, instead });
    const mine = logs.map(({ path }) => path).filter(path => path.startsWith(lib) || path.startsWith(log));
    const expected =
      process.getuid?.() === 0
        ? [`${data('collected')}`, `${data('fresh')}`, join(log, 'postgresql-15-main.log')]
        : [`${data('collected')}`, `${data('fresh')}`, `${data('main')}`];
    assert.deepEqual(mine.toSorted(), expected);
  } finally {
    const ended = processes.map(child => once(child, 'exit'));
    for (const child of processes) child.stdin?.end();
    await Promise.all(ended);
    for (const each of [lib, log]) await rm(each, { recursive: true });
  }
});

inEachShell('clusters that only their arguments tell of', async (shell, place) => {
  const hidden = join(place, 'hidden');
  const names = ['one', 'two/', 'th ree', 'hidden/four'];
  for (const name of names) await mkdir(join(place, name), { recursive: true });
  await chmod(hidden, 0o600);
  // The kernel names the process of a script after the script.
  const script = join(place, 'postgres');
  await writeFile(script, '#!/bin/sh\nread -r line\n', { mode: 0o755 });
  const absent = join(place, 'in-a-container');
  const processes = [
    ['-D', `${place}/one`],
    ['-c', 'port=1', `-D${place}/two/`],
    [`--data_directory=${place}/th ree`, '-D', `${place}/one`],
    ['-D', `${hidden}/four`],
    ['-D', absent],
    ['-D', 'relative'],
    ['-D', '/'],
    ['-D'],
    [],
  ].map(args => spawn(script, args, { cwd: '/', stdio: ['pipe', 'ignore', 'ignore'] }));
  try {
    await Promise.all(processes.map(child => once(child, 'spawn')));
    const { logs } = await probe(shell, { discover: true, ordinary: true });
    const mine = logs.filter(({ path }) => path.startsWith(place));
    assert.deepEqual(mine.map(({ path }) => path).toSorted(), [
      `${hidden}/four`,
      `${place}/one`,
      `${place}/th ree`,
      `${place}/two`,
    ]);
    assert.equal(mine.find(({ path }) => path === `${hidden}/four`)?.kind, 'hidden');
    for (const { path } of logs) assert.match(path, /^\/./);
  } finally {
    const ended = processes.map(child => once(child, 'exit'));
    for (const child of processes) child.stdin.end();
    await Promise.all(ended);
  }
});

inEachShell('a process that ends while it is looked at', async (shell, place) => {
  const script = join(place, 'postgres');
  await writeFile(script, '#!/bin/sh\nread -r line\n', { mode: 0o755 });
  const child = spawn(script, ['-D', `${place}/one`], { cwd: '/', stdio: ['pipe', 'ignore', 'ignore'] });
  try {
    await once(child, 'spawn');
    const { logs } = await probe(shell, { discover: true, instead: { cmdline: 'cmdgone' } });
    assert.deepEqual(
      logs.filter(({ path }) => path.startsWith(place)),
      [],
    );
  } finally {
    child.stdin.end();
    await once(child, 'exit');
  }
});

test('missing tools are named', async () => {
  const bin = await mkdtemp(join(dir, 'bin-'));
  await writeFile(join(bin, 'stat'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  // PATH is extended by the usual directories, so only what stands before them can be taken away.
  const [dash] = shells;
  assert.ok(dash);
  const { missingTools } = await probe({ ...dash, path: `${bin}:${dash.path}` }, {});
  assert.deepEqual(missingTools, ['stat -c']);
});
