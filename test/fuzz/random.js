/**
 * Random numbers that a seed decides: the same seed gives the same input on every machine.
 * sfc32 (C. Doty-Humphrey, PractRand), seeded through a 32-bit mixer. Not for anything but tests.
 */

/**
 * @param {number} seed
 * @returns {number} an unsigned 32-bit integer that looks like no other seed's
 */
export function mix(seed) {
  let z = (seed + 0x9e3779b9) | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return (z ^ (z >>> 15)) >>> 0;
}

export class Random {
  #a;
  #b;
  #c;
  #counter = 1;

  /** @param {number} seed unsigned 32-bit integer */
  constructor(seed) {
    this.#a = mix(seed) | 0;
    this.#b = mix(this.#a) | 0;
    this.#c = mix(this.#b) | 0;
    for (let round = 0; round < 12; round += 1) this.#next();
  }

  #next() {
    const result = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + result;
    return result >>> 0;
  }

  /** @param {number} bound at least 1 @returns {number} 0 to bound - 1 */
  int(bound) {
    return Math.floor((this.#next() / 2 ** 32) * bound);
  }

  /** @param {number} from @param {number} to @returns {number} from to to, both among them */
  between(from, to) {
    return from + this.int(to - from + 1);
  }

  /** @param {number} from at least 1 @param {number} to @returns {number} as often small as large */
  size(from, to) {
    return Math.floor(from * (to / from) ** (this.#next() / 2 ** 32));
  }

  /** @param {number} one of so many is true */
  oneIn(one) {
    return this.int(one) === 0;
  }

  /** @template T @param {readonly T[]} list @returns {T} */
  pick(list) {
    return list[this.int(list.length)];
  }

  /** @param {number} length @returns {Buffer} */
  bytes(length) {
    const bytes = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; at += 1) bytes[at] = this.#next();
    return bytes;
  }
}
