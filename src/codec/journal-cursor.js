/**
 * Cursors of journal entries. sd_journal_get_cursor(3) calls them opaque; all versions write fields LETTER=HEX:
 *   s sequence (a journal's own), i number in it, b boot, m monotonic time, t time, x hash of the contents
 */

const CURSOR = /^[a-z]=[0-9a-f]{1,32}(;[a-z]=[0-9a-f]{1,32}){1,9}$/;
const SEQUENCE = /^s=([0-9a-f]+);i=[0-9a-f]+;(?=b=)/;

/** @param {string} text */
export function isCursor(text) {
  return CURSOR.test(text);
}

/**
 * Whether two cursors are of one entry. journald copies the entries of /run to /var once that is there, and numbers
 * them anew: then only what the entry itself has can be compared.
 * @param {string} a
 * @param {string} b
 */
export function isSameEntry(a, b) {
  if (a === b) return true;
  const ofA = SEQUENCE.exec(a);
  const ofB = SEQUENCE.exec(b);
  if (!ofA || !ofB || ofA[1] === ofB[1]) return false;
  return a.slice(ofA[0].length) === b.slice(ofB[0].length);
}
