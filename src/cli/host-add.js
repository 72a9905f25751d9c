/**
 * `pgsluice host add`: checks all that was given, then the name, then (when asked to) the host itself, and only then
 * writes the host and its streams, in one transaction.
 * Throws PgsluiceError USAGE, FILE_UNREADABLE, HOST_EXISTS, HOST_HAS_NO_LOGS, SSH_* and the storage's.
 */
import { PgsluiceError } from '../base/errors.js';
import { showValue } from '../base/show-value.js';
import { addHost, loadInventory } from '../storage/inventory.js';
import { ANY_LOG, assessLog } from './assess-log.js';
import { describeHost, printHost } from './describe-host.js';
import { daemonAnswers } from './daemon-http.js';
import {
  checkConnection,
  firstUseKeys,
  givenHostKeys,
  readConnectionOptions,
} from './host-connection-options.js';
import {
  DEFAULT_SSH_PORT,
  addressFromName,
  hostNameOperand,
  labels,
  logPath,
  logPaths,
  startWord,
} from './host-options.js';
import { changedFields, readLogOptions } from './log-options.js';
import { probeHost } from './probe-host.js';
import { ownCommand } from './own-command.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */
/** @typedef {import('../storage/inventory.js').HostFields} HostFields */

/** @param {Context} context */
export async function hostAdd(context) {
  const name = hostNameOperand(context.operands[0] ?? '');
  const host = readHost(context, name);
  const logs = logPaths(context.list('log'));
  const startAt = startWord(context.text('from') ?? 'end');
  const reading = { ...ANY_LOG, ...changedFields(readLogOptions(context, { removal: false }), {}) };
  checkConnection(context, host);
  host.hostKeys = (await givenHostKeys(context, host)) ?? [];

  const { added, notes } = await withStorage(context, async ({ client }) => {
    if ((await loadInventory(client, name)).length > 0) {
      throw new PgsluiceError(
        'HOST_EXISTS',
        `${name} is already monitored: choose another name, or change it with "pgsluice host update ${name}"`,
      );
    }
    if (context.flag('trust-on-first-use')) host.hostKeys = await firstUseKeys(context, name, host);
    const found =
      logs.length > 0 ? { paths: logs, notes: [] } : await discoverLogs({ ...host, name }, reading, context);
    const streams = found.paths.map(path => ({ ...reading, path, startAt }));
    return { added: await addHost(client, name, host, streams), notes: found.notes };
  });
  if (context.json) {
    context.output.json({ ...describeHost(added, new Map()), notes });
    return;
  }
  context.output.line(`${name} is monitored now`);
  printHost(context.output, describeHost(added, new Map()));
  for (const note of notes) context.output.labelled('note: ', note, 'yellow');
  if ((await daemonAnswers(context.config.http)) === false) {
    context.output.line(`no daemon answers: start it with "${ownCommand('start')}"`);
  }
}

/** @param {Context} context @param {string} name @returns {HostFields} without host keys */
function readHost(context, name) {
  const given = readConnectionOptions(context);
  const local = given.transport === 'local';
  const target = local
    ? { username: null, address: 'localhost', port: DEFAULT_SSH_PORT }
    : given.address === undefined
      ? addressFromName(name)
      : {};
  for (const option of ['identity', 'jump', 'sudo']) {
    if (context.text(option) === '') throw new PgsluiceError('USAGE', `--${option} needs a value`);
  }
  return {
    address: name,
    port: DEFAULT_SSH_PORT,
    username: null,
    identityFile: null,
    jumpHosts: [],
    sudoUser: null,
    hostKeys: [],
    transport: 'auto',
    ...target,
    ...given,
    labels: labels(context.list('label')),
    paused: false,
  };
}

/**
 * @param {HostFields & { name: string }} host
 * @param {import('../storage/inventory.js').StreamFields} reading
 * @param {Context} context
 * @returns {Promise<{ paths: string[], notes: string[] }>} the data directories, or log files, of the clusters that run there
 */
async function discoverLogs(host, reading, context) {
  const { facts } = await probeHost(host, { logs: [], discover: true }, context);
  const reader = { user: facts.user, sudo: host.sudoUser !== null };
  const reports = facts.logs.map(log => assessLog(log, reader, reading));
  if (reports.length === 0) {
    throw new PgsluiceError(
      'HOST_HAS_NO_LOGS',
      `${host.name}: no running PostgreSQL was seen there by ${facts.user}: name its data directory with --log, or look as its owner with --sudo`,
    );
  }
  const notes = reports.flatMap(log => [...log.problems, ...log.notes]);
  return { paths: reports.map(({ path }) => pathOfHost(host.name, path)), notes };
}

/**
 * What comes from the host is held to what is accepted on the command line; nobody gave it there.
 * @param {string} name @param {string} path
 */
function pathOfHost(name, path) {
  try {
    return logPath(path);
  } catch (cause) {
    throw new PgsluiceError(
      'FOLLOWER_PROTOCOL',
      `${name}: the host tells of a log at ${showValue(path)}, which is no path that can be followed: name its logs with --log`,
      { cause },
    );
  }
}
