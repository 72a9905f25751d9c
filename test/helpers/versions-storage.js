/**
 * Where the oracle (versions-oracle.js) compares rows: a PostgreSQL with two databases. One takes any bytes for text
 * and reads csv files by COPY; the other is in UTF-8, takes those texts as bytea and our rows as they are stored.
 */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer as collected } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { Client, escapeLiteral } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { COPY_HEADER, COPY_TRAILER, CopyBuffer } from '../../src/codec/copy-buffer.js';
import { CSVLOG_COLUMNS, INT4, INT8, TEXT } from '../../src/codec/copy-columns.js';
import { startPostgres } from './postgres.js';
import { TERSE } from './workload-context.js';

/** @import { Rejected } from '../../src/codec/copy-rejected.js' */
/** @import { CutRecord, RowSink } from '../../src/codec/row-sink.js' */
/** @typedef {{ write: (chunk: Buffer, sink: RowSink) => void, end: (sink: RowSink) => void }} Parser */

/** The pieces a file is cut into, in turn: what comes over the wire, what is left of it, and nearly nothing. */
const CHUNK_BYTES = [65_536, 100_003, 17, 4096];
const SHOWN_DIFFERENCES = 10;
const SHOWN_CHARACTERS = 200;
/** A time of arrival that no record of a running server has. */
const RECEIVED_AT_MS = Date.UTC(2001, 1, 3);

/** Texts a session gives itself: a line that holds them between spaces can be read in more than one way. */
const NAME_COLUMNS = ['user_name', 'database_name', 'application_name'];

/** What log_error_verbosity = terse keeps from stderr, and positions, since it is not told what they are in. */
const VERBOSE_COLUMNS = ['detail', 'hint', 'internal_query', 'internal_query_pos', 'context', 'query_pos'];
/** Texts that stand in a prefix where a field may be empty. */
const PREFIX_TEXTS = new Set([...NAME_COLUMNS, 'command_tag', 'virtual_transaction_id']);

const TYPES = new Map([
  [TEXT, 'text'],
  [INT4, 'integer'],
  [INT8, 'bigint'],
]);
const NAMES = CSVLOG_COLUMNS.map(([name]) => name);

/** @typedef {Awaited<ReturnType<typeof openStorage>>} Storage */

