/**
 * Private keys and the storage's password stay where they are: with the daemon at log level trace, hosts over both
 * transports, and keys that fail in every way, nothing of them is in its output, its answers, its processes'
 * arguments, the environment of what it starts for hosts, core dumps, or the storage.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client, escapeIdentifier } from 'pg';
import { descendants, TestDaemon } from '../helpers/daemon.js';
import { startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

const PIECE_CHARS = 20;
const ROLE = 'keeper';
const PASSWORD = 'Zq7-storage-password-x9';
const TRANSPORTS = ['openssh', 'ssh2'];
const ROW =
  '2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n';

/** @type {string} */
let dir;
/** @type {Awaited<ReturnType<typeof startPostgres>>} */
let storage;
/** @type {import('../helpers/sshd.js').Sshd} */
let sshd;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-secrets-'));
  [storage, sshd] = await Promise.all([startPostgres({ tcp: 'scram' }), startSshd()]);
  await storage.query(`CREATE ROLE ${ROLE} LOGIN PASSWORD '${PASSWORD}'`);
  await storage.createDatabase('kept');
  await storage.query(`ALTER DATABASE kept OWNER TO ${ROLE}`);
});
after(async () => {
  await Promise.all([storage.stop(), sshd.stop()]);
  rmSync(dir, { recursive: true });
});

