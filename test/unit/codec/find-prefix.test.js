import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { findLinePrefix } from '../../../src/codec/find-prefix.js';
import { format } from './line-prefix-model.js';

/** @typedef {import('./line-prefix-model.js').Values} Values */

const LINES = 150;
const NAMES = [
  { user: 'alice', database: 'shop', app: 'psql' },
  { user: 'bob', database: 'crm', app: 'pgbench' },
  { user: 'carol', database: 'shop', app: 'my app' },
];

/**
 * A log of six processes that take turns, two of them without a client.
 * @param {string} prefix
 * @param {{ telling?: boolean, error?: string, log?: string, background?: number }} [options] telling: some messages
 *   name the session; background: so many of the processes serve no client
 * @returns {Buffer}
 */
function logOf(prefix, { telling = true, error = 'ERROR', log = 'LOG', background = 2 } = {}) {
  const processes = Array.from({ length: 6 }, (_, index) => ({
    pid: 900 + index * 57,
    lines: 0,
    isBackground: index < background,
    names: NAMES[index % 3] ?? { user: '', database: '', app: '' },
    host: index % 2 ? '10.0.0.7' : '[local]',
    start: Date.UTC(2026, 4, 1, 11, index),
  }));
  let now = Date.UTC(2026, 4, 1, 12);
  let out = '';
  for (let line = 0; line < LINES; line += 1) {
    const index = (line * line + (line >> 2)) % 6;
    const process = processes[index];
    assert.ok(process);
    process.lines += 1;
    now += 137 + (line % 7) * 211;
    const { pid, names, host, isBackground } = process;
    const time = new Date(now).toISOString().replace('T', ' ').slice(0, 23);
    const isError = line % 10 === 5;
    /** @type {Values} */
    const values = {
      a: names.app,
      u: names.user,
      d: names.database,
      r: host === '[local]' ? host : `${host}(${50_000 + pid})`,
      h: host,
      L: isBackground ? '[none]' : host === '[local]' ? host : '10.0.0.1',
      b: isBackground ? 'autovacuum worker' : 'client backend',
      p: String(pid),
      P: '',
      t: `${time.slice(0, 19)} UTC`,
      m: `${time} UTC`,
      n: (now / 1000).toFixed(3),
      i: line % 3 ? 'idle in transaction' : 'SELECT',
      e: isError ? '42P01' : '00000',
      Q: line % 4 ? '0' : `-61234567890${line}`,
      c: `${(process.start / 1000).toString(16)}.${pid.toString(16)}`,
      l: String(process.lines),
      s: new Date(process.start).toISOString().replace('T', ' ').slice(0, 19) + ' UTC',
      v: isBackground ? '' : `${index}/${line}`,
      x: line % 6 ? '0' : String(1000 + line),
    };
    const { user, database, app } = names;
    let message = `${log}:  statement: SELECT 'a@b', ' LOG:  x'`;
    if (isError) message = `${error}:  relation "x" does not exist`;
    else if (telling && !isBackground && line % 5 === 1)
      message = `${log}:  connection authorized: user=${user} database=${database} application_name=${app}`;
    out += `${format(prefix, values, isBackground)}${Buffer.from(message).toString('latin1')}\n`;
    if (line % 8 === 0) out += '\tFROM t LOG:  y\n';
  }
  return Buffer.from(out, 'latin1');
}

for (const prefix of [
  '',
  '%m [%p] ',
  '%t [%p] ',
  '%m [%p] %q%u@%d ',
  '%t [%p-%l] %q%u@%d ',
  '%t:%r:%u@%d:[%p]:',
  '%t:%r:%u@%d:[%p]: ',
  '%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:',
  '%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ',
  '%t [%p]: user=%u,db=%d,app=%a,client=%r ',
  '%m [%p]: [%l-1] db=%d,user=%u ',
  '%m [%p] %q[user=%u,db=%d,app=%a] ',
  // None of the usual ones.
  '%m %p %u %d %a ',
  '%m %p %d %u ',
  '%m [%p] %c %l %q%u@%d/%a %v %x %e ',
  '%m|%u|%d|%c|%v|%x|%e|%Q|',
  '%n %p %b ',
  '%n,%p,%l,%i,%b,%r,%L,',
  '%c %l %s %t ',
  '%s %m %p %t ',
  '%p %l ',
  '%Q,%x,%p,',
  '<%m> pid=%p xid=%x qid=%Q ',
  'host1: %m [%p] %i@%r ',
  'main/5432 %m [%p] ',
  '%m %5p:%-4l %b ',
  '%-10p %m %-12u ',
  '%%%m%%\t(%p) ',
  '[%m] {%p} app:%a;',
  'db1 ',
]) {
  test(JSON.stringify(prefix), () => {
    assert.deepEqual(findLinePrefix(logOf(prefix)), { text: prefix, matched: LINES, lines: LINES });
  });
}

test('severities of other languages', () => {
  for (const [log, error] of [
    ['СООБЩЕНИЕ', 'ОШИБКА'],
    ['LOG', 'FEHLER'],
    ['日志', '错误'],
  ]) {
    for (const prefix of ['%m [%p] %q%u@%d ', '%n,%p,%l,%b,%r,']) {
      assert.equal(findLinePrefix(logOf(prefix, { log, error }))?.text, prefix);
    }
  }
});

