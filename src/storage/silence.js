/**
 * Ends a connection whose storage says nothing any more: a server that was stopped, a proxy or a firewall that forgot
 * the connection. Whoever waits for an answer gets an error; what became of a COMMIT only a new claim tells.
 * A server may also be busy for minutes (a trigger, a standby that must confirm), which is no reason to give up. So it is
 * asked about, on another connection. If it waits for us, its session is ended there too: in the middle of a transaction it would
 * keep the rows of its streams locked. Idle connections are left alone: TCP's own probes are for them.
 */
import { connectStorage, cutConnection } from './connect.js';

const SILENT_MS = 15_000; // no byte came or went, while something was asked
// Megabytes may still be on a slow line, in buffers of the systems: nobody here sees them go.
const SILENT_MAX_MS = 60_000;
const ASK_MAX_MS = 10_000;
const THE_SESSION = 'FROM pg_catalog.pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz';

/** @typedef {{ pid: number, started: string }} Session as pg_stat_activity has it: pids are used again */

/**
 * @param {import('pg').Client} client connected
 * @param {import('pg').ClientConfig} options to ask on another connection
 * @param {{ silentMs?: number, silentMaxMs?: number, askMaxMs?: number }} [limits]
 * @returns {Promise<import('pg').Client>} the same
 */
export async function endWhenSilent(
  client,
  options,
  { silentMs = SILENT_MS, silentMaxMs = SILENT_MAX_MS, askMaxMs = ASK_MAX_MS } = {},
) {
  const socket = /** @type {import('node:net').Socket} */ (client.connection.stream);
  /** @type {Session | null} */
  let session = null;
  let asking = false;
  let periods = 0;
  let bytesRead = -1;

  async function onSilence() {
    // pg sends the next query when the one before is done: between them the connection is idle.
    const { readyForQuery } = /** @type {{ readyForQuery?: boolean }} */ (/** @type {unknown} */ (client));
    if (readyForQuery || asking) return;
    periods = bytesRead === socket.bytesRead ? periods + 1 : 1;
    bytesRead = socket.bytesRead;
    asking = true;
    const last = periods * silentMs >= silentMaxMs;
    const state = await stateOf(session, options, askMaxMs, () => last && socket.bytesRead === bytesRead);
    asking = false;
    if (socket.bytesRead !== bytesRead) periods = 0;
    else if (state === 'unreachable' || state === 'gone' || (state === 'waits' && last)) {
      socket.destroy(new Error(`no answer for ${Math.round((periods * silentMs) / 1000)} s`));
      return;
    }
    socket.setTimeout(silentMs);
  }

  // It also sees whether bytes that are to be sent become fewer.
  socket.setTimeout(silentMs);
  socket.on('timeout', () => void onSilence());
  try {
    const { rows } = await client.query(
      'SELECT pid, backend_start::text AS started FROM pg_catalog.pg_stat_activity WHERE pid = pg_backend_pid()',
    );
    session = rows[0] ?? null;
  } catch (error) {
    // Nobody else has it yet.
    cutConnection(client);
    throw error;
  }
  return client;
}

/**
 * @param {Session | null} session null: not known yet
 * @param {import('pg').ClientConfig} options
 * @param {number} maxMs
 * @param {() => boolean} isLast whether the session is to be ended when it waits
 * @returns {Promise<'unreachable' | 'busy' | 'waits' | 'gone'>} waits: for us; gone: there is no such session any more
 */
async function stateOf(session, options, maxMs, isLast) {
  /** @type {import('pg').Client | null} */
  let other = null;
  let late = false;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const limit = new Promise(resolve => {
    timer = setTimeout(() => {
      late = true;
      if (other) cutConnection(other);
      resolve('unreachable');
    }, maxMs);
  });
  const asked = connectStorage({ ...options, application_name: 'pgsluice silence' }).then(async asker => {
    other = asker;
    try {
      if (late) return 'unreachable';
      const which = [session?.pid ?? 0, session?.started ?? null];
      const { rows } = await asker.query(
        `SELECT state = 'active' AND coalesce(wait_event_type, '') <> 'Client' AS busy ${THE_SESSION}`,
        which,
      );
      if (rows[0]?.busy) return 'busy';
      if (rows.length === 0 && session !== null) return 'gone';
      if (isLast()) await asker.query(`SELECT pg_terminate_backend(pid) ${THE_SESSION}`, which);
      return 'waits';
    } finally {
      cutConnection(asker);
    }
  });
  const state = await Promise.race([asked.catch(() => 'unreachable'), limit]);
  clearTimeout(timer);
  return /** @type {'unreachable' | 'busy' | 'waits' | 'gone'} */ (state);
}
