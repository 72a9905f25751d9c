/**
 * What the jsonlog tests share: a reader of JSON lines and a reader of COPY BINARY rows that know nothing of
 * src/codec and are as plain as can be, and encode(), which hands one line to the encoder.
 * Lines are latin1 text here: one character a byte, so that bytes of any encoding can be written down.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { JsonlogRowEncoder } from '../../../src/codec/jsonlog-row.js';

/** @import { RowContext } from '../../../src/codec/row-sink.js' */
/** @typedef {string | bigint | number | null} Value */

const ZONES = new Map([
  ['UTC', 0],
  ['MSK', 10_800],
  ['NST', -12_600],
]);
export const RECEIVED_AT_MS = Date.UTC(2026, 10, 20, 1, 2, 3, 456);
/** Kinds of the 31 fields: i(nt4), l (int8), t(ext), z (timestamptz), f(loat8). */
const KINDS = 'iilzttittltztlttttttittitttilfl';
const FIRST_COLUMN = 3;
const MARKS = 30;

/** Keys whose value is a text, with their csvlog columns; location and connection_from are put together. */
const TEXTS = new Map([
  ['user', 1],
  ['dbname', 2],
  ['session_id', 5],
  ['ps', 7],
  ['vxid', 9],
  ['error_severity', 11],
  ['state_code', 12],
  ['message', 13],
  ['detail', 14],
  ['hint', 15],
  ['internal_query', 16],
  ['context', 18],
  ['statement', 19],
  ['application_name', 22],
  ['backend_type', 23],
]);
const INT4S = new Map([
  ['pid', 3],
  ['internal_position', 17],
  ['cursor_position', 20],
  ['leader_pid', 24],
]);
const INT8S = new Map([
  ['line_num', 6],
  ['txid', 10],
  ['query_id', 25],
]);
export const TEXT_KEYS = [...TEXTS.keys(), 'remote_host', 'func_name', 'file_name'];
export const INT4_KEYS = [...INT4S.keys()];
export const INT8_KEYS = [...INT8S.keys()];

/** @param {string} name */
export function fixture(name) {
  return readFileSync(new URL(`../../fixtures/jsonlog/${name}`, import.meta.url));
}

/** @returns {Record<string, string>} key -> JSON of its value, in PostgreSQL's order: every key there is */
export function sample() {
  return {
    timestamp: '"2026-05-01 12:34:56.789 UTC"',
    user: '"alice"',
    dbname: '"shop"',
    pid: '4242',
    remote_host: '"10.0.0.7"',
    remote_port: '50123',
    session_id: '"66321234.1092"',
    line_num: '17',
    ps: '"SELECT"',
    session_start: '"2026-05-01 12:00:00 MSK"',
    vxid: '"3/1234"',
    txid: '0',
    error_severity: '"ERROR"',
    state_code: '"42P01"',
    message: '"duration: 12.345 ms  statement: SELECT 1, \'a \\"b\\"\'"',
    detail: '"some\\tdetail"',
    hint: '"a hint"',
    internal_query: '"SELECT inner"',
    internal_position: '7',
    context: '"PL/pgSQL function f() line 1\\nSQL statement"',
    statement: '"SELECT outer"',
    cursor_position: '8',
    func_name: '"exec_simple_query"',
    file_name: '"postgres.c"',
    file_line_num: '1100',
    application_name: '"psql"',
    backend_type: '"client backend"',
    leader_pid: '4200',
    query_id: '-6123456789012345678',
  };
}

/** @param {Record<string, string>} fields key -> JSON of its value */
export function lineOf(fields) {
  return `{${Object.entries(fields)
    .map(([key, value]) => `"${key}":${value}`)
    .join(',')}}`;
}

/**
 * Gives a line to an encoder that has written before, in a buffer with other bytes around the line.
 * @param {string} line
 * @param {{ before?: string, after?: string, encoder?: JsonlogRowEncoder }} [around]
 */
