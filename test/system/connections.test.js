/**
 * Connections to hosts as networks and servers spoil them: silence without an end, a changed host key, refused
 * authentication, a whole fleet that connects at once, more sessions than a connection may have.
 */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestDaemon } from '../helpers/daemon.js';
import { startPostgres } from '../helpers/postgres.js';
import { startSilentProxy } from '../helpers/silent-proxy.js';
import { startSshd } from '../helpers/sshd.js';
import { until } from '../helpers/until.js';

/** @typedef {import('node:test').TestContext} TestContext */

const TRANSPORTS = /** @type {const} */ (['openssh', 'ssh2']);

/** @param {number} n */
const row = n =>
  `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`;

describe('connections', () => {
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let storage;
  /** What each test stops at its end, the last first. @type {WeakMap<TestContext, (() => Promise<unknown>)[]>} */
  const releasers = new WeakMap();

  before(async () => {
    storage = await startPostgres();
  });
  after(() => storage.stop());

  /** @param {TestContext} t @param {() => Promise<unknown>} release */
  function atEnd(t, release) {
    const known = releasers.get(t);
    if (known) {
      known.push(release);
      return;
    }
    const all = [release];
    releasers.set(t, all);
    t.after(async () => {
      for (const each of all.toReversed()) await each();
    });
  }

  /** @param {TestContext} t @param {string} database @param {string} [toml] */
  async function startDaemon(t, database, toml = '') {
    const logs = mkdtempSync(join(tmpdir(), 'pgsluice-logs-'));
    chmodSync(logs, 0o755);
    writeFileSync(join(logs, 'a.csv'), row(1));
    atEnd(t, async () => rmSync(logs, { recursive: true }));
    const { host, port, user } = await storage.createDatabase(database);
    const url = `postgres://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
    const daemon = new TestDaemon({ toml: `storage.url = "${url}"\n${toml}` });
    atEnd(t, () => daemon.remove());
    await daemon.start();
    return { daemon, logs };
  }

  /** @param {TestContext} t @param {Parameters<typeof startSshd>[0]} [options] */
  async function sshServer(t, options) {
    const sshd = await startSshd(options);
    atEnd(t, () => sshd.stop());
    return sshd;
  }

  /** @param {TestDaemon} daemon @param {string} name */
  async function stream(daemon, name) {
    return (await daemon.status()).hosts.find(host => host.name === name)?.streams[0];
  }

  // They wait more than they work; the two below measure when connections are made.
  describe('to one server', { concurrency: true }, () => {
    test('that die silently are noticed within 30 s, and come back by themselves', async t => {
      const sshd = await sshServer(t);
      const proxy = await startSilentProxy(sshd);
      atEnd(t, () => proxy.close());
      const { daemon, logs } = await startDaemon(t, 'silent', 'daemon.workers = 1');
      for (const transport of TRANSPORTS) {
        await daemon.addHost(transport, {
          log: logs,
          server: { ...keysOf(sshd), port: proxy.port },
          transport,
        });
      }
      for (const name of TRANSPORTS)
        await until(async () => (await stream(daemon, name))?.records === 1, `${name} reads`);
      proxy.silence();
      await Promise.all(
        TRANSPORTS.map(name =>
          until(async () => (await stream(daemon, name))?.error, `${name} is noticed`, 30_000),
        ),
      );
      appendFileSync(join(logs, 'a.csv'), row(2));
      // What the network swallowed does not come back: new connections are made.
      proxy.cut();
      proxy.speak();
      for (const name of TRANSPORTS)
        await until(async () => (await stream(daemon, name))?.records === 2, `${name} reads again`);
    });

    test('to a server with another host key are not made, until an operator gives the new one', async t => {
      const first = await sshServer(t);
      const second = await sshServer(t);
      const { daemon, logs } = await startDaemon(t, 'host_key', 'daemon.workers = 1');
      for (const transport of TRANSPORTS)
        await daemon.addHost(transport, { log: logs, server: first, transport });
      for (const name of TRANSPORTS)
        await until(async () => (await stream(daemon, name))?.records === 1, `${name} reads`);
      // The same port, the same login, another machine.
      const { port } = first;
      copyFileSync(first.authorizedKeysFile, second.authorizedKeysFile);
      await first.stop();
      await second.stop();
      const dir = mkdtempSync(join(tmpdir(), 'pgsluice-sshd-'));
      atEnd(t, async () => rmSync(dir, { recursive: true, force: true }));
      const other = await sshServer(t, { port, dir });
      await daemon.run('host', 'update', 'openssh', '--identity', other.identityFile);
      await daemon.run('host', 'update', 'ssh2', '--identity', other.identityFile);
      for (const name of TRANSPORTS) {
        await until(
          async () => (await stream(daemon, name))?.error?.code === 'SSH_HOST_KEY_CHANGED',
          `the key of ${name}`,
        );
      }
      const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
      for (const name of TRANSPORTS) {
        assert.match(
          metrics,
          new RegExp(`^pgsluice_stream_error\\{host="${name}",[^}]*code="SSH_HOST_KEY_CHANGED"\\} 1$`, 'm'),
        );
      }
      assert.match(await daemon.run('status'), /SSH_HOST_KEY_CHANGED|host key/i);
      assert.doesNotMatch(other.log(), /Accepted publickey/, 'nobody logged in');
      appendFileSync(join(logs, 'a.csv'), row(2));
      for (const name of TRANSPORTS) {
        await daemon.run('host', 'update', name, '--host-key', other.hostKey);
        // The slow back-off is 24 s at least.
        await until(async () => (await stream(daemon, name))?.records === 2, `${name} reads again`, 15_000);
      }
    });

    test('of a server that has a key of another type only are refused as changed, too', async t => {
      const first = await sshServer(t);
      const { daemon, logs } = await startDaemon(t, 'key_type', 'daemon.workers = 1');
      const other = await sshServer(t, { hostKeyType: 'rsa' });
      const server = { ...keysOf(other), hostKey: first.hostKey };
      for (const transport of TRANSPORTS) await daemon.addHost(transport, { log: logs, server, transport });
      for (const name of TRANSPORTS) {
        await until(
          async () => (await stream(daemon, name))?.error?.code.startsWith('SSH_HOST_KEY_'),
          `the key of ${name}`,
        );
      }
      assert.doesNotMatch(other.log(), /Accepted publickey/);
    });

    test('that are refused our key are tried slowly at once, one for all streams of a host', async t => {
      const sshd = await sshServer(t);
      writeFileSync(sshd.authorizedKeysFile, '');
      const { daemon, logs } = await startDaemon(t, 'refused', 'daemon.workers = 2');
      for (const transport of TRANSPORTS) {
        const more = ['b', 'c', 'd'].flatMap(name => ['--log', join(logs, name)]);
        await daemon.addHost(transport, { log: logs, server: sshd, transport, more });
      }
      // One of its streams tries; all say why they wait.
      for (const name of TRANSPORTS) {
        await until(async () => {
          const host = (await daemon.status()).hosts.find(each => each.name === name);
          return host?.streams.every(({ error }) => error?.code === 'SSH_AUTH_REFUSED');
        }, name);
      }
      const before = sshd.connections();
      // The first attempt of each host, and for all its streams none for the next 24 s.
      assert.equal(before, TRANSPORTS.length);
      await sleep(10_000);
      assert.equal(sshd.connections(), before);
    });
  });

  test('of a whole fleet are made at ssh.connect_rate, whatever the transport', async t => {
    const sshd = await sshServer(t);
    const { daemon, logs } = await startDaemon(t, 'rate', 'daemon.workers = 2\nssh.connect_rate = 5');
    await daemon.stop();
    const hosts = 30;
    const lines = Array.from({ length: hosts }, (_, n) => ({ name: `db${n}`, transport: TRANSPORTS[n % 2] }));
    await Promise.all(
      [0, 1, 2].map(async part => {
        for (const { name, transport } of lines.filter((_, n) => n % 3 === part))
          await daemon.addHost(name, { log: logs, server: sshd, transport });
      }),
    );
    const { at, stop } = connectionTimes(sshd);
    try {
      await daemon.start();
      await until(async () => {
        const { hosts: all } = await daemon.status();
        return all.length === hosts && all.every(host => host.streams[0]?.records === 1);
      }, 'the whole fleet');
    } finally {
      stop();
    }
    assert.equal(at.length, hosts);
    // Turns are 200 ms apart; how long ssh needs from its turn to the server may differ.
    for (let n = 10; n < hosts; n += 1)
      assert.ok((at[n] ?? 0) - (at[n - 10] ?? 0) > 1_000, `10 connections in less than a second`);
    const total = (at.at(-1) ?? 0) - (at[0] ?? 0);
    assert.ok(total > 1000 * ((hosts - 1) / 5) - 1_000, `all in ${total} ms`);
  });

  test('carry more streams than MaxSessions by further connections, which wait for their turns, too', async t => {
    const sshd = await sshServer(t, { settings: ['MaxSessions 1'] });
    const { daemon, logs } = await startDaemon(t, 'sessions', 'daemon.workers = 1\nssh.connect_rate = 1');
    const names = ['b', 'c', 'd', 'e', 'f'];
    for (const name of names) writeFileSync(join(logs, `${name}.log`), row(1));
    const more = names.flatMap(name => ['--log', join(logs, `${name}.log`)]);
    const { at, stop } = connectionTimes(sshd);
    await daemon.addHost('db1', { log: join(logs, 'a.csv'), server: sshd, transport: 'openssh', more });
    await until(async () => {
      const streams = (await daemon.status()).hosts[0]?.streams ?? [];
      return streams.length === 6 && streams.every(({ records }) => records === 1);
    }, 'six streams over sessions of one');
    stop();
    // A stream that begins anew on a busy machine may take another one: the server has not ended its session yet.
    assert.ok(at.length >= 6 && at.length <= 12, `${at.length} connections`);
    const tookMs = (at.at(-1) ?? 0) - (at[0] ?? 0);
    assert.ok(tookMs > 1_000 * (at.length - 2), `${at.length} connections within ${tookMs} ms`);
  });
});

/** @param {Awaited<ReturnType<typeof startSshd>>} sshd @returns {{ at: number[], stop: () => void }} when each came */
function connectionTimes(sshd) {
  /** @type {number[]} */
  const at = [];
  const timer = setInterval(() => {
    while (at.length < sshd.connections()) at.push(performance.now());
  }, 5);
  return { at, stop: () => clearInterval(timer) };
}

/** @param {Awaited<ReturnType<typeof startSshd>>} sshd */
function keysOf({ user, port, identityFile, hostKey }) {
  return { user, port, identityFile, hostKey };
}
