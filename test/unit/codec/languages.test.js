/**
 * Severities, labels and positions of translated logs: lines as servers wrote them, and the data against models that
 * work on strings. test/integration/codec/languages.test.js asks a real server in every language it has.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { LABELS, POSITIONS } from '../../../src/codec/languages-data.js';
import {
  BACKTRACE,
  CONTEXT,
  DETAIL,
  HINT,
  labelAt,
  lengthOf,
  LOCATION,
  NONE,
  numberOf,
  positionNumber,
  QUERY,
  SEVERITY_WORDS,
  severityAt,
  severityTag,
  severityWord,
  splitPosition,
  STATEMENT,
} from '../../../src/codec/languages.js';

const ENGLISH = ['DEBUG', 'LOG', 'INFO', 'NOTICE', 'WARNING', 'ERROR', 'FATAL', 'PANIC'];
/** @type {Record<string, number>} */
const CODES = { DETAIL, HINT, QUERY, CONTEXT, LOCATION, STATEMENT, BACKTRACE };
const WORDS = SEVERITY_WORDS.slice(1);
/** Words of the list when it was first released, and the sha256 of "word=TAG" lines. */
const RELEASED = 83;
const RELEASED_SHA256 = 'cd0c148a130b45b1808f79c25243957561fc906137884341e878ed54ac7de085';

/**
 * The text in a larger buffer, between bytes that would go on with it if they were read.
 * @template T
 * @param {string} text
 * @param {(bytes: Buffer, at: number, end: number) => T} call
 * @param {{ before?: string, after?: string }} [around]
 * @returns {T}
 */
function within(text, call, { before = 'x ', after = ':  1)' } = {}) {
  const at = Buffer.byteLength(before);
  return call(Buffer.from(before + text + after), at, at + Buffer.byteLength(text));
}

/** @param {string} text */
const wordOf = text => within(text, severityWord);

/** @param {string} text @returns {[number: number, rest: string] | undefined} */
function severityOf(text) {
  const found = within(text, severityAt);
  return found === -1 ? undefined : [numberOf(found), Buffer.from(text).subarray(lengthOf(found)).toString()];
}

/** @param {string} text @returns {[code: number, rest: string] | undefined} */
function labelOf(text) {
  const found = within(text, labelAt);
  return found === NONE
    ? undefined
    : [numberOf(found), Buffer.from(text).subarray(lengthOf(found)).toString()];
}

/** @param {string} text @param {string} [before] @returns {[text: string, position: number] | undefined} */
function positionOf(text, before) {
  return within(
    text,
    (bytes, at, end) => {
      const textEnd = splitPosition(bytes, at, end);
      if (textEnd === -1) return undefined;
      return [bytes.toString('utf8', at, textEnd), positionNumber(bytes, textEnd, end)];
    },
    before === undefined ? {} : { before },
  );
}

test('the words that rows refer to keep their numbers', () => {
  const released = WORDS.slice(0, RELEASED).map(({ word, tag }) => `${word}=${tag}`);
  assert.equal(released.length, RELEASED);
  assert.equal(createHash('sha256').update(released.join('\n')).digest('hex'), RELEASED_SHA256);
  for (const [number, word, tag] of /** @type {const} */ ([
    [3, 'FEHLER', 'ERROR'],
    [46, 'ОШИБКА', 'ERROR'],
    [83, '危急', 'PANIC'],
  ])) {
    assert.equal(wordOf(word), number);
    assert.equal(severityTag(number).toString(), tag);
  }
});

test('English tags need no number', () => {
  for (const tag of ENGLISH) {
    assert.equal(wordOf(tag), 0);
    assert.deepEqual(severityOf(`${tag}:  relation "x" does not exist`), [0, 'relation "x" does not exist']);
  }
  assert.throws(() => severityTag(0), RangeError);
  assert.throws(() => severityTag(SEVERITY_WORDS.length), RangeError);
  assert.throws(() => severityTag(-1), RangeError);
});

