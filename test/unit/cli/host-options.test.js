/** What names, addresses, paths and labels are accepted, and that nothing misleading is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import {
  addressFromName,
  hostNameOperand,
  jumpHosts,
  labels,
  logPaths,
  sshTarget,
  startWord,
  sudoUser,
  transportWord,
} from '../../../src/cli/host-options.js';

/**
 * @template T
 * @param {(value: T) => unknown} parse
 * @param {readonly T[]} values
 */
function allRefused(parse, values) {
  for (const value of values) {
    assert.throws(
      () => parse(value),
      error => {
        assert.ok(error instanceof PgsluiceError, `${JSON.stringify(value)}: ${String(error)}`);
        assert.equal(error.code, 'USAGE');
        // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
        assert.doesNotMatch(error.message, /[\u0000-\u001f\u007f-\u009f]/);
        return true;
      },
      `${JSON.stringify(value)} was accepted`,
    );
  }
}

/** What would be an option, a shell word or a line of its own elsewhere. */
const HOSTILE = [
  '',
  '-',
  '-oProxyCommand=x',
  'a b',
  'a\nb',
  'a\tb',
  '$(touch x)',
  '`x`',
  'a;b',
  "a'b",
  'a"b',
  '\u0000',
  'a\u001b[31m',
  '\u202eabc',
];

test('host names', () => {
  for (const name of ['db1', 'a', 'DB-1.example_x', `a${'b'.repeat(62)}`])
    assert.equal(hostNameOperand(name), name);
  allRefused(hostNameOperand, [...HOSTILE, '.a', '_a', `a${'b'.repeat(63)}`, 'äb', 'a/b', 'db1\n']);
});

test('addresses with and without user and port', () => {
  /** @type {[string, string | null, string, number][]} */
  const good = [
    ['db1', null, 'db1', 22],
    ['db1.example.', null, 'db1.example.', 22],
    ['postgres@db1:2222', 'postgres', 'db1', 2222],
    ['a@b@host', 'a@b', 'host', 22],
    ['10.0.0.1', null, '10.0.0.1', 22],
    ['x@10.0.0.1:65535', 'x', '10.0.0.1', 65535],
    ['[::1]', null, '::1', 22],
    ['x@[2001:db8::1]:2200', 'x', '2001:db8::1', 2200],
    ['::1', null, '::1', 22],
    ['[fe80::1%eth0]:22', null, 'fe80::1%eth0', 22],
  ];
  for (const [text, username, address, port] of good)
    assert.deepEqual(sshTarget(text), { username, address, port }, text);
});

test('what is no address', () => {
  allRefused(sshTarget, [
    ...HOSTILE,
    ...HOSTILE.map(text => `${text}@db1`),
    ...HOSTILE.map(text => `u@${text}`),
    '10.0.0.256',
    '1.2',
    '1234',
    'db1:',
    'db1:0',
    'db1:65536',
    'db1:22:33',
    'db1:-1',
    'db1:2x',
    '[db1]',
    '[::1',
    '::1]',
    '[]',
    '[10.0.0.1]',
    '-db1',
    'db1-',
    '.db1',
    'u@',
    'x%y',
    'DOMAIN\\u@db1',
    'ssh://db1',
    'a'.repeat(254),
  ]);
});

test('no accepted address begins with a dash or holds white space, quotes or control characters', () => {
  const piece = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('@', ':', '[', ']', '-', '::1', 'db', '22', '%'),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), pieces => {
      let target;
      try {
        target = sshTarget(pieces.join(''));
      } catch (error) {
        assert.ok(error instanceof PgsluiceError);
        return;
      }
      for (const text of [target.address, ...(target.username === null ? [] : [target.username])]) {
        assert.match(text, /^[^-\s\p{C}'"`$;|&<>(){}\\][^\s\p{C}'"`$;|&<>(){}\\]*$/u);
      }
      assert.ok(target.port >= 1 && target.port <= 65_535);
    }),
  );
});

