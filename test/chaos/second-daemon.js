/**
 * A second daemon that somebody starts on the same storage by mistake: it must say that it waits, and write nothing.
 * It is killed after a while.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { descendants } from '../helpers/daemon.js';

const PROGRAM = fileURLToPath(new URL('../../bin/pgsluice.js', import.meta.url));

/**
 * @param {import('./world.js').World} world
 * @param {number} ms how long it runs
 * @returns {import('./faults.js').Hurt}
 */
export function secondDaemon(world, ms) {
  const directory = join(world.dir ?? '', 'second');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const file = join(directory, 'pgsluice.toml');
  writeFileSync(file, readFileSync(world.daemon.configFile, 'utf8').replaceAll(world.daemon.dir, directory));
  const child = spawn(process.execPath, [PROGRAM, 'start', '--config', file], {
    stdio: 'ignore',
    detached: true,
  });
  const exited = once(child, 'exit');
  return {
    ms,
    async heal() {
      for (const pid of [...descendants(child.pid ?? 0), child.pid ?? 0]) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // it has ended by itself
        }
      }
      await exited;
    },
  };
}
