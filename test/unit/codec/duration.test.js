/**
 * The time of a statement in messages of all languages, as servers write them, and against an expression over strings.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readDuration } from '../../../src/codec/duration.js';
import { DURATIONS } from '../../../src/codec/languages-data.js';

/**
 * @param {string} message
 * @param {{ before?: string, after?: string }} [around] bytes in the same buffer that are not the message's
 */
function durationOf(message, { before = '', after = '' } = {}) {
  const at = Buffer.byteLength(before);
  return readDuration(Buffer.from(before + message + after), at, at + Buffer.byteLength(message));
}

test('every message with the time of a statement', () => {
  for (const [message, duration] of /** @type {const} */ ([
    ['duration: 12.345 ms', 12.345],
    ['duration: 0.001 ms  statement: x', 0.001],
    ['duration: 0.021 ms  parse <unnamed>: SELECT $1', 0.021],
    ['duration: 0.021 ms  bind s1/c1: SELECT $1', 0.021],
    ['duration: 0.021 ms  execute fetch from s1/c1: SELECT $1', 0.021],
    ['duration: 0.021 ms  fastpath function call: "lo_open" (OID 952)', 0.021],
    ['duration: 3.000 ms  plan:\nQuery Text: SELECT 1;', 3],
    ['duration: 7 ms', 7],
    ['duration: 0 ms', 0],
    ['duration: 123456789012.123 ms', 123456789012.123],
    ['duration: 1234567890123456789.125 ms', Number('1234567890123456789.125')],
    ['duration: 12345678901234567890 ms', Number('12345678901234567890')],
    ['Dauer: 1.500 ms  Parsen <unnamed>: SELECT', 1.5],
    ['duración: 1.500 ms  sentencia: SELECT', 1.5],
    ['durée : 1.500 ms, instruction : SELECT', 1.5],
    ['durata: 1.500 ms  istruzione: SELECT', 1.5],
    ['duração: 1.500 ms  comando: SELECT', 1.5],
    ['durasi: 1.500 ms, perintah: SELECT', 1.5],
    ['czas trwania: 1.500 ms', 1.5],
    ['varaktighet 1.500 ms', 1.5],
    ['varaktighet: 1.500 ms  sats: SELECT', 1.5],
    ['süre: 1.500 milisaniye  komut: SELECT', 1.5],
    ['süre: 1.500 ms  execute x: SELECT', 1.5],
    ['продолжительность: 1.500 мс, оператор: SELECT', 1.5],
    ['продолжительность: 1.500 мс  выполнение <unnamed>: SELECT', 1.5],
    ['продолжительность 1.500 мс, вызов функции (через fastpath): "lo_open" (OID 952)', 1.5],
    ['тривалість: 1.500 мс', 1.5],
    ['期間: 1.500 ミリ秒  文: SELECT', 1.5],
    ['期間: 1.500ミリ秒 ファストパス関数呼び出し: "lo_open" (OID 952)', 1.5],
    ['ხანგრძლივობა: 1.500 მწმ', 1.5],
    ['ხანგრძლივობა: 1.500 მწმs  execute x: SELECT', 1.5],
    ['실행시간: 1.500 ms  명령 구문: SELECT', 1.5],
    ['수행시간: 1.500 ms  실행 x: SELECT', 1.5],
    ['执行时间: 1.500 ms 语句: SELECT', 1.5],
    ['持续时间: 1.500 ms  快速路经的函数调用: "lo_open" (OID 952)', 1.5],
  ])) {
    assert.equal(durationOf(message), duration, message);
    assert.equal(durationOf(message, { before: 'duration: 9', after: '9.9 ms' }), duration, message);
  }
});

