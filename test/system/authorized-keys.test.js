/**
 * The daemon with a key that can do nothing but read the logs of its host: all of them arrive, over both kinds of SSH,
 * and an authorized_keys line of another version is named as what is in the way, until it is renewed.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { checkConservation, csvFiles, waitUntilDrained } from '../helpers/conservation.js';
import { TestDaemon } from '../helpers/daemon.js';
import { csvlogSettings, socketUrl, startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

const WAIT_MS = 90_000;

/** @type {import('../helpers/postgres.js').TestPostgres} */
let storage;
/** @type {import('../helpers/postgres.js').TestPostgres} */
let monitored;
/** @type {import('../helpers/sshd.js').Sshd} */
let sshd;
/** @type {TestDaemon} */
let daemon;

/** @type {string} */
let other;

before(async () => {
  other = mkdtempSync(join(tmpdir(), 'pgsluice-other-'));
  chmodSync(other, 0o755);
  [storage, monitored, sshd] = await Promise.all([
    startPostgres(),
    startPostgres({ settings: csvlogSettings() }),
    startSshd(),
  ]);
});
after(async () => {
  await daemon.remove();
  rmSync(other, { recursive: true });
  await Promise.all([storage.stop(), monitored.stop(), sshd.stop()]);
});

test('a daemon whose key is restricted to the logs stores every record once', async () => {
  const options = await storage.createDatabase('restricted');
  daemon = new TestDaemon({ toml: `storage.url = "${socketUrl(options)}"\ndaemon.workers = 1` });
  await daemon.start();
  const transports = ['openssh', 'ssh2'];
  for (const transport of transports)
    await daemon.addHost(`over-${transport}`, { log: monitored.dataDir, server: sshd, transport });
  // Until now the key could do everything; both hosts have the same log, so one line is for both.
  const line = await daemon.run('host', 'authorize', 'over-ssh2');
  const states = async () => (await daemon.status()).hosts.flatMap(({ streams }) => streams);

  writeFileSync(sshd.authorizedKeysFile, line.replaceAll(/ h=./g, ' h=x'));
  sshd.signalConnections('SIGKILL');
  await until(
    async () => (await states()).every(({ error }) => error?.code === 'FOLLOWER_DENIED'),
    () => `that both are denied: ${daemon.output}`,
  );
  for (const { error } of await states()) {
    assert.match(
      error?.message ?? '',
      /^(over-\w+): authorized_keys allows another version of the follower: "pgsluice host authorize \1" prints the line it needs$/,
    );
  }

  writeFileSync(sshd.authorizedKeysFile, line);
  for (let i = 0; i < 200; i += 1) await monitored.query(`SELECT 'statement ${i}'`);
  await monitored.halt();
  const client = new Client(options);
  await client.connect();
  try {
    for (const transport of transports) {
      await waitUntilDrained(client, `over-${transport}`, monitored.logDir, WAIT_MS);
      const files = await csvFiles(monitored.logDir);
      const { source, stored, missing, duplicated, rejected } = await checkConservation(
        client,
        `over-${transport}`,
        files,
      );
      assert.ok(source >= 200);
      assert.deepEqual(
        { stored, missing, duplicated, rejected },
        { stored: source, missing: 0, duplicated: 0, rejected: 0 },
      );
    }
  } finally {
    await client.end();
  }
  // It was that line all the time.
  assert.equal(readFileSync(sshd.authorizedKeysFile, 'utf8'), line);
});

test('a renewed line counts for the streams that were denied, and the others are not disturbed', async () => {
  await daemon.addHost('two', {
    log: monitored.dataDir,
    server: sshd,
    transport: 'openssh',
    more: ['--log', other],
  });
  const streams = async () => (await daemon.status()).hosts.find(({ name }) => name === 'two')?.streams ?? [];
  await until(
    async () => {
      const [first, second] = await streams();
      return first?.state === 'reading' && second?.error?.code === 'FOLLOWER_DENIED';
    },
    () => `that one is read and one is denied: ${daemon.output}`,
  );
  const message = (await streams())[1]?.error?.message ?? '';
  assert.ok(message.startsWith(`two: authorized_keys does not allow ${other}: `), message);

  writeFileSync(sshd.authorizedKeysFile, await daemon.run('host', 'authorize', 'two'));
  await until(
    async () => (await streams())[1]?.state === 'reading',
    () => `that the other one is read: ${daemon.output}`,
  );
  const [first] = await streams();
  assert.deepEqual([first?.state, first?.connects], ['reading', 1]);
});