/** A PostgreSQL with two databases: one that takes any bytes for text, and one in UTF-8, where rows are compared. */
export async function openStorage() {
  const postgres = await startPostgres();
  const bytes = new Client(await postgres.createDatabase('bytes', { encoding: 'SQL_ASCII' }));
  const client = new Client(postgres.connectionOptions);
  await Promise.all([bytes.connect(), client.connect()]);
  await bytes.query(`SET client_encoding = 'SQL_ASCII'`);
  await client.query(READ_AS_TEXT);
  const abbreviations = await client.query(
    'SELECT abbrev, extract(epoch FROM utc_offset)::int AS seconds FROM pg_timezone_abbrevs',
  );
  /** @type {ReadonlyMap<string, number>} */
  const zones = new Map(abbreviations.rows.map(row => [row.abbrev, row.seconds]));

  async function reset() {
    await bytes.query(`DROP TABLE IF EXISTS theirs; CREATE TABLE theirs (n serial, ${columnsAs('text')})`);
    await client.query(
      'DROP TABLE IF EXISTS theirs, theirs_bytes, ours, ours_decoded, from_json, from_stderr',
    );
    await client.query(`CREATE UNLOGGED TABLE theirs_bytes (n int, ${columnsAs('bytea')})`);
  }

  /**
   * Reads the files by PostgreSQL's COPY; readTheirs() says as what.
   * @param {Buffer[]} files
   * @param {number} columns how many the records have
   */
  async function copyCsv(files, columns) {
    const target = `theirs (${NAMES.slice(0, columns).join(', ')})`;
    for (const file of files) {
      const copy = copyFrom(`COPY ${target} FROM STDIN WITH (FORMAT csv)`);
      await pipeline(Readable.from([file]), bytes.query(copy));
    }
    const moved = await collected(bytes.query(copyTo('COPY theirs TO STDOUT WITH (FORMAT binary)')));
    const copy = copyFrom('COPY theirs_bytes FROM STDIN WITH (FORMAT binary)');
    await pipeline(Readable.from([moved]), client.query(copy));
  }

  /**
   * Fills `theirs` with the rows that copyCsv() has read.
   * @param {ReadonlyMap<string, string>} [encodings] of databases, whose names are latin1: texts in these are converted
   */
  async function readTheirs(encodings = new Map()) {
    const texts = CSVLOG_COLUMNS.map(([name, kind]) =>
      kind === TEXT ? `read_as_text(${name}, encoding) AS ${name}` : name,
    );
    const marks = CSVLOG_COLUMNS.flatMap(([name, kind], column) =>
      kind === TEXT
        ? [
            `CASE WHEN ${name} IS NOT NULL AND decoded(${name}, encoding) IS NULL THEN ${2 ** column} ELSE 0 END`,
          ]
        : [],
    );
    const whens = [...encodings].map(
      ([name, encoding]) => `WHEN '\\x${Buffer.from(name, 'latin1').toString('hex')}' THEN '${encoding}'`,
    );
    const encoding = whens.length > 0 ? `CASE database_name ${whens.join(' ')} END` : 'NULL';
    await client.query(`
      DROP TABLE IF EXISTS theirs;
      CREATE UNLOGGED TABLE theirs AS
      SELECT n, ${texts.join(', ')}, nullif((${marks.join(' + ')})::bigint, 0) AS marks,
        substring(read_as_text(message, encoding) FROM '^duration: ([0-9]+(?:[.][0-9]+)?) ms')::float8 AS duration_ms
      FROM (SELECT *, ${encoding} AS encoding FROM theirs_bytes) x`);
  }

  /**
   * Fills a table with what a parser makes of the files.
   * @param {string} table
   * @param {Buffer[]} files
   * @param {(fileNo: number, zones: ReadonlyMap<string, number>) => Parser} parserOf
   */
  async function store(table, files, parserOf) {
    await client.query(`CREATE UNLOGGED TABLE ${table} (stream_id int, file_no int, file_offset bigint,
      ${columnsAs('text')}, duration_ms float8, marks bigint)`);
    /** @type {(Omit<Rejected, 'bytes'> & { shown: string })[]} */
    const rejected = [];
    let stored = 0;
    /** @type {CutRecord[]} */
    const cut = [];
    for (const [fileNo, file] of files.entries()) {
      const rows = new CopyBuffer();
      const sink = {
        rows,
        days: new Set(),
        receivedAtMs: RECEIVED_AT_MS,
        /** @param {Rejected} rejected */
        reject: ({ bytes: piece, ...rest }) =>
          rejected.push({ ...rest, shown: Buffer.from(piece).toString('latin1').slice(0, SHOWN_CHARACTERS) }),
        /** @param {CutRecord} record */
        cut: record => cut.push(record),
      };
      const parser = parserOf(fileNo, zones);
      for (let at = 0, turn = 0; at < file.length; turn += 1) {
        const end = at + CHUNK_BYTES[turn % CHUNK_BYTES.length];
        parser.write(file.subarray(at, end), sink);
        at = end;
      }
      parser.end(sink);
      stored += rows.rows;
      const copy = copyFrom(`COPY ${table} FROM STDIN WITH (FORMAT binary)`);
      await pipeline(Readable.from([COPY_HEADER, rows.bytes(), COPY_TRAILER]), client.query(copy));
    }
    assert.deepEqual(cut, []);
    return { rejected, rows: stored };
  }

  /**
   * Makes csv_in_order and stderr_in_order, in which records have their place among those of their process, and texts
   * are given as far as stderr has them.
   * @param {string} csv a table
   * @param {string} stderr a table
   * @param {string[]} sessionColumns those that only records of sessions have: %q comes before them
   */
  async function putInOrder(csv, stderr, sessionColumns) {
    const names = NAME_COLUMNS.map(name => `coalesce(${name}, '')`).join(` || ' ' || `);
    const alike = NAMES.map(name => {
      const conditions = [];
      if (NAME_COLUMNS.includes(name)) conditions.push('odd');
      if (sessionColumns.includes(name)) conditions.push('no_session');
      if (VERBOSE_COLUMNS.includes(name)) conditions.push('terse');
      // stderr has a position without its statement, csvlog does not.
      if (name === 'query_pos') conditions.push('query IS NULL');
      // A prefix has nothing where csvlog has an empty text, and [unknown] for a name.
      const value = PREFIX_TEXTS.has(name) ? `nullif(${name}, '')` : name;
      return conditions.length === 0
        ? `${value} AS ${name}`
        : `CASE WHEN NOT (${conditions.join(' OR ')}) THEN ${value} END AS ${name}`;
    });
    await client.query(`
      DROP TABLE IF EXISTS csv_in_order, stderr_in_order, processes;
      CREATE TEMP TABLE processes AS
        SELECT process_id, bool_or(${names} ~ '\\n') AS unreadable, bool_or(${names} !~ '^[[:alnum:]_ -]*$') AS odd,
          bool_and(connection_from IS NULL) AS no_session,
          bool_or(coalesce(application_name, '') ~ '^${TERSE}') AS terse
        FROM ${csv} GROUP BY process_id`);
    for (const [table, source] of [
      ['csv_in_order', csv],
      ['stderr_in_order', stderr],
    ]) {
      await client.query(`
        CREATE TEMP TABLE ${table} AS
        SELECT row_number() OVER (PARTITION BY process_id ORDER BY file_no, file_offset) AS place,
          ${alike.join(', ')}, duration_ms
        FROM ${source} LEFT JOIN processes USING (process_id)
        WHERE process_id IS NOT NULL AND unreadable IS NOT TRUE`);
    }
  }

  /**
   * @param {string} table
   * @returns {Promise<string[]>} messages of records that no process is known of
   */
  async function strayTexts(table) {
    const { rows } = await client.query(
      `SELECT DISTINCT message FROM ${table} WHERE process_id IS NULL ORDER BY 1`,
    );
    return rows.map(row => row.message);
  }

  /**
   * @param {string} expected a table
   * @param {string} actual a table
   * @param {string[]} columns to compare
   * @param {string[]} key names a record
   */
  async function expectSame(expected, actual, columns, key) {
    for (const table of [expected, actual]) {
      const counted = await client.query(
        `SELECT count(*)::int AS rows, count(DISTINCT (${key.join(', ')}))::int AS keys FROM ${table}`,
      );
      const [{ rows, keys }] = counted.rows;
      assert.ok(rows > 100, `${table} has ${rows} rows`);
      assert.equal(keys, rows, `two rows of ${table} have the same ${key.join(', ')}`);
    }
    const shown = (/** @type {string} */ text) => `left(${text}::text, ${SHOWN_CHARACTERS})`;
    const one = await client.query(`
      SELECT e.present IS NULL AS unexpected, ${key.join(', ')}, ${shown('coalesce(e.message, a.message)')} AS message
      FROM (SELECT 1 AS present, * FROM ${expected}) e FULL JOIN (SELECT 1 AS present, * FROM ${actual}) a USING (${key.join(', ')})
      WHERE e.present IS NULL OR a.present IS NULL LIMIT ${SHOWN_DIFFERENCES}`);
    assert.deepEqual(one.rows, [], `records of ${expected} or ${actual} alone`);
    const fields = columns.map(
      column => `SELECT ${escapeLiteral(column)} AS "column", ${key.join(', ')}, ${shown(`e.${column}`)} AS expected,
        ${shown(`a.${column}`)} AS actual, ${shown('e.message')} AS message
        FROM ${expected} e JOIN ${actual} a USING (${key.join(', ')}) WHERE e.${column} IS DISTINCT FROM a.${column}`,
    );
    const differences = await client.query(
      `SELECT * FROM (${fields.join(' UNION ALL ')}) d LIMIT ${SHOWN_DIFFERENCES}`,
    );
    assert.deepEqual(differences.rows, [], `${expected} and ${actual} differ`);
  }

  async function close() {
    await Promise.all([bytes.end(), client.end()]);
    await postgres.stop();
  }

  return { client, reset, copyCsv, readTheirs, store, putInOrder, strayTexts, expectSame, close };
}