export function encode(line, { before = '{"', after = '\n', encoder = newEncoder() } = {}) {
  const bytes = Buffer.from(before + line + after, 'latin1');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const out = new CopyBuffer(64);
  const earlier = Buffer.alloc(50, 0x77);
  out.buffer.set(earlier);
  out.length = earlier.length;
  out.rows = 5;
  const end = before.length + line.length;
  const stored = encoder.encode(bytes, view, before.length, end, 123_456_789_012, out, RECEIVED_AT_MS);
  assert.equal(bytes.toString('latin1'), before + line + after);
  assert.ok(out.buffer.subarray(0, earlier.length).equals(earlier));
  if (!stored) {
    assert.equal(out.length, earlier.length);
    assert.equal(out.rows, 5);
    const reason = encoder.reason();
    // oxlint-disable-next-line no-control-regex -- a reason is one line for a terminal
    assert.match(reason, /^[^\x00-\x1f\x7f]{3,200}$/);
    return { encoder, reason, raw: null, values: [], marks: 0n };
  }
  assert.equal(out.rows, 6);
  const raw = Buffer.from(out.bytes().subarray(earlier.length));
  const rows = readLogRows(raw);
  assert.equal(rows.length, 1);
  const [row = []] = rows;
  assert.deepEqual(row.slice(0, FIRST_COLUMN), [7, 9, 123_456_789_012n]);
  return {
    encoder,
    reason: null,
    raw,
    values: row.slice(FIRST_COLUMN, MARKS),
    marks: BigInt(row[MARKS] ?? 0),
  };
}

/** @param {Partial<RowContext>} [context] */
export function newEncoder(context) {
  return new JsonlogRowEncoder({ streamId: 7, fileNo: 9, zones: ZONES, ...context });
}

/**
 * @param {Buffer} bytes COPY BINARY rows of the log table without header and trailer
 * @returns {Value[][]} 31 values a row; text as latin1, times as microseconds since 2000
 */
export function readLogRows(bytes) {
  const rows = [];
  for (let at = 0; at < bytes.length;) {
    assert.equal(bytes.readInt16BE(at), KINDS.length);
    at += 2;
    /** @type {Value[]} */
    const row = [];
    for (const kind of KINDS) {
      const length = bytes.readInt32BE(at);
      at += 4;
      const value = bytes.subarray(at, at + Math.max(length, 0));
      at += value.length;
      assert.ok(length >= -1 && at <= bytes.length);
      if (length === -1) row.push(null);
      else if (kind === 't') row.push(value.toString('latin1'));
      else if (kind === 'i') row.push((assert.equal(length, 4), value.readInt32BE()));
      else if (kind === 'f') row.push((assert.equal(length, 8), value.readDoubleBE()));
      else row.push((assert.equal(length, 8), value.readBigInt64BE()));
    }
    rows.push(row);
  }
  return rows;
}

/**
 * What a line says, by JSON.parse() for its form and by plain searching for its tokens.
 * @param {string} line
 * @returns {Map<string, string> | null} key -> token; null: not a flat object of jsonlog's keys with one value each
 */
export function tokensOf(line) {
  let object;
  try {
    object = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof object !== 'object' || object === null || Array.isArray(object)) return null;
  const known = Object.keys(sample());
  const tokens = new Map();
  const pair = /\s*("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|[^",\s{}[\]]+)\s*([,}])/gy;
  pair.lastIndex = line.indexOf('{') + 1;
  let separator = ',';
  while (separator === ',') {
    const match = pair.exec(line);
    if (!match) return null;
    const key = JSON.parse(match[1] ?? '');
    if (tokens.has(key) || !known.includes(key)) return null;
    tokens.set(key, match[2]);
    separator = match[3] ?? '';
  }
  assert.equal(tokens.size, Object.keys(object).length);
  return tokens;
}

/**
 * @param {string} token of a JSON string
 * @returns {string} the bytes it stands for as latin1; half of a surrogate pair as UTF-8 would write it
 */
function textOf(token) {
  const utf8 = (/** @type {number} */ code) =>
    code >= 0xd800 && code < 0xe000
      ? String.fromCharCode(0xed, 0x80 | ((code >> 6) & 63), 0x80 | (code & 63))
      : Buffer.from(String.fromCodePoint(code)).toString('latin1');
  return token
    .slice(1, -1)
    .replaceAll(
      /\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\(.)/gi,
      (_, high, low, unit, letter) => {
        if (letter) return JSON.parse(`"\\${letter}"`);
        if (unit) return utf8(parseInt(unit, 16));
        return Buffer.from(String.fromCharCode(parseInt(high, 16), parseInt(low, 16))).toString('latin1');
      },
    );
}

/**
 * @param {Map<string, string>} tokens
 * @returns {{ values: Value[], marks: bigint } | null} the 26 columns and duration_ms, texts as they were written;
 *   null: cannot be a row. Only for lines whose time zones are those of ZONES, numeric or nonsense.
 */
