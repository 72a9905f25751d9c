/**
 * An input that fails -> a small one that fails, by taking pieces out for as long as that helps.
 */

/**
 * @param {Buffer} bytes
 * @param {(bytes: Buffer) => boolean} fails
 * @param {number} limitMs about how long to try
 * @returns {Buffer}
 */
export function minimise(bytes, fails, limitMs) {
  const until = performance.now() + limitMs;
  let smallest = bytes;
  for (let size = smallest.length >>> 1; size >= 1; size = Math.min(size >>> 1, smallest.length)) {
    let helped = true;
    while (helped) {
      helped = false;
      for (let at = 0; at < smallest.length;) {
        if (performance.now() > until) return smallest;
        const without = Buffer.concat([smallest.subarray(0, at), smallest.subarray(at + size)]);
        if (fails(without)) {
          smallest = without;
          helped = true;
        } else {
          at += size;
        }
      }
      if (size > 1) break;
    }
  }
  return smallest;
}
