// What `config print` shows: every value with its origin, no password, and TOML that reads back.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as fc from 'fast-check';
import { loadConfig } from '../../../src/config/load.js';
import { OPTIONS } from '../../../src/config/options.js';
import { configToObject, configToToml } from '../../../src/config/print.js';

const FULL = fileURLToPath(new URL('../../fixtures/config/full.toml', import.meta.url));
const SYSTEM = {
  root: false,
  home: '/home/op',
  cpus: 8,
  workingDirectory: '/',
  defaultFile: '/nonexistent/x.toml',
};
const directory = mkdtempSync(path.join(os.tmpdir(), 'pgsluice-print-'));
after(() => rmSync(directory, { recursive: true }));

/** @param {string} toml */
function readBack(toml) {
  const file = path.join(directory, 'printed.toml');
  writeFileSync(file, toml);
  return loadConfig({ file, env: {}, system: SYSTEM });
}

test('every option is printed with its value and origin', () => {
  const loaded = loadConfig({ file: FULL, env: { PGSLUICE_BATCH_MAX_DELAY: '60000ms' }, system: SYSTEM });
  const lines = configToToml(loaded).split('\n');
  assert.equal(lines[0], `# configuration file: ${FULL}`);
  for (const line of [
    '[batch]',
    'max_delay = "1min" # PGSLUICE_BATCH_MAX_DELAY',
    `max_bytes = "1MiB" # ${FULL}:33`,
    `listen = "[::1]:0" # ${FULL}:13`,
    `redact = "credential,ops" # ${FULL}:38`,
    `days = 7 # ${FULL}:41`,
  ]) {
    assert.ok(lines.includes(line), `${line}\n${lines.join('\n')}`);
  }
  assert.equal(lines.filter(line => / # /.test(line)).length, OPTIONS.length);
});

test('what is printed is a configuration file with the same effect', () => {
  const full = loadConfig({ file: FULL, env: {}, system: SYSTEM });
  assert.deepEqual(readBack(configToToml(full)).config, full.config);
  const defaults = loadConfig({ env: {}, system: SYSTEM });
  assert.deepEqual(readBack(configToToml(defaults)).config, defaults.config);
  assert.match(configToToml(defaults), /^# configuration file: none\n/);
  assert.match(configToToml(defaults), /\nurl = "embedded" # default\n/);
});

test('any accepted value reads back from what is printed', () => {
  const option = fc.tuple(
    fc.stringMatching(/^[A-Za-z]{1,5}$/),
    fc.string({ unit: 'grapheme', minLength: 1 }),
  );
  fc.assert(
    fc.property(
      fc.array(option, { maxLength: 3 }),
      fc.integer({ min: 65_536, max: 2 ** 28 }),
      fc.integer({ min: 10, max: 60_000 }),
      fc.integer({ min: 500_000, max: 10_000_000 }),
      (pairs, bytes, ms, rate) => {
        const options = pairs.filter(([, value]) => /^\S/.test(value)).map(pair => pair.join('='));
        const loaded = loadConfig({
          env: {
            PGSLUICE_SSH_OPTIONS: JSON.stringify(options),
            PGSLUICE_BATCH_MAX_BYTES: `${bytes}`,
            PGSLUICE_BATCH_MAX_DELAY: `${ms}ms`,
            PGSLUICE_TRANSPORT_OPENSSH_ABOVE: `${rate}`,
          },
          system: SYSTEM,
        });
        assert.equal(loaded.config.batch.maxBytes, bytes);
        assert.deepEqual(readBack(configToToml(loaded)).config, loaded.config);
      },
    ),
    { numRuns: 50 },
  );
});

test('the object for JSON has the same values and origins', () => {
  const loaded = loadConfig({ file: FULL, env: { PGSLUICE_RETENTION_DAYS: '8' }, system: SYSTEM });
  const { file, config, origins } = JSON.parse(JSON.stringify(configToObject(loaded)));
  assert.equal(file, FULL);
  assert.deepEqual(config.batch, { max_bytes: '1MiB', max_delay: '250ms', max_record_bytes: '1MiB' });
  assert.deepEqual(config.ssh.options, [
    'KexAlgorithms=curve25519-sha256,ecdh-sha2-nistp256',
    'ProxyCommand=nc %h %p',
  ]);
  assert.equal(config.retention.days, 8);
  assert.equal(origins['retention.days'], 'PGSLUICE_RETENTION_DAYS');
  assert.equal(origins['ssh.program'], `${FULL}:19`);
  assert.equal(Object.values(config).flatMap(section => Object.keys(section)).length, OPTIONS.length);
});

test('passwords are printed nowhere', () => {
  for (const url of ['postgres://u:secret@h/db', 'postgres://h/db?user=u&password=secret']) {
    const loaded = loadConfig({ env: { PGSLUICE_STORAGE_URL: url }, system: SYSTEM });
    assert.equal(loaded.config.storage.url, url);
    for (const text of [configToToml(loaded), JSON.stringify(configToObject(loaded))]) {
      assert.doesNotMatch(text, /secret/);
      assert.match(text, /\*\*\*/);
    }
  }
});

test('the name of a file cannot break out of its comment', () => {
  const file = path.join(directory, 'a\nretention.days = 5 #\u001b.toml');
  writeFileSync(file, 'retention.days = 4');
  const toml = configToToml(loadConfig({ file, env: {}, system: SYSTEM }));
  assert.equal(readBack(toml).config.retention.days, 4);
  assert.match(toml, /days = 4 # .*a\\nretention\.days = 5 #\\x1b\.toml:1\n/);
});
