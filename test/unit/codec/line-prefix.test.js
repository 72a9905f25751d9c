import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileLinePrefix } from '../../../src/codec/line-prefix.js';
import { isUnknownName, Q_ENDED, writeConnectionFrom } from '../../../src/codec/line-prefix-fields.js';
import { FIELD_OF, format, match } from './line-prefix-model.js';

/** @type {import('./line-prefix-model.js').Values} */
const VALUES = {
  a: 'my app',
  u: 'alice',
  d: 'shop',
  r: '10.0.0.7(50123)',
  h: '10.0.0.7',
  L: '10.0.0.1',
  b: 'client backend',
  p: '4242',
  P: '4200',
  t: '2026-05-01 12:34:56 UTC',
  m: '2026-05-01 12:34:56.789 UTC',
  n: '1777638896.789',
  i: 'idle in transaction',
  e: '42P01',
  Q: '-6123456789012345678',
  c: '69f4a1b0.1092',
  l: '17',
  s: '2026-05-01 12:00:00 CEST',
  v: '3/1234',
  x: '0',
};
const LOG = 'LOG:  hello';

/**
 * @param {string} prefix
 * @param {import('./line-prefix-model.js').Values} values
 * @param {Record<string, string>} expected by letter
 */
function check(prefix, values, expected) {
  const head = format(prefix, values);
  const result = match(prefix, head + LOG);
  const fields = Object.fromEntries(
    Object.entries(expected).map(([letter, value]) => [
      FIELD_OF[/** @type {keyof typeof FIELD_OF} */ (letter)],
      value,
    ]),
  );
  assert.deepEqual(result, { after: head.length, fields }, JSON.stringify(head));
}

for (const [letter, value] of Object.entries(VALUES)) {
  test(`%${letter}`, () => {
    for (const width of ['', '1', '30', '-1', '-30']) {
      check(`%${width}${letter} `, VALUES, { [letter]: value });
      check(`[%${width}${letter}] %p %%`, VALUES, { [letter]: value, p: '4242' });
      check(`x %p:%${width}${letter} | %${width}l | `, VALUES, { p: '4242', [letter]: value, l: '17' });
      check(`%p é%${width}${letter}é `, VALUES, { p: '4242', [letter]: value });
    }
    assert.equal(match(`<%${letter}> `, 'something else'), null);
    assert.equal(match(`%${letter} `, ''), null);
  });
}

const WRONG = {
  p: ['', 'x', '-1'],
  P: ['x', '-'],
  t: [
    '2026-05-01 12:34:56',
    '2026-05-01 12:34:56 ',
    '2026-05-01 12:34:56.789 UTC',
    '2026-05-01T12:34:56 UTC',
    '26-05-01 12:34:56 UTC',
    '2026-05-01 12:34:56 +3',
    '2026-05-01 12:34:56 +030',
    '2026-0x-01 12:34:56 UTC',
  ],
  m: ['2026-05-01 12:34:56 UTC', '2026-05-01 12:34:56.78 UTC', '2026-05-01 12:34:56.7x9 UTC'],
  n: ['1777638896', '1777638896.78', '1777638896.7890', '.789', '1777638896,789'],
  e: ['0000', '42p01', '000000'],
  Q: ['x', '-'],
  c: ['69f4a1b0', '69f4a1b0.', '.1092', '69F4A1B0.1092'],
  l: ['', '-1'],
  s: ['2026-05-01 12:00:00'],
  v: ['3', '3/', '/1234', '3-1234'],
  x: ['', '-1'],
};
test('what is not of the form of its escape does not match', () => {
  for (const [letter, wrong] of Object.entries(WRONG)) {
    for (const value of wrong) assert.equal(match(`<%${letter}> `, `<${value}> ${LOG}`), null, value);
  }
});

test('zones', () => {
  for (const zone of ['UTC', 'MSK', '+03', '-0330', '+0545', 'cest']) {
    const time = `2026-05-01 12:34:56 ${zone}`;
    check(
      '%t:%r:%u@%d:[%p]:',
      { ...VALUES, t: time },
      { t: time, r: '10.0.0.7(50123)', u: 'alice', d: 'shop', p: '4242' },
    );
  }
});

test('values that may be missing', () => {
  check('%p %v %P %Q x', { p: '1' }, { p: '1' });
  check('%-10P|%10v|%5Q|%3p', { p: '1' }, { p: '1' });
  check('%u %d %a ', {}, { u: '[unknown]', d: '[unknown]', a: '[unknown]' });
  assert.deepEqual(match('%u@%d/%a %p ', `@/ 7 ${LOG}`), { after: 5, fields: { 3: '7' } });
});

