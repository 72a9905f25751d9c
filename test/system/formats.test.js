/**
 * One server that writes its messages three times, as csvlog, jsonlog and stderr, read in all three ways over a real
 * sshd while workers and the daemon are killed. Without a word about formats each message is stored once; in each
 * format all of them are there once, with the same values.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { checkConservation, csvFiles } from '../helpers/conservation.js';
import { descendants, processesWith, TestDaemon } from '../helpers/daemon.js';
import { startLoad } from '../helpers/load.js';
import { csvlogSettings, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';

const LOAD_MS = 12_000;
const DRAIN_MS = 60_000;
/** Everything that csvlog has, in some order. */
const LINE_PREFIX = '%m [%p] %c %s %v %x %e "%u"@"%d" %r %i %P %Q <%b> {%a} ';
const ZONE = 'Europe/Berlin';

/** Columns that a stderr log has with this prefix; its %l is another number than session_line_num. */
const STDERR_COLUMNS = `log_time, user_name, database_name, process_id, connection_from, session_id, command_tag,
  session_start_time, virtual_transaction_id, transaction_id, error_severity, sql_state_code, message, detail, hint,
  internal_query, internal_query_pos, context, query, query_pos, backend_type, duration_ms`;
const JSONLOG_COLUMNS = `${STDERR_COLUMNS}, session_line_num, location, application_name, leader_pid, query_id`;

describe('formats', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let source;
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let sshd;
  /** @type {TestDaemon} */
  let daemon;
  /** @type {Client} */
  let client;

  before(async () => {
    [source, storage, sshd] = await Promise.all([
      startPostgres({
        binaries: 'embedded',
        settings: {
          ...csvlogSettings({ rotationSize: '512kB' }),
          log_destination: 'stderr,csvlog,jsonlog',
          log_line_prefix: LINE_PREFIX,
          log_timezone: ZONE,
        },
      }),
      startPostgres({ binaries: 'system' }),
      startSshd(),
    ]);
    daemon = new TestDaemon({ toml: `storage.url = "${storage.url}"\ndaemon.workers = 2` });
    client = new Client(storage.connectionOptions);
    await client.connect();
  });

  after(async () => {
    await client?.end();
    await daemon?.remove();
    await Promise.all([sshd?.stop(), source?.stop(), storage?.stop()]);
  });

  /** @param {string} host */
  async function count(host) {
    const { rows } = await client.query('SELECT count(*)::int FROM pgsluice.log WHERE host = $1', [host]);
    return rows[0].count;
  }

  /** @param {string} one @param {string} other @param {string} columns @returns {Promise<unknown[]>} of one, not of the other */
  async function difference(one, other, columns) {
    const select = `SELECT ${columns} FROM pgsluice.log WHERE host`;
    const { rows } = await client.query(
      `(${select} = $1) EXCEPT ALL (${select} = $2) ORDER BY log_time LIMIT 3`,
      [one, other],
    );
    return rows;
  }

  test('all three of them hold the same messages once, and auto takes the best', async () => {
    await daemon.start();
    const log = source.dataDir;
    await daemon.addHost('auto', { log, server: sshd });
    await daemon.addHost('jsonlog', { log, server: sshd, more: ['--format', 'jsonlog'] });
    await daemon.addHost('stderr', { log, server: sshd, more: ['--format', 'stderr'] });
    const load = startLoad(source.connectionOptions, { ratePerSecond: 300, durationMs: LOAD_MS });
    for (let turn = 0; turn < 4; turn += 1) {
      await sleep(LOAD_MS / 5);
      if (turn % 2 === 0) {
        const family = new Set(descendants(daemon.pid));
        const worker = processesWith('/src/worker/').find(({ pid }) => family.has(pid));
        if (worker) process.kill(worker.pid, 'SIGKILL');
      } else {
        await daemon.kill({ children: true });
        await daemon.start();
      }
    }
    await load.stop();

    const deadline = Date.now() + DRAIN_MS;
    const files = await csvFiles(source.logDir);
    let check = await checkConservation(client, 'auto', files);
    while (
      check.stored < check.source ||
      (await count('stderr')) < check.source ||
      (await count('jsonlog')) < check.source
    ) {
      if (Date.now() > deadline) break;
      await sleep(500);
      check = await checkConservation(client, 'auto', files);
    }
    assert.ok(check.source > 2_000, `${check.source} messages`);
    assert.deepEqual(check, {
      source: check.source,
      stored: check.source,
      missing: 0,
      duplicated: 0,
      rejected: 0,
    });
    for (const [host, columns] of /** @type {const} */ ([
      ['jsonlog', JSONLOG_COLUMNS],
      ['stderr', STDERR_COLUMNS],
    ])) {
      assert.deepEqual(await difference('auto', host, columns), [], `missing in ${host}`);
      assert.deepEqual(await difference(host, 'auto', columns), [], `only in ${host}`);
      assert.equal(await count(host), check.source);
      const { rows } = await client.query('SELECT count(*)::int FROM pgsluice.rejected WHERE host = $1', [
        host,
      ]);
      assert.equal(rows[0].count, 0);
    }

    /** @type {Record<string, (string | null)[]>} */
    let found = {};
    // Workers report once a second.
    while (found['stderr']?.[0] !== ZONE || found['auto']?.[0] !== ZONE) {
      if (Date.now() > deadline) break;
      await sleep(200);
      const status = JSON.parse(await (await fetch(`${daemon.url}/status`)).text());
      found = Object.fromEntries(
        status.hosts.map((/** @type {any} */ { name, streams: [stream] }) => [
          name,
          [stream.timeZone, stream.linePrefix],
        ]),
      );
    }
    assert.deepEqual(found['stderr'], [ZONE, LINE_PREFIX]);
    assert.equal(found['auto']?.[0], ZONE);
  });
});
