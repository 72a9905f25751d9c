/**
 * Imports point one way. The table says what each directory of src may import; the closure of master holds no codec,
 * no transport and no COPY; codec touches nothing but bytes.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const src = fileURLToPath(new URL('../../src', import.meta.url));

/** @type {Record<string, string[]>} */
const ALLOWED = {
  base: [],
  config: ['base'],
  ipc: ['base'],
  codec: ['base'],
  'system-ssh': ['base'],
  follower: ['base'],
  storage: ['base', 'codec'],
  transport: ['base'], // openssh-config.js makes what system-ssh takes, without importing it
  sshproxy: ['base', 'ipc', 'system-ssh', 'transport'],
  worker: ['base', 'ipc', 'codec', 'storage', 'transport', 'follower'],
  master: ['base', 'config', 'ipc', 'storage'],
  cli: ['base', 'config', 'master', 'storage', 'system-ssh', 'transport', 'follower', 'codec'],
};

const MASTER_NEVER = ['codec', 'transport', 'system-ssh', 'sshproxy', 'worker', 'follower'];
const CODEC_NEVER =
  /\b(process\.|setTimeout|setInterval|setImmediate|Date\.now|performance\.|console\.|fetch\()/;
// What is computed from bytes alone; a table is read once, when the module is loaded or first used.
const CODEC_MODULES = ['node:buffer', 'node:crypto'];
const CODEC_TABLES = /^codec\/(encodings\/tables|languages)\.js$/;
const TABLE_MODULES = ['node:fs', 'node:zlib'];

/** @typedef {{ file: string, area: string, imports: string[], text: string }} Module */

/** Files and what they import at run time; imports of types are comments and do not count. @type {Module[]} */
const modules = globSync('**/*.js', { cwd: src }).map(file => {
  const text = readFileSync(join(src, file), 'utf8');
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
  const statements = code.matchAll(/^(?:import|export)\s[^;()]*?'([^']+)';|\bimport\('([^']+)'\)/gm);
  const imports = [...statements].map(([, name, dynamic]) => name ?? dynamic ?? '');
  return { file, area: file.split('/')[0] ?? '', imports, text: code };
});

/** @param {Module} module @returns {string[]} files under src */
const local = ({ file, imports }) =>
  imports.filter(name => name.startsWith('.')).map(name => relative(src, join(src, dirname(file), name)));

test('every directory imports only what the table allows', () => {
  assert.ok(modules.length > 30);
  const wrong = modules.flatMap(module =>
    local(module)
      .map(file => file.split('/')[0] ?? '')
      .filter(area => area !== module.area && !ALLOWED[module.area]?.includes(area))
      .map(area => `${module.file} imports ${area}`),
  );
  assert.deepEqual(wrong, []);
});

test('master reaches no codec, transport or COPY, however indirectly', () => {
  const byFile = new Map(modules.map(module => [module.file, module]));
  const seen = new Set();
  const waiting = modules.filter(({ area }) => area === 'master').map(({ file }) => file);
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    const module = byFile.get(file);
    assert.ok(module, `${file} exists`);
    assert.ok(!MASTER_NEVER.includes(module.area), `master reaches ${file}`);
    assert.ok(!module.imports.includes('pg-copy-streams'), `master reaches COPY through ${file}`);
    waiting.push(...local(module));
  }
  assert.ok(seen.size > 10);
});

test('codec is pure', () => {
  const codec = modules.filter(({ area }) => area === 'codec');
  assert.ok(codec.length > 5);
  for (const { file, imports, text } of codec) {
    assert.doesNotMatch(text, CODEC_NEVER, file);
    for (const name of imports) {
      const allowed = CODEC_TABLES.test(file) ? [...CODEC_MODULES, ...TABLE_MODULES] : CODEC_MODULES;
      assert.ok(name.startsWith('.') || allowed.includes(name), `${file} imports ${name}`);
    }
  }
});
