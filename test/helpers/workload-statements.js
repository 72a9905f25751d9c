/** The statements of workload.js, by what they are for. Most are meant to fail. */

/** Control bytes, all that may stand in a statement, between quotes. */
const CONTROL_BYTES = `"${String.fromCharCode(...Array.from({ length: 31 }, (_, index) => index + 1), 127)}"`;

export const TABLES = [
  'CREATE TABLE numbers AS SELECT n, n::text AS t FROM generate_series(1, 2000) n',
  'CREATE TABLE accounts (id int PRIMARY KEY, sum int NOT NULL CHECK (sum < 1000000))',
  'INSERT INTO accounts VALUES (1, 0), (2, 0), (3, 0)',
  `CREATE TABLE entries (id int PRIMARY KEY, account int REFERENCES accounts, note varchar(5), at date,
     EXCLUDE USING gist (box(point(id, id), point(id, id)) WITH &&))`,
  'CREATE TABLE dead_rows AS SELECT n FROM generate_series(1, 100) n',
  'DELETE FROM dead_rows',
  'CREATE TABLE promised (x int)',
  `CREATE TABLE "tab,le ""x""" ("co
lumn" int)`,
  'CREATE VIEW seen AS SELECT 1 AS x',
  `CREATE TYPE mood AS ENUM ('good', 'ba''d')`,
  'CREATE DOMAIN small AS int CHECK (VALUE < 10)',
];

export const FUNCTIONS = [
  `CREATE FUNCTION raise(level text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  CASE level
    WHEN 'debug' THEN RAISE DEBUG '%', message;
    WHEN 'log' THEN RAISE LOG '%', message;
    WHEN 'info' THEN RAISE INFO '%', message;
    WHEN 'notice' THEN RAISE NOTICE '%', message;
    WHEN 'warning' THEN RAISE WARNING '%', message;
    ELSE RAISE EXCEPTION '%', message;
  END CASE;
END $$`,
  `CREATE FUNCTION everything(message text, code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING MESSAGE = message, ERRCODE = code, DETAIL = E'a "detail",\\nof two lines\\n',
    HINT = E'\\ta hint,\\r\\n"quoted"', COLUMN = 'c', CONSTRAINT = 'k', DATATYPE = 't', TABLE = 'x', SCHEMA = 's';
END $$`,
  `CREATE FUNCTION dynamic(statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE statement;
END $$`,
  `CREATE FUNCTION deep(depth int, statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF depth = 0 THEN PERFORM dynamic(statement); ELSE PERFORM deep(depth - 1, statement); END IF;
END $$`,
  `CREATE FUNCTION "odd ""name"",
of two lines"(x int) RETURNS int LANGUAGE sql AS 'SELECT 1 / x'`,
  `CREATE FUNCTION sum_of(name text) RETURNS int LANGUAGE sql AS $$
SELECT sum FROM accounts WHERE id = name::int $$`,
  `CREATE FUNCTION noisy(n int) RETURNS int PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
  IF n % 500 = 0 THEN RAISE WARNING E'row "%",\\nof a worker', n USING DETAIL = 'detail', HINT = 'hint'; END IF;
  RETURN n;
END $$`,
  `CREATE FUNCTION caught() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  BEGIN
    PERFORM 1 / 0;
  EXCEPTION WHEN division_by_zero THEN
    RAISE WARNING 'caught: %', SQLERRM USING ERRCODE = SQLSTATE;
  END;
  RAISE;
END $$`,
  `CREATE FUNCTION trigger_fails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no entry for %', NEW USING ERRCODE = 'P0999'; END $$`,
  `CREATE TRIGGER fails BEFORE INSERT ON seen_entries FOR EACH ROW EXECUTE FUNCTION trigger_fails()`,
  `CREATE TABLE seen_entries (x int)`,
  `CREATE TRIGGER fails BEFORE INSERT ON seen_entries FOR EACH ROW EXECUTE FUNCTION trigger_fails()`,
];

