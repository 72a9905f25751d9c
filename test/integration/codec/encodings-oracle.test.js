// PostgreSQL's own convert() says what every sequence of every encoding means; a decoder must say the same.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { ENCODING_NAMES, encodingNamed } from '../../../src/codec/encodings.js';
import { startPostgres } from '../../helpers/postgres.js';

/** Between answers, and for a sequence that is refused: no bytes of UTF-8. */
const END = 0xfe;
const REFUSED = Buffer.from([0xff]);

const FUNCTIONS = `
CREATE FUNCTION utf8_of(sequence bytea, encoding text) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
  RETURN convert(sequence, encoding, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN NULL;
END $$;
CREATE FUNCTION mule_to(encoding text, sequence bytea) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
  RETURN convert(convert(sequence, 'MULE_INTERNAL', encoding), encoding, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN NULL;
END $$;
CREATE FUNCTION encodable(text text, encoding text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN convert_to(text, encoding) IS NOT NULL;
EXCEPTION WHEN untranslatable_character THEN
  RETURN false;
END $$`;

/** PostgreSQL's encodings of one byte a character, and those of more: pg_encoding_max_length() is compared below. */
const MULTIBYTE =
  'EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 SJIS BIG5 GBK UHC GB18030 JOHAB SHIFT_JIS_2004 MULE_INTERNAL'.split(
    ' ',
  );
const NO_DECODER = ['SQL_ASCII', 'UTF8'];
const SINGLE_BYTE = ENCODING_NAMES.filter(name => ![...MULTIBYTE, ...NO_DECODER].includes(name));

/** @type {import('../../helpers/postgres.js').TestPostgres} */
let postgres;
/** @type {Client} */
let client;

before(async () => {
  postgres = await startPostgres();
  client = new Client(postgres.connectionOptions);
  await client.connect();
  await client.query(FUNCTIONS);
});

after(async () => {
  await client?.end();
  await postgres?.stop();
});

/**
 * Asks for many sequences at once and compares answer by answer.
 * @param {string} encoding
 * @param {number} count
 * @param {string} sql the bytes of sequence k
 * @param {(k: number) => readonly number[]} bytesOf the same here
 * @param {string} [answer] SQL: what becomes of `sequence`
 * @returns {Promise<number>} how many have a meaning
 */
async function compare(encoding, count, sql, bytesOf, answer = `utf8_of(sequence, '${encoding}')`) {
  const decode = encodingNamed(encoding)?.decode;
  assert.ok(decode, encoding);
  const { rows } = await client.query(
    `SELECT string_agg(coalesce(${answer}, '\\xff') || '\\xfe'::bytea, ''::bytea ORDER BY k) AS answers
     FROM (SELECT k, ${sql} AS sequence FROM generate_series(0, ${count - 1}) k) s`,
  );
  /** @type {Buffer} */
  const answers = rows[0].answers;
  let at = 0;
  let meant = 0;
  for (let k = 0; k < count; k += 1) {
    const end = answers.indexOf(END, at);
    const sequence = Buffer.from(bytesOf(k));
    /** @type {Buffer} */
    const ours = decode(sequence) ?? REFUSED;
    // Not assert.equal: there are millions of them.
    if (end < 0 || answers.compare(ours, 0, ours.length, at, end) !== 0) {
      assert.fail(
        `${encoding} ${sequence.toString('hex')}: ${ours.toString('hex')}, PostgreSQL ${answers.toString('hex', at, end)}`,
      );
    }
    if (ours !== REFUSED) meant += 1;
    at = end + 1;
  }
  assert.equal(at, answers.length);
  return meant;
}

/** Two bytes, the first with the highest bit: all 32768 of them behind a prefix. @param {number[]} prefix */
const pairsAfter = prefix =>
  /** @type {const} */ ([
    0x8000,
    `'\\x${Buffer.from(prefix).toString('hex')}'::bytea || substr(int4send(32768 + k), 3)`,
    (/** @type {number} */ k) => [...prefix, 0x80 | (k >> 8), k & 0xff],
  ]);

