/**
 * The character encodings of PostgreSQL: a name in any spelling that PostgreSQL takes -> what decodes its text.
 * Who configures a stream asks encodingNamed() once; the row encoders call the decoder for texts that are not UTF-8.
 * A decoder gives what PostgreSQL's convert_from(bytes, name) gives in a UTF8 database, and null where that fails:
 * a byte or sequence that means nothing, a sequence cut off at the end, or a NUL. It never throws and keeps no
 * reference to its input. Tables are made at the first text (encodings/tables.js): to know a name costs nothing.
 * MULE_INTERNAL has no conversion to UTF8 in PostgreSQL: see encodings/mule-internal.js.
 */
import { decode } from './encodings/decode.js';
import { MuleCharacters } from './encodings/mule-internal.js';
import { charactersOf } from './encodings/tables.js';

/** @import { Decoder } from './row-sink.js' */

/**
 * @typedef {object} Encoding
 * @property {string} name as pg_encoding_to_char() writes it
 * @property {Decoder | null} decode null: nothing to decode, texts are UTF-8 (UTF8) or of unknown encoding (SQL_ASCII)
 */

/**
 * Names, and the aliases that differ in more than case and punctuation. Source: the manual's table "PostgreSQL
 * Character Sets", and pg_char_to_encoding() for those it leaves out. The integration test compares both ways.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const ALIASES = {
  BIG5: ['win950', 'windows950'],
  EUC_CN: [],
  EUC_JIS_2004: [],
  EUC_JP: [],
  EUC_KR: [],
  EUC_TW: [],
  GB18030: [],
  GBK: ['win936', 'windows936'],
  ISO_8859_5: [],
  ISO_8859_6: [],
  ISO_8859_7: [],
  ISO_8859_8: [],
  JOHAB: [],
  KOI8R: ['koi8'],
  KOI8U: [],
  LATIN1: ['iso88591'],
  LATIN2: ['iso88592'],
  LATIN3: ['iso88593'],
  LATIN4: ['iso88594'],
  LATIN5: ['iso88599'],
  LATIN6: ['iso885910'],
  LATIN7: ['iso885913'],
  LATIN8: ['iso885914'],
  LATIN9: ['iso885915'],
  LATIN10: ['iso885916'],
  MULE_INTERNAL: [],
  SHIFT_JIS_2004: [],
  SJIS: ['mskanji', 'shiftjis', 'win932', 'windows932'],
  SQL_ASCII: [],
  UHC: ['win949', 'windows949'],
  UTF8: ['unicode'],
  WIN866: ['alt', 'windows866'],
  WIN874: ['windows874'],
  WIN1250: ['windows1250'],
  WIN1251: ['win', 'windows1251'],
  WIN1252: ['windows1252'],
  WIN1253: ['windows1253'],
  WIN1254: ['windows1254'],
  WIN1255: ['windows1255'],
  WIN1256: ['windows1256'],
  WIN1257: ['windows1257'],
  WIN1258: ['abc', 'tcvn', 'tcvn5712', 'vscii', 'windows1258'],
};

/** Texts in these are taken as they are. */
const NOTHING_TO_DECODE = new Set(['SQL_ASCII', 'UTF8']);

/** Canonical names, for help and error messages. */
export const ENCODING_NAMES = Object.freeze(Object.keys(ALIASES));

/** Cleaned name or alias -> encoding. @type {ReadonlyMap<string, Encoding>} */
const BY_NAME = new Map(
  Object.entries(ALIASES).flatMap(([name, aliases]) => {
    const encoding = Object.freeze({ name, decode: NOTHING_TO_DECODE.has(name) ? null : decoderOf(name) });
    return [clean(name), ...aliases].map(alias => [alias, encoding]);
  }),
);

/**
 * @param {string} name
 * @returns {Encoding | null} null: PostgreSQL has no encoding of that name; the same object for all its spellings
 */
export function encodingNamed(name) {
  return BY_NAME.get(clean(name)) ?? null;
}

/**
 * Case and everything but letters and digits are ignored, as PostgreSQL does.
 * @param {string} name
 */
function clean(name) {
  return name.replaceAll(/[^A-Za-z0-9]/g, '').toLowerCase();
}

/**
 * @param {string} name
 * @returns {Decoder}
 */
function decoderOf(name) {
  /** @type {import('./encodings/decode.js').Characters | undefined} */
  let characters;
  return bytes => {
    characters ??= name === 'MULE_INTERNAL' ? new MuleCharacters() : charactersOf(name);
    return decode(bytes, characters);
  };
}
