/**
 * What `host add` and `host update` have in common: the options that say how a host is reached, read together.
 * Everything that needs no connection is checked here; fetching a key by --trust-on-first-use comes after it.
 * Throws PgsluiceError USAGE, FILE_UNREADABLE, NOT_SUPPORTED.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { showValue } from '../base/show-value.js';
import { readSettings } from '../system-ssh/settings.js';
import { fetchHostKey } from './first-use.js';
import { hostKeysFromFile } from './host-key-file.js';
import { fingerprint, parseHostKey } from './host-key.js';
import { jumpHosts, sshTarget, sudoUser, transportWord } from './host-options.js';

/** @typedef {import('./context.js').Context} Context */
/** @typedef {import('../storage/inventory.js').HostFields} HostFields */

const KEY_OPTIONS = ['host-key', 'host-key-file', 'trust-on-first-use'];
const KEY_OPTIONS_SHOWN = '--host-key KEY, --host-key-file FILE or --trust-on-first-use';
/** None of these means anything without SSH. */
const SSH_OPTIONS = ['ssh', 'identity', 'jump', ...KEY_OPTIONS];

/**
 * Reads those options that were given.
 * @param {Context} context
 * @returns {Partial<HostFields>} without host keys and labels
 */
export function readConnectionOptions(context) {
  /** @type {Partial<HostFields>} */
  const fields = {};
  const ssh = context.text('ssh');
  if (ssh !== undefined) Object.assign(fields, sshTarget(ssh));
  const identity = context.text('identity');
  if (identity !== undefined) fields.identityFile = identity === '' ? null : identityFile(identity);
  const jump = context.text('jump');
  if (jump !== undefined) fields.jumpHosts = jumpHosts(jump);
  const sudo = context.text('sudo');
  if (sudo !== undefined) fields.sudoUser = sudoUser(sudo);
  const transport = context.text('transport');
  if (transport !== undefined) fields.transport = transportWord(transport);
  return fields;
}

/**
 * Whether the parts go together.
 * @param {Context} context
 * @param {HostFields} host as it would be
 */
export function checkConnection(context, host) {
  const given = SSH_OPTIONS.filter(name => context.values[name] !== undefined);
  if (host.transport === 'local') {
    if (given.length > 0) throw usage(`--${given[0]} means nothing with transport local, which uses no SSH`);
    return;
  }
  if (host.transport === 'ssh2' && host.jumpHosts.length > 0)
    throw usage('jump hosts need transport openssh or auto, not ssh2');
  const keys = KEY_OPTIONS.filter(name => context.values[name] !== undefined);
  if (keys.length > 1)
    throw usage(`--${keys[0]} and --${keys[1]} exclude each other: give one of ${KEY_OPTIONS_SHOWN}`);
  if (keys.length === 0 && host.hostKeys.length === 0) {
    throw usage(`the host key is needed: give one of ${KEY_OPTIONS_SHOWN}`);
  }
  if (context.flag('trust-on-first-use') && host.jumpHosts.length > 0) {
    throw usage('--trust-on-first-use cannot look through jump hosts: give --host-key or --host-key-file');
  }
  const { address, port, username, identityFile: identity } = host;
  // What ssh's configuration file could not hold is refused now, and not by the daemon later.
  readSettings({
    host: address,
    port,
    ...(username === null ? {} : { username }),
    ...(identity === null ? {} : { identityFile: identity }),
    jumpHosts: host.jumpHosts,
  });
}

/**
 * The host keys that were given on the command line or in a file.
 * @param {Context} context
 * @param {{ address: string, port: number }} target
 * @returns {Promise<string[] | undefined>} undefined: none was, or --trust-on-first-use
 */
export async function givenHostKeys(context, target) {
  const text = context.text('host-key');
  if (text !== undefined) {
    const key = parseHostKey(text);
    if (key !== null) return [key];
    throw usage(
      `--host-key ${showValue(text)} is not a public host key: it looks like 'ssh-ed25519 AAAA...'`,
    );
  }
  const file = context.text('host-key-file');
  return file === undefined ? undefined : hostKeysFromFile(file, target);
}

/**
 * @param {Context} context
 * @param {string} name
 * @param {{ address: string, port: number }} target
 * @returns {Promise<string[]>} the key it shows now; its fingerprint is printed, unless JSON is, which has it anyway
 */
export async function firstUseKeys(context, name, target) {
  const key = await fetchHostKey(target, context.config.ssh.connectTimeoutMs);
  const shown = `${fingerprint(key)} (${key.split(' ')[0]})`;
  if (!context.json)
    context.output.line(
      `${name}: trusting the host key ${shown} that ${target.address}:${target.port} shows`,
    );
  return [key];
}

/** @param {string} text @returns {string} absolute */
export function identityFile(text) {
  // A shell does not expand the tilde of --identity=~/key.
  const file = resolve(text.startsWith('~/') ? join(homedir(), text.slice(2)) : text);
  if (/[\p{C}\ufffd]/u.test(file))
    throw usage(`--identity ${showValue(text)} holds a character that a path may not have here`);
  try {
    accessSync(file, constants.R_OK);
    if (!statSync(file).isFile()) throw new Error('it is not a file');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new PgsluiceError(
      'FILE_UNREADABLE',
      `--identity ${printable(file)} cannot be read: ${printable(why)}`,
      { cause },
    );
  }
  return file;
}

/** @param {string} message */
function usage(message) {
  return new PgsluiceError('USAGE', message);
}
