/**
 * End to end, one run: seconds from the start to the last commit of a big csvlog file over a loopback sshd, against
 *   ssh host cat FILE | psql -c '\copy postgres_log from stdin csv'     what people do by hand
 *   psql -c '\copy postgres_log from FILE binary'                       the limit: no parsing, no SSH
 * all into logged tables of one PostgreSQL with fsync on. The ways take turns, each several times; medians count.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { startPostgres } from '../test/helpers/postgres.js';
import { startSshd } from '../test/helpers/sshd.js';
import { ingest, median, round, STORAGE_SETTINGS } from './ingest-run.js';
import { sampleDirectory } from './sample.js';

const MIN_BYTES = 300e6;
const ROUNDS = 3;

const POSTGRES_LOG = `CREATE TABLE postgres_log (
  log_time timestamp(3) with time zone, user_name text, database_name text, process_id integer, connection_from text,
  session_id text, session_line_num bigint, command_tag text, session_start_time timestamp with time zone,
  virtual_transaction_id text, transaction_id bigint, error_severity text, sql_state_code text, message text,
  detail text, hint text, internal_query text, internal_query_pos integer, context text, query text,
  query_pos integer, location text, application_name text, backend_type text, leader_pid integer, query_id bigint)`;

export async function bench() {
  const logs = await sampleDirectory(MIN_BYTES);
  const file = join(logs, 'postgresql.csv');
  const { size } = await stat(file);
  const dir = await mkdtemp(join(tmpdir(), 'pgsluice-bench-'));
  await chmod(dir, 0o777);
  const storage = await startPostgres({
    binaries: 'system',
    settings: STORAGE_SETTINGS,
  });
  const sshd = await startSshd();
  const client = new Client(storage.connectionOptions);
  await client.connect();
  const env = {
    ...process.env,
    PGHOST: storage.socketDir,
    PGPORT: String(storage.port),
    PGUSER: storage.user,
    PGDATABASE: storage.database,
  };
  /** @param {string} script @param {string[]} args */
  const shell = async (script, ...args) => {
    const started = performance.now();
    const child = spawn('bash', ['-c', `set -eo pipefail; ${script}`, 'bench', ...args], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`${script}: exit code ${code}`);
    return (performance.now() - started) / 1000;
  };
  const ssh = `ssh -F none -i "$1" -p "$2" -o UserKnownHostsFile="$3" -o StrictHostKeyChecking=yes -o BatchMode=yes "$4@127.0.0.1"`;
  const known = await sshd.knownHostsFile();
  try {
    // The rows as a binary file, written by the server itself.
    await client.query(POSTGRES_LOG);
    await shell(`psql -qc "\\copy postgres_log from '$1' csv"`, file);
    const binary = join(dir, 'rows.binary');
    await shell(`psql -qc "\\copy postgres_log to '$1' binary"`, binary);
    const { rows } = await client.query('SELECT count(*)::int AS count FROM postgres_log');
    const records = rows[0].count;

    /** @type {{ psql: number[], binary: number[], pgsluice: Awaited<ReturnType<typeof ingest>>[] }} */
    const seconds = { psql: [], binary: [], pgsluice: [] };
    for (let round = 0; round < ROUNDS; round += 1) {
      await client.query('TRUNCATE postgres_log; CHECKPOINT');
      const { identityFile, port, user } = sshd;
      seconds.psql.push(
        await shell(
          `${ssh} cat "$5" | psql -qc '\\copy postgres_log from stdin csv'`,
          identityFile,
          String(port),
          known,
          user,
          file,
        ),
      );
      await client.query('TRUNCATE postgres_log');
      await client.query('CHECKPOINT');
      seconds.binary.push(await shell(`psql -qc "\\copy postgres_log from '$1' binary"`, binary));
      await client.query('TRUNCATE postgres_log');
      await client.query('CHECKPOINT');
      seconds.pgsluice.push(await ingest({ client, storage, sshd, logs, size, records }));
    }
    const run = seconds.pgsluice.toSorted((a, b) => a.seconds - b.seconds)[Math.floor(ROUNDS / 2)];
    if (!run) throw new Error('no run');
    return [
      {
        vs_ssh_psql_csv: round(median(seconds.psql) / run.seconds),
        of_binary_copy_limit: round(median(seconds.binary) / run.seconds),
        seconds: round(run.seconds),
        ssh_psql_csv_seconds: round(median(seconds.psql)),
        binary_copy_seconds: round(median(seconds.binary)),
        spread: seconds.pgsluice.map(({ seconds: s }) => round(s)).join('/'),
        mb: Math.round(size / 1e6),
        rows: records,
        mb_per_s: round(size / 1e6 / run.seconds),
        rows_per_s: Math.round(records / run.seconds),
        worker_cpu_s_per_gb: round(run.cpuSeconds / (size / 1e9)),
        worker_rss_mb: Math.round(Math.max(...seconds.pgsluice.map(({ rssBytes }) => rssBytes)) / 1e6),
      },
    ];
  } finally {
    await client.end();
    await Promise.all([storage.stop(), sshd.stop()]);
    await rm(dir, { recursive: true, force: true });
  }
}
