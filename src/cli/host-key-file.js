/**
 * Reads the host keys of a file: a public key file ("type base64 comment" lines), or a known_hosts file, whose lines
 * for one address are found by `ssh-keygen -F`, which knows hashed names and patterns.
 * Throws PgsluiceError FILE_UNREADABLE, USAGE when the file has no key for the address, NOT_SUPPORTED without
 * ssh-keygen.
 */
import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { parseHostKey } from './host-key.js';
import { DEFAULT_SSH_PORT } from './host-options.js';

/** A known_hosts file of 25 000 entries has 2.5 MB. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;
const KEYGEN_TIMEOUT_MS = 20_000;
/** Keys of one address: a handful of lines. */
const KEYGEN_MAX_OUTPUT_BYTES = 1_048_576;

/**
 * @param {string} file
 * @param {{ address: string, port: number }} target
 * @returns {Promise<string[]>} each 'type base64', each once, at least one
 */
export async function hostKeysFromFile(file, { address, port }) {
  const path = resolve(file);
  const lines = readText(path)
    .split('\n')
    .filter(line => line.trim() !== '' && !line.trimStart().startsWith('#'));
  const keys = lines.map(parseHostKey);
  const name = knownHostsName(address, port);
  const found =
    keys.length > 0 && keys.every(key => key !== null) ? keys : await searchKnownHosts(path, name);
  if (found.length > 0) return [...new Set(found)];
  throw new PgsluiceError(
    'USAGE',
    `--host-key-file ${printable(path)} has no key for ${name}: give a public key file, or a known_hosts file that has it`,
  );
}

/** @param {string} path */
function readText(path) {
  try {
    const { size } = statSync(path);
    if (size > MAX_FILE_BYTES) throw new Error(`it has more than ${MAX_FILE_BYTES} bytes`);
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new PgsluiceError(
      'FILE_UNREADABLE',
      `--host-key-file ${printable(path)} cannot be read: ${printable(why)}`,
      {
        cause,
      },
    );
  }
}

/** As ssh looks it up. @param {string} address @param {number} port */
function knownHostsName(address, port) {
  const name = address.toLowerCase();
  return port === DEFAULT_SSH_PORT ? name : `[${name}]:${port}`;
}

/** @param {string} path absolute @param {string} name @returns {Promise<string[]>} */
async function searchKnownHosts(path, name) {
  const found = await keygen(['-F', name, '-f', path]);
  const keys = [];
  const revoked = new Set();
  for (const line of found.split('\n')) {
    // "# Host NAME found: line N" is no key, nor is "@cert-authority ...": it signs those that servers show.
    const isRevoked = line.startsWith('@revoked');
    const [, ...rest] = line
      .replace(/^@revoked\s+/, '')
      .trim()
      .split(/\s+/);
    const key = parseHostKey(rest.join(' '));
    if (key === null) continue;
    if (isRevoked) revoked.add(key);
    else keys.push(key);
  }
  return keys.filter(key => !revoked.has(key));
}

/** @param {string[]} args @returns {Promise<string>} '' when nothing was found */
function keygen(args) {
  return new Promise((done, fail) => {
    const options = { timeout: KEYGEN_TIMEOUT_MS, maxBuffer: KEYGEN_MAX_OUTPUT_BYTES };
    execFile('ssh-keygen', args, options, (error, stdout) => {
      if (error === null) done(stdout);
      else if (error.code === 'ENOENT') {
        fail(
          new PgsluiceError(
            'NOT_SUPPORTED',
            'ssh-keygen is needed to read a known_hosts file: install the OpenSSH client',
            { cause: error },
          ),
        );
      } else if (typeof error.code === 'number') done('');
      else
        fail(
          new PgsluiceError(
            'FILE_UNREADABLE',
            `ssh-keygen could not read the known_hosts file: ${error.message}`,
            { cause: error },
          ),
        );
    });
  });
}
