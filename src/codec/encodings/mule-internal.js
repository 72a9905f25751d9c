/**
 * The characters of MULE_INTERNAL. PostgreSQL converts it to other encodings but not to UTF8, so a character goes
 * through the encoding its character set belongs to, and from there to UTF-8, as
 * convert(convert(bytes, 'MULE_INTERNAL', X), X, 'UTF8') does with these X:
 *   81..84 b     LATIN1..LATIN4        91 b c   EUC_CN (GB 2312)       95 b c   EUC_TW (CNS 11643 plane 1)
 *   8b b         KOI8R                 92 b c   EUC_JP (JIS X 0208)    96 b c   EUC_TW (CNS 11643 plane 2)
 *   89 b         EUC_JP (kana)         94 b c   EUC_JP (JIS X 0212)    93 b c   EUC_KR (KS C 5601)
 * Other character sets have no conversion in PostgreSQL, so none here. Not expressible: what PostgreSQL can take to
 * BIG5 alone (seven characters of CNS 11643 plane 3, three signs of plane 1). Not to be told apart: texts that came as
 * WIN1251, WIN866, WIN1250 or BIG5; they share the numbers above, their letters are right, some of their signs are not.
 */
import { charactersOf } from './tables.js';

/** @import { Characters } from './decode.js' */

/** @typedef {{ encoding: string, prefix: readonly number[], bytes: number }} CharacterSet */

/**
 * First byte -> the encoding, the bytes to put in front of those after it, and how many come after it. Source of the
 * numbers: PostgreSQL, src/include/mb/pg_wchar.h, "leading bytes"; of the prefixes: the definition of EUC.
 * @type {ReadonlyMap<number, CharacterSet>}
 */
const CHARACTER_SETS = new Map([
  [0x81, { encoding: 'LATIN1', prefix: [], bytes: 1 }],
  [0x82, { encoding: 'LATIN2', prefix: [], bytes: 1 }],
  [0x83, { encoding: 'LATIN3', prefix: [], bytes: 1 }],
  [0x84, { encoding: 'LATIN4', prefix: [], bytes: 1 }],
  [0x89, { encoding: 'EUC_JP', prefix: [0x8e], bytes: 1 }],
  [0x8b, { encoding: 'KOI8R', prefix: [], bytes: 1 }],
  [0x91, { encoding: 'EUC_CN', prefix: [], bytes: 2 }],
  [0x92, { encoding: 'EUC_JP', prefix: [], bytes: 2 }],
  [0x93, { encoding: 'EUC_KR', prefix: [], bytes: 2 }],
  [0x94, { encoding: 'EUC_JP', prefix: [0x8f], bytes: 2 }],
  [0x95, { encoding: 'EUC_TW', prefix: [], bytes: 2 }],
  [0x96, { encoding: 'EUC_TW', prefix: [0x8e, 0xa2], bytes: 2 }],
]);

/** @implements {Characters} */
export class MuleCharacters {
  /** No byte from 0x80 on is a character by itself. */
  single = Int32Array.from({ length: 256 }, (_, byte) => (byte < 0x80 ? byte : 0));
  doubles = new Int32Array(0);
  length = 1;

  /**
   * @param {Uint8Array} bytes
   * @param {number} at
   * @returns {number} a word (decode.js), 0: no character
   */
  longer(bytes, at) {
    const set = CHARACTER_SETS.get(bytes[at]);
    if (set === undefined || at + set.bytes >= bytes.length) return 0;
    const sequence = [...set.prefix];
    for (let index = 1; index <= set.bytes; index += 1) {
      const byte = bytes[at + index];
      if (byte < 0x80) return 0;
      sequence.push(byte);
    }
    this.length = 1 + set.bytes;
    const characters = charactersOf(set.encoding);
    if (sequence.length === 1) return characters.single[sequence[0]];
    return characters.longer(Uint8Array.from(sequence), 0);
  }
}
