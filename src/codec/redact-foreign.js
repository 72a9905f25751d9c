/**
 * Whether a text that is in no English wording (redact-rules.js) may be PostgreSQL's in another language. In: a text as
 * a string of one character a byte (latin1). It is one for sure where it begins like one; other letters than ASCII's, the
 * quotes of many languages among them, make it likely enough, because too much is taken out rather than too little.
 */
import { BEGINNINGS } from './redact-beginnings.js';

/** Beginnings are found by so many of their first characters; none is shorter. */
const KEY_LENGTH = 4;
/** Processes without a database write the other letters as ASCII's, if LC_CTYPE is C: quotes as >> and <<, many as ?. */
const OTHER_LETTER = /[\u0080-\u00ff]|>>|<<|\?\?/g;

/** @type {Map<string, string[]>} */
const byKey = new Map();
for (const beginning of BEGINNINGS) {
  const key = beginning.slice(0, KEY_LENGTH);
  byKey.set(key, [...(byKey.get(key) ?? []), beginning]);
}

/**
 * @param {string} text
 * @param {number} at where a line begins
 */
export function beginsForeign(text, at) {
  const list = byKey.get(text.slice(at, at + KEY_LENGTH));
  return list?.some(beginning => text.startsWith(beginning, at)) ?? false;
}

/**
 * @param {string} text
 * @param {number} at
 */
export function hasOtherLetters(text, at) {
  OTHER_LETTER.lastIndex = at;
  return OTHER_LETTER.test(text);
}
