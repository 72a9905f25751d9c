/**
 * Big logs made by a real PostgreSQL: pgbench's TPC-B-like load with every statement logged. Made once, kept in
 * .cache/bench, used by the benchmarks.
 */
import { execFile } from 'node:child_process';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { csvlogSettings, startPostgres } from '../test/helpers/postgres.js';

const run = promisify(execFile);
const directory = fileURLToPath(new URL('../.cache/bench', import.meta.url));
const LOAD_SECONDS = 20;
const LF = 0x0a;
/** Longer than any line of pgbench's. */
const LINE_MAX_BYTES = 64 * 1024;

/** log_line_prefix as Debian and as PostgreSQL have it by default. */
const DEBIAN_PREFIX = '%m [%p] %q%u@%d ';
const POSTGRES_PREFIX = '%m [%p] ';

/**
 * @param {number} minBytes
 * @returns {Promise<string>} a directory that holds one csv file of at least that size
 */
export async function sampleDirectory(minBytes) {
  const path = join(directory, `csvlog-${minBytes}`);
  await make(path, minBytes, { csvlog: 'postgresql.csv' }, false);
  return path;
}

/**
 * The same load in all formats at once, and once more as stderr with a short prefix.
 * @param {number} bytes
 * @returns {Promise<Record<'csvlog' | 'jsonlog' | 'stderr' | 'stderr-short', string>>} files of so many bytes and the
 *   rest of a line
 */
export async function sampleLogs(bytes) {
  const path = join(directory, `logs-${bytes}`);
  const names = { csvlog: 'postgresql.csv', jsonlog: 'postgresql.json', stderr: 'postgresql.log' };
  await make(path, bytes, names, true);
  const short = join(directory, `short-${bytes}`);
  await make(short, bytes, { stderr: names.stderr }, true, POSTGRES_PREFIX);
  return {
    csvlog: join(path, names.csvlog),
    jsonlog: join(path, names.jsonlog),
    stderr: join(path, names.stderr),
    'stderr-short': join(short, names.stderr),
  };
}

/**
 * @param {string} path of the directory; it is there only when the logs are whole
 * @param {number} minBytes of each log
 * @param {Record<string, string>} names destination -> name of its file
 * @param {boolean} isCut whether no more than minBytes are wanted
 * @param {string} [linePrefix] log_line_prefix
 */
async function make(path, minBytes, names, isCut, linePrefix = DEBIAN_PREFIX) {
  if (await stat(path).catch(() => null)) return;
  const [pgbench] = globSync('/usr/lib/postgresql/*/bin/pgbench').toSorted().toReversed();
  if (!pgbench) throw new Error('pgbench is needed (Debian package postgresql)');
  const files = Object.values(names);
  process.stderr.write(`making ${files.join(', ')} of ${Math.ceil(minBytes / 1e6)} MB, once\n`);
  const making = `${path}.making`;
  const server = await startPostgres({
    binaries: 'system',
    settings: {
      ...csvlogSettings({ rotationSize: '0', filename: 'postgresql.log' }),
      log_destination: Object.keys(names).join(','),
      log_line_prefix: linePrefix,
      log_statement: 'none',
      log_duration: 'off',
      log_min_duration_statement: '0',
    },
  });
  try {
    await rm(making, { recursive: true, force: true });
    await mkdir(making, { recursive: true });
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
      const sizes = await Promise.all(files.map(async name => (await stat(join(server.logDir, name))).size));
      size = Math.min(...sizes);
    }
    for (const name of files) {
      const log = join(server.logDir, name);
      const end = isCut ? await endOfLine(log, minBytes) : Infinity;
      await pipeline(createReadStream(log, { end: end - 1 }), createWriteStream(join(making, name)));
    }
    await rename(making, path);
  } finally {
    await server.stop();
    await rm(making, { recursive: true, force: true });
  }
}

/**
 * @param {string} file
 * @param {number} from
 * @returns {Promise<number>} where the line ends that reaches over `from`; pgbench's later records are lines
 */
async function endOfLine(file, from) {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(LINE_MAX_BYTES), 0, LINE_MAX_BYTES, from);
    return from + buffer.subarray(0, bytesRead).indexOf(LF) + 1;
  } finally {
    await handle.close();
  }
}