export function expectedRow(tokens) {
  /** @type {Value[]} */
  const values = Array.from({ length: 27 }, () => null);
  let marks = 0n;
  const present = new Map([...tokens].filter(([, token]) => token !== 'null'));
  const isString = (/** @type {string | undefined} */ token) => token?.startsWith('"') ?? false;
  const isInteger = (/** @type {string | undefined} */ token) => /^-?\d+$/.test(token ?? '');
  for (const [key, token] of present) {
    const text = TEXTS.get(key);
    const number = INT4S.get(key) ?? INT8S.get(key);
    if (text !== undefined) {
      if (!isString(token)) return null;
      values[text] = textOf(token);
    } else if (number !== undefined) {
      if (!isInteger(token)) return null;
      const bits = INT4S.has(key) ? 32 : 64;
      if (BigInt.asIntN(bits, BigInt(token)) !== BigInt(token)) return null;
      values[number] = INT4S.has(key) ? Number(token) : BigInt(token);
    }
  }
  const [host, port] = [present.get('remote_host'), present.get('remote_port')];
  if (port !== undefined && !(host && /^\d+$/.test(port))) return null;
  if (host) {
    if (!isString(host)) return null;
    values[4] = textOf(host) + (port ? `:${port}` : '');
  }
  const [func, file, line] = ['func_name', 'file_name', 'file_line_num'].map(key => present.get(key));
  if ((func && !isString(func)) || (file && !isString(file))) return null;
  if (line !== undefined && !(file && /^\d+$/.test(line))) return null;
  const place = file && textOf(file) + (line ? `:${line}` : '');
  if (func || file) values[21] = [func && textOf(func), place].filter(part => part !== undefined).join(', ');
  values[12] ??= '00000';
  values[22] ??= '';

  const time = present.get('timestamp');
  if (time === undefined || !isString(time)) return null;
  const logTime = instantOf(textOf(time));
  if (logTime === null) return null;
  if (logTime === 'zone') marks |= 1n;
  values[0] = logTime === 'zone' ? BigInt(RECEIVED_AT_MS - Date.UTC(2000, 0, 1)) * 1000n : logTime;
  const start = present.get('session_start');
  if (start !== undefined) {
    if (!isString(start)) return null;
    const instant = instantOf(textOf(start));
    if (typeof instant === 'bigint') values[8] = instant;
    else marks |= 1n << 8n;
  }
  const duration = /^duration: (\d+(?:\.\d+)?) ms(?=[ ,]|$)/.exec(String(values[13]));
  if (duration) values[26] = Number(duration[1]);
  return { values, marks };
}

/**
 * @param {string} text
 * @returns {bigint | 'zone' | null} microseconds since 2000; the zone is not known; no time
 */
function instantOf(text) {
  const match = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))? ([a-z]+|[+-]\d\d(?::?\d\d)?)$/i.exec(
    text,
  );
  if (!match) return null;
  const [, date = '', time, fraction = '', zone = ''] = match;
  const ms = Date.parse(`${date}T${time}Z`);
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== date || date < '0001') return null;
  const numeric = /^([+-])(\d\d):?(\d\d)?$/.exec(zone);
  const east = numeric
    ? Number(`${numeric[1]}1`) * (Number(numeric[2]) * 3600 + Number(numeric[3] ?? 0) * 60)
    : ZONES.get(zone.toUpperCase());
  if (east === undefined) return 'zone';
  return BigInt(ms - Date.UTC(2000, 0, 1) - east * 1000) * 1000n + BigInt(fraction.padEnd(6, '0'));
}

/**
 * @param {{ values: Value[], marks: bigint }} row as encode() gives it
 * @returns {{ values: Value[], marks: bigint }} its escaped texts as they were written, and the marks of times
 */
export function unescaped({ values, marks }) {
  const times = marks & 0x101n;
  return {
    values: values.map((value, column) => {
      if (!(marks & ~times & (1n << BigInt(column)))) {
        assert.ok(typeof value !== 'string' || isText(value), `column ${column} cannot be stored: ${value}`);
        return value;
      }
      const original = String(value).replaceAll(/\\(?:\\|x([0-9a-f]{2}))/g, (_, hex) =>
        hex ? String.fromCharCode(parseInt(hex, 16)) : '\\',
      );
      assert.ok(!isText(original), `column ${column} was escaped without need`);
      return original;
    }),
    marks: times,
  };
}

/** @param {string} latin1 */
function isText(latin1) {
  const bytes = Buffer.from(latin1, 'latin1');
  return !bytes.includes(0) && Buffer.from(bytes.toString('utf8')).equals(bytes);
}
