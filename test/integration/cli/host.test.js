/** The inventory through the commands: add, list, show, update, pause, remove; and everything that is refused. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fingerprint } from '../../../src/cli/host-key.js';
import { csvlogSettings, startPostgres } from '../../helpers/postgres.js';
import { freePort, startSshd } from '../../helpers/sshd.js';
import { cliStorage, failed, pgsluice } from './support.js';

/** @type {import('./support.js').CliStorage} */
let storage;
/** @type {import('../../helpers/sshd.js').Sshd} */
let sshd;
/** @type {string} 'type base64' */
let key;
before(async () => {
  [storage, sshd] = await Promise.all([cliStorage(), startSshd()]);
  key = sshd.hostKey.split(' ').slice(0, 2).join(' ');
});
after(() => Promise.all([storage.stop(), sshd.stop()]));

const target = () => `${sshd.user}@127.0.0.1:${sshd.port}`;

test('add, list, show', async () => {
  const { run, json, query } = await storage.fresh();
  const added = await json(
    'host',
    'add',
    'db1',
    '--ssh',
    target(),
    '--identity',
    sshd.identityFile,
    '--host-key',
    `${sshd.hostKey} comment`,
    '--log',
    '/srv/a//',
    '--log',
    "/srv/b c'd",
    '--label',
    'env=prod',
    '--from',
    'start',
    '--sudo',
    'postgres',
  );
  const { addedAt, notes, ...host } = added;
  assert.ok(Math.abs(Date.parse(addedAt) - Date.now()) < 600_000);
  assert.deepEqual(notes, []);
  const stream = {
    format: 'auto',
    from: 'start',
    linePrefix: null,
    timeZone: null,
    encoding: null,
    encodings: {},
    begun: false,
    committedAt: null,
    foundPrefix: null,
    lostBytes: 0,
    lostEvents: 0,
    files: [],
  };
  const expected = {
    name: 'db1',
    address: '127.0.0.1',
    port: sshd.port,
    user: sshd.user,
    identityFile: sshd.identityFile,
    jumpHosts: [],
    sudoUser: 'postgres',
    hostKeys: [{ key, fingerprint: fingerprint(key) }],
    transport: 'auto',
    labels: { env: 'prod' },
    paused: false,
    streams: [
      { path: '/srv/a', ...stream },
      { path: "/srv/b c'd", ...stream },
    ],
  };
  assert.deepEqual(host, expected);
  const shown = await json('host', 'show', 'db1');
  assert.deepEqual(shown, { ...expected, addedAt });

  const { rows } = await query("SELECT stream_id FROM pgsluice.stream WHERE path = '/srv/a'");
  await query(
    "UPDATE pgsluice.stream SET begun = true, committed_at = '2024-01-02 03:04:05Z' WHERE stream_id = $1",
    [rows[0].stream_id],
  );
  await query(
    `INSERT INTO pgsluice.file (stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum, gone_at)
     SELECT $1, n, n::text, E'f\\x1b' || n || '.csv', n * 1000, 0, 0, 0, 0, CASE WHEN n = 1 THEN now() END FROM generate_series(1, 9) n`,
    [rows[0].stream_id],
  );
  const read = (await json('host', 'show', 'db1')).streams[0];
  assert.equal(read.committedAt, '2024-01-02T03:04:05.000Z');
  assert.equal(read.files.length, 8);
  assert.deepEqual(read.files.at(-1), { file: 'f\u001b9.csv', offset: 9000, inode: '9' });
  const text = (await run('host', 'show', 'db1')).stdout;
  assert.match(
    text,
    /stream\s+\/srv\/a \(auto, from start; committed 2024-01-02T03:04:05\.000Z\)\n\s+3 older files\n/,
  );
  assert.ok(text.includes('f\\x1b9.csv read up to byte 9000'));
  assert.ok(!text.includes('\u001b'));
  assert.ok(text.includes(`${fingerprint(key)} (ssh-ed25519)`));

  const list = await json('host', 'list');
  assert.deepEqual(
    list.hosts.map((/** @type {{ name: string }} */ { name }) => name),
    ['db1'],
  );
  const table = (await run('host', 'list')).stdout.split('\n');
  assert.match(table[0] ?? '', /^HOST +ADDRESS/);
  assert.match(table[1] ?? '', /^db1 +\S+@127\.0\.0\.1:\d+ +auto +active +\/srv\/a \/srv\/b c'd +env=prod$/);
});

test('a host without --ssh, and one of this machine', async () => {
  const { run, json } = await storage.fresh();
  const named = await json('host', 'add', 'db1.example', '--log', '/x', '--host-key', key);
  assert.deepEqual([named.address, named.port, named.user], ['db1.example', 22, null]);
  const local = await json('host', 'add', 'here', '--transport', 'local', '--log', '/x');
  assert.deepEqual([local.address, local.transport, local.hostKeys], ['localhost', 'local', []]);
  assert.match((await run('host', 'list')).stdout, /^here +- +local/m);
});

test('the hint to start a daemon comes when none answers', async () => {
  const { run } = await storage.fresh({ listen: `127.0.0.1:${await freePort()}` });
  const added = await run('host', 'add', 'here', '--transport', 'local', '--log', '/x');
  assert.match(added.stdout, /^here is monitored now\n/);
  assert.match(added.stdout, /no daemon answers: start it with "pgsluice start"\n$/);
});

test('trust on first use pins the key that is shown and prints its fingerprint', async () => {
  const { run, json } = await storage.fresh();
  const added = await run('host', 'add', 'db1', '--ssh', target(), '--trust-on-first-use', '--log', '/x');
  assert.equal(added.code, 0, added.stderr);
  assert.ok(
    added.stdout.startsWith(
      `db1: trusting the host key ${fingerprint(key)} (ssh-ed25519) that 127.0.0.1:${sshd.port} shows\n`,
    ),
  );
  assert.equal((await json('host', 'show', 'db1')).hostKeys[0].key, key);
  assert.doesNotMatch(sshd.log(), /(?:Invalid user|authenticating user) nobody/);

  const closed = await freePort();
  failed(
    await run('host', 'add', 'db2', '--ssh', `127.0.0.1:${closed}`, '--trust-on-first-use', '--log', '/x'),
    4,
    /127\.0\.0\.1:\d+: .*ECONNREFUSED/,
  );
  failed(await run('host', 'show', 'db2'), 1, /no host is named "db2"/);
});

test('trust on first use with keys of other types', async t => {
  const { json } = await storage.fresh();
  for (const hostKeyType of /** @type {const} */ (['ecdsa', 'rsa'])) {
    const other = await startSshd({ hostKeyType });
    t.after(() => other.stop());
    const { hostKeys } = await json(
      'host',
      'add',
      hostKeyType,
      '--ssh',
      `127.0.0.1:${other.port}`,
      '--trust-on-first-use',
      '--log',
      '/x',
    );
    assert.equal(hostKeys[0].key, other.hostKey.split(' ').slice(0, 2).join(' '));
  }
});

/** @param {{ hostKeys: { key: string }[] }} host */
const keysOf = ({ hostKeys }) => hostKeys.map(each => each.key);

test('host keys from a public key file and from known_hosts', async () => {
  const { json, run } = await storage.fresh();
  const file = join(storage.dir, 'keys');
  await writeFile(file, `# comment\n${sshd.hostKey} a comment\n`);
  const add = (/** @type {string[]} */ ...words) =>
    json('host', 'add', ...words, '--log', '/x', '--host-key-file', file);
  assert.equal((await add('pub', '--ssh', '127.0.0.1')).hostKeys[0].key, key);

  const rsa = await startSshd({ hostKeyType: 'rsa' });
  await rsa.stop();
  const rsaKey = rsa.hostKey.split(' ').slice(0, 2).join(' ');
  const lines = [
    `[other]:2222 ${rsa.hostKey}`,
    `@cert-authority *.example ${rsa.hostKey}`,
    `db1.example,10.0.0.1 ${sshd.hostKey}`,
    `db1.example ${rsa.hostKey}`,
    `[db1.example]:2200 ${rsa.hostKey}`,
    `bad.example ${rsa.hostKey}`,
    `@revoked bad.example ${rsa.hostKey}`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  assert.deepEqual(keysOf(await add('two', '--ssh', 'DB1.example')), [key, rsaKey]);
  assert.deepEqual(keysOf(await add('port', '--ssh', 'db1.example:2200')), [rsaKey]);
  assert.deepEqual(keysOf(await add('ip', '--ssh', '10.0.0.1:22')), [key]);
  for (const absent of ['db2.example', 'db1.example:2201', 'bad.example', 'x.example']) {
    failed(
      await run('host', 'add', 'no', '--ssh', absent, '--log', '/x', '--host-key-file', file),
      2,
      /--host-key-file .*keys has no key for/,
    );
  }
  failed(
    await run('host', 'add', 'no', '--log', '/x', '--host-key-file', '/no/such'),
    1,
    /--host-key-file \/no\/such cannot be read/,
  );
  failed(
    await run('host', 'add', 'no', '--log', '/x', '--host-key-file', sshd.identityFile),
    2,
    /has no key for no/,
  );
});

test('hashed names in known_hosts', async () => {
  const { json } = await storage.fresh();
  const file = join(storage.dir, 'hashed');
  await appendFile(file, `[hashed.example]:2200 ${sshd.hostKey}\n`);
  execFileSync('ssh-keygen', ['-q', '-H', '-f', file], { stdio: 'ignore' });
  const added = await json(
    'host',
    'add',
    'h',
    '--ssh',
    'HASHED.example:2200',
    '--log',
    '/x',
    '--host-key-file',
    file,
  );
  assert.equal(added.hostKeys[0].key, key);
});

test('what is refused before anything is touched', async () => {
  const canary = join(storage.dir, 'canary');
  // No storage is named: a usage error must come before it is asked for.
  const env = {
    PGSLUICE_STORAGE_URL: `postgres://u@127.0.0.1:${await freePort()}/x`,
    PGSLUICE_HTTP_LISTEN: 'none',
  };
  const good = ['--log', '/x', '--host-key', key];
  /** @type {[string[], RegExp, number?][]} */
  const wrong = [
    [['add', '-oProxyCommand=x', ...good], /unknown option/],
    [['add', '--', '-oProxyCommand=x'], /is not a host NAME/],
    [['add', `$(touch ${canary})`, ...good], /is not a host NAME/],
    [['add', `x;touch ${canary}`, ...good], /is not a host NAME/],
    [['add', 'a\u001b[31m\nb', ...good], /is not a host NAME/],
    [['show', `\`touch ${canary}\``], /is not a host NAME/],
    [['check', `| touch ${canary}`], /is not a host NAME/],
    [['remove', "'; DROP SCHEMA pgsluice CASCADE; --"], /is not a host NAME/],
    [['add', 'x', ...good, '--ssh', `-oProxyCommand=touch ${canary}`], /--ssh needs a value/],
    [['add', 'x', ...good, `--ssh=-oProxyCommand=touch ${canary}`], /is not \[user@\]address/],
    [['add', 'x', ...good, '--ssh', `u@$(touch ${canary})`], /is not \[user@\]address/],
    [['add', 'x', ...good, '--ssh', `$(touch ${canary})@h`], /user name/],
    [['add', 'x', ...good, '--jump', `a;touch ${canary}`], /--jump/],
    [['add', 'x', ...good, '--sudo', `postgres touch ${canary}`], /--sudo .* is not a user name/],
    [['add', 'x', ...good, '--sudo', ''], /--sudo needs a value/],
    [['add', 'x', ...good, '--identity', '/no/such'], /--identity \/no\/such cannot be read/, 1],
    [['add', 'x', ...good, '--identity', '/'], /--identity \/ cannot be read/, 1],
    [['add', 'x', ...good, '--transport', 'opensh'], /did you mean openssh\?/],
    [['add', 'x', ...good, '--transport', 'local'], /--host-key means nothing with transport local/],
    [['add', 'x', '--log', '/x', '--transport', 'local', '--ssh', 'h'], /--ssh means nothing/],
    [['add', 'x', ...good, '--transport', 'ssh2', '--jump', 'h'], /jump hosts need transport openssh/],
    [['add', 'x', ...good, '--from', 'now'], /--from "now"/],
    [['add', 'x', ...good, '--format', 'jsonlg'], /--format "jsonlg" is unknown: did you mean jsonlog\?/],
    [['add', 'x', ...good, '--line-prefix', '%u%d'], /--line-prefix "%u%d": /],
    [['add', 'x', ...good, '--timezone', 'Mars/Olympus'], /--timezone .* is not a time zone/],
    [['add', 'x', ...good, '--encoding', 'shop=klingon'], /--encoding .*no encoding of that name/],
    [['add', 'x', ...good, '--log', 'journal:a*'], /is not journal:UNIT/],
    [['add', 'x', ...good, '--log', `journal:$(touch ${canary})`], /is not journal:UNIT/],
    [['add', 'x', ...good, '--log', '/x/'], /--log "\/x" is given twice/],
    [['add', 'x', ...good, '--log', 'relative'], /not an absolute path/],
    [['add', 'x', ...good, '--log', '/a\ngo'], /a character that a path may not have/],
    [['add', 'x', ...good, '--label', 'x'], /not KEY=VALUE/],
    [['add', '1.2.3.999', ...good], /is not an address: say where .* --ssh/],
    [['add', 'x', '--log', '/x'], /one of --host-key KEY, --host-key-file FILE or --trust-on-first-use/],
    [['add', 'x', ...good, '--trust-on-first-use'], /exclude each other/],
    [['add', 'x', '--log', '/x', '--trust-on-first-use', '--jump', 'h'], /cannot look through jump hosts/],
    [['add', 'x', '--log', '/x', '--host-key', 'ssh-ed25519 AAAA'], /is not a public host key/],
    [
      ['add', 'x', '--log', '/x', '--host-key', key.replace('ssh-ed25519', 'ssh-rsa')],
      /is not a public host key/,
    ],
    [['add', 'x', '--log', '/x', '--host-key', `@cert-authority ${key}`], /is not a public host key/],
    [['update', 'x'], /nothing to change/],
    [['update', 'x', '--timezone', 'MSK'], /--timezone .* is not a time zone/],
    [['update', 'x', '--encoding', '=latin1'], /names no database/],
    [['update', 'x', '--log', '/y'], /unknown option "--log"/],
  ];
  for (const [words, message, code = 2] of wrong)
    failed(await pgsluice(['host', ...words], { env }), code, message);
  // The same words without a mistake do reach for the storage.
  failed(await pgsluice(['host', 'add', 'x', ...good], { env }), 3, /ECONNREFUSED/);
  assert.equal(existsSync(canary), false);
});

test('a name is given once; after remove it is free', async () => {
  const { run, json, query } = await storage.fresh();
  const add = ['host', 'add', 'db1', '--log', '/x', '--host-key', key];
  await json(...add);
  failed(await run(...add), 1, /db1 is already monitored: choose another name/);
  const before = sshd.connections();
  failed(await run('host', 'add', 'db1', '--ssh', target(), '--trust-on-first-use'), 1, /already monitored/);
  assert.equal(sshd.connections(), before);

  const { rows } = await query('SELECT stream_id FROM pgsluice.stream');
  await query(
    `INSERT INTO pgsluice.file (stream_id, file_no, inode, name, "offset", head_length, head_sum, tail_length, tail_sum)
     VALUES ($1, 1, '1', 'f', 0, 0, 0, 0, 0)`,
    [rows[0].stream_id],
  );
  await query(
    "INSERT INTO pgsluice.record (stream_id, file_no, file_offset, log_time, message, marks) SELECT $1, 1, n, now(), 'm', 0 FROM generate_series(1, 7) n",
    [rows[0].stream_id],
  );
  assert.match(
    (await run('host', 'remove', 'db1')).stdout,
    /^db1 is no longer monitored; its records stay\n$/,
  );
  assert.equal((await query("SELECT count(*)::int AS n FROM pgsluice.log WHERE host = 'db1'")).rows[0].n, 7);
  failed(await run('host', 'remove', 'db1'), 1, /no host is named "db1"/);
  assert.match((await run('host', 'list')).stdout, /^no host is monitored yet/);
  await json(...add);
});

test('remove --purge says how many records went', async () => {
  const { run, json, query } = await storage.fresh();
  await json('host', 'add', 'db1', '--log', '/x', '--host-key', key);
  await query(
    "INSERT INTO pgsluice.record (stream_id, file_no, file_offset, log_time, message, marks) SELECT stream_id, 1, n, now(), 'm', 0 FROM pgsluice.stream, generate_series(1, 7) n",
  );
  assert.match((await run('host', 'remove', 'db1', '--purge')).stdout, /; 7 records were deleted\n$/);
  assert.equal((await query('SELECT count(*)::int AS n FROM pgsluice.record')).rows[0].n, 0);
  assert.equal((await query('SELECT count(*)::int AS n FROM pgsluice.host')).rows[0].n, 0);
});

test('pause and resume', async () => {
  const { run, json } = await storage.fresh();
  await json('host', 'add', 'db1', '--log', '/x', '--host-key', key);
  assert.equal((await run('host', 'pause', 'db1')).code, 0);
  assert.equal((await json('host', 'show', 'db1')).paused, true);
  assert.match((await run('host', 'list')).stdout, /^db1 .* paused /m);
  assert.equal((await run('host', 'resume', 'db1')).code, 0);
  assert.equal((await json('host', 'show', 'db1')).paused, false);
  failed(await run('host', 'pause', 'db2'), 1, /no host is named "db2"/);
});

test('update changes what is given and nothing else', async () => {
  const { run, json } = await storage.fresh();
  await json(
    'host',
    'add',
    'db1',
    '--ssh',
    'u@old.example:2222',
    '--host-key',
    key,
    '--identity',
    sshd.identityFile,
    '--jump',
    'j1,j2',
    '--sudo',
    'postgres',
    '--label',
    'a=1',
    '--label',
    'b=2',
    '--log',
    '/x',
  );
  const before = await json('host', 'show', 'db1');
  const other = await startSshd();
  await other.stop();
  const otherKey = other.hostKey.split(' ').slice(0, 2).join(' ');
  /** @type {[string[], object][]} */
  const changes = [
    [['--transport', 'openssh'], { transport: 'openssh' }],
    [['--host-key', otherKey], { hostKeys: [{ key: otherKey, fingerprint: fingerprint(otherKey) }] }],
    [['--ssh', 'new.example'], { address: 'new.example', port: 22, user: null }],
    [['--identity', ''], { identityFile: null }],
    [['--jump', ''], { jumpHosts: [] }],
    [['--sudo', ''], { sudoUser: null }],
    [['--label', 'a=', '--label', 'c=3'], { labels: { b: '2', c: '3' } }],
    [
      ['--ssh', target(), '--trust-on-first-use'],
      { address: '127.0.0.1', port: sshd.port, user: sshd.user, hostKeys: before.hostKeys },
    ],
  ];
  let expected = before;
  for (const [words, change] of changes) {
    expected = { ...expected, ...change };
    assert.deepEqual(await json('host', 'update', 'db1', ...words), expected, words.join(' '));
    assert.deepEqual(await json('host', 'show', 'db1'), expected);
  }
  failed(await run('host', 'update', 'db2', '--sudo', 'x'), 1, /no host is named "db2"/);
  failed(await run('host', 'update', 'db1', '--label', 'zz='), 2, /does not have/);
  failed(
    await run('host', 'update', 'db1', '--transport', 'local', '--identity', sshd.identityFile),
    2,
    /means nothing/,
  );
  assert.deepEqual(await json('host', 'show', 'db1'), expected);
});

test('how logs are read: given, shown, changed, taken back', async () => {
  const { run, json } = await storage.fresh();
  const words = ['--format', 'stderr', '--line-prefix', '%m [%p] ', '--timezone', 'Europe/Moscow'];
  const encodings = ['--encoding', 'latin1', '--encoding', 'shop=win1251', '--encoding', 'a=b=euc_jp'];
  const logs = ['--log', '/x', '--log', 'journal:pg'];
  await json('host', 'add', 'db1', ...logs, '--host-key', key, ...words, ...encodings);
  const reading = {
    format: 'stderr',
    linePrefix: '%m [%p] ',
    timeZone: 'Europe/Moscow',
    encoding: 'LATIN1',
    encodings: { shop: 'WIN1251', 'a=b': 'EUC_JP' },
  };
  /** @param {object} expected @param {...string} changes */
  const expectStreams = async (expected, ...changes) => {
    if (changes.length > 0) await json('host', 'update', 'db1', ...changes);
    const listed = (await json('host', 'list')).hosts[0].streams;
    assert.deepEqual(listed, [
      { path: '/x', from: 'end', ...expected },
      { path: 'journal:pg.service', from: 'end', ...expected },
    ]);
    for (const { path, ...stream } of (await json('host', 'show', 'db1')).streams)
      assert.deepEqual({ ...stream, ...expected, from: 'end' }, stream, path);
  };
  await expectStreams(reading);
  const text = (await run('host', 'show', 'db1')).stdout;
  assert.match(text, /^stream +\/x \(stderr, from end; nothing committed yet\)$/m);
  assert.match(text, /^ +log_line_prefix '%m \[%p\] '$/m);
  assert.match(text, /^ +log_timezone Europe\/Moscow$/m);
  assert.match(text, /^ +encoding LATIN1, a=b=EUC_JP, shop=WIN1251$/m);

  await expectStreams({ ...reading, format: 'plain' }, '--format', 'plain');
  await expectStreams(
    { ...reading, format: 'plain', encodings: { 'a=b': 'EUC_JP', new: 'SJIS' } },
    '--encoding',
    'shop=',
    '--encoding',
    'new=sjis',
  );
  failed(
    await run('host', 'update', 'db1', '--encoding', 'shop='),
    2,
    /removes an encoding that was not set$/m,
  );
  await expectStreams(
    { format: 'auto', linePrefix: null, timeZone: null, encoding: null, encodings: {} },
    ...'--format=auto --line-prefix= --timezone= --encoding= --encoding=a=b= --encoding=new='.split(' '),
  );
  assert.doesNotMatch((await run('host', 'show', 'db1')).stdout, /encoding|log_/);
});

test('what was found and what was lost of a stream', async () => {
  const { run, json, query } = await storage.fresh();
  await json('host', 'add', 'db1', '--log', '/x', '--host-key', key);
  await query(
    "UPDATE pgsluice.stream SET found_prefix = E'%t\\x1b ', lost_bytes = 9007199254740991, lost_events = 3",
  );
  const [stream] = (await json('host', 'show', 'db1')).streams;
  assert.deepEqual(
    [stream.linePrefix, stream.foundPrefix, stream.lostBytes, stream.lostEvents],
    [null, '%t\u001b ', Number.MAX_SAFE_INTEGER, 3],
  );
  const text = (await run('host', 'show', 'db1')).stdout;
  assert.match(text, /^ +log_line_prefix '%t\\x1b ' \(found\)$/m);
  assert.match(text, /^ +lost: 3 truncations or removals .*, 9007199254740991 bytes for certain$/m);
});

test('a host that was local needs a key to become one over SSH', async () => {
  const { run, json } = await storage.fresh();
  await json('host', 'add', 'here', '--transport', 'local', '--log', '/x');
  failed(await run('host', 'update', 'here', '--transport', 'openssh'), 2, /the host key is needed/);
  await json('host', 'update', 'here', '--transport', 'openssh', '--ssh', 'db1', '--host-key', key);
});

test('without --log the running clusters of the host are taken', async t => {
  const { run, json } = await storage.fresh();
  const monitored = await startPostgres({ settings: csvlogSettings() });
  t.after(() => monitored.stop());
  const added = await json(
    'host',
    'add',
    'db1',
    '--ssh',
    target(),
    '--identity',
    sshd.identityFile,
    '--host-key',
    key,
  );
  const paths = added.streams.map((/** @type {{ path: string }} */ { path }) => path);
  assert.ok(paths.includes(monitored.dataDir), JSON.stringify(paths));
  assert.equal(new Set(paths).size, paths.length);
  const text = await run('host', 'add', 'db2', '--transport', 'local');
  assert.equal(text.code, 0, text.stderr);
  assert.ok(text.stdout.includes(monitored.dataDir));
  assert.deepEqual(await storage.leftovers(), []);
});

test('without --log a cluster without a collector is read where its stderr goes', async t => {
  const { json } = await storage.fresh();
  const monitored = await startPostgres({ settings: { logging_collector: 'off' } });
  t.after(() => monitored.stop());
  const added = await json('host', 'add', 'db1', '--transport', 'local');
  const paths = added.streams.map((/** @type {{ path: string }} */ { path }) => path);
  assert.ok(paths.includes(monitored.serverLog), JSON.stringify(paths));
  assert.ok(!paths.includes(monitored.dataDir));
});

test('a host on which no cluster is seen is not added', async t => {
  const { run } = await storage.fresh();
  // A login whose commands see no process: what a chroot or a hidden /proc amounts to.
  const blind = await startSshd({ settings: [`ForceCommand printf 'V 1 1\\nU x\\nN monitor\\nE\\n'`] });
  t.after(() => blind.stop());
  const outcome = await run(
    'host',
    'add',
    'db1',
    '--ssh',
    `${blind.user}@127.0.0.1:${blind.port}`,
    '--identity',
    blind.identityFile,
    '--host-key',
    blind.hostKey,
  );
  failed(
    outcome,
    1,
    /db1: no running PostgreSQL was seen there by monitor: name its data directory with --log/,
  );
  failed(await run('host', 'show', 'db1'), 1, /no host is named/);
});
