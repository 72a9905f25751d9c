/**
 * The keys of PostgreSQL's jsonlog in the order in which it writes them, and where each belongs in a log row.
 * Source: PostgreSQL manual, "Using JSON-Format Log Output", and write_jsonlog(). The order is the same in 15 to 18,
 * is that of the csvlog columns, and a key that has nothing to say is left out. Data alone, and the same data in the form
 * that the row encoder reads.
 */

/** Kinds of values, small integers because the row encoder switches on them once a key. */
const TEXT = 0;
export const TIME = 1;
export const INT4 = 2;
export const INT8 = 3;
/** connection_from is `host:port` or `host`. */
const HOST = 4;
export const PORT = 5;
/** location is `function, file:line`. */
const FUNCTION = 6;
export const FILE = 7;
export const LINE = 8;

/** @type {readonly (readonly [key: string, kind: number, column: number])[]} column: index in CSVLOG_COLUMNS */
export const JSONLOG_KEYS = [
  ['timestamp', TIME, 0],
  ['user', TEXT, 1],
  ['dbname', TEXT, 2],
  ['pid', INT4, 3],
  ['remote_host', HOST, 4],
  ['remote_port', PORT, 4],
  ['session_id', TEXT, 5],
  ['line_num', INT8, 6],
  ['ps', TEXT, 7],
  ['session_start', TIME, 8],
  ['vxid', TEXT, 9],
  ['txid', INT8, 10],
  ['error_severity', TEXT, 11],
  ['state_code', TEXT, 12],
  ['message', TEXT, 13],
  ['detail', TEXT, 14],
  ['hint', TEXT, 15],
  ['internal_query', TEXT, 16],
  ['internal_position', INT4, 17],
  ['context', TEXT, 18],
  ['statement', TEXT, 19],
  ['cursor_position', INT4, 20],
  ['func_name', FUNCTION, 21],
  ['file_name', FILE, 21],
  ['file_line_num', LINE, 21],
  ['application_name', TEXT, 22],
  ['backend_type', TEXT, 23],
  ['leader_pid', INT4, 24],
  ['query_id', INT8, 25],
];

export const KEYS = JSONLOG_KEYS.length;
export const KINDS = Uint8Array.from(JSONLOG_KEYS, ([, kind]) => kind);
export const COLUMN_OF = Uint8Array.from(JSONLOG_KEYS, ([, , column]) => column);

const TOKENS = JSONLOG_KEYS.map(([key]) => Buffer.from(`${key}":`));
/** Bytes of `key":`, which follows the quote before a key. It is compared by 32-bit words, little-endian. */
export const TOKEN_LENGTHS = Uint8Array.from(TOKENS, token => token.length);
/** Words of a token, at most; the last may overlap the one before it. */
export const KEY_WORDS = 5;
export const FIRST_WORDS = Int32Array.from(TOKENS, token => token.readInt32LE(0));
/** KEY_WORDS a key. */
export const WORDS = Int32Array.from(
  TOKENS.flatMap(token =>
    Array.from({ length: KEY_WORDS }, (_, index) => token.readInt32LE(Math.min(index * 4, token.length - 4))),
  ),
);
