/**
 * The version of this program: that of its package.json.
 */
import { readFileSync } from 'node:fs';

/** @returns {string} */
export function version() {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return String(JSON.parse(text).version);
}
