/** Which files may hold a secret: by whom they are, what they are, who else may read or change them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { readSecret } from '../../../src/base/read-secret.js';

const NOBODY = 65_534;
const MAX_BYTES = 1024 * 1024;
/** Only root can give files away. @param {string} name @param {() => void} body */
const testAsRoot = (name, body) => {
  if (process.geteuid?.() === 0) void test(name, body);
};

/** @type {string} */
let dir;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-secret-'));
  chmodSync(dir, 0o755);
});
after(() => rmSync(dir, { recursive: true }));

/** @param {string} name @param {number} mode @param {string} [text] */
function file(name, mode, text = 'secret') {
  const path = join(dir, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

test('a file of our own is closed to everybody else', () => {
  for (const mode of [0o600, 0o400]) assert.equal(String(readSecret(file('mine', mode), 'x')), 'secret');
  for (const mode of [0o640, 0o620, 0o610, 0o604, 0o602, 0o601]) {
    assert.throws(() => readSecret(file('open', mode), 'x'), { code: 'FILE_EXPOSED' }, mode.toString(8));
  }
});

test('a FIFO is refused without waiting for who writes into it', () => {
  const fifo = join(dir, 'fifo');
  execFileSync('mkfifo', ['-m', '600', fifo]);
  assert.throws(() => readSecret(fifo, 'x'), { code: 'FILE_UNREADABLE', message: /not a regular file/ });
});

test('more than a MiB is refused', () => {
  assert.equal(readSecret(file('most', 0o600, 'x'.repeat(MAX_BYTES)), 'x').length, MAX_BYTES);
  const more = file('more', 0o600, 'x'.repeat(MAX_BYTES + 1));
  assert.throws(() => readSecret(more, 'x'), { code: 'FILE_UNREADABLE', message: /more than 1048576 bytes/ });
});

testAsRoot('a file of another user is refused', () => {
  const path = file('theirs', 0o600);
  chownSync(path, NOBODY, NOBODY);
  assert.throws(() => readSecret(path, 'x'), { code: 'FILE_EXPOSED', message: /belongs to another user/ });
});

testAsRoot('a file of root may be readable by a group, and no more', () => {
  const read = (/** @type {number} */ mode) => {
    const path = file('of-root', mode);
    chownSync(path, 0, NOBODY);
    const gid = process.getegid?.() ?? 0;
    process.setegid?.(NOBODY);
    process.seteuid?.(NOBODY);
    try {
      return String(readSecret(path, 'x'));
    } finally {
      process.seteuid?.(0);
      process.setegid?.(gid);
    }
  };
  assert.equal(read(0o640), 'secret');
  for (const mode of [0o660, 0o650, 0o644, 0o642, 0o641]) {
    assert.throws(() => read(mode), { code: 'FILE_EXPOSED' }, mode.toString(8));
  }
});