/** Of many classes, with and without DETAIL, HINT, CONTEXT, a position. */
export const ERRORS = [
  'SELEC 1',
  'SELECT 1 +',
  `SELECT 'not finished`,
  'SELECT no_such_column FROM accounts',
  'SELECT accounts.idd FROM accounts',
  'SELECT *\nFROM\n\tno_such_table\nWHERE x = 1',
  `SELECT no_such_function(1, 'a'::text)`,
  'SELECT 1 / 0',
  `SELECT 'x'::int`,
  `SELECT '\n2026-01-01 00:00:00.000 UTC [1] LOG:  no record'::int`,
  'SELECT 1::text + 1',
  'SELECT sqrt(-1)',
  'SELECT 2147483647 + 1',
  `SELECT '2026-02-30'::date`,
  `SELECT 'sad'::mood`,
  'SELECT 11::small',
  `SELECT '{"a": tru'::json`,
  `SELECT '{"a":\n"b\nc"}'::jsonb`,
  `SELECT 'a' ~ '('`,
  `SELECT E'\\xff'`,
  `SELECT U&'\\d800'`,
  'SELECT array[1, 2][1:2:3]',
  'SELECT array[[1], [2, 3]]',
  'SELECT sum(n), t FROM numbers',
  'SELECT n FROM numbers a, numbers b',
  'SELECT (SELECT n FROM numbers)',
  'SELECT 1 UNION SELECT 1, 2',
  'SELECT 1 ORDER BY 2',
  'SELECT DISTINCT ON (1, 2) 1',
  'INSERT INTO accounts VALUES (1, 1)',
  'INSERT INTO accounts VALUES (4, NULL)',
  'INSERT INTO accounts VALUES (4, 1000001)',
  'INSERT INTO accounts VALUES (4, 1, 1)',
  `INSERT INTO entries VALUES (1, 99, 'x', now())`,
  `INSERT INTO entries VALUES (1, 1, 'too long', now())`,
  'DELETE FROM accounts WHERE id IN (SELECT 1 / 0)',
  'CREATE TABLE accounts ()',
  'DROP TABLE no_such_table',
  'DROP TABLE IF EXISTS no_such_table',
  'DROP TABLE accounts',
  'ALTER TABLE accounts ADD COLUMN id int',
  'CREATE INDEX ON accounts (none)',
  'CREATE DATABASE postgres',
  'CREATE ROLE postgres',
  'CREATE EXTENSION no_such_extension',
  `LOAD 'no_such_library'`,
  `SET no_such_setting = 1`,
  `SET work_mem = 'lots'`,
  `SET DateStyle = 'nonsense'`,
  `SET client_encoding = 'KLINGON'`,
  `SELECT * FROM "tab,le ""x""" WHERE "co
lumn" = 'x'`,
  `SELECT "${'long'.repeat(20)}" FROM accounts`,
  `SELECT 1 AS "${'very'.repeat(20)}"`,
  `COPY accounts FROM '/no/such/file'`,
  `COPY accounts TO '/no/such/directory/file'`,
  "SELECT pg_read_file('/no/such/file')",
  `SELECT convert_from('\\xff', 'UTF8')`,
  `SELECT set_config('search_path', '"', false)`,
  'FETCH 1 FROM no_such_cursor',
  'DEALLOCATE none',
  'RELEASE nowhere',
  'LOCK TABLE accounts',
  "SELECT nextval('none')",
  'UPDATE seen SET x = 2',
  "SELECT currval(pg_get_serial_sequence('accounts', 'id'))",
  'VACUUM no_such_table',
  'EXPLAIN (NO_SUCH_OPTION) SELECT 1',
  'GRANT SELECT ON accounts TO nobody_there',
  `SELECT repeat('x', 2000000000)`,
  `SELECT lo_get(1)`,
  `SELECT '\u{1F600} ünï "x"'::int`,
  `SELECT "кириллица, 漢字" FROM accounts`,
  '',
  ';;',
  '-- a comment',
  'SELECT 1; SELECT 2 / 0; SELECT 3',
];

/** Words that are data. */
export const TEXTS = [
  'one\ntwo\nthree',
  'one\r\ntwo\r\n',
  '\n\n\n',
  '\n\tindented\n\t\tmore',
  '\tbegins with a tab, ends with spaces   ',
  'tab\tand\rreturn',
  CONTROL_BYTES,
  '"',
  '""',
  '","',
  '"\n"',
  `'"'"'`,
  ',,,,,,,,,,,,,,,,,,,,,,,,,',
  '\\',
  '\\n \\" \\\\ \\u0041 \\x41 \\N',
  'a line\n\\.\nafter the end of COPY',
  '{"timestamp":"2026-01-01 00:00:00.000 UTC","pid":1}',
  '\n{"timestamp":"2026-01-01 00:00:00.000 UTC","pid":1}\n',
  '\n2026-01-01 00:00:00.000 UTC,"a","b",1,"[local]",1.1,1,"X",2026-01-01 00:00:00 UTC,1/1,0,LOG,00000,"m"\n',
  '\n2026-01-01 00:00:00.000 UTC [1] LOG:  not a record\n',
  'DETAIL:  not a detail\nHINT:  not a hint\nCONTEXT:  x\nSTATEMENT:  y\nQUERY:  z\nLOCATION:  f, c:1',
  'duration: 1.5 ms  statement: not a duration',
  '%m %p %u %% %s',
  '\u0080\u0085\u00a0\u2028\u2029\ufeff',
  'ünïcödé, кириллица, 漢字, \u{1F600}, e\u0301',
  '\u{10ffff}',
];

