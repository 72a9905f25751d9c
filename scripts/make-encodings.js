/**
 * node scripts/make-encodings.js [embedded|system|DIRECTORY OF BINARIES]
 * Writes src/codec/encodings/tables.bin (its format: tables.js there) from what a real PostgreSQL converts: it starts
 * one and asks what every sequence of every encoding is in UTF8, which takes some ten seconds. The same Node writes the
 * same bytes, and the servers of PostgreSQL 13, 15 and 18 do not differ; another brotli may pack the same content
 * into other bytes.
 */
import { writeFileSync } from 'node:fs';
import { brotliCompressSync, constants } from 'node:zlib';
import { Client } from 'pg';
import { startPostgres } from '../test/helpers/postgres.js';

const TARGET = new URL('../src/codec/encodings/tables.bin', import.meta.url);

/** convert() cannot do them; src/codec/encodings.js says what becomes of them. */
const WITHOUT_TABLES = new Set(['SQL_ASCII', 'UTF8', 'MULE_INTERNAL']);

/** Marks in the answers; neither byte is part of UTF-8. */
const REFUSED = '\xff';
const END = '\xfe';

const FUNCTION = `CREATE FUNCTION pg_temp.utf8_of(sequence bytea, encoding text) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
  RETURN convert(sequence, encoding, 'UTF8') || '\\xfe'::bytea;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN '\\xfffe'::bytea;
END $$`;

/**
 * @typedef {object} Section
 * @property {number} bytes in each sequence
 * @property {number} count of indexes
 * @property {string} sequence SQL: the bytes of the sequence with the index k
 */

/** @type {Section} */
const ONE_BYTE = { bytes: 1, count: 0x80, sequence: 'substr(int4send(128 + k), 4)' };
/** @type {Section} */
const TWO_BYTES = { bytes: 2, count: 0x8000, sequence: 'substr(int4send(32768 + k), 3)' };
/** Two bytes of seven bits each, both with the highest bit set. */
const SEVEN_AND_SEVEN = 'substr(int4send(32896 + ((k >> 7) & 127) * 256 + (k & 127)), 3)';
/** @type {Section} */
const SS3_AND_TWO = { bytes: 3, count: 1 << 14, sequence: `'\\x8f'::bytea || ${SEVEN_AND_SEVEN}` };
/** @type {Record<string, Section>} */
const LONGER = {
  EUC_JIS_2004: SS3_AND_TWO,
  EUC_JP: SS3_AND_TWO,
  // Planes 1 to 7: PostgreSQL takes no others.
  EUC_TW: {
    bytes: 4,
    count: 7 << 14,
    sequence: `'\\x8e'::bytea || substr(int4send(161 + (k >> 14)), 4) || ${SEVEN_AND_SEVEN}`,
  },
  // Up to U+FFFF; tables.js computes the others.
  GB18030: {
    bytes: 4,
    count: 39_420,
    sequence: `substr(int4send((129 + k / 12600) * 256 + 48 + k / 1260 % 10), 3)
      || substr(int4send((129 + k / 10 % 126) * 256 + 48 + k % 10), 3)`,
  },
};

/**
 * @param {Client} client
 * @param {string} encoding
 * @param {Section} section
 * @returns {Promise<string[]>} by index: the characters, '' for none
 */
async function charactersOf(client, encoding, { count, sequence }) {
  const { rows } = await client.query(
    `SELECT string_agg(pg_temp.utf8_of(${sequence}, $1), ''::bytea ORDER BY k) AS all_of_them
     FROM generate_series(0, ${count - 1}) k`,
    [encoding],
  );
  const parts = rows[0].all_of_them.toString('latin1').split(END);
  if (parts.pop() !== '' || parts.length !== count) throw new Error(`${encoding}: not ${count} answers`);
  return parts.map((/** @type {string} */ part) =>
    part === REFUSED ? '' : Buffer.from(part, 'latin1').toString('utf8'),
  );
}

/**
 * @param {string[]} characters by index
 * @returns {Buffer} the values of tables.js
 */
function pack(characters) {
  /** @type {number[]} */
  const out = [];
  const put = (/** @type {number} */ value) => {
    for (; value > 0x7f; value >>>= 7) out.push((value & 0x7f) | 0x80);
    out.push(value);
  };
  let before = -1;
  let missing = 0;
  for (const character of characters) {
    if (character === '') {
      missing += 1;
      continue;
    }
    if (missing > 0) {
      put(0);
      put(missing);
      missing = 0;
    }
    const [codePoint = 0, second, ...rest] = Array.from(character, part => part.codePointAt(0) ?? 0);
    if (rest.length > 0) throw new Error(`more than two code points: ${character}`);
    if (second !== undefined) {
      put(1);
      put(codePoint);
      put(second);
    } else {
      const difference = codePoint - before - 1;
      put(2 + (difference >= 0 ? 2 * difference : -2 * difference - 1));
      before = codePoint;
    }
  }
  return Buffer.from(out);
}

/**
 * @param {string} name
 * @param {Buffer} values
 */
function section(name, values) {
  const head = Buffer.alloc(1 + name.length + 4);
  head.writeUInt8(name.length);
  head.write(name, 1, 'latin1');
  head.writeUInt32LE(values.length, 1 + name.length);
  return Buffer.concat([head, values]);
}

/** @param {Client} client */
async function makeSections(client) {
  await client.query(FUNCTION);
  const { rows } = await client.query(
    `SELECT pg_encoding_to_char(n) AS encoding, pg_encoding_max_length(n) AS bytes
     FROM generate_series(0, 255) n WHERE pg_encoding_to_char(n) <> '' ORDER BY n`,
  );
  const parts = [];
  for (const { encoding, bytes } of rows) {
    if (WITHOUT_TABLES.has(encoding)) continue;
    const single = await charactersOf(client, encoding, ONE_BYTE);
    parts.push(section(`${encoding}/1`, pack(single)));
    if (bytes === 1) continue;
    const pairs = await charactersOf(client, encoding, TWO_BYTES);
    // A character of one byte and another one are no pair.
    parts.push(
      section(
        `${encoding}/2`,
        pack(pairs.map((character, index) => (single[index >> 8] === '' ? character : ''))),
      ),
    );
    const longer = LONGER[encoding];
    if (longer)
      parts.push(section(`${encoding}/${longer.bytes}`, pack(await charactersOf(client, encoding, longer))));
  }
  return Buffer.concat(parts);
}

const postgres = await startPostgres({ binaries: process.argv[2] ?? 'embedded' });
try {
  const client = new Client(postgres.connectionOptions);
  client.on('error', () => {}); // the query that fails says it
  await client.connect();
  try {
    const sections = await makeSections(client);
    const packed = brotliCompressSync(sections, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
        [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
        [constants.BROTLI_PARAM_SIZE_HINT]: sections.length,
      },
    });
    writeFileSync(TARGET, packed);
    process.stdout.write(
      `PostgreSQL ${postgres.version}: ${sections.length} bytes, ${packed.length} packed\n`,
    );
  } finally {
    await client.end();
  }
} finally {
  await postgres.stop();
}
