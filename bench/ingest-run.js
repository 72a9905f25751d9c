/**
 * One ingestion of a big file by a fresh daemon: what the end-to-end benchmarks share.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { TestDaemon } from '../test/helpers/daemon.js';

const LIMIT_MS = 120_000;
const LOOK_MS = 500; // the time is taken by the storage: looking more often would only take processor time

/** Of the storage: durable, and without a checkpoint in the middle of a run. */
export const STORAGE_SETTINGS = {
  fsync: 'on',
  full_page_writes: 'on',
  max_wal_size: '8GB',
  shared_buffers: '512MB',
  checkpoint_timeout: '30min',
};

/**
 * One fresh daemon on a fresh schema.
 * @param {{ client: import('pg').Client, storage: { url: string }, sshd: Awaited<ReturnType<typeof import('../test/helpers/sshd.js').startSshd>>, logs: string, size: number, records?: number, idle?: number }} options
 *   idle: as many hosts more, whose log directory stays empty
 */
export async function ingest({ client, storage, sshd, logs, size, records, idle = 0 }) {
  const daemon = new TestDaemon({ toml: `storage.url = "${storage.url}"\ndaemon.workers = 1` });
  try {
    await daemon.start();
    const worker = async () => (await daemon.status()).workers[0];
    const cpuBefore = (await worker())?.cpuSeconds ?? 0;
    let rssBytes = 0;
    for (let n = 0; n < idle; n += 1)
      await daemon.addHost(`idle${n}`, { log: `${daemon.dir}/run`, server: sshd });
    while (
      (await daemon.status()).hosts.some(host => host.streams.some(({ state }) => state !== 'reading'))
    ) {
      await sleep(100);
    }
    const adding = daemon.addHost('bench', { log: logs, server: sshd });
    for (const deadline = Date.now() + LIMIT_MS; Date.now() < deadline; await sleep(LOOK_MS)) {
      rssBytes = Math.max(rssBytes, (await worker())?.rssBytes ?? 0);
      const { rows } = await client.query(
        `SELECT extract(epoch FROM s.committed_at - h.added_at)::float8 AS seconds
           FROM pgsluice.file f JOIN pgsluice.stream s USING (stream_id) JOIN pgsluice.host h USING (host_id)
          WHERE f."offset" = $1`,
        [size],
      );
      if (rows.length === 0) continue;
      await adding;
      await sleep(1_100); // the next report
      const cpuSeconds = ((await worker())?.cpuSeconds ?? 0) - cpuBefore;
      const stored = await client.query('SELECT count(*)::int AS count FROM pgsluice.log');
      if (records !== undefined && stored.rows[0].count !== records)
        throw new Error(`${stored.rows[0].count} of ${records} records are stored`);
      return { seconds: rows[0].seconds, cpuSeconds, rssBytes };
    }
    throw new Error(`not stored within ${LIMIT_MS / 1000} s: ${daemon.output}`);
  } finally {
    await daemon.remove();
    await client.query('DROP SCHEMA IF EXISTS pgsluice CASCADE');
    await client.query('CHECKPOINT');
  }
}

/** @param {number[]} values */
export const median = values => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
/** @param {number} value */
export const round = value => Math.round(value * 100) / 100;