test('what messages say decides', () => {
  assert.equal(findLinePrefix(logOf('%m [%p] %q%d@%u '))?.text, '%m [%p] %q%d@%u ');
  assert.equal(findLinePrefix(logOf('%m [%p] user=%d,db=%u,app=%a '))?.text ?? null, null);
});

test('what is unknown and neither the user nor the database is the application', () => {
  const text = logOf('%m %p %u %d %a ')
    .toString('latin1')
    .replaceAll(/ application_name=.*$/gm, '');
  assert.equal(findLinePrefix(Buffer.from(text, 'latin1')), null);
  const unknown = text.replaceAll(' pgbench ', ' [unknown] ');
  assert.equal(findLinePrefix(Buffer.from(unknown, 'latin1'))?.text, '%m %p %u %d %a ');
});

test('null where the lines do not show what a value is', () => {
  for (const prefix of ['%m %p %u %d ', '%m %p %a|%d|', '%m %d/%u ', '%l ', '%m %l ']) {
    assert.equal(findLinePrefix(logOf(prefix, { telling: false })), null, prefix);
  }
  for (const text of [
    '',
    '\n\n',
    'nothing to see',
    '2026-05-01 12:00:00.000 UTC [1] hello\n',
    '{"timestamp":"2026-05-01"}\n',
    '2026-05-01 12:00:00.000 UTC,,,1,,69f4a1b0.1,1,,2026-05-01 12:00:00 UTC,,0,LOG,00000,"x",,,,,,,,,"","postmaster",,0\n',
    '\tLOG:  x\n',
    'CATALOG:  x\n',
    // The name of a server, or of the only user so far.
    'db1 LOG:  x\n'.repeat(5),
  ]) {
    assert.equal(findLinePrefix(Buffer.from(text)), null, JSON.stringify(text));
  }
});

test('a value is not made up for lines that have none of it', () => {
  // Only background processes wrote: what sessions print is not known.
  assert.equal(findLinePrefix(logOf('%m [%p] %q%u@%d ', { background: 6 }))?.text, '%m [%p] ');
  // A single line is enough where there is nothing to mistake.
  assert.equal(findLinePrefix(Buffer.from('2026-05-01 12:00:00.000 UTC [17] LOG:  x\n'))?.text, '%m [%p] ');
  assert.equal(findLinePrefix(Buffer.from('2026-05-01 12:00:00.000 UTC 17 LOG:  x\n')), null);
});

test('values that contradict each other', () => {
  const log = logOf('%m [%p] %c ').toString('latin1');
  assert.equal(findLinePrefix(Buffer.from(log, 'latin1'))?.text, '%m [%p] %c ');
  const other = log.replaceAll(/\[(\d+)\]/g, (_, pid) => `[${Number(pid) * 2}]`);
  assert.equal(findLinePrefix(Buffer.from(other, 'latin1')), null);
});

test('a few lines of others are no harm, many are', () => {
  const lines = logOf('%t [%p-%l] %q%u@%d ').toString('latin1').split('\n');
  lines.splice(50, 0, 'sh: LOG:  not from PostgreSQL', '', 'core dumped', 'x');
  assert.deepEqual(findLinePrefix(Buffer.from(lines.join('\n'), 'latin1')), {
    text: '%t [%p-%l] %q%u@%d ',
    matched: LINES,
    lines: LINES + 1,
  });
  // CATALOG:  is no LOG:  and so no message.
  const catalogs = lines.flatMap(line => [line, 'CATALOG:  x']).join('\n');
  assert.equal(findLinePrefix(Buffer.from(catalogs, 'latin1'))?.text, '%t [%p-%l] %q%u@%d ');
  const many = lines.map((line, index) => (index % 5 === 0 ? 'sh: LOG:  not from PostgreSQL' : line));
  assert.equal(findLinePrefix(Buffer.from(many.join('\n'), 'latin1')), null);
});

test('CR before the newline, a sample cut in a line, a huge sample', () => {
  const log = logOf('%m [%p] %q%u@%d ');
  const found = { text: '%m [%p] %q%u@%d ', matched: LINES, lines: LINES };
  const dos = Buffer.from(log.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
  assert.deepEqual(findLinePrefix(dos), found);
  assert.equal(findLinePrefix(log.subarray(0, 4000))?.text, found.text);
  assert.equal(findLinePrefix(Buffer.concat(Array.from({ length: 40 }, () => log)))?.text, found.text);
});

test('random bytes: nothing thrown', () => {
  const noise = fc.array(
    fc.constantFrom(
      'LOG:  ',
      'ERROR:  x',
      ' ',
      '\n',
      '\n',
      '[',
      ']',
      '@',
      '17',
      '2026-05-01 12:00:00',
      '.123',
      ' UTC',
      '%',
      '\t',
      '3/4',
      'a.b',
      'user=',
      '\u0000',
      'é',
      '-',
    ),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(
      fc.oneof(
        noise.map(parts => Buffer.from(parts.join(''))),
        fc.uint8Array({ maxLength: 200 }),
      ),
      bytes => {
        const found = findLinePrefix(Buffer.from(bytes));
        assert.ok(found === null || found.matched >= found.lines * 0.95);
      },
    ),
    { numRuns: 1000 },
  );
});
