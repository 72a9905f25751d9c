/**
 * A wrong value as an error message repeats it: quoted when it is text, on one line, cut when long, and with no
 * control character. In: any value. Out: text. Passwords are not looked for: see redact-url.js.
 */

import { printable } from './printable.js';

/** How many characters a message repeats: enough to recognise a value, not to flood a terminal. */
const MAX_SHOWN_LENGTH = 80;

/**
 * @param {unknown} value
 * @returns {string}
 */
export function showValue(value) {
  if (typeof value === 'string') return printable(cut(JSON.stringify(value)));
  if (value === null || typeof value !== 'object') return String(value);
  return printable(cut(JSON.stringify(value)));
}

/**
 * @param {string} text
 * @returns {string}
 */
function cut(text) {
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}...` : text;
}
