// loadConfig: what wins over what, where values come from, and every mistake with its message.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PgsluiceError } from '../../../src/base/errors.js';
import { REDACT_CLASSES } from '../../../src/base/redact-classes.js';
import { loadConfig } from '../../../src/config/load.js';
import { OPTIONS, defaultConfigFile, environmentName } from '../../../src/config/options.js';

const FIXTURES = fileURLToPath(new URL('../../fixtures/config/', import.meta.url));
const directory = mkdtempSync(path.join(os.tmpdir(), 'pgsluice-config-'));
after(() => rmSync(directory, { recursive: true }));
const SYSTEM = {
  root: false,
  home: '/home/op',
  cpus: 8,
  workingDirectory: '/some where',
  defaultFile: path.join(directory, 'there-is-none.toml'),
};

/** @param {string} name @param {string | Uint8Array} content */
function write(name, content) {
  const file = path.join(directory, name);
  writeFileSync(file, content);
  return file;
}

/** @param {NodeJS.ProcessEnv} env @param {string} [file] */
const load = (env, file = path.join(FIXTURES, 'empty.toml')) => loadConfig({ file, env, system: SYSTEM });

/** @param {() => unknown} action @returns {PgsluiceError} */
function failure(action) {
  try {
    action();
  } catch (error) {
    if (error instanceof PgsluiceError) return error;
    throw error;
  }
  throw new assert.AssertionError({ message: 'nothing was thrown' });
}

for (const name of readdirSync(FIXTURES).filter(file => file.endsWith('.bad.toml'))) {
  test(`${name} is refused with its message`, () => {
    const file = path.join(FIXTURES, name);
    const expected = /^# expect: (.*)\n/.exec(readFileSync(file, 'utf8'))?.[1];
    const error = failure(() => load({}, file));
    assert.equal(error.message.replaceAll(file, 'FILE'), expected);
    assert.equal(error.code, 'CONFIG_INVALID');
    assert.equal(error.exitCode, 2);
    /** @type {unknown} */
    let cause = error;
    while (cause instanceof Error) {
      assert.doesNotMatch(cause.message, /secret/);
      cause = cause.cause;
    }
  });
}

test('without any setting all values are defaults', () => {
  const { config, origins, file } = loadConfig({ env: {}, system: SYSTEM });
  assert.deepEqual(config, {
    storage: { url: 'embedded', passwordFile: null },
    daemon: {
      dataDir: '/home/op/.local/state/pgsluice',
      runtimeDir: '/home/op/.local/state/pgsluice/run',
      workers: 4,
      logLevel: 'info',
    },
    http: {
      listen: { host: '127.0.0.1', port: 9870 },
      authFile: null,
      tlsCertFile: null,
      tlsKeyFile: null,
    },
    ssh: { program: 'ssh', connectRate: 20, connectTimeoutMs: 10_000, options: [], configFile: null },
    transport: { opensshAboveBps: 1_000_000, ssh2BelowBps: 500_000 },
    batch: { maxBytes: 8_388_608, maxDelayMs: 1000, maxRecordBytes: 67_108_864 },
    log: { redact: [] },
    retention: { days: 30 },
  });
  assert.equal(file, null);
  assert.deepEqual(new Set(Object.values(origins)), new Set(['default']));
  assert.deepEqual(
    Object.keys(origins),
    OPTIONS.map(({ key }) => key),
  );
});

test('root has the directories of the systemd unit', () => {
  const env = { XDG_STATE_HOME: '/x', XDG_RUNTIME_DIR: '/y' };
  const { daemon } = loadConfig({
    file: path.join(FIXTURES, 'empty.toml'),
    env,
    system: { ...SYSTEM, root: true },
  }).config;
  assert.equal(daemon.dataDir, '/var/lib/pgsluice');
  assert.equal(daemon.runtimeDir, '/run/pgsluice');
});

