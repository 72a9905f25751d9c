/**
 * Batches that the storage refuses against the batch that it takes, in one run: a commit of rows of which none, one of a
 * hundred, and all break a CHECK, and of which all are refused by a trigger with a SQLSTATE of its own. The ways take
 * turns; medians count.
 */
import { CsvlogParser } from '../src/codec/csvlog.js';
import { CopyBuffer } from '../src/codec/copy-buffer.js';
import { commitBatch } from '../src/storage/batch.js';
import { connectStorage } from '../src/storage/connect.js';
import { migrate } from '../src/storage/migrate.js';
import { dayOf, ensurePartition } from '../src/storage/partitions.js';
import { startPostgres } from '../test/helpers/postgres.js';
import { median, round, STORAGE_SETTINGS } from './ingest-run.js';

const ROWS = 5_000;
const ROUNDS = 3;
const OBSTACLES = `
  ALTER TABLE pgsluice.record ADD CONSTRAINT no_forbidden CHECK (message NOT LIKE 'forbidden%');
  CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = 'MY001'; END $$;
  CREATE TRIGGER judge BEFORE INSERT ON pgsluice.record FOR EACH ROW WHEN (NEW.message LIKE 'own state%')
    EXECUTE FUNCTION judge()`;

/** @type {Record<string, (n: number) => string>} */
const WAYS = {
  taken: n => `taken ${n}`,
  one_in_100: n => (n % 100 === 50 ? `forbidden ${n}` : `taken ${n}`),
  all: n => `forbidden ${n}`,
  all_own_state: n => `own state ${n}`,
};

export async function bench() {
  const storage = await startPostgres({ binaries: 'system', settings: STORAGE_SETTINGS });
  const client = await connectStorage(storage.connectionOptions);
  try {
    await migrate(client);
    const today = dayOf(Date.now());
    await ensurePartition(client, 'record', today);
    await ensurePartition(client, 'reject', today);
    await client.query(OBSTACLES);
    /** @type {Map<string, number[]>} */
    const rates = new Map(Object.keys(WAYS).map(way => [way, []]));
    for (let turn = 0; turn < ROUNDS; turn += 1) {
      for (const [way, message] of Object.entries(WAYS)) {
        const records = rowsOf(message);
        const started = performance.now();
        const refused = await commitBatch(client, {
          records,
          rejected: new CopyBuffer(1),
          streams: new Map(),
          day: today,
        });
        rates.get(way)?.push((1000 * ROWS) / (performance.now() - started));
        const expected = Array.from({ length: ROWS }, (_, n) => message(n)).filter(
          m => !m.startsWith('taken'),
        );
        if ((refused?.rows.get(1) ?? 0) !== expected.length) throw new Error(`${way}: ${refused?.reason}`);
        await client.query('TRUNCATE pgsluice.record, pgsluice.reject; CHECKPOINT');
      }
    }
    const taken = median(rates.get('taken') ?? []);
    return [...rates].map(([way, values]) => ({
      way,
      rows_per_s: Math.round(median(values)),
      of_taken: round(median(values) / taken),
      spread: values.map(value => Math.round(value)).join('/'),
    }));
  } finally {
    await client.end();
    await storage.stop();
  }
}

/** @param {(n: number) => string} message */
function rowsOf(message) {
  const rows = new CopyBuffer();
  const context = { streamId: 1, fileNo: 1, offset: 0, zones: new Map([['UTC', 0]]), maxRecordBytes: 1e6 };
  const now = new Date().toISOString().replace('T', ' ').replace('Z', ' UTC');
  const lines = Array.from(
    { length: ROWS },
    (_, n) =>
      `${now},"u","d",17,"[local]",673f.11,${n},"SELECT",${now},3/4,0,LOG,00000,"${message(n)}",,,,,,"SELECT * FROM pgbench_accounts WHERE aid = ${n}",,,"psql","client backend",,0\n`,
  );
  new CsvlogParser(context).write(Buffer.from(lines.join('')), {
    rows,
    days: new Set(),
    receivedAtMs: Date.now(),
    reject: ({ reason }) => {
      throw new Error(reason);
    },
    cut: () => {},
  });
  return rows;
}
