/**
 * Where passwords and keys stand in any text, be it a statement, a connection string or a message.
 * In: a text as a string of one character a byte (latin1). Out: pairs of from and to, in order.
 * What is taken for a credential, whatever the case of the words:
 *   PASSWORD 'x'   password = 'x'   "password": "x"   password => $$x$$   a quoted value after such a word
 *   password=x   PGPASSWORD=x   passwd: x                                 a bare one after = or :
 *   scheme://user:x@host   SCRAM-SHA-256$...   -----BEGIN PRIVATE KEY-----
 * One that does not end takes the rest of the text. Too much is taken rather than too little. Time is linear: the search
 * goes on after what was taken, and everything else that is looked at is bounded.
 */

const BEGINNING =
  /(?:pass(?:word|wd|phrase)|pwd|secret|api_?key|token)\w{0,40}|:\/\/|SCRAM-SHA-256\$|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/gi;
/** Between the word and its value: a quote that ends a key, blanks, comments, an operator, a prefix of a literal. */
const KEY_END = /\\?["']?/y;
const BLANK = /(?:\s{1,1000}|--[^\n]{0,200}\n|\/\*[^*]{0,200}\*\/){0,8}/y;
const OPERATOR = /=>|:=|[=:]/y;
const PREPOSITION = /(?:to|is|as)\b/iy;
const LITERAL_PREFIX = /(?:[enbx]|u&)(?=')/iy;
const DOLLAR_QUOTE = /\$\w{0,63}\$/y;
const CONTINUED_LITERAL = /\s{0,100}\n\s{0,100}'/y;
/** What follows an empty literal. */
const NOTHING_MORE = /$|\s|[,;)](?!\w)/y;
/** User and password of a URL are not longer. */
const MAX_URL_BYTES = 4096;
const URL_END = /[\s'"<>]/g;

/**
 * @param {string} text
 * @returns {number[]} from, to, from, to ...
 */
export function findCredentials(text) {
  /** @type {number[]} */
  const found = [];
  /** URLs that begin before have no password: their common end was looked at */
  let urlsSeenTo = 0;
  BEGINNING.lastIndex = 0;
  for (let match = BEGINNING.exec(text); match !== null; match = BEGINNING.exec(text)) {
    const at = match.index;
    const after = at + match[0].length;
    const isUrl = match[0] === '://';
    if (isUrl && after < urlsSeenTo) continue;
    const [from, to] = isUrl
      ? inUrl(text, after)
      : match[0].startsWith('-----')
        ? [after, placeOr(text, '-----END', after)]
        : match[0].endsWith('$')
          ? [after, bareEnd(text, after)]
          : afterWord(text, after);
    if (isUrl && from === to) urlsSeenTo = to;
    else if (to > from) found.push(from, to);
    BEGINNING.lastIndex = isUrl && from === to ? after : Math.max(after, to);
  }
  return found;
}

/**
 * @param {string} text
 * @param {number} at after ://
 * @returns {[from: number, to: number]} twice where the URL ends: it has no password
 */
function inUrl(text, at) {
  const url = text.slice(at, at + MAX_URL_BYTES);
  URL_END.lastIndex = 0;
  const end = URL_END.exec(url)?.index ?? url.length;
  const sign = url.lastIndexOf('@', end - 1);
  const colon = url.indexOf(':');
  // Longer than any URL without an end: what may be a password is one.
  if (end === MAX_URL_BYTES && colon >= 0) return [at + colon + 1, bareEnd(text, at)];
  return colon >= 0 && sign > colon ? [at + colon + 1, at + sign] : [at + end, at + end];
}

/**
 * @param {string} text
 * @param {number} at after the word
 * @returns {[from: number, to: number]} the same twice: no value follows
 */
function afterWord(text, at) {
  let from = skip(KEY_END, text, at);
  const beforeOperator = skip(BLANK, text, from);
  const afterOperator = skip(OPERATOR, text, beforeOperator);
  const hasOperator = afterOperator > beforeOperator;
  from = skip(BLANK, text, hasOperator ? afterOperator : skip(PREPOSITION, text, beforeOperator));
  from = skip(LITERAL_PREFIX, text, from);
  if (text[from] === "'") return quoted(text, from, hasOperator && from === at + 1);
  if (text[from] === '"' && hasOperator) return [from + 1, escapedEnd(text, from + 1, '"')];
  const tag = text.slice(from, skip(DOLLAR_QUOTE, text, from));
  if (tag !== '') return [from + tag.length, placeOr(text, tag, from + tag.length)];
  return hasOperator ? [from, bareEnd(text, from)] : [from, from];
}

/**
 * A literal in single quotes, or in doubled ones when it stands in another literal.
 * @param {string} text
 * @param {number} at of its first quote
 * @param {boolean} glued it follows = at once, as in a connection string
 * @returns {[from: number, to: number]}
 */
function quoted(text, at, glued) {
  let quotes = 1;
  while (text[at + quotes] === "'") quotes += 1;
  // One quote opens it; with a quote as its first character, three.
  if (quotes % 2 === 1) return [at + 1, escapedEnd(text, at + 1, "'")];
  const from = at + quotes;
  NOTHING_MORE.lastIndex = from;
  if (!glued && NOTHING_MORE.test(text)) return [from, from];
  for (let end = text.indexOf("'", from); end >= 0; end = text.indexOf("'", end)) {
    let run = 1;
    while (text[end + run] === "'") run += 1;
    // Twice as many are a quote within the value, and so may be those after a backslash.
    if (run >= quotes && run % (2 * quotes) !== 0 && text[end - 1] !== '\\') return [from, end];
    end += run;
  }
  return [from, text.length];
}

/**
 * @param {string} text
 * @param {number} from
 * @param {string} quote
 * @returns {number} where a quoted value ends: not at a doubled or an escaped quote, nor where the next line goes on
 */
function escapedEnd(text, from, quote) {
  for (let at = from; at < text.length; at += 1) {
    const character = text[at];
    if (character === '\\') at += 1;
    else if (character === quote) {
      if (text[at + 1] === quote) at += 1;
      else {
        const next = quote === "'" ? skip(CONTINUED_LITERAL, text, at + 1) : at + 1;
        if (next === at + 1) return at;
        at = next - 1;
      }
    }
  }
  return text.length;
}

/**
 * @param {string} text
 * @param {number} from
 * @returns {number} where a value without quotes ends: at a blank, or at a quote that ends the text around it
 */
function bareEnd(text, from) {
  for (let at = from; at < text.length; at += 1) {
    const character = text[at] ?? '';
    if (character === '\\') at += 1;
    else if (character === "'" && text[at + 1] === "'") at += 1;
    else if (character === "'" && !/\w/.test(text[at + 1] ?? '')) return at;
    else if (character === ' ' || (character >= '\t' && character <= '\r')) return at;
  }
  return text.length;
}

/** @param {string} text @param {string} what @param {number} from @returns {number} its place, or the end of the text */
function placeOr(text, what, from) {
  const place = text.indexOf(what, from);
  return place < 0 ? text.length : place;
}

/** @param {RegExp} pattern sticky @param {string} text @param {number} at @returns {number} the place after it, if it is there */
function skip(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
