/**
 * Makes text from a host safe to show: a log message, a banner or a file name may hold control sequences that
 * move the cursor, change colours, rename the window or reverse the order of what is read.
 * In: any text. Out: the same text with each such character as a visible escape: '\n', '\x1b', '\u202e'.
 * It is for eyes, not for parsing: a backslash that was there before stays a single one, so that applying it
 * twice changes nothing more.
 */

// C0, DEL and C1 (ECMA-48); U+2028 and U+2029 break lines; the rest are the bidirectional controls of UAX #9.
// oxlint-disable-next-line no-control-regex -- control characters are what this looks for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** @type {Record<string, string>} */
const SHORT = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * @param {string} text
 * @param {{ keepLayout?: boolean }} [options] keepLayout: newline and tab stay as they are (CR does not: it
 *   moves the cursor back over what was written)
 * @returns {string}
 */
export function printable(text, { keepLayout = false } = {}) {
  return text.replace(UNSAFE, character => {
    if (keepLayout && (character === '\n' || character === '\t')) return character;
    const code = character.charCodeAt(0);
    return (
      SHORT[character] ??
      (code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`)
    );
  });
}

/**
 * JSON with no character that a terminal would act on. They can only stand inside strings, where an escape means the
 * same (RFC 8259, section 7); a newline stands between values.
 * @param {string} json as JSON.stringify writes it
 * @returns {string}
 */
export function printableJson(json) {
  return json.replace(UNSAFE, character =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
