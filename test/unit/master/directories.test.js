// The daemon's directories: private, its own, and nothing above them that others could swap. No predictable names.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  globSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { prepareDirectories, writeKnownHosts } from '../../../src/master/directories.js';

const SRC = fileURLToPath(new URL('../../../src', import.meta.url));
const ROOT = process.geteuid?.() === 0;
/** A test that the other kind of user cannot make is not there for him. @type {(name: string, work: (t: import('node:test').TestContext) => void) => void} */
const onlyRoot = (name, work) => void (ROOT && test(name, work));
/** @type {typeof onlyRoot} */
const onlyUser = (name, work) => void (ROOT || test(name, work));
const OTHER_UID = 12_345;

/** @typedef {import('node:test').TestContext} TestContext */

/** @param {TestContext} t */
function place(t) {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'pgsluice-dirs-')));
  t.after(() => {
    chmodSync(base, 0o700);
    rmSync(base, { recursive: true });
  });
  return base;
}

/**
 * @param {string} dataDir
 * @param {string} runtimeDir
 * @param {string} [url]
 */
function prepare(dataDir, runtimeDir, url = 'postgres://h/db') {
  return prepareDirectories(/** @type {any} */ ({ daemon: { dataDir, runtimeDir }, storage: { url } }));
}

/** @param {string} base @param {string} [url] */
const prepareIn = (base, url) => prepare(join(base, 'data'), join(base, 'run'), url);

const modeOf = (/** @type {string} */ path) => statSync(path).mode & 0o7777;

/** @param {() => unknown} call @param {RegExp} message */
function refused(call, message) {
  assert.throws(call, error => {
    const { code, message: text } = /** @type {Error & { code: string }} */ (error);
    assert.equal(code, 'DIRECTORY_UNUSABLE');
    assert.match(text, message);
    assert.match(
      text,
      /^\S+ cannot be used \(.*\): mend it, or name another with daemon\.(data|runtime)_dir$/,
    );
    return true;
  });
}

test('all are closed to others; only root with the embedded storage lets its account pass', t => {
  const base = place(t);
  for (const [url, mode] of /** @type {const} */ ([
    ['postgres://h/db', 0o700],
    ['embedded', ROOT ? 0o711 : 0o700],
    ['postgres://h/db', 0o700],
  ])) {
    const { ssh, knownHosts } = prepareIn(base, url);
    assert.deepEqual([ssh, knownHosts], [join(base, 'run/ssh'), join(base, 'run/known_hosts')]);
    for (const name of ['data', 'run']) assert.equal(modeOf(join(base, name)), mode, `${name} with ${url}`);
    for (const path of [ssh, knownHosts]) assert.equal(modeOf(path), 0o700);
  }
  const host = { hostId: 7, hostKeys: ['ssh-ed25519 AAAA'] };
  const { knownHostsFile } = writeKnownHosts(join(base, 'run/known_hosts'), host);
  assert.equal(modeOf(knownHostsFile), 0o600);
});

test('parents that are missing are made closed as well', t => {
  const base = place(t);
  prepare(join(base, 'a/b/data'), join(base, 'c/d/run'));
  for (const name of ['a', 'a/b', 'c', 'c/d']) assert.equal(modeOf(join(base, name)), 0o700);
});

test('one that others can read is closed, one that they can write to is refused', t => {
  const base = place(t);
  for (const name of ['run', 'run/ssh', 'data']) {
    mkdirSync(join(base, name));
    chmodSync(join(base, name), 0o755);
  }
  prepareIn(base);
  for (const name of ['run', 'run/ssh', 'data']) assert.equal(modeOf(join(base, name)), 0o700);
  for (const name of ['run/ssh', 'run', 'data']) {
    for (const mode of [0o777, 0o1777, 0o702]) {
      chmodSync(join(base, name), mode);
      refused(() => prepareIn(base), /others can (?:write to it|write to .*run above it)/);
      assert.equal(modeOf(join(base, name)), mode);
    }
    chmodSync(join(base, name), 0o700);
  }
});

