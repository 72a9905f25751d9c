/**
 * `pgsluice host import FILE|-`: adds the hosts of a file, one JSON object a line (host-line.js). All lines are read and
 * checked before anything is written: with one that is wrong, nothing is. A host that is there already as the line
 * says it is left alone, so that a file can be imported again; one that differs is an error. Hosts are written in
 * transactions of HOSTS_A_TRANSACTION.
 * Throws PgsluiceError USAGE, FILE_UNREADABLE, HOST_EXISTS and the storage's; errors of lines are printed.
 */
import { readFileSync } from 'node:fs';
import { text as textOf } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { addHosts, loadInventory } from '../storage/inventory.js';
import { fetchHostKey } from './first-use.js';
import { hostLine, readHostLine } from './host-line.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */
/** @typedef {import('./host-line.js').HostLine} HostLine */
/** @typedef {HostLine & { line: number }} Numbered */
/** @typedef {{ line: number, code: string, message: string }} LineError */

const HOSTS_A_TRANSACTION = 500;
const SHOWN_ERRORS = 50;

/** @param {Context} context @returns {Promise<number>} exit code */
export async function hostImport(context) {
  const text = await readText(context.operands[0] ?? '');
  /** @type {LineError[]} */
  const errors = [];
  const hosts = readLines(text, errors);
  const trust = context.flag('trust-on-first-use');
  for (const { line, name, host } of hosts) {
    if (host.hostKeys.length > 0 || host.transport === 'local') continue;
    const why = trust
      ? host.jumpHosts.length > 0 && 'cannot be looked at through jump hosts'
      : 'is needed: give hostKeys, or --trust-on-first-use';
    if (why) errors.push({ line, code: 'USAGE', message: `${name}: the host key ${why}` });
  }
  if (errors.length > 0) return refuse(context, errors, hosts);

  const { added, unchanged } = await withStorage(context, async ({ client }) => {
    const known = new Map((await loadInventory(client)).map(row => [row.name, row]));
    const fresh = hosts.filter(({ name }) => !known.has(name));
    for (const { line, name, host, streams } of hosts) {
      const row = known.get(name);
      if (row && !isSame(row, { name, host, streams })) {
        const message = `${name} is already monitored, and otherwise: change it with "pgsluice host update ${name}"`;
        errors.push({ line, code: 'HOST_EXISTS', message });
      }
    }
    if (errors.length > 0) return { added: 0, unchanged: 0 };
    if (trust) await trustKeys(context, fresh, errors);
    if (errors.length > 0) return { added: 0, unchanged: 0 };
    for (let at = 0; at < fresh.length; at += HOSTS_A_TRANSACTION)
      await addHosts(client, fresh.slice(at, at + HOSTS_A_TRANSACTION));
    return { added: fresh.length, unchanged: hosts.length - fresh.length };
  });
  if (errors.length > 0) return refuse(context, errors, hosts);
  if (context.json) context.output.json({ added, unchanged, errors: [] });
  else context.output.line(`${added} hosts were added, ${unchanged} were there already`);
  return 0;
}

/** @param {string} file '-': stdin */
async function readText(file) {
  try {
    return file === '-' ? await textOf(process.stdin) : readFileSync(file, 'utf8');
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    throw new PgsluiceError('FILE_UNREADABLE', `${printable(file)} cannot be read: ${printable(message)}`, {
      cause,
    });
  }
}

/** @param {string} text @param {LineError[]} errors @returns {Numbered[]} */
function readLines(text, errors) {
  /** @type {Numbered[]} */
  const hosts = [];
  /** @type {Map<string, number>} */
  const seen = new Map();
  for (const [index, raw] of text.split('\n').entries()) {
    if (raw.trim() === '') continue;
    const line = index + 1;
    try {
      const host = readHostLine(raw);
      const before = seen.get(host.name);
      if (before !== undefined) throw new PgsluiceError('USAGE', `${host.name} is on line ${before} already`);
      seen.set(host.name, line);
      hosts.push({ line, ...host });
    } catch (error) {
      if (!(error instanceof PgsluiceError)) throw error;
      errors.push({ line, code: error.code, message: error.message });
    }
  }
  return hosts;
}

/** @param {import('../storage/inventory.js').HostRow} row @param {HostLine} wanted */
function isSame(row, { name, host, streams }) {
  const now = hostLine(row);
  const then = hostLine({
    ...host,
    name,
    hostId: 0,
    addedAt: row.addedAt,
    streams: streams.map(stream => ({ ...stream, streamId: 0 })),
  });
  // A line without a key says nothing about it.
  if (host.hostKeys.length === 0) then['hostKeys'] = now['hostKeys'];
  return isDeepStrictEqual(now, then);
}

/**
 * Asks each new server for its key, at ssh.connect_rate.
 * @param {Context} context
 * @param {Numbered[]} hosts whose keys are filled in
 * @param {LineError[]} errors
 */
async function trustKeys(context, hosts, errors) {
  const { connectRate, connectTimeoutMs } = context.config.ssh;
  await Promise.all(
    hosts
      .filter(({ host }) => host.hostKeys.length === 0 && host.transport !== 'local')
      .map(async ({ line, name, host }, index) => {
        await new Promise(resolve => setTimeout(resolve, (1000 * index) / connectRate));
        try {
          host.hostKeys = [await fetchHostKey(host, connectTimeoutMs)];
        } catch (error) {
          if (!(error instanceof PgsluiceError)) throw error;
          errors.push({ line, code: error.code, message: `${name}: ${error.message}` });
        }
      }),
  );
}

/** @param {Context} context @param {LineError[]} errors @param {Numbered[]} hosts @returns {number} exit code */
function refuse(context, errors, hosts) {
  errors.sort((a, b) => a.line - b.line);
  if (context.json) {
    context.output.json({ added: 0, unchanged: 0, errors });
    return 2;
  }
  for (const { line, message } of errors.slice(0, SHOWN_ERRORS))
    context.output.line(`line ${line}: ${message}`);
  if (errors.length > SHOWN_ERRORS) context.output.line(`and ${errors.length - SHOWN_ERRORS} more`);
  const lines = new Set([...errors, ...hosts].map(({ line }) => line)).size;
  throw new PgsluiceError('USAGE', `nothing was imported: ${errors.length} of ${lines} hosts are wrong`);
}
