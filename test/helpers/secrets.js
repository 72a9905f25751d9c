/**
 * Secrets that a PostgreSQL is made to write into its log: each has a word of its own that says its class.
 */
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';

/** @import { ClientConfig } from 'pg' */

/** A word of each secret: zq, its class, a number. */
export const WORD = /zq[a-z]{4}\d+/g;
/** @type {Record<string, string>} */
const CLASS_OF_WORD = {
  cred: 'credential',
  pars: 'parsing_error',
  stmt: 'statement_text',
  para: 'statement_parameter',
  tabl: 'table_data',
  oper: 'ops',
  unid: 'unidentified',
  reje: 'rejected',
};
/** Only the messages of these sessions tell. */
const QUIET = `SET log_statement = none; SET log_min_error_statement = panic`;

const FUNCTIONS = [
  `CREATE FUNCTION static() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0 AS zqstmt5; END $$`,
  `CREATE FUNCTION dynamic() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELEC zqstmt6'; END $$`,
  `CREATE FUNCTION tell() RETURNS void LANGUAGE plpgsql AS $$
BEGIN RAISE LOG '%', (SELECT word FROM told) USING DETAIL = 'a detail', HINT = 'a hint'; END $$`,
  `CREATE TABLE told (word text)`,
  `CREATE TYPE mood AS ENUM ('good')`,
  `CREATE TABLE data (k text PRIMARY KEY, v text CHECK (v <> 'bad'), n text NOT NULL)`,
  `CREATE TABLE numbers (i int)`,
  `CREATE TABLE locked (id int, x text); INSERT INTO locked VALUES (1), (2)`,
];

const CREDENTIALS = [
  `CREATE ROLE r1 PASSWORD 'zqcred1'`,
  `ALTER ROLE r1 ENCRYPTED PASSWORD E'it\\'s zqcred2''x' VALID UNTIL '2030-01-01'`,
  `SELECT 'host=db password=zqcred3 user=u'`,
  `SELECT 'postgresql://u:zqcred4@db.example/d'`,
  `DO $$ BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ''it''''s zqcred5'''; END $$`,
  `ALTER ROLE nobody_here PASSWORD 'zqcred6'`,
  `SET application_name = 'password=zqcred7'`,
  `ALTER ROLE r1 password /* ? */ $q$zqcred8$q$`,
  `SELECT '{"user": "u", "password": "zqcred9"}'::json`,
  `COMMENT ON ROLE r1 IS 'PGPASSWORD=zqcred10 psql'`,
];

const STATEMENTS = [
  `SELECT 'zqstmt1'`,
  `SET log_min_duration_statement = 0; SELECT 'zqstmt2\n"x"\n'`,
  `SELECT 1 / 0, 'zqstmt4'`,
  'SELECT static()',
  'SELECT dynamic()',
  `PREPARE p AS SELECT 'zqstmt7'`,
  'EXECUTE p',
];

const TABLE_DATA = [
  `UPDATE data SET k = (SELECT max(k) FROM data)`,
  `UPDATE data SET n = NULL WHERE k = 'a'`,
  `INSERT INTO data SELECT k || '2', 'bad', n FROM data`,
  `SELECT n::int FROM data WHERE k = 'a'`,
  `SELECT n::mood FROM data WHERE k = 'a'`,
  `SELECT n::json FROM data WHERE n LIKE '{%'`,
  `SELECT n::int[] FROM data WHERE n LIKE '{%'`,
];

/** @param {Client} client @param {string} sql @param {unknown[]} [values] that may fail */
const run = (client, sql, values) => client.query(sql, values).catch(() => {});

/** @param {ClientConfig} source */
async function session(source) {
  const client = new Client(source);
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** @param {Client} client @param {string} table @param {string} rows */
function copy(client, table, rows) {
  return new Promise(resolve => {
    const stream = client.query(copyFrom(`COPY ${table} FROM STDIN`));
    stream.on('error', resolve).on('finish', resolve);
    stream.end(rows);
  });
}

/** @param {ClientConfig} source */
async function deadlock(source) {
  const [one, other] = [await session(source), await session(source)];
  for (const [client, id] of /** @type {const} */ ([
    [one, 1],
    [other, 2],
  ]))
    await client.query(`BEGIN; UPDATE locked SET x = 'a' WHERE id = ${id}`);
  const waiting = run(one, `UPDATE locked SET x = 'zqstmt8' WHERE id = 2`);
  await Promise.all([waiting, run(other, `UPDATE locked SET x = 'zqstmt8' WHERE id = 1`)]);
  await Promise.all([one.end(), other.end()]);
}

/** Writes secrets of every class into the log. @param {ClientConfig} source an empty database */
export async function tellSecrets(source) {
  const loud = await session(source);
  for (const sql of [...FUNCTIONS, ...CREDENTIALS, ...STATEMENTS]) await run(loud, sql);
  await run(loud, `SELECT 'zqstmt3', $1::text`, ['zqpara1']);
  await run(loud, 'SET log_parameter_max_length_on_error = -1');
  await run(loud, `SELECT 1 / length($1::text)`, ['zqpara2']);
  await run(loud, `SELECT 1 / (length($1::text) - 7)`, ['zqpara3']);
  await run(loud, `LOAD 'auto_explain'`);
  await run(loud, `SET auto_explain.log_min_duration = 0`);
  await run(loud, `SELECT 'zqstmt9'`);
  await run(loud, 'SELECT length($1::text)', ['zqpara4']);
  await loud.end();
  await deadlock(source);

  const parsing = await session(source);
  await run(parsing, 'SELEC zqpars1');
  await run(parsing, 'SELECT 1 FROM a b zqpars2');
  await run(parsing, `SELECT 'zqpars3`);
  await run(parsing, QUIET);
  await run(parsing, 'SELECT "zqpars4"');
  await run(parsing, 'SELECT * FROM zqpars5');
  await parsing.end();

  const quiet = await session(source);
  await quiet.query(QUIET);
  await copy(quiet, 'told', 'zqunid1\n');
  await copy(quiet, 'data', 'a\tzqtabl1\tzqtabl2\nzqtabl3\tx\t{zqtabl4\n');
  await copy(quiet, 'numbers', '1\nzqtabl5\n');
  await copy(quiet, 'data', 'zqtabl3\tx\tx\n');
  await copy(quiet, 'data', 'zqtabl6\n');
  for (const sql of TABLE_DATA) await run(quiet, sql);
  await run(quiet, 'SELECT tell()');
  await run(quiet, `COPY told FROM '/nowhere/zqoper1'`);
  await run(quiet, `SELECT pg_read_file('zqoper2')`);
  await run(quiet, `ALTER SYSTEM SET archive_command = 'false zqoper4'`);
  await run(quiet, 'SELECT pg_reload_conf()');
  await quiet.end();
}

/** @param {Iterable<string>} words @param {string} name of their class */
export function wordsOf(words, name) {
  return [...words].filter(word => CLASS_OF_WORD[word.slice(2, 6)] === name).toSorted();
}
