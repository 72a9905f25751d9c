/**
 * `pgsluice host list` and `pgsluice host show NAME`: the inventory, read only.
 * Throws PgsluiceError HOST_UNKNOWN and the storage's.
 */
import { loadHost, loadInventory } from '../storage/inventory.js';
import { describeHost, printHost, showAddress, showLabels } from './describe-host.js';
import { hostNameOperand } from './host-options.js';
import { ownCommand } from './own-command.js';
import { loadPositions } from './stream-positions.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */

/** @param {Context} context */
export async function hostList(context) {
  const rows = await withStorage(context, ({ client }) => loadInventory(client));
  const hosts = rows.map(row => describeHost(row, new Map()));
  if (context.json) {
    context.output.json({
      hosts: hosts.map(host => ({
        ...host,
        streams: host.streams.map(({ path, format, from, linePrefix, timeZone, encoding, encodings }) => ({
          path,
          format,
          from,
          linePrefix,
          timeZone,
          encoding,
          encodings,
        })),
      })),
    });
  } else if (hosts.length === 0) {
    context.output.line(`no host is monitored yet: see "${ownCommand('help host add')}"`);
  } else {
    context.output.table(
      ['HOST', 'ADDRESS', 'TRANSPORT', 'STATE', 'STREAMS', 'LABELS'],
      hosts.map(host => [
        host.name,
        host.transport === 'local' ? '-' : showAddress(host),
        host.transport,
        host.paused ? 'paused' : 'active',
        host.streams.map(({ path }) => path).join(' '),
        showLabels(host.labels),
      ]),
    );
  }
}

/** @param {Context} context */
export async function hostShow(context) {
  const name = hostNameOperand(context.operands[0] ?? '');
  const host = await withStorage(context, async ({ client }) => {
    const row = await loadHost(client, name);
    return describeHost(row, await loadPositions(client, row.hostId));
  });
  if (context.json) context.output.json(host);
  else printHost(context.output, host);
}
