/** `status` and `host add` with a daemon that asks for a password over TLS: what they read, whom they believe. */
import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:tls';
import { after, before, test } from 'node:test';
import { makeCertificate } from '../../helpers/certificate.js';
import { freePort } from '../../helpers/sshd.js';
import { cliStorage, failed, portOf, startDaemon } from './support.js';

/** @type {import('./support.js').CliStorage} */
let storage;
before(async () => (storage = await cliStorage()));
after(() => storage.stop());

/** A configuration with a password and a certificate. @param {string} listen */
async function protectedConfig(listen) {
  const { config, run } = await storage.fresh({ listen });
  const file = (/** @type {string} */ name) => `${config}.${name}`;
  await writeFile(file('auth'), 'ops:hidden-word\nother:x\n', { mode: 0o600 });
  const { cert, key } = makeCertificate('monitoring.example');
  await writeFile(file('cert'), cert);
  await writeFile(file('key'), key, { mode: 0o600 });
  const text = await readFile(config, 'utf8');
  const tls = ['auth_file', 'tls_cert_file', 'tls_key_file'].map(
    key => `${key} = "${file(String(/^(?:tls_)?(\w+)_/.exec(key)?.[1]))}"\n`,
  );
  await writeFile(config, text.replace('[http]\n', `[http]\n${tls.join('')}`));
  return { config, run, file };
}

test('commands ask with the password and trust the certificate of the configuration', async t => {
  const { config, run, file } = await protectedConfig(`127.0.0.1:${await freePort()}`);
  const daemon = startDaemon(t, config);
  await daemon.until(() => daemon.stdout().includes('next '));
  assert.match(daemon.stdout(), /^http {5}https:\/\/127\.0\.0\.1:\d+\/status/m);

  const status = await run('status', '--json');
  assert.equal(status.code, 0, status.stdout + status.stderr);
  assert.equal(JSON.parse(status.stdout).master.pid, daemon.child.pid);
  const added = await run('host', 'add', 'here', '--transport', 'local', '--log', '/x');
  assert.equal(added.code, 0, added.stderr);
  assert.doesNotMatch(added.stdout, /no daemon answers/);

  await writeFile(file('auth'), 'ops:wrong\n');
  const refused = await run('status');
  assert.equal(refused.code, 1);
  assert.match(refused.stdout, /the answer has HTTP status 401/);
  await chmod(file('auth'), 0o644);
  failed(await run('status'), 1, /http\.auth_file .* can be read or changed by others/);
  const again = await run('host', 'add', 'there', '--transport', 'local', '--log', '/x');
  assert.equal(again.code, 0, again.stderr);
  assert.doesNotMatch(again.stdout, /no daemon answers/);
  failed(await run('start'), 1, /http\.auth_file .* can be read or changed by others/);
});

test('whoever took the port is not told the password', async t => {
  let heard = '';
  const impostor = createServer(makeCertificate('monitoring.example'), socket => {
    socket.on('error', () => {});
    socket.on('data', data => (heard += data));
  });
  await new Promise(resolve => impostor.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => impostor.close());
  const { run } = await protectedConfig(`127.0.0.1:${portOf(impostor)}`);
  const { code, stdout } = await run('status');
  assert.equal(code, 1);
  assert.match(stdout, /it shows another certificate than http\.tls_cert_file/);
  assert.equal(heard, '');
});
