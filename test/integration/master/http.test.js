/**
 * The HTTP endpoint against hostile clients, with raw sockets: whatever they do, others are answered; and who is let in
 * when there are passwords and a certificate.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as tlsRequest } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpServer } from '../../../src/master/http.js';
import { makeCertificate } from '../../helpers/certificate.js';

const DEADLINE_MS = 20_000;
/** So that what cuts a client off is the limit of its request, not that of its connection. */
const LONG_CONNECTION = { connectionMaxMs: 600_000 };
/** More than the socket buffers of both sides hold. */
const BIG = 'x'.repeat(32 * 1024 * 1024);

/** @typedef {import('node:test').TestContext} TestContext */

/** @type {string} */
let dir;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-http-'));
  const { cert, key } = makeCertificate('monitoring.example');
  secretFile('cert.pem', cert);
  secretFile('key.pem', key);
  secretFile('other-cert.pem', makeCertificate('monitoring.example').cert);
});
after(() => rmSync(dir, { recursive: true }));

/** @param {string} name @param {string} text @param {number} [mode] */
function secretFile(name, text, mode = 0o600) {
  const file = join(dir, name);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

/**
 * @param {TestContext} t
 * @param {Partial<import('../../../src/config/options.js').Config['http']>} [http]
 * @param {Partial<ConstructorParameters<typeof HttpServer>[0]>} [more]
 */
async function serve(t, http = {}, more = {}) {
  let rendered = 0;
  /** @type {string[]} */
  const warnings = [];
  const server = new HttpServer({
    http: {
      listen: { host: '127.0.0.1', port: 0 },
      authFile: null,
      tlsCertFile: null,
      tlsKeyFile: null,
      ...http,
    },
    ready: () => null,
    status: () => ({ count: (rendered += 1) }),
    metrics: async () => ({ type: 'text/plain', text: BIG }),
    log: {
      warn: (/** @type {unknown} */ text) => warnings.push(String(text)),
      error: (/** @type {unknown} */ error) => assert.fail(String(error)),
    },
    ...more,
  });
  const url = String(await server.listen());
  t.after(() => server.close());
  return { url, port: Number(new URL(url).port), warnings, rendered: () => rendered };
}

/**
 * A raw connection that ends with the test.
 * @param {TestContext} t
 * @param {number} port
 */
async function rawClient(t, port) {
  const socket = connect({ port, host: '127.0.0.1' });
  let text = '';
  socket.on('error', () => {}); // a reset is one way to be cut off
  const closed = new Promise(resolve => socket.once('close', () => resolve(undefined)));
  t.after(() => socket.destroy());
  socket.setEncoding('latin1').on('data', piece => (text += piece));
  await once(socket, 'connect');
  return { socket, text: () => text, cut: () => Promise.race([closed, tooLong()]) };
}

async function tooLong() {
  await sleep(DEADLINE_MS, undefined, { ref: false });
  throw new Error(`the server has not cut it off in ${DEADLINE_MS / 1000} s`);
}

/**
 * How many connections the server has had at once: those that it has accepted and not cut.
 * @param {TestContext} t
 * @param {number} port
 */
function mostConnections(t, port) {
  /** @type {Set<import('node:net').Socket>} */
  const accepted = new Set();
  let most = 0;
  const onServer = (/** @type {any} */ { socket }) => {
    if (socket.localPort !== port) return;
    accepted.add(socket);
    most = Math.max(most, [...accepted].filter(({ destroyed }) => !destroyed).length);
  };
  subscribe('net.server.socket', onServer);
  t.after(() => unsubscribe('net.server.socket', onServer));
  return () => most;
}

const TLS = () => ({ tlsCertFile: join(dir, 'cert.pem'), tlsKeyFile: join(dir, 'key.pem') });

/** @param {string} url */
async function assertAnswers(url) {
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
}

describe('limits', { concurrency: true }, () => {
  test('a client that sends a byte now and then is cut off', async t => {
    const { url, port } = await serve(t, {}, LONG_CONNECTION);
    const slow = await rawClient(t, port);
    const text = `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ${'a'.repeat(1000)}`;
    let sent = 0;
    const timer = setInterval(() => slow.socket.write(text.charAt((sent += 1) - 1)), 250);
    t.after(() => clearInterval(timer));
    await assertAnswers(url);
    await slow.cut();
    assert.ok(sent < text.length);
    await assertAnswers(url);
  });

  test('a client that says nothing is cut off, over TLS too', async t => {
    const plain = await serve(t, {}, LONG_CONNECTION);
    const overTls = await serve(t, TLS(), LONG_CONNECTION);
    const mute = await Promise.all([plain, overTls].map(({ port }) => rawClient(t, port)));
    await Promise.all(mute.map(client => client.cut()));
    await assertAnswers(plain.url);
  });

  test('a mebibyte of header is refused after its first 8 KiB', async t => {
    const { url, port } = await serve(t);
    for (const beginning of ['GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ', 'GET /']) {
      const client = await rawClient(t, port);
      client.socket.write(beginning + 'a'.repeat(1024 * 1024));
      await client.cut();
      assert.match(client.text(), /^(HTTP\/1\.1 431 [^]*)?$/);
      await assertAnswers(url);
    }
  });

  test('200 connections that do nothing keep nobody out, over TLS neither', async t => {
    for (const tls of [{}, TLS()]) {
      const { url, port } = await serve(t, tls);
      const most = mostConnections(t, port);
      /** @type {Set<import('node:net').Socket>} */
      const open = new Set();
      let newest = await rawClient(t, port);
      for (let count = 0; count < 200; count += 1) {
        newest = await rawClient(t, port);
        const { socket } = newest;
        open.add(socket);
        socket.once('close', () => open.delete(socket));
      }
      if (url.startsWith('https')) assert.equal((await tlsGet(url, '/healthz')).status, 200);
      else await assertAnswers(url);
      for (const end = Date.now() + DEADLINE_MS; open.size >= 64 && Date.now() < end;) await sleep(20);
      assert.ok(open.size < 64, `${open.size} are open`);
      assert.ok(most() <= 64 + 1, `${most()} at once`);
      // The oldest ones made room: they were not cut all together because their time was over.
      if (url.startsWith('https')) continue;
      newest.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      await newest.cut();
      assert.match(newest.text(), /^HTTP\/1\.1 200 /);
    }
  });

  test('who is being answered does not make room for those that only wait', async t => {
    const { port } = await serve(t);
    const answered = await rawClient(t, port);
    answered.socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(answered.socket, 'data');
    answered.socket.pause();
    for (let count = 0; count < 70; count += 1) await rawClient(t, port);
    answered.socket.resume();
    await answered.cut();
    assert.ok(answered.text().length > BIG.length, `${answered.text().length} characters`);
  });

  test('of requests sent at once the first is answered, and nothing is done for the others', async t => {
    const { url, port, rendered } = await serve(t);
    const client = await rawClient(t, port);
    client.socket.write('GET /status HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1000));
    await client.cut();
    assert.match(client.text(), /^HTTP\/1\.1 200 [^]*"count": 1\b/);
    assert.equal(rendered(), 1);
    assert.equal(client.text().match(/^HTTP\/1\.1 200 /gm)?.length, 1);
    await assertAnswers(url);
  });

  test('a request with a body is refused before the body', async t => {
    const { url, port } = await serve(t);
    for (const header of [
      'Content-Length: 1000000000',
      'Transfer-Encoding: chunked',
      'Content-Length: 5\r\nExpect: 100-continue',
    ]) {
      const client = await rawClient(t, port);
      client.socket.write(`GET /status HTTP/1.1\r\nHost: x\r\n${header}\r\n\r\n`);
      await client.cut();
      assert.match(client.text(), /^HTTP\/1\.1 413 /, header);
    }
    assert.equal((await fetch(`${url}/status`, { method: 'POST' })).status, 405);
    await assertAnswers(url);
  });

  test('a client that does not read its answer is cut off', async t => {
    const { url, port } = await serve(t, {}, { connectionMaxMs: 3_000 });
    /** @type {Promise<unknown>} the end of the connection on the server's side */
    const cut = new Promise(resolve => {
      const onServer = (/** @type {any} */ { socket }) => {
        if (socket.remotePort === client.localPort) socket.once('close', resolve);
      };
      subscribe('net.server.socket', onServer);
      t.after(() => unsubscribe('net.server.socket', onServer));
    });
    const client = connect({ port, host: '127.0.0.1' }).on('error', () => {});
    t.after(() => client.destroy());
    client.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
    await Promise.race([cut, tooLong()]);
    await assertAnswers(url);
    let length = 0;
    client.on('data', piece => (length += piece.length));
    await once(client, 'close');
    assert.ok(length < BIG.length);
  });

  test('what is no HTTP, no URL or an upgrade harms nobody', async t => {
    const { url, port } = await serve(t);
    for (const [text, answer] of /** @type {const} */ ([
      ['\0\x01\x02\r\n\r\n', /^HTTP\/1\.1 400 /],
      ['GET //[ HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 404 /],
      ['GET /status HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n', /^HTTP\/1\.1 200 /],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', /^$/],
    ])) {
      const client = await rawClient(t, port);
      client.socket.write(text);
      await client.cut();
      assert.match(client.text(), answer);
      await assertAnswers(url);
    }
  });
});

test('what hosts say acts on no terminal that shows an answer, and JSON says the same', async t => {
  const hostile = 'a\u001b[2J\u009b31m\r\u202eb';
  const { url } = await serve(
    t,
    {},
    { ready: () => new Error(hostile), status: () => ({ [hostile]: hostile }) },
  );
  const ready = await (await fetch(`${url}/readyz`)).text();
  assert.equal(ready, 'a\\x1b[2J\\x9b31m\\r\\u202eb\n');
  const status = await (await fetch(`${url}/status`)).text();
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  assert.doesNotMatch(status, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  assert.deepEqual(JSON.parse(status), { [hostile]: hostile });
});

describe('who may ask', { concurrency: true }, () => {
  const basic = (/** @type {string} */ text) => ({
    authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  });

  test('with passwords every path asks for one', async t => {
    const authFile = secretFile('auth', '# who\n\nops:secret\r\nprometheus:a:b ü \n');
    const { url } = await serve(t, { authFile });
    for (const path of ['/healthz', '/readyz', '/status', '/metrics', '/nothing']) {
      const { status, headers } = await fetch(url + path);
      assert.equal(status, 401, path);
      assert.match(headers.get('www-authenticate') ?? '', /^Basic realm="pgsluice"/);
    }
    /** @param {Record<string, string>} headers */
    const healthz = async headers => (await fetch(`${url}/healthz`, { headers })).status;
    for (const right of ['ops:secret', 'prometheus:a:b ü '])
      assert.equal(await healthz(basic(right)), 200, right);
    for (const wrong of [
      'ops:',
      'ops:secre',
      'ops:secretx',
      ':secret',
      '# who',
      '',
      'prometheus:a:b ü',
      'ops',
    ]) {
      assert.equal(await healthz(basic(wrong)), 401, wrong);
    }
    assert.equal(await healthz({ authorization: 'Bearer b3BzOnNlY3JldA==' }), 401);
  });

  test('over TLS a scraper that trusts the certificate is answered', async t => {
    const tls = { tlsCertFile: join(dir, 'cert.pem'), tlsKeyFile: join(dir, 'key.pem') };
    const { url, warnings } = await serve(t, { ...tls, authFile: secretFile('auth-tls', 'ops:secret\n') });
    assert.match(url, /^https:/);
    assert.equal((await tlsGet(url, '/status')).status, 401);
    const { status, text } = await tlsGet(url, '/status', { auth: 'ops:secret' });
    assert.deepEqual([status, JSON.parse(text)], [200, { count: 1 }]);
    await assert.rejects(tlsGet(url, '/status', { ca: readFileSync(join(dir, 'other-cert.pem')) }), {
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    });
    await assert.rejects(fetch(`${url.replace('https', 'http')}/healthz`));
    assert.deepEqual(warnings, []);
  });

  test('an address that others can reach without a password is warned of once', async t => {
    const listen = { host: '0.0.0.0', port: 0 };
    const open = await serve(t, { listen });
    assert.equal(open.warnings.length, 1);
    assert.match(String(open.warnings), /asks for no password: set http\.auth_file/);
    const clear = await serve(t, { listen, authFile: secretFile('auth-open', 'a:b\n') });
    assert.match(String(clear.warnings), /over an open network: set http\.tls_cert_file/);
    assert.deepEqual((await serve(t)).warnings, []);
  });

  test('files that cannot serve are refused, and no line of them is shown', async t => {
    const cert = join(dir, 'cert.pem');
    const key = readFileSync(join(dir, 'key.pem'), 'utf8');
    for (const [http, code, message] of /** @type {const} */ ([
      [
        { authFile: secretFile('a1', 'u:hidden\n', 0o640) },
        'FILE_EXPOSED',
        /http\.auth_file .*a1 can be read.*0640.*chmod 600/,
      ],
      [{ authFile: secretFile('a2', 'u:hidden\n', 0o604) }, 'FILE_EXPOSED', /mode 0604/],
      [
        { authFile: secretFile('a3', 'u:x\nhidden\n') },
        'CONFIG_INVALID',
        /a3:2: a line must be USER:PASSWORD$/,
      ],
      [{ authFile: secretFile('a4', ':hidden\n') }, 'CONFIG_INVALID', /a4:1: /],
      [{ authFile: secretFile('a5', '#hidden\n\n') }, 'CONFIG_INVALID', /names nobody/],
      [{ authFile: join(dir, 'missing') }, 'FILE_UNREADABLE', /ENOENT/],
      [{ authFile: dir }, 'FILE_UNREADABLE', /not a regular file/],
      [
        { tlsCertFile: cert, tlsKeyFile: secretFile('k1', key, 0o644) },
        'FILE_EXPOSED',
        /http\.tls_key_file .*k1 /,
      ],
      [
        { tlsCertFile: cert, tlsKeyFile: secretFile('k2', 'hidden\n') },
        'FILE_UNREADABLE',
        /cannot be used: /,
      ],
      [
        { tlsCertFile: join(dir, 'other-cert.pem'), tlsKeyFile: join(dir, 'key.pem') },
        'FILE_UNREADABLE',
        /mismatch/,
      ],
    ])) {
      await assert.rejects(serve(t, http), error => {
        const { code: thrown, message: text } = /** @type {Error & { code: string }} */ (error);
        assert.equal(thrown, code, text);
        assert.match(text, message);
        assert.doesNotMatch(text, /hidden/);
        return true;
      });
    }
  });
});

/**
 * As Prometheus does with ca_file and server_name.
 * @param {string} url
 * @param {string} path
 * @param {{ auth?: string, ca?: Buffer }} [options]
 * @returns {Promise<{ status: number, text: string }>}
 */
function tlsGet(url, path, options = {}) {
  const ca = readFileSync(join(dir, 'cert.pem'));
  return new Promise((resolve, reject) => {
    const call = tlsRequest(
      url + path,
      { ca, servername: 'monitoring.example', agent: false, ...options },
      response => {
        let text = '';
        response.setEncoding('utf8').on('data', piece => (text += piece));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      },
    );
    call.on('error', reject);
    call.end();
  });
}
