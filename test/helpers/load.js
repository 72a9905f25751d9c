/**
 * Load that makes a PostgreSQL write all kinds of log records: single- and multi-line statements, quotes,
 * unicode, parameters (extended protocol), errors with and without DETAIL and HINT, NOTICE, big statements
 * now and then, under several application_names. Every statement carries a comment of its own,
 * "load <connection>.<number>", so that a test can find it again.
 * A server that dies, restarts or refuses connections never makes it throw: it connects again until stop().
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

const RECONNECT_MS = 50;
const APPLICATION_NAMES = ['load', 'billing "v2"', "o'brien, cron", 'отчёт'];
/** One statement in this many is a big one. */
const BIG_EVERY = 500;

/** @typedef {{ text: string, values?: unknown[] }} Shot a statement; with values it goes as a prepared one */

/** Each takes the statement's number, and is followed by a comment that makes its text unique. */
const SHOTS = [
  (/** @type {number} */ n) => ({ text: `SELECT ${n} AS one_line` }),
  (/** @type {number} */ n) => ({
    text: `SELECT ${n},\n\t'second line',\n\n  "oid"\nFROM pg_class\nLIMIT 1`,
  }),
  (/** @type {number} */ n) => ({
    text: `SELECT 'it''s "quoted", ${n}', E'back\\\\slash\\n', $q$dollar 'q' "$q$`,
  }),
  (/** @type {number} */ n) => ({ text: `SELECT 'Ünïcödé, кириллица, 漢字, 😀 ${n}'` }),
  (/** @type {number} */ n) => ({
    text: 'SELECT $1::int, $2::text, $3::text, $4::bytea',
    values: [n, `par'am\n"${n}"`, null, Buffer.from([0, 255, 10])],
  }),
  (/** @type {number} */ n) => ({ text: `SELECT ${n} / 0` }),
  (/** @type {number} */ n) => ({ text: `SELEC ${n}` }),
  (/** @type {number} */ n) => ({ text: `INSERT INTO pg_temp.load_keys VALUES (1, 'again ${n}')` }),
  (/** @type {number} */ n) => ({ text: `SELECT no_such_function(${n})` }),
  (/** @type {number} */ n) => ({ text: `DO $$ BEGIN RAISE NOTICE E'notice ${n}\\r\\n'; END $$` }),
  (/** @type {number} */ n) => ({
    text: `DO $$ BEGIN RAISE WARNING E'warning\n${n}' USING DETAIL = 'de"tail', HINT = 'hi,nt'; END $$`,
  }),
];

/**
 * @param {import('pg').ClientConfig} connectionOptions
 * @param {object} [options]
 * @param {number} [options.ratePerSecond] statements of all connections together; default: as fast as it goes
 * @param {number} [options.connections] default 4
 * @param {number} [options.durationMs] default: until stop()
 * @param {number} [options.payload] bytes of a big statement, default 64 KiB
 */
export function startLoad(
  connectionOptions,
  { ratePerSecond, connections = 4, durationMs, payload = 65_536 } = {},
) {
  const ending = new AbortController();
  const { signal } = ending;
  const intervalMs = ratePerSecond ? (1000 * connections) / ratePerSecond : 0;
  let statements = 0;

  /** @param {number} index */
  async function work(index) {
    let n = 0;
    let due = performance.now() + (intervalMs * index) / connections;
    while (!signal.aborted) {
      const client = await connect(index);
      if (!client) continue;
      while (!signal.aborted) {
        if (intervalMs > 0) {
          await pause(due - performance.now());
          // After an outage the load goes on at its rate: it does not make up for what it missed.
          due = Math.max(due + intervalMs, performance.now() - intervalMs);
          if (signal.aborted) break;
        }
        n += 1;
        // A broken client refuses each further query at once, without giving the event loop a turn.
        if (!(await answered(client, shot(index, n)))) break;
        statements += 1;
      }
      await client.end().catch(() => undefined);
    }
  }

  /** @param {number} index */
  async function connect(index) {
    const application_name = APPLICATION_NAMES[index % APPLICATION_NAMES.length];
    const client = new Client({ ...connectionOptions, application_name });
    client.on('error', () => {}); // the next query fails as well, which is what counts
    try {
      await client.connect();
      await client.query('CREATE TEMP TABLE load_keys (id int PRIMARY KEY, note text)');
      await client.query("INSERT INTO load_keys VALUES (1, 'first')");
      return client;
    } catch {
      await client.end().catch(() => undefined);
      await pause(RECONNECT_MS);
      return undefined;
    }
  }

  /**
   * @param {number} index
   * @param {number} n
   * @returns {Shot}
   */
  function shot(index, n) {
    const comment = `/* load ${index}.${n} */`;
    if (n % BIG_EVERY === 0) return { text: `SELECT '${'big ÷ '.repeat(payload / 7)}' ${comment}` };
    const { text, values } = /** @type {Shot} */ (SHOTS[(n + index) % SHOTS.length](n));
    return { text: `${text} ${comment}`, values };
  }

  /** @param {number} ms */
  async function pause(ms) {
    if (ms > 0) await sleep(ms, undefined, { signal }).catch(() => undefined);
  }

  const timer = durationMs === undefined ? undefined : setTimeout(() => ending.abort(), durationMs);
  const done = Promise.all(Array.from({ length: connections }, (_, index) => work(index)));

  return {
    /** Ends the load, once; resolves when every connection is closed. */
    async stop() {
      ending.abort();
      clearTimeout(timer);
      await done;
      return { statements };
    },
    /** @returns {number} statements that the server has answered, with a result or an error of its own */
    statements: () => statements,
  };
}

/**
 * @param {Client} client
 * @param {Shot} shot
 * @returns {Promise<boolean>} false: the connection broke, nobody knows whether the server saw it
 */
async function answered(client, { text, values }) {
  try {
    await client.query(text, values);
    return true;
  } catch (error) {
    // Errors of the statement have a severity; FATAL ends the connection, and may not be about the statement.
    return error instanceof Error && 'severity' in error && error.severity === 'ERROR';
  }
}