/**
 * The csvlog columns for CREATE TABLE.
 * @param {'text' | 'bytea'} text the type of texts
 */
function columnsAs(text) {
  return CSVLOG_COLUMNS.map(([name, kind]) => {
    if (kind === TEXT) return `${name} ${text}`;
    // The manual's type, which rounds.
    if (name === 'log_time') return `${name} timestamp(3) with time zone`;
    return `${name} ${TYPES.get(kind) ?? 'timestamp with time zone'}`;
  }).join(', ');
}

/**
 * What bytes are stored as: the text that they are in UTF-8 or else in the encoding, if one is given, else with \xNN
 * for each byte of no valid sequence and \\ for a backslash. A valid sequence is as in RFC 3629, written over latin1:
 * one character a byte.
 */
const READ_AS_TEXT = `
CREATE FUNCTION converted(value bytea, encoding text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $f$
BEGIN
  RETURN convert_from(value, encoding);
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN NULL;
END $f$;
CREATE FUNCTION decoded(value bytea, encoding text) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  -- Without a byte above 127 there is nothing to try, and a block with an exception is dear.
  SELECT CASE WHEN octet_length(convert_to(convert_from(value, 'LATIN1'), 'UTF8')) = octet_length(value)
    THEN convert_from(value, 'UTF8') ELSE coalesce(converted(value, 'UTF8'), converted(value, encoding)) END
$f$;
CREATE FUNCTION read_as_text(value bytea, encoding text) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  SELECT coalesce(decoded(value, encoding), (
    SELECT string_agg(coalesce(convert_from(convert_to(found[1], 'LATIN1'), 'UTF8'),
                               '\\x' || lpad(to_hex(ascii(found[2])), 2, '0')), '' ORDER BY place)
    FROM regexp_matches(replace(convert_from(value, 'LATIN1'), '\\', '\\\\'),
      '([\\u0001-\\u007f]+|[\\u00c2-\\u00df][\\u0080-\\u00bf]|\\u00e0[\\u00a0-\\u00bf][\\u0080-\\u00bf]' ||
      '|[\\u00e1-\\u00ec\\u00ee\\u00ef][\\u0080-\\u00bf]{2}|\\u00ed[\\u0080-\\u009f][\\u0080-\\u00bf]' ||
      '|\\u00f0[\\u0090-\\u00bf][\\u0080-\\u00bf]{2}|[\\u00f1-\\u00f3][\\u0080-\\u00bf]{3}' ||
      '|\\u00f4[\\u0080-\\u008f][\\u0080-\\u00bf]{2})|(.)', 'g') WITH ORDINALITY AS _(found, place)))
$f$`;
