/**
 * npm test [-- unit|integration|system ...]: installs what a fresh machine lacks (root and apt) or says what is
 * missing, then runs the tests. A skipped test fails the run: what cannot be tested here must be said, not passed over.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { relative } from 'node:path';
import { spec } from 'node:test/reporters';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loginShells } from './helpers/login-shells.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const TIMEOUT_MS = 300_000; // of one test; the longest takes about a minute
const ALONE_MAX = 3; // files that are run once more

/** Tests of what not every machine can have: systemd's journal without systemd running, rules of sudo. */
const WISHES = [
  {
    files: /^test\/integration\/(follower|worker)\/journal/,
    there: () =>
      ['/usr/bin/journalctl', '/usr/lib/systemd/systemd-journal-remote'].every(path => existsSync(path)),
    without: 'systemd-journal-remote is not installed',
  },
  {
    files: /^test\/integration\/transport\/sudo/,
    there: () => process.getuid?.() === 0,
    without: 'only root can give rules to sudo',
  },
];
/** Leaves out by itself what is not there. */
const OF_LOGIN_SHELLS = 'test/integration/transport/login-shells.test.js';

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
  if (wish.there()) continue;
  const left = files.filter(file => wish.files.test(file));
  if (left.length > 0) process.stderr.write(`left out, because ${wish.without}: ${left.join(' ')}\n`);
  files = files.filter(file => !wish.files.test(file));
}
const missingShells = files.includes(OF_LOGIN_SHELLS) ? loginShells().missing : [];
if (missingShells.length > 0)
  process.stderr.write(
    `left out, because they are not installed: the login shells ${missingShells.join(' ')}\n`,
  );

/**
 * @param {string[]} some files
 * @param {number} concurrency
 * @returns {Promise<string[]>} those in which a test failed or was skipped
 */
async function failing(some, concurrency) {
  const bad = new Set();
  const events = run({ files: some, cwd: root, concurrency, timeout: TIMEOUT_MS });
  events.on('test:fail', ({ file }) => bad.add(file));
  events.on('test:pass', ({ name, file, skip, todo }) => {
    if (skip === undefined && todo === undefined) return;
    process.stderr.write(`skipped: ${name}\n`);
    bad.add(file);
  });
  const ended = new Promise(resolve => events.on('end', () => resolve(undefined)));
  events.compose(new spec()).pipe(process.stdout, { end: false });
  await ended;
  return [...bad].map(file => (file === undefined ? '' : relative(root, file)));
}

const bad = await failing(files, Math.max(2, availableParallelism()));
// One that fails beside others and passes alone is a bug, of the test or of what it tests, that the machine's load has
// shown: it is named, and does not hide what else is tested. What fails alone, or in many places, fails the run.
const doubtful = bad.length > 0 && bad.length <= ALONE_MAX && !bad.includes('') && files.length > ALONE_MAX;
const left = doubtful ? await failing(bad, 1) : bad;
for (const file of bad)
  process.stderr.write(
    `failed${doubtful && !left.includes(file) ? ' beside others, passed alone' : ''}: ${file}\n`,
  );
process.exitCode = left.length === 0 ? 0 : 1;