test('a translated severity is known by all of its bytes', () => {
  for (const [text, tag] of /** @type {const} */ ([
    ['WARNUNG', 'WARNING'],
    ['ERREUR', 'ERROR'],
    ['ERRO', 'ERROR'],
    ['FATALE', 'FATAL'],
    ['FATALT', 'FATAL'],
    ['NOT', 'NOTICE'],
    ['HATA (ERROR)', 'ERROR'],
    ['ПРЕДУПРЕЖДЕНИЕ', 'WARNING'],
    ['エラー', undefined],
    ['错误', 'ERROR'],
    ['치명적오류', 'FATAL'],
    // Georgian has it for NOTICE as well.
    ['გაფრთხილება', 'WARNING'],
    ['ОШИБК', undefined],
    ['ОШИБКАА', undefined],
    ['Fehler', undefined],
    ['DEBUG1', undefined],
    ['LO', undefined],
    ['LOGGG', undefined],
    ['', undefined],
    [' LOG', undefined],
    ['LOG ', undefined],
    ['\0', undefined],
  ])) {
    const number = wordOf(text);
    assert.equal(number > 0 ? severityTag(number).toString() : undefined, tag, text);
    if (tag === undefined) assert.equal(number, -1, text);
  }
});

test('a line begins with a severity only if a colon and two spaces follow it', () => {
  assert.deepEqual(severityOf('FEHLER:  Division durch Null'), [3, 'Division durch Null']);
  assert.deepEqual(severityOf('HATA (ERROR):  sıfıra bölme'), [wordOf('HATA (ERROR)'), 'sıfıra bölme']);
  assert.deepEqual(severityOf('LOG:  '), [0, '']);
  for (const line of [
    'LOG: x',
    'LOG',
    'LOG:',
    'LOG: ',
    'LOGS:  x',
    'log:  x',
    ' LOG:  x',
    'DETAIL:  x',
    '',
  ]) {
    assert.equal(severityOf(line), undefined, line);
  }
});

test('labels of all languages, with the spaces that PostgreSQL prints', () => {
  for (const [line, code, rest] of /** @type {const} */ ([
    ['DETAIL:  a', DETAIL, 'a'],
    ['HINT:  a', HINT, 'a'],
    ['QUERY:  a', QUERY, 'a'],
    ['CONTEXT:  a', CONTEXT, 'a'],
    ['LOCATION:  exec_stmt, pl_exec.c:3', LOCATION, 'exec_stmt, pl_exec.c:3'],
    ['STATEMENT:  a', STATEMENT, 'a'],
    ['BACKTRACE:  a', BACKTRACE, 'a'],
    ['ПОДСКАЗКА:    a', HINT, '  a'],
    ['ПОЛОЖЕНИЕ: main, main.c:1', LOCATION, 'main, main.c:1'],
    ["PILE D'APPEL : a", BACKTRACE, 'a'],
    ['ASTUCE :  a', HINT, 'a'],
    ['AYRINTI:a', DETAIL, 'a'],
    ['AYRINTI:  a', DETAIL, 'a'],
    ['AYRINTI: a', DETAIL, ' a'],
    ['YER: f', LOCATION, 'f'],
    ['YER:  f', LOCATION, 'f'],
    ['쿼리:SELECT', QUERY, 'SELECT'],
    ['მდებარეობა:   f', LOCATION, 'f'],
    ['詳細：a', DETAIL, 'a'],
    ['詳細: a', DETAIL, 'a'],
    ['詳細:  a', DETAIL, 'a'],
    ['STATEMENT:  ', STATEMENT, ''],
  ])) {
    assert.deepEqual(labelOf(line), [code, rest], line);
  }
  for (const line of [
    'DETAIL: a',
    'DETAIL',
    'DETAIL:',
    'DETAIL: ',
    'Detail:  a',
    'ERROR:  a',
    'DETAILS:  a',
    '',
  ]) {
    assert.equal(labelOf(line), undefined, line);
  }
});

