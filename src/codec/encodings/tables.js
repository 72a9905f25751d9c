/**
 * tables.bin -> the characters of an encoding (decode.js). The file is made by scripts/make-encodings.js from what
 * PostgreSQL converts; it is read when this module is loaded and unpacked when the first text is decoded.
 * Unpacked it is a list of sections, one for each encoding and length of its sequences:
 *   length uint8 | name of the section, such as EUC_TW/4 | length uint32, little-endian | values
 * The values belong to consecutive indexes from 0 on: in /1 to bytes from 0x80 on, in /2 to pairs whose first byte is
 * at least 0x80, in /3 and /4 to what LONGER says. Each value is one or more numbers, written with seven bits a byte,
 * the lowest first, the eighth bit set on all bytes but the last:
 *   0 n     the next n indexes have no character; nor have those after the last value
 *   1 a b   the two code points a and b
 *   2 + z   the code point before (-1 at first) + 1 + d, where z is 2d, or -2d - 1 for a negative d
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { DOUBLE, wordOf } from './decode.js';

/** @import { Characters } from './decode.js' */

/**
 * @typedef {object} LongForm sequences of more than two bytes
 * @property {number} bytes in each
 * @property {(bytes: Uint8Array, at: number) => number} indexOf index of the one at bytes[at]; -1: none is there
 * @property {(index: number) => number} beyond the word of an index after the last value
 */

const packed = readFileSync(new URL('tables.bin', import.meta.url));

/** Name of a section -> its values. @type {Map<string, Buffer> | undefined} */
let sections;

const EUC_SS2 = 0x8e;
const EUC_SS3 = 0x8f;
const FIRST_PLANE = 0xa1;

/** In GB18030 four bytes with this index are U+10000, and all code points after it follow in order. */
const GB18030_SUPPLEMENTARY = 189_000;

/** @type {LongForm} SS3 and two bytes of seven bits each */
const SS3_AND_TWO = {
  bytes: 3,
  indexOf(bytes, at) {
    if (bytes[at] !== EUC_SS3 || at + 2 >= bytes.length) return -1;
    const high = bytes[at + 1];
    const low = bytes[at + 2];
    return high < 0x80 || low < 0x80 ? -1 : ((high & 0x7f) << 7) | (low & 0x7f);
  },
  beyond: () => 0,
};

/** @type {LongForm} SS2, a plane, and two bytes of seven bits each */
const SS2_PLANE_AND_TWO = {
  bytes: 4,
  indexOf(bytes, at) {
    if (bytes[at] !== EUC_SS2 || at + 3 >= bytes.length) return -1;
    const plane = bytes[at + 1] - FIRST_PLANE;
    const high = bytes[at + 2];
    const low = bytes[at + 3];
    return plane < 0 || high < 0x80 || low < 0x80 ? -1 : (plane << 14) | ((high & 0x7f) << 7) | (low & 0x7f);
  },
  beyond: () => 0,
};

/** @type {LongForm} 81-fe, 30-39, 81-fe, 30-39: the digits of a number */
const GB18030_FOUR = {
  bytes: 4,
  indexOf(bytes, at) {
    if (at + 3 >= bytes.length) return -1;
    const a = bytes[at] - 0x81;
    const b = bytes[at + 1] - 0x30;
    const c = bytes[at + 2] - 0x81;
    const d = bytes[at + 3] - 0x30;
    const valid = a >= 0 && a < 126 && b >= 0 && b < 10 && c >= 0 && c < 126 && d >= 0 && d < 10;
    return valid ? ((a * 10 + b) * 126 + c) * 10 + d : -1;
  },
  beyond(index) {
    const codePoint = index - GB18030_SUPPLEMENTARY + 0x1_0000;
    return codePoint >= 0x1_0000 && codePoint <= 0x10_ffff ? wordOf(codePoint) : 0;
  },
};

/** @type {Readonly<Record<string, LongForm>>} */
const LONGER = {
  EUC_JIS_2004: SS3_AND_TWO,
  EUC_JP: SS3_AND_TWO,
  EUC_TW: SS2_PLANE_AND_TWO,
  GB18030: GB18030_FOUR,
};

/** @implements {Characters} */
class TableCharacters {
  length = 1;
  #pairs;
  #longs;
  #form;

  /** @param {string} name canonical */
  constructor(name) {
    /** @type {number[]} */
    const doubles = [];
    this.single = new Int32Array(256);
    for (let byte = 1; byte < 0x80; byte += 1) this.single[byte] = byte;
    this.single.set(readValues(`${name}/1`, doubles), 0x80);
    this.#pairs = readValues(`${name}/2`, doubles);
    this.#form = LONGER[name];
    this.#longs = readValues(`${name}/${this.#form?.bytes ?? 'none'}`, doubles);
    this.doubles = Int32Array.from(doubles);
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} at bytes[at] is no character by itself
   * @returns {number} a word, 0: no character
   */
  longer(bytes, at) {
    if (at + 1 >= bytes.length) return 0;
    // Below 0x80 there is only NUL.
    const pair = ((bytes[at] - 0x80) << 8) | bytes[at + 1];
    if (pair >= 0 && pair < this.#pairs.length && this.#pairs[pair] !== 0) {
      this.length = 2;
      return this.#pairs[pair];
    }
    if (this.#form === undefined) return 0;
    const index = this.#form.indexOf(bytes, at);
    if (index < 0) return 0;
    this.length = this.#form.bytes;
    return index < this.#longs.length ? this.#longs[index] : this.#form.beyond(index);
  }
}

/** Name -> characters: MULE_INTERNAL is made of several encodings. @type {Map<string, Characters>} */
const made = new Map();

/**
 * @param {string} name canonical, of an encoding that has tables
 * @returns {Characters} shared by all who ask
 */
export function charactersOf(name) {
  let characters = made.get(name);
  if (!characters) {
    characters = new TableCharacters(name);
    made.set(name, characters);
  }
  return characters;
}

/**
 * @param {string} section
 * @param {number[]} doubles receives the pairs of words
 * @returns {Int32Array} words by index, up to the last that has one
 */
function readValues(section, doubles) {
  sections ??= unpack();
  const values = sections.get(section);
  if (values === undefined) return new Int32Array(0);
  let p = 0;
  const next = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = values[p++];
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  /** @type {number[]} */
  const words = [];
  let codePoint = -1;
  while (p < values.length) {
    const value = next();
    if (value === 0) {
      for (let count = next(); count > 0; count -= 1) words.push(0);
    } else if (value === 1) {
      words.push(((doubles.length / 2) << 8) | DOUBLE);
      doubles.push(wordOf(next()), wordOf(next()));
    } else {
      const zigzag = value - 2;
      codePoint += 1 + ((zigzag >>> 1) ^ -(zigzag & 1));
      words.push(wordOf(codePoint));
    }
  }
  return Int32Array.from(words);
}

/** @returns {Map<string, Buffer>} */
function unpack() {
  const bytes = brotliDecompressSync(packed);
  const found = new Map();
  for (let p = 0; p < bytes.length;) {
    const nameEnd = p + 1 + bytes[p];
    const begin = nameEnd + 4;
    const end = begin + bytes.readUInt32LE(nameEnd);
    found.set(bytes.toString('latin1', p + 1, nameEnd), bytes.subarray(begin, end));
    p = end;
  }
  return found;
}
