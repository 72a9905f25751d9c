/**
 * npm test [-- unit|integration|system ...]: installs what a fresh machine lacks (root and apt) or says what is
 * missing, then runs the tests. A skipped test fails the run: what cannot be tested here must be said, not passed over.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { spec } from 'node:test/reporters';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const TIMEOUT_MS = 300_000; // of one test; the longest takes about a minute

/** Tests of what not every machine can have: systemd's journal without systemd running. */
const WISHES = [
  {
    files: /^test\/integration\/(follower|worker)\/journal/,
    needs: ['/usr/bin/journalctl', '/usr/lib/systemd/systemd-journal-remote'],
    package: 'systemd-journal-remote',
  },
];

const areas = process.argv.slice(2);
const patterns = (areas.length > 0 ? areas : ['unit', 'integration', 'system']).map(area =>
  area.endsWith('.js') ? area : `test/${area}/**/*.test.js`,
);
let files = patterns.flatMap(pattern => globSync(pattern, { cwd: root })).toSorted();
if (files.length === 0) {
  process.stderr.write(`no test file matches ${patterns.join(' ')}\n`);
  process.exit(2);
}

if (areas.length !== 1 || areas[0] !== 'unit') {
  try {
    execFileSync(fileURLToPath(new URL('../scripts/packages.sh', import.meta.url)), ['install', 'test'], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  } catch {
    process.exit(1);
  }
}

for (const wish of WISHES) {
  if (wish.needs.every(path => existsSync(path))) continue;
  const left = files.filter(file => wish.files.test(file));
  if (left.length > 0)
    process.stderr.write(`left out, because ${wish.package} is not installed: ${left.join(' ')}\n`);
  files = files.filter(file => !wish.files.test(file));
}

let bad = 0;
const events = run({
  files,
  cwd: root,
  concurrency: Math.max(2, availableParallelism()),
  timeout: TIMEOUT_MS,
});
events.on('test:fail', () => {
  bad += 1;
});
events.on('test:pass', ({ name, skip, todo }) => {
  if (skip === undefined && todo === undefined) return;
  process.stderr.write(`skipped: ${name}\n`);
  bad += 1;
});
events.on('end', () => {
  process.exitCode = bad === 0 ? 0 : 1;
});
events.compose(new spec()).pipe(process.stdout);