/** Statements with parameters. @type {[string, (string | null)[]][]} */
export const PARAMETERS = [
  ['SELECT $1::text', ['plain']],
  ['SELECT $1::text', [`it's "quoted", with\nnewlines\r\n\tand \\`]],
  ['SELECT $1::text, $2::int', [null, '1']],
  ['SELECT $1::text', ['']],
  ['SELECT $1::text', ['ünï кири 漢字 \u{1F600}\u{1F600}\u{1F600}']],
  ['SELECT $1::text', ['x'.repeat(10_000)]],
  ['SELECT 1 / $1::int', ['0']],
  ['SELECT $1::int', ['not a "number"']],
  ['SELECT $1::date, $2::text', ['2026-02-30', 'later']],
  ['INSERT INTO accounts VALUES ($1, $2)', ['1', '7']],
  ['INSERT INTO entries VALUES ($1, $2, $3, $4)', ['5', '77', 'x', null]],
  ['SELECT sum_of($1)', ['none']],
  [
    `SELECT\n${Array.from({ length: 40 }, (_, index) => `$${index + 1}::text`).join(',\n')}`,
    Array.from({ length: 40 }, (_, index) => (index % 5 ? `value ${index}` : null)),
  ],
];

export const RAISES = [
  ...['debug', 'log', 'info', 'notice', 'warning', 'exception'].flatMap(level => [
    `SELECT raise('${level}', 'one line')`,
    `SELECT raise('${level}', E'two\\n"lines",\\n\\tindented\\n')`,
  ]),
  `SELECT raise('log', '')`,
  `SELECT raise('log', E'\\n')`,
  `SELECT raise('log', 'duration: 12.345 ms  statement: SELECT 1')`,
  `SELECT raise('log', 'duration: no number ms')`,
  `SELECT everything(E'with\\neverything "in, it"', 'P0042')`,
  `SELECT everything('unique', '23505')`,
  `SELECT dynamic('SELECT 1 +')`,
  `SELECT dynamic(E'SELECT\\n  "none"\\nFROM accounts')`,
  `SELECT dynamic('SELECT 1 / 0')`,
  `SELECT dynamic($q$SELECT '"q", ' || 'x'::int$q$)`,
  `SELECT dynamic(E'CREATE FUNCTION bad() RETURNS int LANGUAGE sql AS $b$ SELECT\\n no_such $b$')`,
  `SELECT deep(5, 'SELECT nothing')`,
  `SELECT deep(60, 'SELECT 1 / 0')`,
  `SELECT "odd ""name"",\nof two lines"(0)`,
  `SELECT sum_of('x')`,
  `SELECT caught()`,
  `INSERT INTO seen_entries VALUES (1)`,
  `CREATE FUNCTION wrong() RETURNS int LANGUAGE plpgsql AS 'BEGIN\n  RETURN 1 +;\nEND'`,
  `CREATE FUNCTION wrong() RETURNS int LANGUAGE plpgsql AS 'BEGIN\n  x = 1;\nEND'`,
  `CREATE FUNCTION wrong() RETURNS int LANGUAGE sql AS 'SELECT\n  no_such_column'`,
  `DO $$ BEGIN ASSERT false, E'an "assertion",\\nfailed'; END $$`,
  `DO $$ BEGIN RAISE division_by_zero; END $$`,
  `DO $$ DECLARE x int; BEGIN SELECT n INTO STRICT x FROM numbers; END $$`,
  `DO $$\nBEGIN\n  PERFORM 'x'::int;\nEND\n$$`,
  `DO LANGUAGE none 'x'`,
];

export const EXPLAINED = [
  `SELECT count(*), 'it''s "x"' FROM numbers a JOIN numbers b USING (n) WHERE a.n < 50`,
  `SELECT t FROM numbers\nWHERE n IN (SELECT id FROM accounts)\nORDER BY t`,
  `SELECT sum_of('1')`,
  'UPDATE accounts SET sum = sum + 1 WHERE id = 3',
];

