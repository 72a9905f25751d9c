// The tree of options: consistent in itself, with the Config, and with config/pgsluice.toml both ways.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'smol-toml';
import { loadConfig } from '../../../src/config/load.js';
import { OPTIONS, environmentName } from '../../../src/config/options.js';

const EXAMPLE = fileURLToPath(new URL('../../../config/pgsluice.toml', import.meta.url));
const exampleText = readFileSync(EXAMPLE, 'utf8');

/** A setting that is switched off begins with "#" and no blank, a comment with "# ". */
const SETTING = /^#(?=[a-z0-9_]+ = )/gm;

/** A machine on which every default that depends on it is the one the example shows. */
const SYSTEM = {
  root: true,
  home: '/root',
  cpus: 5,
  workingDirectory: '/',
  defaultFile: '/nonexistent/pgsluice.toml',
};

/**
 * @param {string} text
 * @returns {string} comments as one run of words
 */
const words = text => text.replaceAll(/^# ?/gm, '').replaceAll(/\s+/g, ' ').trim();

test('keys and environment names are unique, and every key is section.name', () => {
  for (const names of [OPTIONS.map(({ key }) => key), OPTIONS.map(({ key }) => environmentName(key))]) {
    assert.equal(new Set(names).size, names.length);
  }
  for (const { key, name } of OPTIONS) {
    assert.match(key, /^[a-z][a-z0-9]*\.[a-z][a-z0-9_]*$/);
    const camelCase = key.split('.')[1]?.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase()) ?? '';
    assert.ok(name.startsWith(camelCase), `${name} is not ${camelCase} with a unit`);
  }
  assert.equal(environmentName('storage.url'), 'PGSLUICE_STORAGE_URL');
  assert.equal(environmentName('batch.max_record_bytes'), 'PGSLUICE_BATCH_MAX_RECORD_BYTES');
});

test('bounds have a reason, descriptions are one sentence on one line', () => {
  for (const option of OPTIONS) {
    assert.equal(
      option.min !== undefined || option.max !== undefined,
      option.because !== undefined,
      option.key,
    );
    assert.match(option.about, /^[^\n]+\.$/);
    if (option.arithmetic !== undefined) assert.match(option.arithmetic, /^[^\n]+\.$/);
  }
});

test('the names in the Config are those of its type', () => {
  // tsc checks this object against the type, the test checks it against the options: so the two agree.
  /** @type {{ [Section in keyof import('../../../src/config/options.js').Config]:
   *   { [Name in keyof import('../../../src/config/options.js').Config[Section]]: true } }} */
  const typed = {
    storage: { url: true, passwordFile: true },
    daemon: { dataDir: true, runtimeDir: true, workers: true, logLevel: true },
    http: { listen: true, authFile: true, tlsCertFile: true, tlsKeyFile: true },
    ssh: { program: true, connectRate: true, connectTimeoutMs: true, options: true, configFile: true },
    transport: { opensshAboveBps: true, ssh2BelowBps: true },
    batch: { maxBytes: true, maxDelayMs: true, maxRecordBytes: true },
    log: { redact: true },
    retention: { days: true },
  };
  const names = Object.entries(typed).flatMap(([section, inner]) =>
    Object.keys(inner).map(name => `${section}.${name}`),
  );
  const ofOptions = OPTIONS.map(({ key, name }) => `${key.split('.')[0]}.${name}`);
  assert.deepEqual(names.toSorted(), ofOptions.toSorted());
});

test('the example as it is sets nothing', () => {
  assert.deepEqual(
    Object.values(parse(exampleText)).flatMap(table => Object.keys(table)),
    [],
  );
  const { config } = loadConfig({ file: EXAMPLE, env: {}, system: SYSTEM });
  assert.deepEqual(config, loadConfig({ env: {}, system: SYSTEM }).config);
});

test('the example has every option, no other one, in the same order, at its default', () => {
  const shown = parse(exampleText.replaceAll(SETTING, ''));
  const keys = Object.entries(shown).flatMap(([section, table]) =>
    Object.keys(table).map(name => `${section}.${name}`),
  );
  assert.deepEqual(
    keys,
    OPTIONS.map(({ key }) => key),
  );
  const values = new Map(
    Object.entries(shown).flatMap(([section, table]) =>
      Object.entries(table).map(([name, value]) => [`${section}.${name}`, value]),
    ),
  );
  const surroundings = { ...SYSTEM, env: {}, valueOf: () => '' };
  for (const { key, default: byDefault } of OPTIONS) {
    const expected = typeof byDefault === 'function' ? byDefault(surroundings) : byDefault;
    assert.deepEqual(values.get(key), expected, key);
  }
});

test('the example says of every option what it is, how its default came about, and its bounds', () => {
  const blocks = new Map(
    exampleText.split('\n\n').flatMap(block => {
      const name = /^#([a-z0-9_]+) = /m.exec(block)?.[1];
      return name === undefined ? [] : [[name, words(block)]];
    }),
  );
  for (const { key, about, arithmetic = '', because = '', min, max } of OPTIONS) {
    const text = blocks.get(key.split('.')[1] ?? '') ?? '';
    for (const sentence of [about, arithmetic, because])
      assert.ok(text.includes(sentence), `${key}: ${sentence}`);
    const bounds =
      min === undefined ? (max === undefined ? '' : `At most ${max}`) : `From ${min} to ${max}: `;
    assert.ok(text.includes(bounds), `${key}: ${bounds}`);
  }
});
