/**
 * `pgsluice host update NAME`: changes how a host is reached and how its logs are read; what is not given stays as it
 * is. The whole host, as it would be, is checked before anything is written.
 * Throws PgsluiceError USAGE, FILE_UNREADABLE, HOST_UNKNOWN, SSH_* (--trust-on-first-use) and the storage's.
 */
import { PgsluiceError } from '../base/errors.js';
import { loadHost, updateHost } from '../storage/inventory.js';
import { describeHost, printHost } from './describe-host.js';
import {
  checkConnection,
  firstUseKeys,
  givenHostKeys,
  readConnectionOptions,
} from './host-connection-options.js';
import { hostNameOperand, labels } from './host-options.js';
import { changedFields, readLogOptions } from './log-options.js';
import { withStorage } from './with-storage.js';

/** @param {import('./context.js').Context} context */
export async function hostUpdate(context) {
  const name = hostNameOperand(context.operands[0] ?? '');
  const changes = readConnectionOptions(context);
  const pairs = context.list('label');
  // The form of the pairs; whether a label can be removed is known when the host is.
  labels(pairs.filter(pair => !pair.endsWith('=')));
  const givesKey = ['host-key', 'host-key-file', 'trust-on-first-use'].some(
    option => context.values[option] !== undefined,
  );
  const reading = readLogOptions(context, { removal: true });
  const readsElse = Object.keys(reading.fields).length > 0 || reading.databases.size > 0;
  if (Object.keys(changes).length === 0 && pairs.length === 0 && !givesKey && !readsElse) {
    throw new PgsluiceError('USAGE', `nothing to change was given: see "pgsluice help host update"`);
  }
  const host = await withStorage(context, async ({ client }) => {
    const before = await loadHost(client, name);
    const after = { ...before, ...changes };
    checkConnection(context, after);
    if (pairs.length > 0) changes.labels = labels(pairs, before.labels);
    const keys = await givenHostKeys(context, after);
    if (keys !== undefined) changes.hostKeys = keys;
    else if (context.flag('trust-on-first-use')) changes.hostKeys = await firstUseKeys(context, name, after);
    // The streams of a host are read alike.
    const encodings = before.streams[0]?.encodings ?? {};
    return updateHost(client, name, changes, changedFields(reading, encodings));
  });
  if (context.json) context.output.json(describeHost(host, new Map()));
  else printHost(context.output, describeHost(host, new Map()));
}
