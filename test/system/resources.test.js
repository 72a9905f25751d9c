/**
 * A monitoring host that runs out of things: descriptors, its runtime directory. What fits works, the rest says why,
 * nothing dies, and all is well again when there is room.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestDaemon } from '../helpers/daemon.js';
import { startPostgres } from '../helpers/postgres.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`;

describe('resources', () => {
  /** @type {string} */
  let logs;
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let sshd;
  /** @type {TestDaemon[]} */
  let daemons = [];

  before(async () => {
    [storage, sshd] = await Promise.all([startPostgres(), startSshd()]);
  });
  after(async () => {
    await Promise.all([storage.stop(), sshd.stop()]);
  });
  afterEach(async () => {
    for (const daemon of daemons) await daemon.remove();
    daemons = [];
    rmSync(logs, { recursive: true });
  });

  /** @param {string} database @param {string} [limits] */
  async function makeDaemon(database, limits) {
    logs = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(logs, 0o755);
    writeFileSync(join(logs, 'a.csv'), row(1));
    const { host, port, user } = await storage.createDatabase(database);
    const url = `postgres://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
    const daemon = new TestDaemon({
      toml: `storage.url = "${url}"\ndaemon.workers = 1`,
      ...(limits !== undefined && { limits }),
    });
    daemons.push(daemon);
    return daemon;
  }

  /** @param {TestDaemon} daemon */
  async function streamsOf(daemon) {
    return (await daemon.status()).hosts.flatMap(host =>
      host.streams.map(stream => ({ name: host.name, ...stream })),
    );
  }

  test('out of descriptors: what fits is read, the others say why, and take their places', async () => {
    const daemon = await makeDaemon('descriptors', 'ulimit -n 80');
    const count = 24; // (80 - 48) / 3 fit
    const file = join(logs, 'hosts.jsonl');
    const hosts = Array.from({ length: count }, (_, n) => ({
      name: `local${n}`,
      transport: 'local',
      streams: [{ path: join(logs, 'a.csv'), from: 'start' }],
    }));
    writeFileSync(file, hosts.map(host => `${JSON.stringify(host)}\n`).join(''));
    await daemon.run('host', 'import', file);
    await daemon.start();
    await until(async () => {
      const streams = await streamsOf(daemon);
      const reading = streams.filter(({ state, records }) => state === 'reading' && records === 1).length;
      const told = streams.filter(({ error }) => error?.code === 'DESCRIPTORS_SHORT').length;
      return reading === 10 && told === count - 10;
    }, 'ten that read, and the others with a reason');
    appendFileSync(join(logs, 'a.csv'), row(2));
    await until(
      async () => (await streamsOf(daemon)).filter(({ records }) => records === 2).length === 10,
      'records of those that read',
    );
    for (const { name, state } of await streamsOf(daemon))
      if (state === 'reading') await daemon.run('host', 'remove', name);
    await until(
      async () => (await streamsOf(daemon)).filter(({ records }) => records === 2).length === 10,
      'ten others in their places',
    );
    const { workers } = await daemon.status();
    assert.equal(workers[0]?.restarts, 0);
  });

  test('a runtime directory that is removed is made again, and connections, too', async () => {
    const daemon = await makeDaemon('removed');
    await daemon.start();
    for (const transport of ['openssh', 'ssh2'])
      await daemon.addHost(transport, { log: join(logs, 'a.csv'), server: sshd, transport });
    await until(
      async () => (await streamsOf(daemon)).filter(({ records }) => records === 1).length === 2,
      'both',
    );
    rmSync(join(daemon.dir, 'run'), { recursive: true });
    // A new stream over the connection whose control socket is gone, and a new host.
    appendFileSync(join(logs, 'a.csv'), row(2));
    await daemon.addHost('another', { log: join(logs, 'a.csv'), server: sshd, transport: 'openssh' });
    await until(async () => {
      const streams = await streamsOf(daemon);
      return streams.length === 3 && streams.every(({ records }) => records === 2);
    }, 'all three');
    const { workers, sshproxy } = await daemon.status();
    assert.deepEqual([workers[0]?.restarts, sshproxy.restarts], [0, 0]);
  });

  test('a runtime directory that cannot be made is an error of one line, once, and not the end', async () => {
    const daemon = await makeDaemon('unusable');
    await daemon.start();
    await daemon.addHost('db1', { log: join(logs, 'a.csv'), server: sshd, transport: 'openssh' });
    await until(async () => (await streamsOf(daemon))[0]?.records === 1, 'the record');
    const run = join(daemon.dir, 'run');
    rmSync(run, { recursive: true });
    writeFileSync(run, 'in the way');
    await daemon.addHost('db2', { log: join(logs, 'a.csv'), server: sshd, transport: 'openssh' });
    await until(
      async () => (await (await fetch(`${daemon.url}/readyz`)).text()).includes(`${run} cannot be used`),
      'the reason in /readyz',
    );
    await sleep(3_000);
    assert.equal(daemon.output.split(`${run} cannot be used`).length, 2, 'said once');
    rmSync(run);
    appendFileSync(join(logs, 'a.csv'), row(2));
    await until(async () => {
      const streams = await streamsOf(daemon);
      return streams.length === 2 && streams.every(({ records }) => records === 2);
    }, 'both');
    assert.equal(await daemon.ready(), true);
    const { workers, sshproxy } = await daemon.status();
    assert.deepEqual([workers[0]?.restarts, sshproxy.restarts], [0, 0]);
  });
});