test('other users have the XDG directories, as far as these are absolute', () => {
  const xdg = load({ XDG_STATE_HOME: '/state', XDG_RUNTIME_DIR: '/run/user/7' }).config.daemon;
  assert.equal(xdg.dataDir, '/state/pgsluice');
  assert.equal(xdg.runtimeDir, '/run/user/7/pgsluice');
  const relative = load({ XDG_STATE_HOME: 'state', XDG_RUNTIME_DIR: 'run' }).config.daemon;
  assert.equal(relative.dataDir, '/home/op/.local/state/pgsluice');
  assert.equal(relative.runtimeDir, '/home/op/.local/state/pgsluice/run');
});

test('without XDG_RUNTIME_DIR the runtime directory is in the data directory that is in effect', () => {
  assert.equal(load({ PGSLUICE_DAEMON_DATA_DIR: '/data' }).config.daemon.runtimeDir, '/data/run');
});

test('the workers follow the processors: one stays free, one to four work', () => {
  for (const [cpus, workers] of /** @type {const} */ ([
    [1, 1],
    [2, 1],
    [3, 2],
    [5, 4],
    [64, 4],
  ])) {
    assert.equal(loadConfig({ env: {}, system: { ...SYSTEM, cpus } }).config.daemon.workers, workers);
  }
});

test('a file sets every option, and each has its line as origin', () => {
  const file = path.join(FIXTURES, 'full.toml');
  const { config, origins, file: read } = load({}, file);
  assert.deepEqual(config, {
    storage: {
      url: 'postgresql://pgsluice@[fd00::1]:5433/logs?sslmode=verify-full',
      passwordFile: path.join(FIXTURES, 'secret/password'),
    },
    daemon: { dataDir: '/home/op/state', runtimeDir: '/run/other', workers: 3, logLevel: 'debug' },
    http: {
      listen: { host: '::1', port: 0 },
      authFile: '/home/op/http-passwords',
      tlsCertFile: path.join(FIXTURES, 'tls/cert.pem'),
      tlsKeyFile: path.join(FIXTURES, 'tls/key.pem'),
    },
    ssh: {
      program: '/opt/openssh/bin/ssh',
      connectRate: 7,
      connectTimeoutMs: 1500,
      options: ['KexAlgorithms=curve25519-sha256,ecdh-sha2-nistp256', 'ProxyCommand=nc %h %p'],
      configFile: 'none',
    },
    transport: { opensshAboveBps: 50_000_000, ssh2BelowBps: 40_000_000 },
    batch: { maxBytes: 1_048_576, maxDelayMs: 250, maxRecordBytes: 1_048_576 },
    log: { redact: ['credential', 'ops'] },
    retention: { days: 7 },
  });
  assert.equal(read, file);
  assert.equal(origins['storage.url'], `${file}:3`);
  assert.equal(origins['ssh.options'], `${file}:22`);
  assert.equal(origins['ssh.config_file'], `${file}:26`);
  assert.equal(origins['retention.days'], `${file}:41`);
});

test('every spelling of TOML has its line as origin', () => {
  const file = path.join(FIXTURES, 'dotted.toml');
  const { config, origins } = load({}, file);
  assert.equal(config.batch.maxDelayMs, 2000);
  assert.deepEqual(config.ssh.options, ['Compression=yes', 'User=log']);
  const set = Object.entries(origins).filter(([, origin]) => origin !== 'default');
  assert.deepEqual(Object.fromEntries(set), {
    'batch.max_delay': `${file}:2`,
    'retention.days': `${file}:3`,
    'ssh.options': `${file}:4`,
    'http.listen': `${file}:9`,
    'daemon.workers': `${file}:14`,
  });
});

test('Windows line ends and a byte order mark are read', () => {
  const file = write('crlf.toml', '\ufeff[batch]\r\n\r\nmax_delay = "3s"\r\n');
  const { config, origins } = load({}, file);
  assert.equal(config.batch.maxDelayMs, 3000);
  assert.equal(origins['batch.max_delay'], `${file}:3`);
});

