// A stream of systemd's journal through a real worker: real journal files, the real journalctl, a real storage.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectStorage } from '../../../src/storage/connect.js';
import { addHost } from '../../../src/storage/inventory.js';
import { migrate } from '../../../src/storage/migrate.js';
import { Worker } from '../../../src/worker/worker.js';
import { START_US, UNIT, writeJournal } from '../../helpers/journal.js';
import { startPostgres } from '../../helpers/postgres.js';

const WAIT_MS = 40_000;
const PREFIX = '%m [%p] %q%u@%d ';

/** @type {Awaited<ReturnType<typeof startPostgres>>} */
let server;
/** @type {import('pg').Client} */
let client;
/** @type {string} */
let dir;
const path = process.env['PATH'] ?? '';

before(async () => {
  server = await startPostgres();
  client = await connectStorage(server.connectionOptions);
  await migrate(client);
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-journal-'));
  chmodSync(dir, 0o755);
  // The follower reads the journal of the host: this one is in a directory.
  writeFileSync(join(dir, 'journalctl'), `#!/bin/sh\nexec /usr/bin/journalctl -D ${dir} "$@"\n`, {
    mode: 0o755,
  });
  process.env['PATH'] = `${dir}:${path}`;
});

after(async () => {
  process.env['PATH'] = path;
  await client?.end();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** The lines of a message, an entry each. @param {number} n */
function entries(n) {
  const head = `2026-11-20 16:08:${String(n % 60).padStart(2, '0')}.123 UTC [${100 + n}] u${n}@db `;
  return [
    `${head}ERROR:  division by zero (${n})`,
    `${head}DETAIL:  two`,
    '\tlines',
    `${head}STATEMENT:  select 1/0;`,
  ].map((message, index) => ({ timeUs: START_US + n * 1_000_000 + index, message, pid: String(100 + n) }));
}
/** @param {number} from @param {number} to */
const messages = (from, to) => Array.from({ length: to - from }, (_, i) => entries(from + i)).flat();

async function stored() {
  const { rows } = await client.query('SELECT * FROM pgsluice.log ORDER BY file_offset');
  return rows;
}

test('records are put together, stored once over restarts, and the cursor is the position', async () => {
  await writeJournal(join(dir, 'a.journal'), messages(0, 20));
  const fields = {
    address: 'localhost',
    port: 22,
    username: null,
    identityFile: null,
    jumpHosts: [],
    sudoUser: null,
    hostKeys: [],
    transport: /** @type {const} */ ('local'),
    labels: {},
    paused: false,
  };
  const host = await addHost(client, 'db1', fields, [
    {
      path: `journal:${UNIT}`,
      format: 'auto',
      linePrefix: PREFIX,
      timeZone: null,
      encoding: null,
      encodings: {},
      startAt: 'start',
    },
  ]);
  const [stream] = host.streams;
  assert.ok(stream);
  let epoch = 0;
  const run = async (/** @type {number} */ count) => {
    const worker = new Worker(
      {
        storage: server.connectionOptions,
        maxBatchBytes: 4_000,
        maxBatchDelayMs: 100,
        maxRecordBytes: 1_000_000,
        redact: [],
        connectTimeoutMs: 10_000,
        logLevel: 'fatal',
      },
      message => {
        if (message.type !== 'ready') return;
        worker.handle({
          type: 'assign',
          stream: {
            ...stream,
            host: { hostId: host.hostId, name: 'db1', hostKeyAlias: '', knownHostsFile: '', ...fields },
            transport: 'local',
            sudoUser: null,
            epoch,
          },
        });
      },
      'journal-test',
    );
    const deadline = Date.now() + WAIT_MS;
    while ((await stored()).length < count && Date.now() < deadline) await sleep(100);
    await worker.stop();
    const { rows } = await client.query('SELECT epoch::int FROM pgsluice.stream WHERE stream_id = $1', [
      stream.streamId,
    ]);
    epoch = rows[0].epoch;
  };
  await run(20);
  await writeJournal(join(dir, 'b.journal'), messages(20, 30));
  await run(30);
  await run(30);
  const rows = await stored();
  assert.deepEqual(
    rows.map(({ message }) => message),
    Array.from({ length: 30 }, (_, n) => `division by zero (${n})`),
  );
  for (const [n, row] of rows.entries()) {
    assert.deepEqual(
      [row.error_severity, row.detail, row.query, row.user_name, row.database_name, row.process_id, row.file],
      ['ERROR', 'two\nlines', 'select 1/0;', `u${n}`, 'db', 100 + n, `journal:${UNIT}`],
    );
  }
  const { rows: positions } = await client.query('SELECT cursor FROM pgsluice.file');
  assert.equal(positions.length, 1);
  assert.match(positions[0].cursor, /^s=[0-9a-f]{32};/);
});