test('a symbolic link or a file in their place is refused, and what it points to is left alone', t => {
  for (const name of ['data', 'run', 'run/ssh', 'run/known_hosts']) {
    const base = place(t);
    const target = join(base, 'target');
    mkdirSync(target);
    chmodSync(target, 0o755);
    mkdirSync(dirname(join(base, name)), { recursive: true });
    symlinkSync(target, join(base, name));
    refused(() => prepareIn(base), /symbolic link/);
    assert.equal(modeOf(target), 0o755);
    rmSync(join(base, name));
    writeFileSync(join(base, name), '');
    refused(() => prepareIn(base), /EEXIST|not a directory/);
  }
});

test('a directory above that others can write to is refused, unless it is sticky like /tmp', t => {
  for (const mode of [0o777, 0o707, 0o770, 0o757]) {
    const base = place(t);
    const open = join(base, 'open');
    mkdirSync(join(open, 'mine'), { recursive: true });
    // A group that is neither root's nor the user's own; who cannot give it away has none to test with.
    if (ROOT) chownSync(open, 0, OTHER_UID);
    else if ((mode & 0o007) === 0) continue;
    chmodSync(open, mode);
    refused(() => prepareIn(open), /others can write to .*\/open above it/);
    refused(() => prepareIn(join(open, 'mine')), /others can write to .*\/open above it/);
    assert.throws(() => statSync(join(open, 'data')), { code: 'ENOENT' });
    // By another name.
    symlinkSync(join(open, 'mine'), join(base, 'link'));
    refused(() => prepareIn(join(base, 'link')), /others can write to .*\/open above it/);
    chmodSync(open, mode | 0o1000);
    prepareIn(join(open, 'mine'));
  }
});

onlyRoot('a directory of another user is refused, in its place and above it', t => {
  for (const name of ['data', 'run', 'run/ssh', 'run/known_hosts']) {
    const base = place(t);
    mkdirSync(join(base, name), { recursive: true });
    chmodSync(join(base, name), 0o755);
    chownSync(join(base, name), OTHER_UID, OTHER_UID);
    refused(() => prepareIn(base), /belongs to another user/);
    assert.equal(modeOf(join(base, name)), 0o755, 'it is left as it was');
  }
  const base = place(t);
  const theirs = join(base, 'theirs');
  mkdirSync(theirs);
  chownSync(theirs, OTHER_UID, OTHER_UID);
  refused(() => prepareIn(theirs), /theirs above it belongs to another user/);
  mkdirSync(join(base, 'mine'));
  symlinkSync(join(base, 'mine'), join(theirs, 'link'));
  lchownSync(join(theirs, 'link'), OTHER_UID, OTHER_UID);
  refused(() => prepareIn(join(theirs, 'link')), /theirs above it belongs to another user/);
});

onlyUser('a user is refused what belongs to root', () => {
  refused(() => prepare('/usr', '/usr'), /belongs to another user/);
});

test('nothing in the source has a predictable name below /tmp', () => {
  // These two make a directory with a random name and mode 0700 there.
  const makers = ['cli/run-on-host.js', 'system-ssh/control-directory.js'];
  for (const file of globSync('**/*.{js,sh,sql}', { cwd: SRC })) {
    const text = readFileSync(join(SRC, file), 'utf8');
    const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*(\/\/|#).*$/gm, '');
    assert.doesNotMatch(code, /["'`=(\s]\/(var\/)?tmp\b/, file);
    if (/\btmpdir\b|\bTMPDIR\b/.test(code.replaceAll(/'[^'\n]*'|`[^`]*`/g, "''"))) {
      assert.ok(makers.includes(file), `${file} uses the temporary directory`);
      assert.match(code, /\bmkdtempSync\(/, file);
    }
  }
});