test('the environment sets every option and wins over the file', () => {
  const values = {
    'storage.url': 'postgres://e@h/db',
    'storage.password_file': 'pw',
    'daemon.data_dir': '/e/data',
    'daemon.runtime_dir': 'run',
    'daemon.workers': '2',
    'daemon.log_level': 'trace',
    'http.listen': 'none',
    'http.auth_file': 'auth',
    'http.tls_cert_file': 'cert',
    'http.tls_key_file': 'key',
    'ssh.program': './ssh',
    'ssh.connect_rate': '9',
    'ssh.connect_timeout': '1min',
    'ssh.options': 'Compression=yes\nProxyCommand=a; b, c\n',
    'ssh.config_file': '',
    'transport.openssh_above': '3000000',
    'transport.ssh2_below': '0',
    'batch.max_bytes': '131072',
    'batch.max_delay': '2s',
    'batch.max_record_bytes': '2MB',
    'log.redact': 'all',
    'retention.days': '8',
  };
  const env = Object.fromEntries(Object.entries(values).map(([key, value]) => [environmentName(key), value]));
  const { config, origins } = load({ ...env, OTHER: 'x' }, path.join(FIXTURES, 'full.toml'));
  assert.deepEqual(config, {
    storage: { url: 'postgres://e@h/db', passwordFile: '/some where/pw' },
    daemon: { dataDir: '/e/data', runtimeDir: '/some where/run', workers: 2, logLevel: 'trace' },
    http: {
      listen: null,
      authFile: '/some where/auth',
      tlsCertFile: '/some where/cert',
      tlsKeyFile: '/some where/key',
    },
    ssh: {
      program: '/some where/ssh',
      connectRate: 9,
      connectTimeoutMs: 60_000,
      options: ['Compression=yes', 'ProxyCommand=a; b, c'],
      configFile: null,
    },
    transport: { opensshAboveBps: 3_000_000, ssh2BelowBps: 0 },
    batch: { maxBytes: 131_072, maxDelayMs: 2000, maxRecordBytes: 2_000_000 },
    log: { redact: REDACT_CLASSES },
    retention: { days: 8 },
  });
  for (const { key } of OPTIONS) assert.equal(origins[key], environmentName(key));
});

test('a list in the environment may be a TOML array', () => {
  const { config } = load({ PGSLUICE_SSH_OPTIONS: '["A=1", "B=2 3"]' });
  assert.deepEqual(config.ssh.options, ['A=1', 'B=2 3']);
  assert.deepEqual(load({ PGSLUICE_SSH_OPTIONS: '' }).config.ssh.options, []);
});

test('mistakes in the environment are refused with the name of the variable', () => {
  /** @type {[NodeJS.ProcessEnv, string | RegExp][]} */
  const cases = [
    [
      { PGSLUICE_BATCH_MAX_BYTE: '1MiB' },
      'environment: unknown variable PGSLUICE_BATCH_MAX_BYTE; did you mean PGSLUICE_BATCH_MAX_BYTES?',
    ],
    [{ PGSLUICE_CONFG: 'x' }, 'environment: unknown variable PGSLUICE_CONFG; did you mean PGSLUICE_CONFIG?'],
    [{ 'PGSLUICE_\u001b': 'x' }, /^environment: unknown variable PGSLUICE_\\x1b; /],
    [
      { PGSLUICE_RETENTION_DAYS: '' },
      'PGSLUICE_RETENTION_DAYS: retention.days: "" is not accepted: it must be a whole number',
    ],
    [
      { PGSLUICE_RETENTION_DAYS: '0' },
      /^PGSLUICE_RETENTION_DAYS: retention\.days: 0 is out of bounds: it must be 1 to 36500, /,
    ],
    [{ PGSLUICE_SSH_OPTIONS: '["A=1"' }, /^PGSLUICE_SSH_OPTIONS: ssh\.options: not valid TOML: /],
    [
      { PGSLUICE_STORAGE_URL: 'host=h password=secret' },
      /^PGSLUICE_STORAGE_URL: storage\.url: "host=h password=\*\*\*" is not accepted/,
    ],
  ];
  for (const [env, message] of cases) assert.throws(() => load(env), { code: 'CONFIG_INVALID', message });
});