test('%q ends the prefix of a process without a client', () => {
  const prefix = '%m [%p] %q%u@%d %i ';
  check(prefix, VALUES, { m: VALUES.m ?? '', p: '4242', u: 'alice', d: 'shop', i: 'idle in transaction' });
  const compiled = compileLinePrefix(prefix);
  const head = format(prefix, VALUES, true);
  // The fields of a line before are gone.
  match(compiled, format(prefix, VALUES) + LOG);
  const result = match(compiled, `${head}LOG:  mail to a@b LOG:  x`);
  assert.equal(result?.after, head.length);
  assert.deepEqual(result?.fields, { 0: VALUES.m, 3: '4242', [Q_ENDED]: '' });
  assert.equal(match('%q%u ', `${LOG}`)?.after, 0);
  assert.equal(match('%b%q %u ', `checkpointer${LOG}`)?.fields[23], 'checkpointer');
  assert.equal(match('%b%q %u ', `client backend bob ${LOG}`)?.fields[1], 'bob');
  // Without a message there is no telling.
  assert.equal(match(prefix, `${head}hello`), null);
});

test('nasty names', () => {
  for (const [user, database] of [
    ['a@b', 'c'],
    ['a@b@c', 'd'],
    ['a b', 'c d'],
    ['[a]', '['],
    ['LOG', 'LOG:'],
    ['é\u00ff\u0000', ' '],
    ['u'.repeat(63), 'd'.repeat(63)],
  ]) {
    const values = { ...VALUES, u: user ?? '', d: database ?? '' };
    const expected = { u: user ?? '', d: database ?? '' };
    check('%u@%d ', values, expected);
    check('%u@%d [%p] ', values, { ...expected, p: '4242' });
    check('%p %q%u@%d ', values, { p: '4242', ...expected });
  }
  const dashes = { u: 'a,db=b', d: 'x,app=', a: 'y,client=', h: '::1' };
  // Names that imitate the whole prefix cannot be told apart; the message is found all the same.
  const line = format('user=%u,db=%d,app=%a,client=%h ', dashes);
  assert.equal(match('user=%u,db=%d,app=%a,client=%h ', line + LOG)?.after, line.length);
  check('[%u] [%d] ', { u: 'a] [', d: '] ' }, { u: 'a', d: '] [] ' });
  check('%r ', { r: '::1(5432)' }, { r: '::1(5432)' });
  check('%a %r ', { a: 'an app 1', r: '10.0.0.7(5432)' }, { a: 'an app 1', r: '10.0.0.7(5432)' });
  check(
    '%a %h %p ',
    { ...VALUES, a: 'an app', h: 'db1.example' },
    { a: 'an app', h: 'db1.example', p: '4242' },
  );
  check('%r %h ', { r: '[local]', h: '[local]' }, { r: '[local]' });
});

test('blanks of a name that is longer than the width are its own', () => {
  check('%3u|%-3d|', { u: ' abcd', d: 'abcd ' }, { u: ' abcd', d: 'abcd ' });
  check('%6u|%-6d|', { u: 'abc', d: 'abc' }, { u: 'abc', d: 'abc' });
});

test('values of several words', () => {
  for (const type of [
    'client backend',
    'autovacuum worker',
    'logical replication apply worker',
    'logger',
    'client',
  ]) {
    const background = type !== 'client backend';
    const values = { ...VALUES, b: type, i: 'idle in transaction' };
    const prefix = '%p %b %q%u %-22i %d ';
    const line = format(prefix, values, background);
    const fields = match(prefix, line + LOG)?.fields;
    assert.equal(fields?.[23], type);
    assert.equal(fields?.[1], background ? undefined : 'alice');
    check('%i %20b %a ', { ...values, a: 'x y' }, { b: type, i: 'idle in transaction', a: 'x y' });
    check('%i,%b,', values, { b: type, i: 'idle in transaction' });
  }
});

test('the value with milliseconds wins over the one without, the first of two equals', () => {
  check('%t %m %t ', VALUES, { m: VALUES.m ?? '' });
  check('%m %t ', VALUES, { m: VALUES.m ?? '' });
  check('%h %r ', VALUES, { r: VALUES.r ?? '' });
  assert.equal(match('%p %p ', `1 2 ${LOG}`)?.fields[3], '1');
  const back = format('%t %q%m ', VALUES, true);
  assert.deepEqual(match('%t %q%m ', back + LOG)?.fields[0], VALUES.t);
});

test('a prefix without choices is matched without looking at the message', () => {
  assert.deepEqual(match('%p ', '12 what'), { after: 3, fields: { 3: '12' } });
  assert.deepEqual(match('', 'what'), { after: 0, fields: {} });
  assert.deepEqual(match('db1 ', 'db1 what'), { after: 4, fields: {} });
});

test('the setting is read as PostgreSQL reads it', () => {
  // What is printed for each is what PostgreSQL 15 and 18 print (line-prefix-oracle.test.js).
  for (const [prefix, printed] of [
    ['%%p %p ', '%p 4242 '],
    ['%y%p ', '4242 '],
    ['% %p ', '4242 '],
    ['%5%%p ', '4242 '],
    ['%05p ', ' 4242 '],
    ['%-05p.', '4242 .'],
    ['%--5p%p ', '5p4242 '],
    ['%p %', '4242 '],
    ['%p %-', '4242 '],
    ['%p %12', '4242 '],
    ['%p %é ', '4242 \u00a9 '],
    ['%p %q%q', '4242 '],
  ]) {
    assert.equal(match(prefix ?? '', `${printed}${LOG}`)?.after, printed?.length, prefix);
    assert.equal(match(prefix ?? '', `${printed}${LOG}`)?.fields[3], '4242', prefix);
  }
});