test('names, aliases and lengths are those of PostgreSQL', async () => {
  const { rows } = await client.query(
    `SELECT pg_encoding_to_char(n) AS name, pg_encoding_max_length(n) AS bytes
     FROM generate_series(0, 255) n WHERE pg_encoding_to_char(n) <> ''`,
  );
  assert.deepEqual(new Set(rows.map(row => row.name)), new Set(ENCODING_NAMES));
  for (const { name, bytes } of rows)
    assert.equal(bytes > 1, MULTIBYTE.includes(name) || name === 'UTF8', name);

  // Whatever might be taken for a name: all that PostgreSQL knows must be known here, and nothing else.
  const words = ENCODING_NAMES.flatMap(name => [
    name,
    name.toLowerCase(),
    name.replaceAll(/[^A-Z0-9]/g, '-'),
    name.replaceAll(/(?=\d)/g, ' '),
    name.replace('WIN', 'windows-'),
    name.replace('WIN', 'CP'),
  ]);
  for (let part = 0; part <= 16; part += 1) words.push(`ISO-8859-${part}`, `iso8859${part}`, `latin ${part}`);
  words.push(
    ...'ABC ALT KOI8 KOI8-R Mskanji ShiftJIS shift_jis TCVN TCVN5712 Unicode UTF-8 VSCII WIN win_ WIN932 WIN936'.split(
      ' ',
    ),
    ...'WIN949 WIN950 Windows932 Windows936 Windows949 Windows950 windows-866 IBM866 euc EUC-KR GB2312 ascii'.split(
      ' ',
    ),
    ...'US-ASCII C POSIX binary utf16 utf8mb4 big5-hkscs win1259 windows1249'.split(' '),
    'win\u00e9',
    '',
    ' ',
    '--',
  );
  const known = await client.query(
    'SELECT pg_encoding_to_char(pg_char_to_encoding(word)) AS name FROM unnest($1::text[]) WITH ORDINALITY u(word, i) ORDER BY i',
    [words],
  );
  assert.equal(known.rows.length, words.length);
  for (const [index, word] of words.entries())
    assert.equal(encodingNamed(word)?.name ?? '', known.rows[index].name, word);
});

test('every byte of every encoding', async () => {
  const meant = new Map();
  for (const name of [...SINGLE_BYTE, ...MULTIBYTE.filter(name => name !== 'MULE_INTERNAL')])
    meant.set(name, await compare(name, 256, 'substr(int4send(k), 4)', k => [k]));
  assert.ok(SINGLE_BYTE.length === 27);
  // NUL never; 0x98 not in WIN1251.
  assert.equal(meant.get('LATIN1'), 255);
  assert.equal(meant.get('WIN1251'), 254);
  assert.equal(meant.get('SJIS'), 127 + 63);
});

for (const name of MULTIBYTE.filter(other => other !== 'MULE_INTERNAL')) {
  test(`${name}: every pair of bytes`, async () => {
    assert.ok((await compare(name, ...pairsAfter([]))) > 5000);
  });
}

for (const name of ['EUC_JP', 'EUC_JIS_2004', 'EUC_CN', 'EUC_KR', 'EUC_TW', 'JOHAB']) {
  test(`${name}: three bytes after SS2 and SS3`, async () => {
    await compare(name, ...pairsAfter([0x8e]));
    const meant = await compare(name, ...pairsAfter([0x8f]));
    assert.equal(meant > 0, name.startsWith('EUC_J'));
  });
}

test('EUC_TW: every plane', async () => {
  let meant = 0;
  for (let plane = 0xa0; plane <= 0xa9; plane += 1)
    meant += await compare('EUC_TW', ...pairsAfter([0x8e, plane]));
  assert.ok(meant > 10_000);
});

test('GB18030: every sequence of four bytes', async () => {
  const bytesOf = (/** @type {number} */ k) => [
    0x81 + Math.floor(k / 12_600),
    0x30 + (Math.floor(k / 1260) % 10),
    0x81 + (Math.floor(k / 10) % 126),
    0x30 + (k % 10),
  ];
  const sql = `substr(int4send((129 + k / 12600) * 256 + 48 + k / 1260 % 10), 3)
    || substr(int4send((129 + k / 10 % 126) * 256 + 48 + k % 10), 3)`;
  // The 1 048 576 code points beyond the first plane, and 39 420 of that.
  assert.equal(await compare('GB18030', 126 * 10 * 126 * 10, sql, bytesOf), 1_087_996);
});

