/**
 * `pgsluice host pause|resume|remove NAME`. A running daemon hears of each at once.
 * Throws PgsluiceError HOST_UNKNOWN and the storage's.
 */
import { removeHost, updateHost } from '../storage/inventory.js';
import { hostNameOperand } from './host-options.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */

/** @param {Context} context @param {boolean} paused */
export async function hostPause(context, paused) {
  const name = hostNameOperand(context.operands[0] ?? '');
  await withStorage(context, ({ client }) => updateHost(client, name, { paused }));
  if (context.json) context.output.json({ host: name, paused });
  else if (paused)
    context.output.line(`${name} is paused: "pgsluice host resume ${name}" continues where it stopped`);
  else context.output.line(`${name} is read again`);
}

/** @param {Context} context */
export async function hostRemove(context) {
  const name = hostNameOperand(context.operands[0] ?? '');
  const purge = context.flag('purge');
  const { purgedRecords } = await withStorage(context, ({ client }) => removeHost(client, name, { purge }));
  if (context.json) context.output.json({ host: name, removed: true, purgedRecords });
  else if (purgedRecords === null) context.output.line(`${name} is no longer monitored; its records stay`);
  else context.output.line(`${name} is no longer monitored; ${purgedRecords} records were deleted`);
}