test('without --ssh the name is the address, if it can be one', () => {
  assert.deepEqual(addressFromName('db1'), { username: null, address: 'db1', port: 22 });
  assert.deepEqual(addressFromName('10.0.0.1'), { username: null, address: '10.0.0.1', port: 22 });
  allRefused(addressFromName, ['10.0.0.300', '1.2', 'db1-']);
});

test('jump hosts', () => {
  assert.deepEqual(jumpHosts(''), []);
  assert.deepEqual(jumpHosts('a@b:2,[::1]:3,c'), ['a@b:2', '[::1]:3', 'c']);
  allRefused(jumpHosts, [...HOSTILE.filter(text => text !== ''), 'a,,b', 'a,', 'b:99999', 'x y@b', 'a,-b']);
});

test('users for sudo', () => {
  assert.equal(sudoUser('postgres'), 'postgres');
  assert.equal(sudoUser(''), null);
  allRefused(sudoUser, [...HOSTILE.filter(text => text !== ''), '#0', 'a/b', 'root$']);
});

test('words with a fixed list', () => {
  assert.equal(transportWord('ssh2'), 'ssh2');
  assert.equal(startWord('current'), 'current');
  allRefused(transportWord, [...HOSTILE, 'SSH2', 'opensh', 'toString']);
  allRefused(startWord, [...HOSTILE, 'begin']);
  assert.throws(() => transportWord('opensh'), /did you mean openssh\?/);
});

test('log paths', () => {
  assert.deepEqual(logPaths([]), []);
  assert.deepEqual(logPaths(['/a//b/', "/x y'$(z)`;\u00e4", '/..']), ['/a/b', "/x y'$(z)`;\u00e4", '/..']);
  allRefused(
    text => logPaths([text]),
    [
      '',
      'a',
      './a',
      '~/a',
      '/',
      '//',
      '/a\nb',
      '/a\u0000',
      '/a\u001b[0m',
      '/a\u007f',
      '/\u202e',
      '/\ufffd',
      '/\ud800',
      `/${'a'.repeat(4095)}`,
    ],
  );
  allRefused(logPaths, [
    ['/a', '/a'],
    ['/a/', '/b', '//a'],
  ]);
});

test('the journal of a unit', () => {
  assert.deepEqual(
    logPaths(['journal:postgresql@17-main.service', 'journal:pg', 'journal:srv-data.mount', '/journal:x']),
    ['journal:postgresql@17-main.service', 'journal:pg.service', 'journal:srv-data.mount', '/journal:x'],
  );
  assert.deepEqual(logPaths([`journal:${'a'.repeat(247)}`]), [`journal:${'a'.repeat(247)}.service`]);
  allRefused(
    text => logPaths([`journal:${text}`]),
    [...HOSTILE, 'a/b', 'post*', 'p?', '[a]', 'ä', `${'a'.repeat(256)}`, 'a'.repeat(248)],
  );
  allRefused(text => logPaths([text]), ['journal', 'Journal:x', 'journald:x']);
  // The same unit in two spellings.
  allRefused(logPaths, [['journal:a', 'journal:a.service']]);
});

test('labels of a new host', () => {
  assert.deepEqual(labels(['env=prod', 'a_1=x=y', 'z=ä b']), { env: 'prod', a_1: 'x=y', z: 'ä b' });
  allRefused(
    pair => labels([pair]),
    ['', 'a', '=b', '1a=b', 'a-b=c', '__a=b', 'a b=c', 'a=', 'a=x\ny', `a=${'x'.repeat(257)}`, 'ä=b'],
  );
  allRefused(labels, [['a=b', 'a=c']]);
});

test('labels that are changed', () => {
  const before = { env: 'prod', site: 'a' };
  assert.deepEqual(labels(['env=test', 'site=', 'new=1'], before), { env: 'test', new: '1' });
  assert.deepEqual(before, { env: 'prod', site: 'a' });
  assert.throws(() => labels(['none='], before), /does not have/);
  // A label of this name is only a label.
  assert.ok(Object.hasOwn(labels(['constructor=x'], {}), 'constructor'));
});
