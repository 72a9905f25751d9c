/** Phases of the workload (workload.js): errors, odd texts, parameters, odd sessions. */
import { startupMessage, WireSession } from './wire-session.js';
import { all, HOSTILE_NAME, raw, TERSE, TWO_LINES } from './workload-context.js';
import { ERRORS, PARAMETERS, TEXTS } from './workload-statements.js';

/** @import { Context, SessionOptions } from './workload-context.js' */

/**
 * Every kind of error, in each verbosity, by the simple and by the extended protocol.
 * @param {Context} context
 */
export async function errors({ connect }) {
  await Promise.all([
    (async () => {
      const session = await connect({ application: 'errors' });
      await all(session, ERRORS);
      await session.end();
    })(),
    (async () => {
      const settings = {
        log_error_verbosity: 'verbose',
        log_statement: 'none',
        log_min_duration_statement: '0',
      };
      const session = await connect({ application: 'errors verbose', settings, tcp: true });
      for (const sql of ERRORS) await session.execute(sql, []);
      await session.end();
    })(),
    (async () => {
      const settings = { log_error_verbosity: 'terse', log_duration: 'on', log_min_error_statement: 'panic' };
      const session = await connect({ application: `${TERSE} errors`, settings });
      await all(session, ERRORS);
      await session.end();
    })(),
    (async () => {
      const session = await connect({ application: 'debug', settings: { log_min_messages: 'debug5' } });
      await all(session, ERRORS.slice(0, 8));
      await session.end();
    })(),
  ]);
}

/**
 * Texts that look like something else: quotes, newlines, control bytes, other records.
 * @param {Context} context
 */
export async function texts({ connect }) {
  const session = await connect({
    application: 'texts "q", \t\x01\x7f\r\n é',
    settings: { log_min_duration_statement: '0' },
  });
  await all(session, TEXTS);
  for (const text of TEXTS) await session.query(`SELECT $dollar$${text}$dollar$::int`);
  for (const text of TEXTS) await session.execute('SELECT $1::text, $1::int', [text]);
  // A NUL ends the statement, and the message is refused for what follows it.
  await session.query(raw('SELECT 1\0SELECT 2'));
  await session.query(raw('SELECT \xff\xfe'));
  await session.execute('SELECT $1::text', [raw('a\0b')]);
  await session.execute('SELECT $1::text', [raw('a\xff')]);
  await session.end();
}

/**
 * Parameters and prepared statements, with their lengths limited or not.
 * @param {Context} context
 */
export async function parameters({ connect }) {
  for (const [length, onError] of [
    ['-1', '-1'],
    ['0', '0'],
    ['5', '7'],
  ]) {
    const session = await connect({
      application: `parameters ${length}`,
      settings: {
        log_min_duration_statement: '0',
        log_parameter_max_length: length,
        log_parameter_max_length_on_error: onError,
      },
    });
    for (const [sql, values] of PARAMETERS) await session.execute(sql, values);
    await session.execute(`SELECT $1::text, 'named'`, ['x'], { name: `it's "named"`, portal: 'por"tal' });
    await session.execute('SELECT generate_series(1, 10)', [], { limit: 3 });
    await session.execute('SELECT $1::int4', [raw('\0\0\0\x07')], { formats: [1] });
    await session.execute('SELECT $1::int4', [raw('\x07')], { formats: [1] });
    await session.execute('SELECT $1', ['too', 'many']);
    await session.query(`PREPARE p(text, int) AS SELECT $1, 1 / $2`);
    await all(session, [`EXECUTE p('one''s', 1)`, `EXECUTE p('two', 0)`, `EXECUTE p(1)`, `EXECUTE none`]);
    await session.end();
  }
}

/**
 * Sessions of odd names, and those that are refused or break off.
 * @param {Context} context
 */
export async function connections({ server, connect }) {
  const address = { host: server.socketDir, port: server.port };
  for (const name of [HOSTILE_NAME, TWO_LINES]) {
    const session = await connect({ as: name, database: name, application: name });
    await all(session, ['SELECT current_user', 'SELECT no_such_column']);
    await session.end();
  }
  /** @type {SessionOptions[]} */
  const sessions = [
    { as: 'роль', application: 'приложение' },
    { as: raw('\xe1\xe0\xe7\xe0'), database: raw('\xe1\xe0\xe7\xe0') },
    { as: raw('no such role \xff, "x"'), database: raw('no such\tdatabase \xfe') },
    { as: 'nobody\nelse' },
    { database: 'x'.repeat(100) },
    { as: 'with_password', password: 'wrong' },
    { as: 'with_password', password: 'right' },
    { as: 'without_password', password: 'x' },
    { as: 'refused' },
    { as: 'limited' },
    { as: 'locked_out' },
    { as: 'with_password', database: 'template0', password: 'right' },
    { settings: { no_such_setting: '1' } },
    { settings: { work_mem: 'lots' } },
    { more: { client_encoding: 'nonsense' } },
    { more: { replication: 'maybe' } },
    { tcp: true, application: 'over tcp' },
  ];
  for (const options of sessions) {
    const session = await connect(options);
    await session.query('SELECT 1');
    await session.end();
  }
  for (const bytes of [
    startupMessage([['user', 'postgres']], 0x00050000),
    startupMessage([['user', 'postgres']], 0x00010000),
    raw('GET / HTTP/1.1\r\n\r\n'),
    raw('\0\0\0\x08\0\x03\0\0'),
    raw('\0\0\0\x10\0\x03\0\0user\0pos'),
    raw('\0\0'),
  ]) {
    const session = new WireSession(address);
    session.write(bytes);
    // The server waits for the rest of a message that it has not got.
    if (bytes.length > 16) await session.ready();
    await session.destroy();
  }
  const broken = await connect();
  await broken.query('BEGIN; SELECT 1');
  await broken.destroy();
  const confused = await connect();
  await confused.send('Z', raw('what?'));
  await confused.end();
  const copying = await connect();
  await copying.query('COPY numbers FROM STDIN');
  await copying.end();
  const replica = await connect({ more: { replication: 'database' } });
  await all(replica, ['IDENTIFY_SYSTEM', 'NO SUCH COMMAND', 'SHOW work_mem']);
  await replica.end();
}
