// The broken network of the chaos run: what it does to a connection, and that no byte changes places.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BrokenNetwork } from '../../chaos/network.js';

/** How long nothing must come for it to count as silence. */
const SILENCE_MS = 300;

/** @param {import('node:test').TestContext} t a server that echoes, a network before it, a client */
async function echo(t) {
  const server = createServer(socket => socket.on('error', () => {}).pipe(socket));
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const network = new BrokenNetwork({ port });
  await network.listen();
  const client = connect(network.port, '127.0.0.1');
  await once(client, 'connect');
  t.after(async () => {
    client.destroy();
    await network.close();
    server.close();
  });
  let received = Buffer.alloc(0);
  client.on('data', bytes => (received = Buffer.concat([received, bytes])));
  /** @param {number} length */
  const until = async length => {
    while (received.length < length) await once(client, 'data');
    return received;
  };
  return { network, client, until, received: () => received };
}

test('bytes keep their order while the network changes', async t => {
  const { network, client, until } = await echo(t);
  const sent = randomBytes(400_000);
  for (let at = 0; at < sent.length; at += 10_000) {
    client.write(sent.subarray(at, at + 10_000));
    if (at === 50_000) network.slow(5, 50_000_000);
    if (at === 100_000) network.silence();
    if (at === 200_000) network.heal();
    if (at === 250_000) network.slow(2, 50_000_000);
    if (at === 300_000) network.heal();
    await sleep(2);
  }
  assert.ok((await until(sent.length)).equals(sent));
});

test('silence is neither an end nor an error, and what was sent meanwhile comes after it', async t => {
  const { network, client, until, received } = await echo(t);
  const ended = [once(client, 'end'), once(client, 'error'), once(client, 'close')];
  network.silence();
  client.write('hello');
  assert.equal(await Promise.race([...ended, sleep(SILENCE_MS, 'nothing')]), 'nothing');
  assert.equal(received().length, 0);
  network.heal();
  assert.equal(String(await until(5)), 'hello');
});

test('a forgotten connection stays silent, a new one is served', async t => {
  const { network, client, received } = await echo(t);
  network.silence();
  network.forget();
  client.write('hello');
  const second = connect(network.port, '127.0.0.1');
  t.after(() => second.destroy());
  second.write('again');
  assert.equal(String((await once(second, 'data'))[0]), 'again');
  assert.equal(received().length, 0);
  assert.equal(client.destroyed, false);
});

test('a reset ends every connection', async t => {
  const { network, client } = await echo(t);
  const failed = once(client, 'error');
  client.write('x');
  await once(client, 'data');
  assert.equal(network.reset(), 1);
  assert.match(String((await failed)[0]), /ECONNRESET/);
});