test('positions of all languages', () => {
  for (const [message, text, position] of /** @type {const} */ ([
    ['syntax error at end of input at character 8', 'syntax error at end of input', 8],
    ['Syntaxfehler bei Zeichen 2147483647', 'Syntaxfehler', 2147483647],
    ['столбец "x" не существует (символ 8)', 'столбец "x" не существует', 8],
    ['列"x"は存在しません(17文字目)', '列"x"は存在しません', 17],
    ['列"x"は存在しません(文字位置 17)', '列"x"は存在しません', 17],
    ['字段 "x" 不存在 第 8 个字符处', '字段 "x" 不存在', 8],
    ['欄位"x"不存在於字元8', '欄位"x"不存在', 8],
    ['"x" 칼럼 없음 8 번째 문자 부근', '"x" 칼럼 없음', 8],
    ['"x" kolonu mevcut değil 8 karakterinde ', '"x" kolonu mevcut değil', 8],
    ['a at character 1 at character 2', 'a at character 1', 2],
    [' at character 1', '', 1],
    ['a\n b at character 1', 'a\n b', 1],
  ])) {
    assert.deepEqual(positionOf(message), [text, position], message);
  }
  for (const message of [
    'at character 1',
    'x at character ',
    'x at character 0',
    'x at character 01',
    'x at character -1',
    'x at character 1 ',
    'x at character 2147483648',
    'x at character 12345678901',
    'x at Character 1',
    'x (символ 1',
    'x (символ )',
    'x(文字目)',
    '7',
    ')',
    ' karakterinde ',
    '',
  ]) {
    assert.equal(positionOf(message), undefined, message);
  }
  // What lies before the message is another record's.
  assert.equal(positionOf('character 5', 'x at '), undefined);
  assert.equal(positionOf('5', 'x at character '), undefined);
  assert.equal(positionOf('', 'x at character 5'), undefined);
});

test('no word, label or line has two meanings', () => {
  assert.equal(new Set(WORDS.map(({ word }) => word)).size, WORDS.length);
  for (const { word, tag } of WORDS) {
    assert.ok(ENGLISH.includes(tag), word);
    assert.ok(!ENGLISH.includes(word), word);
    assert.ok(Buffer.byteLength(`${word}:  `) < 256, word);
    assert.equal(labelOf(`${word}:  text`), undefined, word);
  }
  assert.ok(WORDS.length < 2 ** 16, 'marks has 16 bits for the number');
  const meanings = new Map(Object.keys(CODES).map(label => [`${label}:  `, label]));
  for (const [text, label] of LABELS) {
    assert.equal(meanings.get(text) ?? label, label, text);
    meanings.set(text, label);
    assert.ok(label in CODES && Buffer.byteLength(text) < 256 && /[:：] *$/.test(text), text);
    assert.equal(severityOf(`${text}  text`), undefined, text);
  }
  // A label that begins with another one must mean the same: which of them is meant depends on the text after it.
  for (const [text, label] of meanings) {
    for (const [other, meaning] of meanings) if (text.startsWith(other)) assert.equal(meaning, label, text);
  }
  for (const [before, after] of POSITIONS) assert.doesNotMatch(before + after, /\d/);
});

