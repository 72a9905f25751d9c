/**
 * The shells the follower is tested under, with the tools that go with them: dash and bash with coreutils, and
 * busybox with nothing but its own applets. A missing one is an error, not a skip.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** @typedef {{ name: string, argv: string[], path: string }} Shell */

/** @returns {{ shells: Shell[], remove: () => void }} */
export function testShells() {
  const applets = mkdtempSync(join(tmpdir(), 'pgsluice-busybox-'));
  const busybox = execFileSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' }).trim();
  for (const applet of execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n')) {
    symlinkSync(busybox, join(applets, applet));
  }
  const path = process.env['PATH'] ?? '/usr/bin:/bin';
  return {
    shells: [
      { name: 'dash', argv: ['dash'], path },
      { name: 'bash', argv: ['bash'], path },
      { name: 'busybox', argv: [join(applets, 'sh')], path: applets },
    ],
    remove: () => rmSync(applets, { recursive: true }),
  };
}