test('what cannot be read back is refused, with the reason', () => {
  /** @type {[string, RegExp][]} */
  const wrong = [
    ['%m\n', /control character: %m\\n$/],
    ['\u0000', /control character/],
    ['a\u007f', /control character/],
    ['\t%m', /begins with a tab/],
    ['%p%l ', /where %p ends and '%l' begins/],
    ['%p%P%l ', /where %p ends and '%P' begins/],
    ['%v%q%l ', /where %v ends and '%l'/],
    ['%P%v%l ', /where %P ends and '%v'/],
    ['%p1 ', /where %p ends and '1 ' begins/],
    ['%tx', /where %t ends and 'x'/],
    ['%m', /where %m ends and 'the message'/],
    ['%m%q %p', /where %m ends and 'the message'/],
    ['%cab', /where %c ends and 'ab'/],
    ['%c%e ', /where %c ends/],
    ['%u%d ', /where %u ends and '%d'/],
    ['%-10u%p ', /where %-10u ends and '%p'/],
    ['%u%q%p ', /where %u ends/],
    ['%p%a ', /where %p ends and '%a'/],
    ['%99999p ', /pads %99999p to more than/],
    ['x'.repeat(2000), /longer than 1000 bytes/],
  ];
  for (const [prefix, message] of wrong) {
    assert.throws(() => compileLinePrefix(prefix), { name: 'PgsluiceError', code: 'USAGE', message }, prefix);
  }
  for (const prefix of [
    '',
    '%m\t%p ',
    '%p',
    '%c',
    '%e%p ',
    '%n%p ',
    '%p%q',
    '%a',
    '%p%c'.slice(0, 2),
    '%t-%p ',
  ]) {
    assert.equal(compileLinePrefix(prefix).text, prefix);
  }
});

test('which field tells processes apart', () => {
  const cases = { '%m ': -1, '%m [%p] ': 3, '%c %p ': 3, '%c %q%p ': 5, '%q%p %c': 3, '%t %c ': 5 };
  for (const [prefix, key] of Object.entries(cases)) {
    const { hasProcess, processKey } = compileLinePrefix(prefix);
    assert.deepEqual([hasProcess, processKey], [key >= 0, key], prefix);
  }
});

test('a long line that nothing fits costs no more than its beginning', () => {
  const compiled = compileLinePrefix('%u,%d,%a,%h,%i ');
  const bytes = Buffer.from(', '.repeat(1 << 20));
  let asked = 0;
  const never = () => {
    asked += 1;
    return false;
  };
  assert.equal(compiled.match(bytes, 0, bytes.length, never), -1);
  assert.ok(asked <= 4096, `${asked}`);
});

test('[unknown] in the languages and encodings of PostgreSQL', () => {
  for (const hex of ['5b756e6b6e6f776e5d', '5bd0bd2fd0b45d', '5bed2fe45d', '5bce2fc45d', '5b6f6be46e645d']) {
    const bytes = Buffer.from(`78${hex}78`, 'hex');
    assert.equal(isUnknownName(bytes, 1, bytes.length - 1), true, hex);
    assert.equal(isUnknownName(bytes, 1, bytes.length), false);
    assert.equal(isUnknownName(bytes, 0, bytes.length - 1), false);
  }
  for (const name of ['', '[', '[]', 'unknown', '[unknowm]', '[unknown', '[unknown]]', '[local]']) {
    assert.equal(isUnknownName(Buffer.from(name), 0, name.length), false, name);
  }
});

test('connection_from', () => {
  for (const [written, expected] of [
    ['10.0.0.7(50123)', '10.0.0.7:50123'],
    ['::1(5432)', '::1:5432'],
    ['[local]', '[local]'],
    ['db.example.org', 'db.example.org'],
    ['host(x)', 'host(x)'],
    ['host()', 'host()'],
    ['(1)', ':1'],
    [')', ')'],
    ['12)', '12)'],
    ['', ''],
  ]) {
    const bytes = Buffer.from(`((${written}1)`);
    const into = Buffer.alloc(40, '#');
    const end = writeConnectionFrom(bytes, 2, bytes.length - 2, into, 3);
    assert.equal(into.toString('latin1', 3, end), expected);
    assert.equal(into.toString('latin1', end), '#'.repeat(40 - end));
  }
});

test('an @ that would end the line at %q is no part of a user, whom only a session has', () => {
  const values = { ...VALUES, u: 'a', i: 'SELECT' };
  check('%u@%q%t %i@', values, { u: 'a', t: VALUES['t'] ?? '', i: 'SELECT' });
});