/** The encodings that mule-internal.js names: no two of them know the same first byte. */
const viaBases = (/** @type {string[]} */ bases) =>
  `coalesce(${bases.map(base => `mule_to('${base}', sequence)`).join(', ')})`;
const EUC = ['EUC_JP', 'EUC_CN', 'EUC_KR', 'EUC_TW'];

test('MULE_INTERNAL: every character of two bytes', async () => {
  const bases = ['LATIN1', 'LATIN2', 'LATIN3', 'LATIN4', 'KOI8R', ...EUC];
  assert.equal(await compare('MULE_INTERNAL', ...pairsAfter([]), viaBases(bases)), 128 * 4 + 121 + 63);
});

test('MULE_INTERNAL: every character of three bytes', async () => {
  let meant = 0;
  for (let lead = 0x90; lead <= 0x9b; lead += 1) {
    meant += await compare(
      'MULE_INTERNAL',
      1 << 14,
      `'\\x${lead.toString(16)}'::bytea || substr(int4send(32896 + (k >> 7) * 256 + (k & 127)), 3)`,
      k => [lead, 0x80 | (k >> 7), 0x80 | (k & 0x7f)],
      viaBases(EUC),
    );
  }
  assert.ok(meant > 40_000);
  await compare('MULE_INTERNAL', ...pairsAfter([0x92]), viaBases(['EUC_JP']));
});

test('MULE_INTERNAL: four bytes mean nothing', async () => {
  for (const plane of [0xf6, 0xf7, 0xfa])
    assert.equal(await compare('MULE_INTERNAL', ...pairsAfter([0x9d, plane]), viaBases(['EUC_TW'])), 0);
});

test('whole texts: characters side by side, damaged ones, cut ones', async () => {
  // A linear congruential generator (Numerical Recipes): the same texts in every run.
  let state = 20_260_101;
  const random = (/** @type {number} */ below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  let refused = 0;
  let taken = 0;
  for (const name of [...SINGLE_BYTE, ...MULTIBYTE.filter(other => other !== 'MULE_INTERNAL')]) {
    // Texts that PostgreSQL makes of characters that exist in the encoding, longer and longer.
    const { rows } = await client.query(
      `SELECT string_agg(chr(c), '' ORDER BY c) AS all_of_them
       FROM generate_series(1, 55295) c WHERE (c < 1200 OR c % 11 = 0) AND encodable(chr(c), $1)`,
      [name],
    );
    const characters = [...rows[0].all_of_them];
    const texts = Array.from({ length: 40 }, (_, index) =>
      Array.from({ length: index * 3 }, () =>
        random(3) === 0 ? characters[random(characters.length)] : 'ascii, text'[random(11)],
      ).join(''),
    );
    const encoded = await client.query(
      'SELECT convert_to(text, $2) AS bytes FROM unnest($1::text[]) WITH ORDINALITY u(text, i) ORDER BY i',
      [texts, name],
    );
    const samples = encoded.rows.flatMap(({ bytes }) => {
      const damaged = Buffer.from(bytes);
      if (damaged.length > 0) damaged[random(damaged.length)] = random(256);
      return [bytes, damaged, bytes.subarray(0, random(bytes.length + 1))];
    });
    const answers = await client.query(
      'SELECT utf8_of(bytes, $2) AS text FROM unnest($1::bytea[]) WITH ORDINALITY u(bytes, i) ORDER BY i',
      [samples, name],
    );
    const decode = encodingNamed(name)?.decode;
    assert.ok(decode);
    for (const [index, sample] of samples.entries()) {
      const expected = answers.rows[index].text;
      const ours = decode(sample);
      assert.deepEqual(ours?.toString('hex'), expected?.toString('hex'), `${name} ${sample.toString('hex')}`);
      if (expected === null) refused += 1;
      else taken += 1;
    }
  }
  assert.ok(refused > 200 && taken > 3000, `${refused} refused, ${taken} taken`);
});