/** @param {string} name @param {string} text @param {number} [mode] */
function keyFile(name, text, mode = 0o600) {
  const file = join(dir, name);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

/** @param {string} pem @returns {string} its base64 without line ends */
const base64Of = pem => pem.replaceAll(/^-.*$|\s/gm, '');

/** @param {string} text @param {string} base64 @returns {string | undefined} a piece of it that is in the text */
function pieceIn(text, base64) {
  for (let at = 0; at + PIECE_CHARS <= base64.length; at += 1) {
    const piece = base64.slice(at, at + PIECE_CHARS);
    if (text.includes(piece)) return piece;
  }
  return undefined;
}

/** Every row of every table of pgsluice's schema. */
async function wholeStorage() {
  const tables = await storage.query(
    `SELECT relname FROM pg_class WHERE relnamespace = 'pgsluice'::regnamespace AND relkind IN ('r', 'p', 'v')`,
    [],
    'kept',
  );
  const texts = [];
  for (const { relname } of tables.rows) {
    const { rows } = await storage.query(
      `SELECT t::text AS row FROM pgsluice.${escapeIdentifier(relname)} t`,
      [],
      'kept',
    );
    texts.push(relname, ...rows.map(({ row }) => row));
  }
  assert.ok(tables.rows.length > 5 && texts.length > tables.rows.length);
  return texts.join('\n');
}

test('neither keys nor the password are shown, sent or kept anywhere', async t => {
  const logs = join(dir, 'a.csv');
  writeFileSync(logs, ROW);
  const key = readFileSync(sshd.identityFile, 'utf8');
  // Another key, which the server does not know.
  const { identityFile: foreignFile, stop } = await startSshd();
  const foreign = readFileSync(foreignFile, 'utf8');
  copyFileSync(foreignFile, join(dir, 'foreign'));
  await stop();
  chmodSync(join(dir, 'foreign'), 0o600);
  const lines = key.split('\n');
  /** What is wrong with the key -> the key file. */
  const keys = {
    good: sshd.identityFile,
    foreign: join(dir, 'foreign'),
    missing: keyFile('missing', key),
    cut: keyFile('cut', [...lines.slice(0, 3), ...lines.slice(-2)].join('\n')),
    oneline: keyFile('oneline', lines.join(' ')),
    headless: keyFile('headless', lines.slice(1, -2).join('\n')),
    garbage: keyFile('garbage', `${lines[0]}\n!!${lines[1]}??${lines[2]}\n${lines.slice(-2).join('\n')}`),
    open: keyFile('open', key, 0o644),
    unreadable: keyFile('unreadable', key),
  };
  const url = `postgres://${ROLE}:${PASSWORD}@127.0.0.1:${storage.port}/kept`;
  const daemon = new TestDaemon({
    toml: 'daemon.workers = 1\ndaemon.log_level = "trace"',
    env: { PGSLUICE_STORAGE_URL: url, PGPASSWORD: PASSWORD },
  });
  t.after(() => daemon.remove());
  await daemon.start();

  /** Everything that was printed or answered. */
  const shown = [];
  for (const transport of TRANSPORTS) {
    const added = Object.entries(keys).map(([name, identityFile]) =>
      daemon.addHost(`${transport}-${name}`, { log: logs, server: { ...sshd, identityFile }, transport }),
    );
    shown.push(...(await Promise.all(added)));
  }
  // host add would have said so.
  rmSync(keys.missing);
  chmodSync(keys.unreadable, 0o000);
  for (const name of ['missing', 'unreadable', 'good']) {
    for (const transport of TRANSPORTS) {
      await daemon.run('host', 'pause', `${transport}-${name}`);
      await daemon.run('host', 'resume', `${transport}-${name}`);
    }
  }
  await daemon.addHost('here', { log: logs });
  const broken = ['foreign', 'cut', 'oneline', 'headless', 'garbage'];
  let { hosts } = await daemon.status();
  await until(
    async () => {
      ({ hosts } = await daemon.status());
      hosts = hosts.filter(({ name, streams: [stream] }) => {
        const kind = name.split('-')[1] ?? name;
        if (broken.includes(kind)) return !stream?.error;
        if (kind === 'good' || kind === 'here') return stream?.state !== 'reading';
        // Root reads what is closed, and ssh2 does not mind a key file that is open.
        return !stream?.error && stream?.state !== 'reading';
      });
      return hosts.length === 0;
    },
    () => `an error, or reading, of ${JSON.stringify(hosts)}`,
  );

  const processes = [daemon.pid, ...descendants(daemon.pid)];
  const names = processes.map(pid => readIfAlive(`/proc/${pid}/cmdline`, '').replaceAll('\0', ' '));
  assert.ok(names.some(name => name.includes('sshproxy/main.js')));
  assert.ok(names.some(name => name.includes('worker/main.js')));
  assert.ok(
    names.some(name => /^ssh\b.* -F /.test(name)),
    names.join('\n'),
  );
  shown.push(...names);

  if (existsSync('/proc/self/coredump_filter')) {
    for (const [index, pid] of processes.entries()) {
      assert.equal(readIfAlive(`/proc/${pid}/coredump_filter`, '00000000').trim(), '00000000', names[index]);
    }
  }
  const forHosts = processes.filter((_, index) => /^ssh\b|^\/bin\/sh /.test(names[index] ?? ''));
  assert.ok(forHosts.length >= 3, 'a master, a session, a local follower');
  for (const pid of forHosts) {
    assert.ok(
      !readIfAlive(`/proc/${pid}/environ`, '').includes(PASSWORD),
      readIfAlive(`/proc/${pid}/cmdline`, ''),
    );
  }

  for (const path of ['/metrics', '/status', '/readyz', '/healthz', '/nothing'])
    shown.push(await (await fetch(daemon.url + path)).text());
  const commands = [
    ['host', 'show', 'openssh-garbage'],
    ['status'],
    ['status', '--json'],
    ['config', 'print'],
    ['config', 'print', '--json'],
    ['host', 'list'],
  ];
  for (const [index, name] of Object.keys(keys).entries()) {
    commands.push(['host', 'check', `${TRANSPORTS[index % 2]}-${name}`, '--json']);
  }
  while (commands.length > 0) {
    const some = await Promise.all(commands.splice(0, 4).map(words => daemon.command(...words)));
    shown.push(...some.flatMap(({ stdout, stderr }) => [stdout, stderr]));
  }
  const tables = await wholeStorage();
  await daemon.stop();
  shown.push(daemon.output);

  for (const text of [...shown, tables]) {
    assert.ok(!text.includes(PASSWORD), `the password is in ${text}`);
    for (const secret of [key, foreign]) {
      const piece = pieceIn(text, base64Of(secret));
      assert.equal(piece, undefined, `${piece} is in ${text}`);
    }
  }
  // What was looked through is not empty, and what is looked for would have been found.
  assert.match(daemon.output, /foreign/);
  assert.match(tables, /openssh-garbage/);
  assert.ok(pieceIn(key.replaceAll('\n', ''), base64Of(key)));
});

test('a storage that refuses the password, or is away, does not make it known', async t => {
  for (const where of [
    `127.0.0.1:${storage.port}/kept`,
    `127.0.0.1:${storage.port}/none`,
    '127.0.0.1:1/kept',
  ]) {
    const wrong = `${PASSWORD}/@?#`;
    const encoded = encodeURIComponent(wrong);
    const daemon = new TestDaemon({
      env: { PGSLUICE_STORAGE_URL: `postgres://${ROLE}:${encoded}@${where}` },
    });
    t.after(() => daemon.remove());
    for (const words of [['init'], ['host', 'list', '--json'], ['config', 'print'], ['config', 'check']]) {
      const { stdout, stderr } = await daemon.command(...words);
      assert.ok(!`${stdout}${stderr}`.includes(PASSWORD), `${words.join(' ')}: ${stdout}${stderr}`);
    }
  }
  // The password itself is right.
  const client = new Client({
    host: '127.0.0.1',
    port: storage.port,
    user: ROLE,
    password: PASSWORD,
    database: 'kept',
  });
  await client.connect();
  await client.end();
});

/** @param {string} file of /proc @param {string} otherwise of a process that has ended */
function readIfAlive(file, otherwise) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return otherwise;
  }
}
