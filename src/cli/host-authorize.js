/**
 * `pgsluice host authorize NAME`: prints the authorized_keys line for a host's logs. Connects to nothing.
 * The public key is that of --key or --key-file, or of the host's identity file: F.pub beside it, or what ssh-keygen
 * makes of it. Throws PgsluiceError USAGE, FILE_UNREADABLE, NOT_SUPPORTED, HOST_UNKNOWN and the storage's.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { showValue } from '../base/show-value.js';
import { authorizedKeysLine } from '../follower/authorized-keys.js';
import { loadHost } from '../storage/inventory.js';
import { parseHostKey } from './host-key.js';
import { hostNameOperand } from './host-options.js';
import { version } from './version.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */

const KEYGEN_TIMEOUT_MS = 20_000;

/** @param {Context} context */
export async function hostAuthorize(context) {
  const name = hostNameOperand(context.operands[0] ?? '');
  const given = givenKey(context);
  const host = await withStorage(context, ({ client }) => loadHost(client, name));
  if (host.transport === 'local')
    throw usage(`${name} is this machine, read without SSH: no key has to be authorized`);
  if (host.streams.length === 0)
    throw usage(`${name} has no log to follow: remove it, and add it again with --log`);
  if (given === null && host.identityFile === null)
    throw usage(
      `${name} has no identity file: give the public key with --key or --key-file, or name the private one with "pgsluice host update ${name} --identity FILE"`,
    );
  const line = authorizedKeysLine({
    key: given ?? (await keyOfIdentity(host.identityFile ?? '')),
    paths: host.streams.map(({ path }) => path),
    sudoUser: host.sudoUser,
    comment: `pgsluice ${version()} ${name}`,
  });
  if (context.json) context.output.json({ line });
  else context.output.line(line);
}

/** @param {Context} context @returns {string | null} */
function givenKey(context) {
  const text = context.text('key');
  const file = context.text('key-file');
  if (text !== undefined && file !== undefined) throw usage('--key and --key-file exclude each other');
  if (text !== undefined) {
    const key = publicKey(text);
    if (key !== null) return key;
    throw usage(`--key ${showValue(text)} is not a public key: it looks like 'ssh-ed25519 AAAA...'`);
  }
  if (file === undefined) return null;
  const path = resolve(file);
  const key = keyOfFile(path);
  if (key !== null) return key;
  throw usage(
    `--key-file ${printable(path)} holds something else than one public key: its name usually ends with .pub`,
  );
}

/** @param {string} text @returns {string | null} null: it is something else than one key */
function publicKey(text) {
  return text.trim().includes('\n') ? null : parseHostKey(text);
}

/** @param {string} path @returns {string | null} null: it holds something else */
function keyOfFile(path) {
  try {
    return publicKey(readFileSync(path, 'utf8'));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new PgsluiceError('FILE_UNREADABLE', `the public key cannot be read: ${printable(why)}`, { cause });
  }
}

/** @param {string} identity absolute path of a private key @returns {Promise<string>} */
async function keyOfIdentity(identity) {
  try {
    const beside = keyOfFile(`${identity}.pub`);
    if (beside !== null) return beside;
  } catch {
    // ssh-keygen can make it.
  }
  const key = parseHostKey(await keygen(identity));
  if (key !== null) return key;
  throw new PgsluiceError(
    'FILE_UNREADABLE',
    `${printable(identity)} is no private key that ssh-keygen knows`,
  );
}

/** @param {string} identity @returns {Promise<string>} */
function keygen(identity) {
  return new Promise((done, fail) => {
    // An empty passphrase, so that it asks nobody.
    const args = ['-y', '-P', '', '-f', identity];
    execFile('ssh-keygen', args, { timeout: KEYGEN_TIMEOUT_MS }, (cause, stdout, stderr) => {
      if (cause === null) done(stdout.trim());
      else {
        const why = cause.code === 'ENOENT' ? 'ssh-keygen is not installed' : stderr.trim();
        const message = `the public half of ${identity} cannot be had (${why}): give it with --key or --key-file`;
        fail(new PgsluiceError('FILE_UNREADABLE', printable(message), { cause }));
      }
    });
  });
}

/** @param {string} message */
function usage(message) {
  return new PgsluiceError('USAGE', message);
}