test('severities are those of the list, whatever surrounds them', () => {
  const numbers = new Map([...ENGLISH.map(tag => /** @type {const} */ ([tag, 0])), ...WORDS.map(numbered)]);
  const known = fc.constantFrom(...numbers.keys());
  const line = fc.oneof(
    known,
    fc.tuple(known, fc.constantFrom('', 'A', ' ', ':', ':  ')).map(parts => parts.join('')),
    fc.tuple(known, fc.nat(12)).map(([word, length]) => word.slice(0, length)),
    fc.string({ unit: 'grapheme', maxLength: 12 }),
  );
  fc.assert(
    fc.property(line, fc.string(), fc.string(), (text, before, after) => {
      assert.equal(within(text, severityWord, { before, after }), numbers.get(text) ?? -1);
      const word = [...numbers.keys()].find(other => text.startsWith(`${other}:  `));
      const found = within(text, severityAt, { before, after });
      const expected = word === undefined ? -1 : (numbers.get(word) ?? 0);
      assert.equal(found === -1 ? -1 : numberOf(found), expected);
      if (word !== undefined) assert.equal(lengthOf(found), Buffer.byteLength(`${word}:  `));
    }),
    { numRuns: 2000 },
  );
});

test('the longest label that a line begins with is found', () => {
  const labels = [...Object.keys(CODES).map(label => [`${label}:  `, label]), ...LABELS];
  const known = fc.constantFrom(...labels.map(([text = '']) => text));
  const line = fc.oneof(
    fc.tuple(known, fc.constantFrom('', ' ', '  ', 'a')).map(parts => parts.join('')),
    fc.tuple(known, fc.nat(16)).map(([text, length]) => text.slice(0, length)),
    fc.string({ unit: 'grapheme', maxLength: 12 }),
  );
  fc.assert(
    fc.property(line, text => {
      const [longest] = labels
        .filter(([label = '']) => text.startsWith(label))
        .toSorted((a, b) => (b[0] ?? '').length - (a[0] ?? '').length);
      const expected = longest && [CODES[longest[1] ?? ''], text.slice(longest[0]?.length)];
      assert.deepEqual(labelOf(text), expected);
    }),
    { numRuns: 2000 },
  );
});

test('a position is split off wherever an expression finds one', () => {
  const patterns = [[' at character ', ''], ...POSITIONS].map(
    ([before = '', after = '']) => new RegExp(`^([^]*)${escaped(before)}([1-9]\\d{0,9})${escaped(after)}$`),
  );
  const pieces = [[' at character ', ''], ...POSITIONS].map(([before = '', after = '']) => [before, after]);
  const piece = fc.constantFrom(...pieces.flat(), ' ', '(', ')', 'x');
  const message = fc
    .tuple(fc.string({ unit: 'grapheme', maxLength: 6 }), piece, fc.nat(3_000_000_000), piece)
    .map(([text, before, number, after]) => text + before + number + after);
  const matching = fc
    .tuple(fc.string({ unit: 'grapheme', maxLength: 6 }), fc.constantFrom(...pieces), fc.nat(3_000_000_000))
    .map(([text, [before, after], number]) => `${text}${before}${number}${after}`);
  fc.assert(
    fc.property(fc.oneof(message, matching), text => {
      const found = patterns
        .map(pattern => pattern.exec(text))
        .filter(match => match !== null && Number(match[2]) < 2 ** 31)
        .map(match => [match?.[1] ?? '', Number(match?.[2])])
        .toSorted((a, b) => String(a[0]).length - String(b[0]).length);
      assert.deepEqual(positionOf(text, ''), found[0]);
    }),
    { numRuns: 3000 },
  );
});

test('bytes that are no text at all are nothing', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat(40), (bytes, from) => {
      const at = Math.min(from, bytes.length);
      for (const call of [severityWord, severityAt, splitPosition]) {
        assert.ok(Number.isInteger(call(bytes, at, bytes.length)));
      }
      assert.ok(labelAt(bytes, at, bytes.length) >= NONE);
    }),
    { numRuns: 2000 },
  );
});

/** @param {{ word: string }} entry @param {number} index @returns {[word: string, number: number]} */
function numbered({ word }, index) {
  return [word, index + 1];
}

/** @param {string} text @returns {string} an expression that matches it */
function escaped(text) {
  return text.replaceAll(/[()]/g, String.raw`\$&`);
}
