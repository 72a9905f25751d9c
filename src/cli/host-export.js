/**
 * `pgsluice host export [FILE|-]`: writes all hosts, one JSON object a line, as `host import` takes them. No secret is
 * among them: private keys are named by path.
 * Throws PgsluiceError OUTPUT_FAILED and the storage's.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { loadInventory } from '../storage/inventory.js';
import { hostLine } from './host-line.js';
import { toJson } from './output.js';
import { withStorage } from './with-storage.js';

/** @param {import('./context.js').Context} context */
export async function hostExport(context) {
  const [file = '-'] = context.operands;
  const hosts = await withStorage(context, ({ client }) => loadInventory(client));
  const lines = hosts.map(host => toJson(hostLine(host), 0));
  if (file === '-') {
    for (const line of lines) context.output.line(line);
    return;
  }
  try {
    // A reader never finds half of it.
    const unfinished = `${file}.${process.pid}`;
    writeFileSync(unfinished, lines.map(line => `${line}\n`).join(''), { flag: 'wx' });
    renameSync(unfinished, file);
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    throw new PgsluiceError('OUTPUT_FAILED', `${printable(file)} cannot be written: ${message}`, { cause });
  }
  if (context.json) context.output.json({ exported: hosts.length });
  else context.output.line(`${hosts.length} hosts were written to ${file}`);
}
