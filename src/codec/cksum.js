/**
 * The checksum of POSIX cksum(1): CRC-32 with polynomial 0x04C11DB7, most significant bit first, over the bytes and
 * then over their count, least significant byte first, and inverted (POSIX.1-2017, cksum, "The mathematical aspects").
 * It is what every host can compute, so it is how the follower and pgsluice agree on the identity of a file.
 */

const table = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index << 24;
  for (let bit = 0; bit < 8; bit += 1) value = value & 0x80000000 ? (value << 1) ^ 0x04c11db7 : value << 1;
  return value;
});

/**
 * @param {Uint8Array} bytes
 * @returns {number} 0..2^32-1, as cksum(1) prints it first
 */
export function posixCksum(bytes) {
  let sum = 0;
  for (const byte of bytes) sum = (sum << 8) ^ table[((sum >>> 24) ^ byte) & 0xff];
  for (let rest = bytes.length; rest > 0; rest = Math.floor(rest / 256)) {
    sum = (sum << 8) ^ table[((sum >>> 24) ^ rest) & 0xff];
  }
  return ~sum >>> 0;
}
