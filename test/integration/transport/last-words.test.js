/** What a program on a host says at its end, and what one may say that never ends; the programs are real. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastWords } from '../../../src/transport/last-words.js';

const WAIT_MS = 20_000;
/** What may be read at once, and the last piece that was being read. */
const SHARE_MAX_BYTES = 2 * 64 * 1024;

test('of what a program has said the end is kept, on one line', async () => {
  const program = `i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; printf 'the\\r\\n\\nend\\n' >&2`;
  const child = spawn('/bin/sh', ['-c', program], { stdio: ['ignore', 'ignore', 'pipe'] });
  const words = lastWords(child.stderr);
  await once(child, 'close');
  assert.match(words(), /; line 1998; line 1999; the; end$/);
  assert.ok(words().length <= 2 * 500, `${words().length} characters`);
});

test('of a program that never stops a share is read, and after a rest another one', async t => {
  const child = spawn('/bin/sh', ['-c', 'exec yes "never silent" >&2'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const soon = { signal: AbortSignal.timeout(WAIT_MS) };
  let bytes = 0;
  const words = lastWords(child.stderr);
  child.stderr.on('data', chunk => (bytes += chunk.length));
  await once(child.stderr, 'pause', soon);
  await sleep(500);
  assert.ok(bytes <= SHARE_MAX_BYTES, `${bytes} bytes in half a second`);
  await once(child.stderr, 'data', soon);
  assert.match(words(), /never silent; never silent/);
});
