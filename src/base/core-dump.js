/**
 * Keeps this process's memory, where private keys and the storage's password are, out of core dumps: a filter of zero
 * leaves nothing in them but registers and names of files (core(5)). Called once by the command line, before anything
 * secret is read; whatever is started later, workers and ssh included, inherits it by fork and keeps it over exec.
 */
import { writeFileSync } from 'node:fs';

const FILTER = '/proc/self/coredump_filter';

export function keepMemoryOutOfCoreDumps() {
  try {
    writeFileSync(FILTER, '0');
  } catch {
    // Another kernel, or /proc is read-only: the unit's LimitCORE=0 is what is left.
  }
}
