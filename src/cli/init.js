/**
 * `pgsluice init`: creates or upgrades the schema of the storage and says where the storage is.
 * Throws what openStorage, connectStorage and migrate throw.
 */
import { withStorage } from './with-storage.js';

/** @param {import('./context.js').Context} context */
export async function init(context) {
  await withStorage(context, async ({ where, from, to }) => {
    if (context.json) context.output.json({ storage: where, from, to });
    else if (from === to) context.output.line(`schema ${to} is up to date in ${where}`);
    else
      context.output.line(
        `schema ${from === 0 ? 'created' : `upgraded from ${from}`}, now ${to}, in ${where}`,
      );
  });
}
