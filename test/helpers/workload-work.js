/** Phases of the workload (workload.js): what a server does besides failing. */
import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from './until.js';
import { all, POLL_MS, raw, TERSE } from './workload-context.js';
import { ENCODED_STATEMENTS, ERRORS, EXPLAINED, MAINTENANCE, RAISES, TEXTS } from './workload-statements.js';

/** @import { TestPostgres } from './postgres.js' */
/** @import { Context } from './workload-context.js' */

const MIB = 1024 * 1024;

/**
 * Messages raised in functions, of every severity and with every field, and errors within functions.
 * @param {Context} context
 */
export async function functions({ connect }) {
  /** @type {Record<string, string>[]} */
  const verbosities = [
    { log_min_messages: 'debug1' },
    { log_min_messages: 'info', log_error_verbosity: 'verbose' },
    { log_min_messages: 'notice', log_error_verbosity: 'terse', log_statement: 'none' },
  ];
  for (const settings of verbosities) {
    const application = settings.log_error_verbosity === 'terse' ? `${TERSE} functions` : 'functions';
    const session = await connect({ application, settings });
    await all(session, RAISES);
    for (const sql of RAISES) await session.execute(sql, []);
    await session.end();
  }
}

/**
 * Plans by auto_explain, statistics and parse trees.
 * @param {Context} context
 */
export async function plans({ connect, size }) {
  const session = await connect({ application: 'plans' });
  await all(session, [
    `LOAD 'auto_explain'`,
    'SET auto_explain.log_min_duration = 0',
    'SET auto_explain.log_nested_statements = on',
    'SET auto_explain.log_analyze = on',
    'SET auto_explain.log_verbose = on',
    'SET auto_explain.log_settings = on',
  ]);
  for (const format of size === 'full' ? ['text', 'json', 'xml', 'yaml'] : ['text', 'json']) {
    await session.query(`SET auto_explain.log_format = ${format}`);
    await all(session, EXPLAINED);
    await session.execute('SELECT count(*) FROM numbers WHERE n < $1::int', ['7']);
  }
  await all(session, [
    'SET auto_explain.log_min_duration = -1',
    'SET log_parser_stats = on; SET log_planner_stats = on; SET log_executor_stats = on',
    'SELECT count(*) FROM numbers',
    'RESET log_parser_stats; RESET log_planner_stats; RESET log_executor_stats',
    'SET debug_print_parse = on; SET debug_print_rewritten = on; SET debug_print_plan = on',
    ...EXPLAINED.slice(0, 2),
    'SET debug_pretty_print = off',
    EXPLAINED[0],
  ]);
  await session.end();
}

/**
 * Lock waits, deadlock, time-outs, cancelling and terminating.
 * @param {Context} context
 */
export async function locks({ server, connect }) {
  const address = { host: server.socketDir, port: server.port };
  const one = await connect({ application: 'one' });
  const other = await connect({ application: 'other' });
  await one.query('BEGIN; UPDATE accounts SET sum = 1 WHERE id = 1');
  await other.query('BEGIN; UPDATE accounts SET sum = 2 WHERE id = 2');
  await Promise.all([
    one.query('UPDATE accounts SET sum = 3 WHERE id = 2'),
    other.query('UPDATE accounts\n SET sum = 4 WHERE id = 1'),
  ]);
  await all(one, ['ROLLBACK']);
  await all(other, ['ROLLBACK', `SET lock_timeout = '150ms'`]);

  await one.query('BEGIN; LOCK TABLE accounts');
  await other.query('SELECT * FROM accounts');
  await other.query('SET lock_timeout = 0');
  await Promise.all([other.query('SELECT * FROM accounts'), one.query('SELECT pg_sleep(0.15); COMMIT')]);

  await other.query(`SET statement_timeout = '20ms'`);
  await all(other, ['SELECT pg_sleep(10)', 'SET statement_timeout = 0']);
  const sleeping = other.query('SELECT pg_sleep(10) /* to be cancelled */');
  await activity(server, other.pid);
  await other.cancel(address);
  await sleeping;
  const ending = other.query('SELECT pg_sleep(10) /* to be terminated */');
  await activity(server, other.pid);
  await one.query(`SELECT pg_terminate_backend(${other.pid})`);
  await ending;
  await other.end();
  await one.query(`SET idle_in_transaction_session_timeout = '20ms'; BEGIN`);
  while (!one.closed) await sleep(POLL_MS);
}

/**
 * Waits until a backend sleeps in pg_sleep().
 * @param {TestPostgres} server
 * @param {number} pid
 */
async function activity(server, pid) {
  const sql = `SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`;
  await until(async () => (await server.query(sql, [pid])).rowCount === 1);
}

/**
 * Messages of parallel workers, which name their leader.
 * @param {Context} context
 */
