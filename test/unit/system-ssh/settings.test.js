import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PgsluiceError } from '../../../src/base/errors.js';
import { readSettings } from '../../../src/system-ssh/settings.js';

/** @param {object} config @param {RegExp} message */
function refuses(config, message) {
  assert.throws(
    () => readSettings({ host: 'db1', ...config }),
    error => error instanceof PgsluiceError && error.code === 'USAGE' && message.test(error.message),
    JSON.stringify(config),
  );
}

test('texts that could leave their place in ssh_config, or become an option, are refused', () => {
  for (const bad of [
    'a\nProxyCommand x',
    'a\0b',
    'a"b',
    'a${HOME}b',
    'a\rb',
    'a\u007fb',
    '',
    'a\\',
    'a\\\\b',
  ]) {
    refuses({ host: bad }, /^host /);
    refuses({ username: bad }, /^username /);
    refuses({ identityFile: bad }, /^identityFile /);
    refuses({ knownHostsFile: bad }, /^knownHostsFile /);
    refuses({ hostKeyAlias: bad }, /^hostKeyAlias /);
    refuses({ configFile: bad }, /^configFile /);
    refuses({ jumpHosts: [bad] }, /jump/i);
  }
  refuses({ options: ['Compression=yes\nProxyCommand=x'] }, /^SSH option/);
});

test('hosts and users with shell syntax or a leading dash are refused', () => {
  for (const host of [
    '-oProxyCommand=x',
    'a b',
    "a'b",
    'a;b',
    'a|b',
    '$(x)',
    'a`x`',
    'a,b',
    'a@b',
    'a/b',
    '[::1]',
  ]) {
    refuses({ host }, /^host is not/);
    refuses({ jumpHosts: [host === '[::1]' ? 'a%b' : host.replace('@', ';')] }, /jump host/);
  }
  for (const username of [
    '-l',
    'a;b',
    "a'b",
    'a$b',
    'a`b',
    'a(b',
    'a -b',
    'a%b',
    ' a',
    'a|b',
    'a&b',
    'a<b',
  ]) {
    refuses({ username }, /^username is not/);
  }
  for (const jump of [
    'a b@h',
    '-x@h',
    'a;b@h',
    '@h',
    'h:',
    'h:x',
    'h:0',
    'h:65536',
    'h:1:2',
    'u@h,v',
    '[::1',
    '',
  ]) {
    refuses({ jumpHosts: [jump] }, /jump/i);
  }
});

test('numbers out of range are refused', () => {
  for (const port of [0, 65536, 1.5, Number.NaN, '22']) refuses({ port }, /^port /);
  for (const maxSessions of [0, -1, 1.5]) refuses({ maxSessions }, /^maxSessions /);
  refuses({ keepaliveIntervalMs: -1 }, /^keepaliveIntervalMs /);
  refuses({ connectTimeoutMs: 0 }, /^connectTimeoutMs /);
});

test('options that would open a block are refused, others are split at the first =', () => {
  for (const line of ['Host=x', 'match=all', 'Include=/x', 'NoValue', '=x', 'A B=x'])
    refuses({ options: [line] }, /^SSH option/);
  const { options } = readSettings({
    host: 'h',
    options: ['SetEnv=A=b', 'Ciphers = aes128-gcm@openssh.com'],
  });
  assert.deepEqual(options, [
    { key: 'SetEnv', value: 'A=b' },
    { key: 'Ciphers', value: 'aes128-gcm@openssh.com' },
  ]);
});

test('what ssh itself accepts is accepted', () => {
  for (const host of ['db1', 'db-1.example.com', '10.0.0.1', '::1', 'fe80::1%eth0', 'прод.example', '_h']) {
    assert.equal(readSettings({ host }).host, host);
  }
  for (const username of ['postgres', 'first last', 'u@example.com', 'DOMAIN\\user', 'a-b_c.d+e', 'Ж']) {
    assert.equal(readSettings({ host: 'h', username }).username, username);
  }
  const { jumpHosts } = readSettings({ host: 'h', jumpHosts: ['j', 'u@j2:2222', '[::1]:22', 'u@[fe80::2]'] });
  assert.deepEqual(jumpHosts, [
    { user: undefined, host: 'j', port: undefined },
    { user: 'u', host: 'j2', port: 2222 },
    { user: undefined, host: '::1', port: 22 },
    { user: 'u', host: 'fe80::2', port: undefined },
  ]);
});

test('defaults', () => {
  const settings = readSettings({ host: 'h' });
  assert.equal(settings.program, 'ssh');
  assert.equal(settings.keepaliveIntervalMs, 10_000);
  assert.equal(settings.connectTimeoutMs, 20_000);
  assert.equal(settings.maxSessions, 10);
  assert.deepEqual(settings.includes, ['~/.ssh/config', '/etc/ssh/ssh_config']);
  assert.deepEqual(readSettings({ host: 'h', configFile: 'none' }).includes, []);
});
