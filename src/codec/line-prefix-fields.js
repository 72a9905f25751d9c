/**
 * The values a log_line_prefix can hold, by the index LinePrefix.fields has them at, and how the text of a field
 * becomes what csvlog would have written. Up to 25 an index is that of the csvlog column (copy-columns.js). Called
 * by the row encoder of stderr logs; works on bytes, allocates nothing, throws nothing.
 */

export const LOG_TIME = 0;
export const USER_NAME = 1;
export const DATABASE_NAME = 2;
export const PROCESS_ID = 3;
/** %r, or %h in a prefix without %r: then the port is not known. */
export const CONNECTION_FROM = 4;
export const SESSION_ID = 5;
/** Counts the lines of stderr, DETAIL and STATEMENT ones too: not the number csvlog has, which counts records. */
export const SESSION_LINE_NUM = 6;
export const COMMAND_TAG = 7;
export const SESSION_START_TIME = 8;
export const VIRTUAL_TRANSACTION_ID = 9;
export const TRANSACTION_ID = 10;
export const SQL_STATE_CODE = 12;
export const APPLICATION_NAME = 22;
export const BACKEND_TYPE = 23;
export const LEADER_PID = 24;
export const QUERY_ID = 25;
/** %n: seconds since 1970-01-01 UTC with three decimals. */
export const LOG_EPOCH = 26;
/** %L (18): the address of the server that the client connected to; `[none]` in a background process. */
export const LOCAL_HOST = 27;
/** Not a text: start and end are where a %q ended the prefix of a process that serves no client. */
export const Q_ENDED = 28;

/** Fields there are. */
export const PREFIX_FIELDS = 29;

const OPEN = 0x28;
const CLOSE = 0x29;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const ZERO = 0x30;
const NINE = 0x39;

/** What stands between the brackets of `[unknown]` in PostgreSQL's message catalogs, in UTF-8. */
const UNKNOWN_WORDS = [
  'unknown',
  'unbekannt',
  'desconocido',
  'inconnu',
  'sconosciuto',
  'okänd',
  'н/д',
  '不明',
  '未知',
  '알수없음',
  'უცნობი',
];
/** The same in the other encodings a database may have: LATIN1, WIN1251, KOI8R, ISO_8859_5, EUC_JP, SJIS, EUC_CN, EUC_KR. */
const UNKNOWN_BYTES = [
  '6f6be46e64',
  'ed2fe4',
  'ce2fc4',
  'dd2fd4',
  'c9d4ccc0',
  '957396be',
  'ceb4d6aa',
  'becbbcf6bef8c0bd',
];
/** Every form of `[unknown]`. */
export const UNKNOWN_NAMES = [
  ...UNKNOWN_WORDS.map(word => Buffer.from(`[${word}]`)),
  ...UNKNOWN_BYTES.map(hex => Buffer.from(`5b${hex}5d`, 'hex')),
];

/**
 * Whether a user, database or application name is what PostgreSQL writes for none, in any of its languages. csvlog
 * then has NULL for the user and the database, and an empty text for the application.
 * @param {Uint8Array} bytes
 * @param {number} start
 * @param {number} end
 * @returns {boolean}
 */
export function isUnknownName(bytes, start, end) {
  if (end === start || bytes[start] !== OPEN_BRACKET) return false;
  for (let index = 0; index < UNKNOWN_NAMES.length; index += 1) {
    const name = UNKNOWN_NAMES[index];
    if (name.length !== end - start) continue;
    let same = 0;
    while (same < name.length && bytes[start + same] === name[same]) same += 1;
    if (same === name.length) return true;
  }
  return false;
}

/**
 * Writes connection_from as csvlog has it: `host(port)` of %r becomes `host:port`; `[local]` and a host without a port
 * stay as they are.
 * @param {Uint8Array} bytes
 * @param {number} start of the field
 * @param {number} end of it
 * @param {Uint8Array} into has room for end - start bytes
 * @param {number} at
 * @returns {number} the index in `into` after what was written
 */
export function writeConnectionFrom(bytes, start, end, into, at) {
  let open = -1;
  if (end - start > 2 && bytes[end - 1] === CLOSE) {
    open = end - 2;
    while (open > start && bytes[open] >= ZERO && bytes[open] <= NINE) open -= 1;
    if (bytes[open] !== OPEN || open === end - 2) open = -1;
  }
  const last = open < 0 ? end : end - 1;
  for (let p = start; p < last; p += 1, at += 1) into[at] = p === open ? COLON : bytes[p];
  return at;
}
