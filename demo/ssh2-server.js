/**
 * A small SSH server on the ssh2 package, for machines without sshd: one user, one key, commands in /bin/sh.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import ssh2 from 'ssh2';

/** @returns {Promise<{ user: string, pid: number, port: number, hostKey: string, identityFile: string, stop: () => Promise<void> }>} */
export async function startSsh2Server() {
  const dir = mkdtempSync(join(tmpdir(), 'pgsluice-ssh2-'));
  const identityFile = join(dir, 'id_ed25519');
  const hostKey = ssh2.utils.generateKeyPairSync('ed25519');
  const clientKey = ssh2.utils.generateKeyPairSync('ed25519');
  writeFileSync(identityFile, clientKey.private, { mode: 0o600 });
  const allowed = ssh2.utils.parseKey(clientKey.public);
  if (allowed instanceof Error) throw allowed;
  const user = userInfo().username;
  /** @type {Set<import('ssh2').Connection>} */
  const connections = new Set();

  const server = new ssh2.Server({ hostKeys: [hostKey.private] }, connection => {
    connections.add(connection);
    connection.on('close', () => connections.delete(connection));
    connection.on('error', () => {}); // a client that goes away
    connection.on('authentication', context => {
      const known =
        context.method === 'publickey' &&
        context.username === user &&
        context.key.data.equals(allowed.getPublicSSH());
      if (!known) return context.reject(['publickey']);
      if (!context.signature) return context.accept();
      const signed = allowed.verify(
        /** @type {Buffer} */ (context.blob),
        context.signature,
        context.hashAlgo,
      );
      return signed ? context.accept() : context.reject();
    });
    connection.on('session', accept => {
      accept().on('exec', (acceptExec, _reject, { command }) => runCommand(acceptExec(), command));
    });
  });
  await new Promise(resolve => {
    server.listen(0, '127.0.0.1', () => resolve(undefined));
  });
  return {
    user,
    pid: process.pid,
    port: /** @type {import('node:net').AddressInfo} */ (server.address()).port,
    hostKey: hostKey.public,
    identityFile,
    async stop() {
      for (const connection of connections) connection.end();
      await new Promise(resolve => server.close(resolve));
      rmSync(dir, { recursive: true });
    },
  };
}

/** @param {import('ssh2').ServerChannel} channel @param {string} command */
function runCommand(channel, command) {
  const child = spawn('/bin/sh', ['-c', command], { stdio: ['pipe', 'pipe', 'pipe'] });
  channel.pipe(child.stdin);
  child.stdin.on('error', () => {}); // the exit code says it
  child.stdout.pipe(channel, { end: false });
  child.stderr.pipe(channel.stderr, { end: false });
  channel.on('close', () => child.kill());
  child.on('close', code => {
    channel.exit(code ?? 1);
    channel.end();
  });
}
