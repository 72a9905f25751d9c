/**
 * `pgsluice config print|check`. Loading is the check: it throws CONFIG_INVALID for whatever is not exactly right.
 */
import { configToObject, configToToml } from '../config/print.js';

/** @typedef {import('./context.js').Context} Context */

/** @param {Context} context */
export async function configPrint({ loaded, json, output }) {
  if (json) output.json(configToObject(loaded));
  else output.block(configToToml(loaded));
}

/** @param {Context} context */
export async function configCheck({ loaded, json, output }) {
  if (json) output.json({ ok: true, file: loaded.file });
  else
    output.line(
      loaded.file === null ? 'ok: no configuration file, the defaults are in effect' : `ok: ${loaded.file}`,
    );
}
