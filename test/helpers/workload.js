/**
 * A workload that makes a PostgreSQL (13 to 18) write all that is hard to read in a log: errors, odd texts, parameters
 * and sessions (workload-errors.js), plans, locks, encodings, huge statements (workload-work.js), a crash.
 * For a server started by startPostgres with workloadSettings() and `tcp: true`. The records depend on the server's
 * version, and on timing in their number and order; covered() in versions-coverage.js says what must be among them.
 * size 'quick': about 2 s and a few MB a destination; 'full': about 10 s and some tens of MB.
 */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WireSession } from './wire-session.js';
import { all, HOSTILE_NAME, isAscii, POLL_MS, quoted, raw, TWO_LINES } from './workload-context.js';
import { until } from './until.js';
import { connections, errors, parameters, texts } from './workload-errors.js';
import { FUNCTIONS, TABLES } from './workload-statements.js';
import {
  configuration,
  crowd,
  encodings,
  functions,
  huge,
  locks,
  maintenance,
  parallelWorkers,
  plans,
  transactions,
} from './workload-work.js';

/** @import { TestPostgres } from './postgres.js' */
/** @import { Connect, Context, Size } from './workload-context.js' */

/**
 * Databases that are not in UTF-8: their names as they are in the log, one character a byte, and their encodings as
 * PostgreSQL names them.
 */
export const ENCODED_DATABASES = new Map([
  ['win', 'WIN1251'],
  ['lat', 'LATIN1'],
  ['euc', 'EUC_JP'],
  ['\xe1\xe0\xe7\xe0', 'WIN1251'],
]);

/**
 * @param {number} major
 * @param {{ timeZone: string, linePrefix: string, rotationSize?: string }} options
 * @returns {Record<string, string>} for startPostgres: every destination the version has
 */
export function workloadSettings(major, { timeZone, linePrefix, rotationSize = '2MB' }) {
  return {
    logging_collector: 'on',
    log_destination: major >= 15 ? 'stderr,csvlog,jsonlog' : 'stderr,csvlog',
    log_directory: 'log',
    log_filename: 'postgresql-%Y-%m-%d_%H%M%S.log',
    log_rotation_size: rotationSize,
    log_line_prefix: linePrefix,
    log_timezone: timeZone,
    log_statement: 'all',
    log_connections: 'on',
    log_disconnections: 'on',
    log_checkpoints: 'on',
    log_lock_waits: 'on',
    log_temp_files: '0',
    log_replication_commands: 'on',
    log_autovacuum_min_duration: '0',
    autovacuum_naptime: '1s',
    autovacuum_vacuum_threshold: '10',
    autovacuum_vacuum_scale_factor: '0',
    deadlock_timeout: '50ms',
    max_prepared_transactions: '4',
    max_parallel_workers_per_gather: '2',
    max_wal_senders: '2',
    track_io_timing: 'on',
    ...(major >= 14 && { compute_query_id: 'on' }),
  };
}

/**
 * @param {TestPostgres} server
 * @param {{ size: Size }} options
 */
export async function runWorkload(server, { size }) {
  const address = { host: server.socketDir, port: server.port };
  /** @type {Connect} */
  const connect = ({
    as = 'postgres',
    database = 'postgres',
    application,
    settings,
    tcp,
    password,
    more,
  } = {}) => {
    const options = Object.entries(settings ?? {}).map(([name, value]) => `-c ${name}=${value}`);
    return WireSession.connect(
      tcp ? { host: '127.0.0.1', port: server.port } : address,
      {
        user: as,
        database,
        ...(application !== undefined && { application_name: application }),
        ...(options.length > 0 && { options: options.join(' ') }),
        ...more,
      },
      password,
    );
  };
  const context = { server, connect, size };
  await setUp(context);
  await Promise.all([errors(context), texts(context), parameters(context), connections(context)]);
  await Promise.all([functions(context), plans(context), locks(context), parallelWorkers(context)]);
  await rotate(context);
  await Promise.all([
    encodings(context),
    transactions(context),
    maintenance(context),
    configuration(context),
  ]);
  await Promise.all([huge(context), crowd(context)]);
  if (size === 'full') {
    await autovacuumed(context);
    await crash(context);
    await errors(context);
  }
  await rotate(context);
}

/** @param {Context} context */
async function setUp({ server, connect }) {
  const admin = await connect({ application: 'set-up' });
  await all(admin, [...TABLES, ...FUNCTIONS]);
  for (const name of [HOSTILE_NAME, TWO_LINES]) {
    await admin.query(`CREATE ROLE ${quoted(name)} SUPERUSER LOGIN`);
    await admin.query(`CREATE DATABASE ${quoted(name)} TEMPLATE template0`);
  }
  await admin.query(`CREATE ROLE роль SUPERUSER LOGIN`);
  await admin.query(`CREATE ROLE with_password LOGIN PASSWORD 'right'`);
  await admin.query(`CREATE ROLE without_password LOGIN`);
  await admin.query(`CREATE ROLE refused LOGIN`);
  await admin.query(`CREATE ROLE limited LOGIN CONNECTION LIMIT 0`);
  await admin.query(`CREATE ROLE locked_out NOLOGIN`);
  for (const [name, encoding] of ENCODED_DATABASES) {
    if (isAscii(name)) await server.createDatabase(name, { encoding });
  }
  await server.createDatabase('raw', { encoding: 'SQL_ASCII' });
  // Names are in the encoding of the database where they were given.
  const win = await connect({ database: 'win' });
  for (const [name, encoding] of ENCODED_DATABASES) {
    if (isAscii(name)) continue;
    await win.query(
      raw(`CREATE DATABASE "${name}" TEMPLATE template0 ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C'`),
    );
    await win.query(raw(`CREATE ROLE "${name}" SUPERUSER LOGIN`));
  }
  await win.end();
  const hba = path.join(server.dataDir, 'pg_hba.conf');
  const lines = 'local all with_password,without_password password\nlocal all refused reject\n';
  await writeFile(hba, lines + (await readFile(hba, 'utf8')));
  await admin.query('SELECT pg_reload_conf()');
  await admin.end();
}

/** @param {Context} context */
async function rotate({ connect }) {
  const session = await connect({ application: 'rotation' });
  await session.query('SELECT pg_rotate_logfile()');
  await session.end();
}

/** @param {Context} context */
async function autovacuumed({ server }) {
  const sql = `SELECT 1 FROM pg_stat_user_tables WHERE relname = 'dead_rows' AND autovacuum_count > 0`;
  await until(async () => (await server.query(sql)).rowCount === 1);
}

/**
 * A backend that is killed takes all others with it, and the server recovers.
 * @param {Context} context
 */
async function crash({ connect }) {
  const victim = await connect({ application: 'victim' });
  const witness = await connect({ application: 'witness' });
  process.kill(victim.pid, 'SIGKILL');
  while (!witness.closed) await sleep(POLL_MS);
  await until(async () => {
    const session = await connect({ application: 'after the crash' });
    const failed = session.closed;
    await session.end();
    return !failed;
  });
}
