/**
 * Login shells that the follower itself is not run by: those of them that are installed here. test/run.js says which
 * ones are missing.
 */
import { existsSync, realpathSync } from 'node:fs';

const DIRECTORIES = ['/bin', '/usr/bin', '/usr/local/bin'];

/** Two that are no POSIX shells, and two that differ from it in what they do with a text in quotes. */
const NAMES = ['csh', 'fish', 'zsh', 'ksh'];

/** @typedef {{ name: string, path: string, program: string }} LoginShell program: the path behind all links */

/** @returns {{ shells: LoginShell[], missing: string[] }} */
export function loginShells() {
  /** @type {LoginShell[]} */
  const shells = [];
  /** @type {string[]} */
  const missing = [];
  for (const name of NAMES) {
    const path = DIRECTORIES.map(directory => `${directory}/${name}`).find(file => existsSync(file));
    if (path === undefined) missing.push(name);
    else shells.push({ name, path, program: realpathSync(path) });
  }
  return { shells, missing };
}
