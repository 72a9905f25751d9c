/**
 * A big csvlog file made by a real PostgreSQL: pgbench's TPC-B-like load with every statement logged. Made once, kept in
 * .cache/bench, used by the benchmarks.
 */
import { execFile } from 'node:child_process';
import { createWriteStream, createReadStream } from 'node:fs';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { csvFiles } from '../test/helpers/conservation.js';
import { csvlogSettings, startPostgres } from '../test/helpers/postgres.js';

const run = promisify(execFile);
const directory = fileURLToPath(new URL('../.cache/bench', import.meta.url));
const LOAD_SECONDS = 20;

/**
 * @param {number} minBytes
 * @returns {Promise<string>} a directory that holds one csv file of at least that size
 */
export async function sampleDirectory(minBytes) {
  const path = join(directory, `csvlog-${minBytes}`);
  const found = await stat(join(path, 'postgresql.csv')).catch(() => null);
  if (found) return path;
  await mkdir(path, { recursive: true });
  const [pgbench] = globSync('/usr/lib/postgresql/*/bin/pgbench').toSorted().toReversed();
  if (!pgbench) throw new Error('pgbench is needed (Debian package postgresql)');
  process.stderr.write(`making a csvlog file of ${Math.ceil(minBytes / 1e6)} MB, once\n`);
  const server = await startPostgres({
    binaries: 'system',
    settings: {
      ...csvlogSettings({ rotationSize: '0', filename: 'postgresql.log' }),
      log_statement: 'none',
      log_duration: 'off',
      log_min_duration_statement: '0',
    },
  });
  try {
    const env = {
      ...process.env,
      PGHOST: server.socketDir,
      PGPORT: String(server.port),
      PGUSER: server.user,
      PGDATABASE: server.database,
    };
    await run(pgbench, ['-i', '-q', '-s', '5'], { env });
    for (let size = 0; size < minBytes;) {
      await run(pgbench, ['-c', '8', '-j', '2', '-T', String(LOAD_SECONDS)], { env });
      const [log = ''] = await csvFiles(server.logDir);
      ({ size } = await stat(log));
    }
    const [log = ''] = await csvFiles(server.logDir);
    await pipeline(createReadStream(log), createWriteStream(join(path, 'making')));
    await rename(join(path, 'making'), join(path, 'postgresql.csv'));
  } finally {
    await server.stop();
    await rm(join(path, 'making'), { force: true });
  }
  return path;
}
