/**
 * The transports that run the follower from inside the worker: local, and ssh2 against a real sshd.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { FrameDecoder } from '../../../src/codec/frames.js';
import { followerCommand, followerInput } from '../../../src/follower/index.js';
import { runLocal } from '../../../src/transport/local.js';
import { runOverSsh2 } from '../../../src/transport/ssh2.js';
import { startSshd } from '../../helpers/sshd.js';

const CONNECT_MS = 10_000;

/** @typedef {(follower: { command: string, input: string }, handlers: { onChunk: (chunk: Buffer) => void, onEnd: (error: import('../../../src/base/errors.js').PgsluiceError | null) => void }) => import('../../../src/transport/fifo.js').ByteSource} Run */

/** @type {string} */
let dir;
/** @type {Awaited<ReturnType<typeof startSshd>>} */
let sshd;
/** @type {import('../../../src/ipc/messages.js').HostSpec} */
let host;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-transport-'));
  chmodSync(dir, 0o755);
  writeFileSync(join(dir, 'a.csv'), 'x'.repeat(3_000_000));
  sshd = await startSshd();
  host = {
    hostId: 1,
    name: 'db1',
    address: sshd.host,
    port: sshd.port,
    username: sshd.user,
    identityFile: sshd.identityFile,
    jumpHosts: [],
    hostKeyAlias: 'the-alias',
    knownHostsFile: await sshd.knownHostsFile('the-alias'),
  };
});
after(async () => {
  await sshd.stop();
  rmSync(dir, { recursive: true });
});

/** @type {[string, Run][]} */
const transports = [
  ['local', runLocal],
  [
    'ssh2',
    (follower, handlers) => runOverSsh2(host, { ...follower, connectTimeoutMs: CONNECT_MS }, handlers),
  ],
];

for (const [name, run] of transports) {
  describe(`transport ${name}`, () => {
    const follower = () => ({
      command: followerCommand(null),
      input: followerInput({ path: dir, format: 'csvlog', from: 'start', known: [] }),
    });

    test('carries frames, also through pauses, and is silent after close', async () => {
      let bytes = 0;
      let closed = false;
      await new Promise((resolve, reject) => {
        const decoder = new FrameDecoder(
          () => {},
          chunk => (bytes += chunk.length),
        );
        const source = run(follower(), {
          onChunk(chunk) {
            assert.equal(closed, false);
            decoder.write(chunk);
            if (bytes === 3_000_000) {
              source.close();
              closed = true;
              setTimeout(resolve, 200);
              return;
            }
            source.pause();
            setTimeout(() => source.resume(), 1);
          },
          onEnd: error => reject(error ?? new Error('it ended')),
        });
      });
      assert.equal(bytes, 3_000_000);
    });

    test('says how the follower ended, with its words', async () => {
      const error = await new Promise(resolve => {
        run({ command: 'echo some words >&2; exit 3', input: '' }, { onChunk: () => {}, onEnd: resolve });
      });
      assert.equal(error.code, 'FOLLOWER_FAILED');
      assert.match(error.message, /exit code 3: some words$/);
    });
  });
}

test('another user by sudo: where that is allowed it reads, where it is not, the words of sudo are the error', async () => {
  const allowed = process.geteuid?.() === 0;
  const error = await new Promise(resolve => {
    const follower = {
      command: followerCommand('nobody'),
      input: followerInput({ path: dir, format: 'csvlog', from: 'start', known: [] }),
    };
    let text = '';
    const source = runLocal(follower, {
      onChunk(chunk) {
        text += chunk.toString('latin1', 0, 200);
        if (!text.includes('\nF ')) return;
        source.close();
        resolve(null);
      },
      onEnd: resolve,
    });
  });
  if (allowed) assert.equal(error, null);
  else assert.match(error.message, /sudo/);
});

describe('transport ssh2 refuses', () => {
  /** @param {Partial<import('../../../src/ipc/messages.js').HostSpec>} changes */
  const failure = changes =>
    new Promise(resolve => {
      const follower = { command: 'true', input: '', connectTimeoutMs: CONNECT_MS };
      runOverSsh2({ ...host, ...changes }, follower, { onChunk: () => {}, onEnd: resolve });
    });
  /** @param {string} name @param {string} content */
  const file = (name, content) => {
    writeFileSync(join(dir, name), content, { mode: 0o600 });
    return join(dir, name);
  };

  test('a host key that is not the pinned one', async () => {
    const other = await startSshd();
    const knownHostsFile = file('changed', `the-alias ${other.hostKey.split(' ').slice(0, 2).join(' ')}\n`);
    await other.stop();
    assert.equal((await failure({ knownHostsFile })).code, 'SSH_HOST_KEY_CHANGED');
  });

  test('a host without a pinned key', async () => {
    assert.equal((await failure({ knownHostsFile: file('empty', '') })).code, 'SSH_HOST_KEY_UNKNOWN');
  });

  test('a key the server does not accept', async () => {
    const other = await startSshd();
    const error = await failure({ identityFile: other.identityFile });
    await other.stop();
    assert.equal(error.code, 'SSH_AUTH_REFUSED');
  });

  test('a port where nobody listens', async () => {
    assert.equal((await failure({ port: 1 })).code, 'SSH_UNREACHABLE');
  });

  test('an identity file that is not there', async () => {
    assert.equal((await failure({ identityFile: '/nowhere/key' })).code, 'FILE_UNREADABLE');
  });
});
