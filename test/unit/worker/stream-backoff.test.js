import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StreamBackoff } from '../../../src/worker/stream-backoff.js';

test('refusals are slow at once, a full server has its own count, and neither slows what is usual', () => {
  const backoff = new StreamBackoff();
  for (const code of /** @type {const} */ ([
    'SSH_AUTH_REFUSED',
    'SSH_HOST_KEY_CHANGED',
    'SSH_HOST_KEY_UNKNOWN',
  ]))
    assert.ok(backoff.next(code) >= 24_000, code);
  for (let n = 0; n < 10; n += 1) backoff.next('SSH_SESSION_REFUSED');
  assert.ok(backoff.next('SSH_SESSION_REFUSED') <= 120_000);
  const usual = Array.from({ length: 12 }, () => backoff.next('SSH_UNREACHABLE'));
  assert.ok((usual[0] ?? 0) >= 800 && (usual[0] ?? 0) <= 1_000);
  assert.ok((usual.at(-1) ?? 0) >= 48_000 && (usual.at(-1) ?? 0) <= 60_000);
});

test('reading for a moment forgives a refusal, but not what ends a stream again and again', () => {
  const backoff = new StreamBackoff();
  backoff.next('SSH_AUTH_REFUSED');
  for (let n = 0; n < 5; n += 1) backoff.next('FOLLOWER_FAILED');
  backoff.hasRead(500);
  assert.ok(backoff.next('SSH_AUTH_REFUSED') <= 30_000);
  assert.ok(backoff.next('FOLLOWER_FAILED') >= 20_000);
  backoff.hasRead(60_000);
  assert.ok(backoff.next('FOLLOWER_FAILED') <= 1_000);
});

test('a storage that is away is asked every few seconds, and does not slow what is usual', () => {
  const backoff = new StreamBackoff();
  const waits = Array.from({ length: 20 }, () => backoff.next('STORAGE_UNREACHABLE'));
  assert.ok(Math.max(...waits) <= 10_000, `${Math.max(...waits)} ms`);
  assert.ok(backoff.next('SSH_UNREACHABLE') <= 1_000);
});
