/**
 * Takes passwords out of connection URLs before they reach a message, a log line or `config print`.
 * In: text that may be a postgres URL, also a malformed one: those end up in error messages most of all, so
 * nothing here relies on the URL being parsable. Out: the same text with `***` for each password.
 * When in doubt it hides too much: everything from the first ':' after the scheme to the last '@' goes, so an
 * unescaped '@', '/', '?' or '#' in a password does not show the rest of it.
 */

/** A scheme has at most 30 characters here, so that a long line of letters is searched in linear time. */
const URL_IN_TEXT = /[a-z][a-z0-9+.-]{0,29}:\/\/\S+/gi;

// `password=` and `sslpassword=` of a URL's query or of a libpq connection string ("Connection Strings" in the manual). After a
// quote everything goes: a group repeated over each character of a long text would exhaust the stack.
const PASSWORD_PARAMETER = /(password\s*=\s*)[^&\s'"]*(?:['"].*)?/gis;

/**
 * @param {string} url one URL, or what was written where a URL belongs
 * @returns {string}
 */
export function redactUrl(url) {
  const afterScheme = /^\s*[a-z][a-z0-9+.-]*:?\/\//i.exec(url)?.[0].length ?? 0;
  const at = url.lastIndexOf('@');
  const colon = url.indexOf(':', afterScheme);
  const withoutUserinfo = colon !== -1 && colon < at ? `${url.slice(0, colon + 1)}***${url.slice(at)}` : url;
  return withoutUserinfo.replace(PASSWORD_PARAMETER, '$1***');
}

/**
 * @param {string} text any text, with any number of URLs in it
 * @returns {string}
 */
export function redactUrlsIn(text) {
  return text.replace(URL_IN_TEXT, redactUrl).replace(PASSWORD_PARAMETER, '$1***');
}