export async function parallelWorkers({ connect }) {
  const session = await connect({ application: 'leader', settings: { log_min_messages: 'notice' } });
  await all(session, [
    'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0',
    // Whoever scans a row raises its message: with the leader idle, the workers do.
    'SET parallel_leader_participation = off',
    'SELECT count(*) FROM numbers WHERE noisy(n) > 0',
    'SELECT count(*) FROM numbers WHERE 10 / (n - 500) > 100',
    `SET log_error_verbosity = verbose`,
    'SELECT count(*) FROM numbers WHERE 10 / (n - 500) > 100',
  ]);
  await session.end();
}

/** @param {Context} context */
export async function transactions({ connect }) {
  const session = await connect({ application: 'two phases' });
  await all(session, [
    'BEGIN; INSERT INTO promised VALUES (1)',
    `PREPARE TRANSACTION 'gid ''1'', "x"'`,
    `PREPARE TRANSACTION 'without'`,
    `COMMIT PREPARED 'gid ''1'', "x"'`,
    `COMMIT PREPARED 'not there'`,
    'BEGIN; INSERT INTO promised VALUES (2)',
    `PREPARE TRANSACTION 'left over'`,
    'SAVEPOINT nowhere',
    'BEGIN; BEGIN',
    'SAVEPOINT a; SELECT 1/0',
    'SELECT 1',
    'ROLLBACK TO a; RELEASE a',
    'COMMIT',
    'COMMIT',
  ]);
  await session.end();
}

/** @param {Context} context */
export async function maintenance({ connect }) {
  const session = await connect({ application: 'maintenance', settings: { log_min_messages: 'info' } });
  await all(session, MAINTENANCE);
  await session.end();
}

/**
 * A configuration that is wrong, and a program whose own words end up in the log.
 * @param {Context} context
 */
export async function configuration({ server, connect }) {
  const session = await connect({ application: 'configuration' });
  const file = path.join(server.dataDir, 'postgresql.conf');
  const good = await readFile(file, 'utf8');
  for (const text of [
    `${good}work_mem = 'plenty'\nno_such_setting = 1\nmax_connections = 7\n`,
    `${good}log_checkpoints on = = ''\n`,
    good,
  ]) {
    // Put in place whole: a server that reads half a file falls back to its defaults, of log_destination as well.
    await writeFile(`${file}.new`, text);
    await rename(`${file}.new`, file);
    await session.query('SELECT pg_reload_conf()');
  }
  await all(session, [
    `COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; echo a child speaks, "quoted" >&2'`,
    `COPY (SELECT 1) TO PROGRAM 'exit 3'`,
  ]);
  await session.end();
}

/**
 * Databases and clients of other encodings.
 * @param {Context} context
 */
export async function encodings({ connect }) {
  await Promise.all(
    ENCODED_STATEMENTS.map(async ([database, clientEncoding, statements]) => {
      const session = await connect({
        database: raw(database),
        application: `client ${clientEncoding}`,
        settings: { log_min_duration_statement: '0', log_parameter_max_length: '7' },
      });
      await session.query(`SET client_encoding = '${clientEncoding}'`);
      for (const statement of statements) await session.query(raw(statement));
      for (const statement of statements) {
        await session.execute('SELECT $1::text, $1::int', [raw(statement)]);
      }
      await session.end();
    }),
  );
}

/**
 * Statements and parameters of megabytes, and their errors.
 * @param {Context} context
 */
export async function huge({ connect, size }) {
  const session = await connect({ application: 'huge', settings: { log_min_duration_statement: '0' } });
  for (const [index, bytes] of (size === 'full' ? [MIB, 3 * MIB, 6 * MIB] : [MIB]).entries()) {
    const filler = ['one "quoted" word,\n\tnext line ', 'x', '""\\\r\n'][index];
    const text = filler.repeat(bytes / filler.length);
    await session.query(`SELECT length($t$${text}$t$) /* ${bytes} */`);
    if (bytes < 6 * MIB) await session.query(`SELECT length($t$${text}$t$), no_such_column`);
    if (bytes === MIB) await session.execute('SELECT length($1::text), $2::int', [text, 'no number']);
  }
  // Around the size of the pieces in which the collector gets records, and of a page.
  for (const length of [400, 440, 460, 480, 500, 512, 3900, 4000, 4050, 4096, 8150, 8192]) {
    for (let more = 0; more < 3; more += 1) await session.query(`SELECT '${'y'.repeat(length + more)}'`);
  }
  await session.end();
}

/**
 * Several sessions at once.
 * @param {Context} context
 */
export async function crowd({ connect, size }) {
  const statements = [...ERRORS, ...TEXTS, ...RAISES];
  const [sessions, rounds] = size === 'full' ? [8, 600] : [4, 60];
  await Promise.all(
    Array.from({ length: sessions }, async (_, index) => {
      const settings = { log_duration: 'on', log_error_verbosity: index % 2 ? 'verbose' : 'default' };
      const session = await connect({ application: `crowd ${index}`, settings, tcp: index % 2 === 0 });
      for (let round = 0; round < rounds; round += 1) {
        const sql = `/* ${index}.${round} */ ${statements[(round * 7 + index) % statements.length]}`;
        if (round % 3) await session.query(sql);
        else await session.execute(sql, []);
      }
      await session.end();
    }),
  );
}