export const MAINTENANCE = [
  'SET client_min_messages = debug1',
  'CHECKPOINT',
  'VACUUM (VERBOSE, ANALYZE) accounts',
  'VACUUM FULL VERBOSE dead_rows',
  'ANALYZE VERBOSE numbers',
  'REINDEX TABLE accounts',
  'CLUSTER accounts USING accounts_pkey',
  `SET work_mem = '64kB'`,
  'SELECT count(*) FROM (SELECT t FROM numbers a, generate_series(1, 20) ORDER BY t || n OFFSET 1) x',
  'RESET work_mem',
  'CREATE TABLE columns_of_all_kinds (a serial PRIMARY KEY, b text UNIQUE, c int REFERENCES accounts)',
  'ALTER TABLE columns_of_all_kinds ALTER b TYPE varchar(3)',
  'TRUNCATE accounts CASCADE',
  `INSERT INTO accounts VALUES (1, 0), (2, 0), (3, 0)`,
  'DROP TABLE columns_of_all_kinds CASCADE',
  'LISTEN "cha,nnel"',
  `NOTIFY "cha,nnel", 'pay"load'`,
  'CREATE TEMP TABLE gone (x int) ON COMMIT DROP',
  'SELECT pg_switch_wal()',
  `SELECT pg_create_restore_point('restore "point"')`,
  'RESET client_min_messages',
];

const RUSSIAN_1251 = '\xef\xf0\xe8\xe2\xe5\xf2';
const RUSSIAN_866 = '\xaf\xe0\xa8\xa2\xa5\xe2';
const JAPANESE_EUC = '\xc6\xfc\xcb\xdc\xb8\xec';
/** A character of three bytes (JIS X 0212) and half-width katakana. */
const RARE_EUC = '\x8f\xb0\xa1 \x8e\xb1';
/** The second byte of each is a backslash or another ASCII character that matters. */
const JAPANESE_SJIS = '\x95\x5c \x83\x5c \x93\xfa\x96\x7b\x8c\xea \xb1';
const WESTERN_1252 = '\x80 \x93quoted\x94 \xe9';

/**
 * Database and client_encoding, and statements in it, as latin1: one character a byte.
 * @type {[database: string, clientEncoding: string, statements: string[]][]}
 */
export const ENCODED_STATEMENTS = [
  ['win', 'WIN1251', statementsOf(RUSSIAN_1251)],
  ['win', 'WIN866', statementsOf(RUSSIAN_866)],
  ['win', 'UTF8', statementsOf(utf8('привет'))],
  ['win', 'UTF8', statementsOf(utf8('漢字 that the database cannot hold'))],
  ['\xe1\xe0\xe7\xe0', 'WIN1251', statementsOf(RUSSIAN_1251)],
  ['lat', 'LATIN1', statementsOf('\xe9\xe8 \xa0\xff\x80\x9f')],
  ['lat', 'WIN1252', statementsOf('\xe9\xe8 \xa0\xff')],
  ['lat', 'UTF8', statementsOf(utf8('naïve café'))],
  // Two bytes that are a character of UTF-8 as well.
  ['lat', 'LATIN1', statementsOf('\xc3\xa9')],
  ['euc', 'EUC_JP', statementsOf(`${JAPANESE_EUC} ${RARE_EUC}`)],
  ['euc', 'SJIS', statementsOf(JAPANESE_SJIS)],
  ['euc', 'UTF8', statementsOf(utf8('日本語'))],
  ['postgres', 'SJIS', statementsOf(JAPANESE_SJIS)],
  ['postgres', 'WIN1252', statementsOf(WESTERN_1252)],
  ['postgres', 'EUC_JP', statementsOf(JAPANESE_EUC)],
  ['postgres', 'LATIN1', statementsOf('\xe9\xff')],
  ['postgres', 'UTF8', statementsOf('not UTF-8: \xff\xe9')],
  // Nothing is checked here.
  ['raw', 'SQL_ASCII', statementsOf(`${RUSSIAN_1251} ${JAPANESE_SJIS} \x80\xff\xfe \\`)],
];

/** @param {string} word */
function statementsOf(word) {
  return [
    `SELECT '${word}'`,
    `SELECT '${word}\n"${word}", \\'::int`,
    `SELECT "${word}"`,
    `SELECT 1 /* ${word} */ FROM "${word}\n${word}"`,
    `DO $$ BEGIN RAISE EXCEPTION '${word}' USING DETAIL = '"${word}"', HINT = '${word}, '; END $$`,
    `DO $$ BEGIN EXECUTE 'SELECT "${word}"'; END $$`,
  ];
}

/** @param {string} text */
function utf8(text) {
  return Buffer.from(text).toString('latin1');
}