test('what only looks like it has no time', () => {
  for (const message of [
    'duration: .5 ms',
    'duration: 5. ms',
    'duration: 5.5 s',
    'duration: 5.5 m',
    'duration: 5.5  ms',
    'duration: 5.5ms',
    'duration: 5 msx',
    'duration: 5 ms.',
    'duration: 5 мс',
    'duration: -5 ms',
    'duration: 5,5 ms',
    'duration: 1.2.3 ms',
    'duration: 1e3 ms',
    'duration: ',
    'duration:  1 ms',
    'duration 1 ms',
    'Duration: 1.5 ms',
    'the duration: 1.5 ms',
    'durations: 1.5 ms',
    'dura',
    'd',
    '',
    'Dauer: 1.500 мс',
    'Dauer: ms',
    'Dauer:1.500 ms',
    'dauer: 1.500 ms',
    'продолжительность: 1.500 ms',
    'продолжительность: 1.500 мсек',
    'ხანგრძლივობა: 1.500 მწმss',
    'süre: 1.500 milisaniyedir',
    '期間: 1.500 秒',
    'checkpoint complete: wrote 5 buffers (0.0%); write=1.500 s',
    'process 17 still waiting for ShareLock on transaction 5 after 1000.123 ms',
  ]) {
    assert.ok(Number.isNaN(durationOf(message)), message);
    assert.ok(Number.isNaN(durationOf(message, { before: 'duration: 1', after: '1 ms' })), message);
  }
});

test('bytes after the end do not complete a message', () => {
  for (const message of ['duration: 12.345 ms', 'продолжительность: 12.345 мс', '期間: 12.345 ミリ秒']) {
    // As a longer message before it may have left them.
    const bytes = Buffer.from(`${message}  statement: x`);
    const { length } = Buffer.from(message);
    for (let end = 0; end < length; end += 1) {
      assert.ok(Number.isNaN(readDuration(bytes, 0, end)), `${end} bytes of ${message}`);
    }
    assert.equal(readDuration(bytes, 0, length), 12.345);
  }
});

test('the value is the double nearest to the text', () => {
  const prefixes = fc.constantFrom(['duration: ', ' ms'], ...DURATIONS);
  const digits = fc.string({
    unit: fc.constantFrom('0', '1', '2', '3', '4', '5', '6', '7', '8', '9'),
    minLength: 1,
    maxLength: 12,
  });
  fc.assert(
    fc.property(prefixes, digits, fc.option(digits, { nil: '' }), ([prefix, unit], whole, fraction) => {
      const text = fraction === '' ? whole : `${whole}.${fraction}`;
      assert.equal(durationOf(`${prefix}${text}${unit}`), Number(text));
    }),
    { numRuns: 3000 },
  );
});

test('a message has a time when an expression says so', () => {
  const all = [['duration: ', ' ms'], ...DURATIONS].map(([prefix = '', unit = '']) => [prefix, unit]);
  // None of the texts has a character that means something in an expression.
  for (const part of all.flat()) assert.doesNotMatch(part, /[^\p{L}\p{M}: ]/u);
  const alternatives = all.map(parts => parts.join(String.raw`(\d+(?:\.\d+)?)`)).join('|');
  const expression = new RegExp(`^(?:${alternatives})(?:[ ,]|$)`);
  const message = fc
    .tuple(
      fc.constantFrom(...all.map(([prefix]) => prefix), 'dura', 'd', '', 'statement: '),
      fc.constantFrom('1', '0.123', '12.5', '.5', '5.', '', ' 1', '1 '),
      fc.constantFrom(...all.map(([, unit]) => unit), '', ' ', ' m', 'ms'),
      fc.constantFrom('', ' ', '  x', ', x', 's', 'x', '.', '\n'),
    )
    .map(parts => parts.join(''));
  fc.assert(
    fc.property(message, fc.string(), fc.string(), (text, before, after) => {
      const time = expression.exec(text)?.slice(1).find(Boolean);
      assert.equal(durationOf(text, { before, after }), time === undefined ? NaN : Number(time), text);
    }),
    { numRuns: 5000 },
  );
});

test('random bytes never throw', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 60 }),
      fc.constantFrom('', 'duration: ', 'Dauer: '),
      (bytes, prefix) => {
        const value = readDuration(
          Buffer.concat([Buffer.from(prefix), bytes]),
          0,
          prefix.length + bytes.length,
        );
        assert.ok(Number.isNaN(value) || value >= 0);
      },
    ),
  );
});
