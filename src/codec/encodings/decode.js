/**
 * Text in any encoding whose lower half is ASCII, and a way to look its other characters up -> UTF-8.
 * A character is looked up as a word: its UTF-8 bytes, the first one lowest, as a signed 32-bit integer (four bytes
 * make it negative); 0 is no character. Some sequences of the JIS 2004 encodings mean two code points, which is more
 * than a word holds: their words have 0xff, which no UTF-8 begins with, as the lowest byte and the number of a pair
 * of words above it.
 */

/**
 * @typedef {object} Characters
 * @property {Int32Array} single 256 words: characters of one byte
 * @property {Int32Array} doubles pairs of words, for words that say so
 * @property {number} length bytes of the character that longer() has found
 * @property {(bytes: Uint8Array, at: number) => number} longer the word of the character of more than one byte that
 *   begins at bytes[at]; 0: none does
 */

/** Lowest byte of a word that means two code points. */
export const DOUBLE = 0xff;

/** Room for the longest a word can stand for, two characters of four bytes. */
const ROOM_BYTES = 8;

/**
 * No encoding needs more: three bytes for one (the euro sign), six for two (two code points in JIS 2004).
 * Room for half of that to begin with: most text is ASCII, and Cyrillic or Latin takes two.
 */
const MOST_BYTES = 3;
const FIRST_BYTES = 1.5;

/**
 * @param {Uint8Array} bytes
 * @param {Characters} characters
 * @returns {Buffer | null} null: some bytes mean nothing in the encoding, or there is a NUL
 */
export function decode(bytes, characters) {
  const { single } = characters;
  const end = bytes.length;
  const most = end * MOST_BYTES + ROOM_BYTES;
  let out = Buffer.allocUnsafe(Math.floor(end * FIRST_BYTES) + ROOM_BYTES);
  let full = out.length - ROOM_BYTES;
  let o = 0;
  let p = 0;
  while (p < end) {
    if (o > full) {
      const grown = Buffer.allocUnsafe(most);
      out.copy(grown, 0, 0, o);
      out = grown;
      full = out.length - ROOM_BYTES;
    }
    let word = single[bytes[p]];
    if (word === 0) {
      word = characters.longer(bytes, p);
      if (word === 0) return null;
      p += characters.length;
    } else {
      p += 1;
    }
    if (word > 0 && word < 0x80) {
      out[o] = word;
      o += 1;
    } else if ((word & 0xff) === DOUBLE) {
      const first = (word >>> 8) * 2;
      o = put(out, o, characters.doubles[first]);
      o = put(out, o, characters.doubles[first + 1]);
    } else {
      o = put(out, o, word);
    }
  }
  return out.subarray(0, o);
}

/**
 * @param {Buffer} out has room for four bytes
 * @param {number} o
 * @param {number} word of one character
 * @returns {number} where the next one goes
 */
function put(out, o, word) {
  out[o] = word;
  out[o + 1] = word >> 8;
  out[o + 2] = word >> 16;
  out[o + 3] = word >> 24;
  if (word < 0) return o + 4;
  return o + (word < 0x80 ? 1 : word < 0x1_0000 ? 2 : 3);
}

/**
 * @param {number} codePoint
 * @returns {number} its word
 */
export function wordOf(codePoint) {
  if (codePoint < 0x80) return codePoint;
  const last = (codePoint & 0x3f) | 0x80;
  if (codePoint < 0x800) return (codePoint >> 6) | 0xc0 | (last << 8);
  const third = ((codePoint >> 6) & 0x3f) | 0x80;
  if (codePoint < 0x1_0000) return (codePoint >> 12) | 0xe0 | (third << 8) | (last << 16);
  const second = ((codePoint >> 12) & 0x3f) | 0x80;
  return (codePoint >> 18) | 0xf0 | (second << 8) | (third << 16) | (last << 24);
}
