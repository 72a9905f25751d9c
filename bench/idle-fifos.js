/**
 * Fifty idle FIFO streams and a busy one in one worker, against the busy one alone: nobody may wait for the thread pool.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { startPostgres } from '../test/helpers/postgres.js';
import { startSshd } from '../test/helpers/sshd.js';
import { ingest, median, round, STORAGE_SETTINGS } from './ingest-run.js';
import { sampleDirectory } from './sample.js';

const MIN_BYTES = 300e6;
const IDLE = 50;
const ROUNDS = 3;

export async function bench() {
  const logs = await sampleDirectory(MIN_BYTES);
  const { size } = await stat(join(logs, 'postgresql.csv'));
  const storage = await startPostgres({ binaries: 'system', settings: STORAGE_SETTINGS });
  const sshd = await startSshd();
  const client = new Client(storage.connectionOptions);
  await client.connect();
  try {
    const alone = [];
    const beside = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const options = { client, storage, sshd, logs, size };
      alone.push((await ingest(options)).seconds);
      beside.push((await ingest({ ...options, idle: IDLE })).seconds);
    }
    return [
      {
        idle: IDLE,
        rate_kept: round(median(alone) / median(beside)),
        alone_seconds: round(median(alone)),
        beside_idle_seconds: round(median(beside)),
      },
    ];
  } finally {
    await client.end();
    await Promise.all([storage.stop(), sshd.stop()]);
  }
}
