/** The probe in real shells, on real directories and a running PostgreSQL; as root also without root's powers. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parseProbe, probeCommand, probeInput } from '../../../src/follower/probe.js';
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

/** Without the powers of root, so that permissions are what they are for a monitoring user. */
const ORDINARY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/**
 * @param {Shell} shell
 * @param {{ logs?: string[], discover?: boolean, ordinary?: boolean }} wanted
 */
async function probe(shell, { logs = [], discover = false, ordinary = false }) {
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
  child.stdin.end(probeInput({ logs, discover }));
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
  const [log] = (await probe(shell, { logs: [place] })).logs;
  assert.equal(log?.kind, 'directory');
  assert.equal(log?.directory, place);
  assert.deepEqual(log?.files, {
    csv: { count: 3, bytes: record.length + 3, unreadable: 0 },
    json: { count: 0, bytes: 0, unreadable: 0 },
    log: { count: 1, bytes: 4, unreadable: 0 },
  });
  assert.deepEqual(log?.newest, { name: "n e'w$(x).csv", size: 0, modifiedAt: 3000 });
  // The newest with a content.
  assert.deepEqual(log?.sample, record.subarray(0, 8192));
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
    assert.deepEqual(log.files.csv, { count: 1, bytes: 8, unreadable: 0 });
    assert.equal(log.newest?.modifiedAt, 5000);
    assert.equal(log.sample?.toString(), '{"x":1}\n');
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
    found.map(({ kind, denied }) => [kind, denied]),
    [
      ['directory', { need: 'search', mode: '600', path: closed, ...owner }],
      ['hidden', { need: 'search', mode: '600', path: closed, ...owner }],
      ['directory', { need: 'read', mode: '311', path: unlisted, ...owner }],
      ['directory', { need: 'read', mode: '0', path: join(files, 'a.csv'), ...owner }],
      ['file', { need: 'read', mode: '0', path: join(files, 'a.csv'), ...owner }],
    ],
  );
  assert.deepEqual(found[3]?.files.csv, { count: 2, bytes: 2, unreadable: 1 });
  assert.equal(found[3]?.sample?.toString(), 'b');
  assert.equal(found[4]?.sample, null);
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

test('missing tools are named', async () => {
  const bin = await mkdtemp(join(dir, 'bin-'));
  await writeFile(join(bin, 'stat'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  // PATH is extended by the usual directories, so only what stands before them can be taken away.
  const [dash] = shells;
  assert.ok(dash);
  const { missingTools } = await probe({ ...dash, path: `${bin}:${dash.path}` }, {});
  assert.deepEqual(missingTools, ['stat -c']);
});
