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
  'N 15',
  'J stderr',
  'J csvlog',
  'D /var/lib/pg data/log',
  'Z Europe/Moscow',
  'P %m [%p] ',
  'F csv 3 4096 1',
  'M 1699999999 1234 the newest.csv',
  'X read 600 /var/lib/pg data/log/old.csv',
  'XO domain users',
  'XG post gres',
  'O 32 30 32 34 2d 30 31 2d 30 31 20 30 30 3a 30 30',
  'O 0a',
  'F json 0 0 0',
  'F log 2 7 0',
  'M 1600000000 0 a.log',
  'O 78',
  'L /missing',
  'K missing',
  'L journal:pg.service',
  'K journal',
  'Y readable ',
  'F log 0 0 0',
  'O 79 0a',
  'L journal:other.service',
  'K journal',
  'Y failed no such thing',
  'E',
];
const LOGS = ['/var/lib/pg data', '/missing', 'journal:pg.service', 'journal:other.service'];

/** @param {string} line */
const lineOf = line => {
  const index = ANSWER.indexOf(line);
  assert.ok(index >= 0, line);
  return index;
};

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
  const none = { count: 0, bytes: 0, unreadable: 0, newest: null, sample: null, denied: null };
  const nothing = {
    version: null,
    destinations: [],
    directory: null,
    timeZone: null,
    linePrefix: null,
    files: { csv: none, json: none, log: none },
    journal: null,
    denied: null,
  };
  assert.deepEqual(logs, [
    {
      path: '/var/lib/pg data',
      kind: 'data',
      version: '15',
      destinations: ['stderr', 'csvlog'],
      directory: '/var/lib/pg data/log',
      timeZone: 'Europe/Moscow',
      linePrefix: '%m [%p] ',
      files: {
        csv: {
          count: 3,
          bytes: 4096,
          unreadable: 1,
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
        json: none,
        log: {
          ...none,
          count: 2,
          bytes: 7,
          newest: { name: 'a.log', size: 0, modifiedAt: 1_600_000_000 },
          sample: Buffer.from('x'),
        },
      },
      journal: null,
      denied: null,
    },
    { path: '/missing', kind: 'missing', ...nothing },
    {
      path: 'journal:pg.service',
      kind: 'journal',
      ...nothing,
      files: { csv: none, json: none, log: { ...none, sample: Buffer.from('y\n') } },
      journal: { state: 'readable', text: '' },
    },
    {
      path: 'journal:other.service',
      kind: 'journal',
      ...nothing,
      journal: { state: 'failed', text: 'no such thing' },
    },
  ]);
});

test('a place that may not be entered, before and after its files', () => {
  const denial = ['X search 700 /d', 'XO root', 'XG adm'];
  const answer = [...ANSWER.slice(0, 4), 'L /d', 'K data', ...denial, 'F csv 1 1 1', 'E'];
  const [log] = parse(answer, { logs: ['/d'] }).logs;
  assert.deepEqual(log?.denied, { need: 'search', mode: '700', path: '/d', owner: 'root', group: 'adm' });
  assert.equal(log?.files.csv.denied, null);
});

test('the first record of an answer that is cut anywhere is never taken for the whole', () => {
  const bytes = Buffer.from(`${ANSWER.join('\n')}\n`);
  for (let end = 0; end < bytes.length; end += 1) {
    for (const logs of [LOGS, []])
      refused(() => parseProbe(bytes.subarray(0, end), { logs, discover: true }));
  }
});

test('an answer for other logs than were asked for', () => {
  refused(() => parse(ANSWER, { logs: ['/other', ...LOGS.slice(1)] }));
  refused(() => parse(ANSWER, { logs: LOGS.toReversed() }));
  refused(() => parse(ANSWER, { logs: [...LOGS, '/third'] }));
  refused(() => parse(ANSWER, { logs: LOGS.slice(0, 1) }));
  assert.equal(parse(ANSWER, { logs: LOGS.slice(0, 1), discover: true }).logs.length, LOGS.length);
});

test('lines that are not of the protocol', () => {
  /** @type {[string, string][]} */
  const wrong = [
    ['V 1 1700000000', 'Welcome!'],
    ['V 1 1700000000', 'V 2 1700000000'],
    ['V 1 1700000000', 'V 1 x'],
    ['V 1 1700000000', `V 1 ${'9'.repeat(16)}`],
    ['N monitor', 'N '],
    ['L /var/lib/pg data', 'M 1 2 x'],
    ['K data', 'K rocket'],
    ['D /var/lib/pg data/log', 'M 1 2 x'],
    ['D /var/lib/pg data/log', 'O 00'],
    ['F csv 3 4096 1', 'F csv 1 2'],
    ['F csv 3 4096 1', 'F csv -1 2 0'],
    ['F csv 3 4096 1', 'F exe 1 2 0'],
    ['F csv 3 4096 1', 'F csv 9999999999999999 2 0'],
    ['M 1699999999 1234 the newest.csv', 'M 1 2'],
    ['M 1699999999 1234 the newest.csv', 'M 9999999999999 1234 x'],
    ['M 1699999999 1234 the newest.csv', 'M 1699999999 9999999999999999 x'],
    ['X read 600 /var/lib/pg data/log/old.csv', 'X write 600 /x'],
    ['X read 600 /var/lib/pg data/log/old.csv', 'X read 888 /x'],
    ['X read 600 /var/lib/pg data/log/old.csv', 'X read 777777 /x'],
    ['O 0a', 'O 3'],
    ['O 0a', 'O zz'],
    ['O 0a', `O ${'00 '.repeat(17).trim()}`],
    ['O 0a', 'Q 1'],
    ['O 0a', ''],
    ['Y readable ', 'Y'],
    ['Y readable ', 'Y perhaps '],
    ['Y readable ', 'Y toString '],
    ['L journal:pg.service', 'L /x'],
  ];
  for (const [line, instead] of wrong) refused(() => parse(ANSWER.with(lineOf(line), instead)));
  refused(() => parse(['motd', ...ANSWER]));
  refused(() => parse([...ANSWER, 'E']));
});

test('a sample cannot be longer than what was asked for', () => {
  const line = `O ${'00 '.repeat(16).trim()}`;
  const first = lineOf('O 32 30 32 34 2d 30 31 2d 30 31 20 30 30 3a 30 30');
  const lines = (/** @type {number} */ count) => ANSWER.toSpliced(first, 2, ...Array(count).fill(line));
  assert.equal(parse(lines(512)).logs[0]?.files.csv.sample?.length, 8192);
  refused(() => parse(lines(513)));
  // The next file has its own.
  const both = ANSWER.toSpliced(lineOf('O 78'), 1, ...Array(512).fill(line)).toSpliced(
    first,
    2,
    ...Array(512).fill(line),
  );
  const { csv, log } = parse(both).logs[0]?.files ?? {};
  assert.deepEqual([csv?.sample?.length, log?.sample?.length], [8192, 8192]);
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

test('tools and clusters without end are refused', () => {
  const head = ANSWER.slice(0, 3);
  const end = ['L /a', 'K missing', 'E'];
  refused(() => parse([...head, ...Array(100_000).fill('T x'), ...end], { logs: ['/a'] }));
  const logs = Array.from({ length: 257 }, () => ['L /a', 'K missing']).flat();
  refused(() => parse([...head, ...logs, 'E'], { logs: [], discover: true }));
  assert.equal(parse([...head, ...logs.slice(2), 'E'], { logs: [], discover: true }).logs.length, 256);
});
