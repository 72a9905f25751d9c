/** The probe's answer is parsed exactly or refused: the host may be anybody. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import { parseProbe, probeCommand, probeInput } from '../../../src/follower/probe.js';

const ANSWER = [
  'V 1 1700000000',
  'U Linux 6.1.0 x86_64',
  'N monitor',
  'T cksum',
  'L /var/lib/pg data',
  'K data',
  'P 15',
  'J stderr',
  'J csvlog',
  'D /var/lib/pg data/log',
  'F csv 3 4096 1',
  'M 1699999999 1234 the newest.csv',
  'X read 600 /var/lib/pg data/log/old.csv',
  'XO domain users',
  'XG post gres',
  'O 32 30 32 34 2d 30 31 2d 30 31 20 30 30 3a 30 30',
  'O 0a',
  'F json 0 0 0',
  'F log 2 7 0',
  'L /missing',
  'K missing',
  'E',
];
const LOGS = ['/var/lib/pg data', '/missing'];

/** @param {string[]} lines @param {{ logs?: string[], discover?: boolean }} [wanted] */
const parse = (lines, { logs = LOGS, discover = false } = {}) =>
  parseProbe(Buffer.from(`${lines.join('\n')}\n`), { logs, discover });

/** @param {() => unknown} action */
function refused(action) {
  assert.throws(action, error => error instanceof PgsluiceError && error.code === 'FOLLOWER_PROTOCOL');
}

test('an answer becomes facts', () => {
  const { logs, ...host } = parse(ANSWER);
  assert.deepEqual(host, {
    clock: 1_700_000_000,
    system: 'Linux 6.1.0 x86_64',
    user: 'monitor',
    missingTools: ['cksum'],
  });
  const none = { count: 0, bytes: 0, unreadable: 0 };
  assert.deepEqual(logs, [
    {
      path: '/var/lib/pg data',
      kind: 'data',
      version: '15',
      destinations: ['stderr', 'csvlog'],
      directory: '/var/lib/pg data/log',
      files: {
        csv: { count: 3, bytes: 4096, unreadable: 1 },
        json: none,
        log: { count: 2, bytes: 7, unreadable: 0 },
      },
      newest: { name: 'the newest.csv', size: 1234, modifiedAt: 1_699_999_999 },
      sample: Buffer.from('2024-01-01 00:00\n'),
      denied: {
        need: 'read',
        mode: '600',
        path: '/var/lib/pg data/log/old.csv',
        owner: 'domain users',
        group: 'post gres',
      },
    },
    {
      path: '/missing',
      kind: 'missing',
      version: null,
      destinations: [],
      directory: null,
      files: { csv: none, json: none, log: none },
      newest: null,
      sample: null,
      denied: null,
    },
  ]);
});

test('the first record of an answer that is cut anywhere is never taken for the whole', () => {
  const bytes = Buffer.from(`${ANSWER.join('\n')}\n`);
  for (let end = 0; end < bytes.length; end += 1) {
    for (const logs of [LOGS, []])
      refused(() => parseProbe(bytes.subarray(0, end), { logs, discover: true }));
  }
});

test('an answer for other logs than were asked for', () => {
  refused(() => parse(ANSWER, { logs: ['/other', '/missing'] }));
  refused(() => parse(ANSWER, { logs: LOGS.toReversed() }));
  refused(() => parse(ANSWER, { logs: [...LOGS, '/third'] }));
  refused(() => parse(ANSWER, { logs: LOGS.slice(0, 1) }));
  assert.equal(parse(ANSWER, { logs: LOGS.slice(0, 1), discover: true }).logs.length, 2);
});

test('lines that are not of the protocol', () => {
  /** @type {[number, string][]} */
  const wrong = [
    [0, 'Welcome!'],
    [0, 'V 2 1700000000'],
    [0, 'V 1 x'],
    [2, 'N '],
    [4, 'M 1 2 x'],
    [5, 'K rocket'],
    [10, 'F csv 1 2'],
    [10, 'F csv -1 2 0'],
    [10, 'F exe 1 2 0'],
    [10, 'F csv 9999999999999999 2 0'],
    [11, 'M 1 2'],
    [12, 'X write 600 /x'],
    [15, 'O 3'],
    [15, 'O zz'],
    [15, `O ${'00 '.repeat(17).trim()}`],
    [15, 'Q 1'],
    [15, ''],
    [20, 'L /x'],
  ];
  for (const [index, line] of wrong) refused(() => parse(ANSWER.with(index, line)));
  refused(() => parse(['motd', ...ANSWER]));
  refused(() => parse([...ANSWER, 'E']));
});

test('a sample cannot be longer than what was asked for', () => {
  const line = `O ${'00 '.repeat(16).trim()}`;
  const lines = (/** @type {number} */ count) => [
    ...ANSWER.slice(0, 15),
    ...Array(count).fill(line),
    ...ANSWER.slice(17),
  ];
  assert.equal(parse(lines(512)).logs[0]?.sample?.length, 8192);
  refused(() => parse(lines(513)));
});

test('garbage is refused with a message of one printable line', () => {
  const piece = fc.oneof(fc.constantFrom(...ANSWER), fc.string({ unit: 'binary' }));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), pieces => {
      try {
        parse([...pieces, 'E']);
      } catch (error) {
        assert.ok(error instanceof PgsluiceError, String(error));
        // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
        assert.doesNotMatch(error.message, /[\u0000-\u001f\u007f-\u009f]/);
        assert.ok(error.message.length < 400);
      }
    }),
  );
});

test('a path is a line of the input, never more, and never part of the command', () => {
  const command = probeCommand(null);
  assert.match(command, /^exec sh -c 'eval "\$\(dd bs=1 count=\d+ 2>\/dev\/null\)"' pgsluice-probe$/);
  assert.match(probeCommand('postgres'), /^exec sudo -n -u postgres sh -c /);
  assert.throws(() => probeCommand('x; y'), PgsluiceError);
  const length = Number(/count=(\d+)/.exec(command)?.[1]);
  const input = probeInput({ logs: ["/a '$(x)", '/b'], discover: true });
  assert.equal(Buffer.from(input).subarray(length).toString(), "log /a '$(x)\nlog /b\ndiscover\ngo\n");
  for (const path of ['/a\ngo', '/a\u0000', '/a\r'])
    assert.throws(() => probeInput({ logs: [path], discover: false }), PgsluiceError);
});