test('a password in the query of the URL clashes with a password file as well', () => {
  const env = { PGSLUICE_STORAGE_URL: 'postgres://h/db?password=a', PGSLUICE_STORAGE_PASSWORD_FILE: '/p' };
  assert.throws(() => load(env), {
    message: /^PGSLUICE_STORAGE_URL, PGSLUICE_STORAGE_PASSWORD_FILE: .*keep one/,
  });
});

test('--config wins over PGSLUICE_CONFIG, which wins over the default file', () => {
  const one = write('one.toml', 'retention.days = 1');
  const two = write('two.toml', 'retention.days = 2');
  const three = write('three.toml', 'retention.days = 3');
  const system = { ...SYSTEM, workingDirectory: directory, defaultFile: three };
  assert.equal(loadConfig({ file: 'one.toml', env: { PGSLUICE_CONFIG: two }, system }).file, one);
  assert.equal(loadConfig({ env: { PGSLUICE_CONFIG: 'two.toml' }, system }).config.retention.days, 2);
  assert.equal(loadConfig({ env: { PGSLUICE_CONFIG: '' }, system }).config.retention.days, 3);
  assert.equal(loadConfig({ env: {}, system }).origins['retention.days'], `${three}:1`);
});

test('a default file that is missing is fine, a named one is an error', () => {
  const missing = path.join(directory, 'missing.toml');
  assert.equal(loadConfig({ env: {}, system: { ...SYSTEM, defaultFile: missing } }).file, null);
  const inFile = path.join(write('plain', ''), 'pgsluice.toml');
  assert.equal(loadConfig({ env: {}, system: { ...SYSTEM, defaultFile: inFile } }).file, null);
  const message = `cannot read the configuration file ${missing}: no such file; name another with --config or PGSLUICE_CONFIG`;
  assert.throws(() => load({}, missing), { code: 'CONFIG_INVALID', message });
  assert.throws(() => loadConfig({ env: { PGSLUICE_CONFIG: missing }, system: SYSTEM }), { message });
});

test('a default file that is there but cannot be read is an error', () => {
  assert.throws(() => loadConfig({ env: {}, system: { ...SYSTEM, defaultFile: directory } }), {
    code: 'CONFIG_INVALID',
    message: /it is a directory/,
  });
});

test('the default file is in /etc for root, otherwise where XDG says', () => {
  const home = '/home/op';
  assert.equal(defaultConfigFile({ root: true, home, env: {} }), '/etc/pgsluice/pgsluice.toml');
  assert.equal(defaultConfigFile({ root: false, home, env: {} }), '/home/op/.config/pgsluice/pgsluice.toml');

  mkdirSync(path.join(directory, 'xdg/pgsluice'), { recursive: true });
  const file = write('xdg/pgsluice/pgsluice.toml', 'retention.days = 99');
  const loaded = loadConfig({
    env: { XDG_CONFIG_HOME: path.join(directory, 'xdg') },
    system: { ...SYSTEM, defaultFile: undefined },
  });
  assert.equal(loaded.file, file);
  assert.equal(loaded.config.retention.days, 99);
});

test('a file that is not UTF-8 is refused', () => {
  const file = write('latin1.toml', Buffer.from('# caf\xe9\n', 'latin1'));
  assert.throws(() => load({}, file), { code: 'CONFIG_INVALID', message: /is not UTF-8 text/ });
});

test('control characters in the name of a file do not reach the message', () => {
  const error = failure(() => load({}, path.join(directory, 'no\u001b[2J\nsuch')));
  assert.match(error.message, /no\\x1b\[2J\\nsuch/);
});

test('the result is frozen at every level', () => {
  const { config, origins } = load({ PGSLUICE_SSH_OPTIONS: 'A=b' });
  for (const object of [config, ...Object.values(config), config.http.listen, config.ssh.options, origins]) {
    assert.ok(Object.isFrozen(object));
  }
});

test('without injected facts it describes this process', () => {
  const { config } = loadConfig({ file: path.join(FIXTURES, 'empty.toml'), env: { HOME: '/home/other' } });
  const root = process.geteuid?.() === 0;
  assert.equal(config.daemon.dataDir, root ? '/var/lib/pgsluice' : '/home/other/.local/state/pgsluice');
});
