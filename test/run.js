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
import { loginShells } from './helpers/login-shells.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const TIMEOUT_MS = 300_000; // of one test; the longest takes about a minute
const FILE_MAX_MS = 600_000; // of all tests of a file, and what they clean up
const ALONE_MAX = 3; // files that are run once more
/** What these find, they find by chance: another run that finds nothing says nothing. */
const BY_CHANCE = /^test\/unit\/|rotation-model|hostile-names/;

/** Tests of what not every machine can have: systemd's journal without systemd running, rules of sudo, another time. */
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
  {
    files: /^test\/system\/clock/,
    there: () => globSync('/usr/lib/*/faketime/libfaketime.so.1').length > 0,
    without: 'faketime is not installed',
  },
];
/** Leaves out by itself what is not there. */
const OF_LOGIN_SHELLS = 'test/integration/transport/login-shells.test.js';

const areas = process.argv.slice(2);
// The longest first: none is left to run alone at the end.
const AREAS = ['system', 'integration', 'unit'];
const patterns = (areas.length > 0 ? areas : AREAS).map(area =>
  area.endsWith('.js') ? area : `test/${area}/**/*.test.js`,
);
let files = patterns.flatMap(pattern => globSync(pattern, { cwd: root }).toSorted());
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

/** What spec says at the end of each file; the sums of all are said once. */
const SUMS = /^\S*ℹ (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) .*\n/gm;

let tests = 0;
let failures = 0;

/** @param {string} file @returns {Promise<boolean>} whether all its tests passed, and none was skipped */
async function passes(file) {
  const started = performance.now();
  let good = true;
  const events = run({
    files: [file],
    cwd: root,
    timeout: TIMEOUT_MS,
    signal: AbortSignal.timeout(FILE_MAX_MS),
  });
  events.on('test:fail', () => {
    good = false;
    failures += 1;
  });
  events.on('test:pass', ({ name, skip, todo }) => {
    tests += 1;
    if (skip === undefined && todo === undefined) return;
    process.stderr.write(`skipped: ${name}\n`);
    good = false;
  });
  let text = '';
  for await (const part of events.compose(new spec())) text += part;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(`${good ? '' : 'FAILED '}${file} (${seconds} s)\n${text.replaceAll(SUMS, '')}\n`);
  return good;
}

/**
 * @param {string[]} some files
 * @param {number} lanes so many at a time
 * @returns {Promise<string[]>} those in which a test failed or was skipped
 */
async function failing(some, lanes) {
  /** @type {string[]} */
  const bad = [];
  const waiting = [...some];
  const lane = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift())
      if (!(await passes(file))) bad.push(file);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return bad;
}

const started = performance.now();
// Many tests wait more than they work.
const bad = await failing(files, availableParallelism() + 1);
// One that fails beside others and passes alone is a bug, of the test or of what it tests, that the machine's load has
// shown: it is named, and does not hide what else is tested. What fails alone, in many places or by chance fails the run.
const doubtful =
  bad.length <= ALONE_MAX && files.length > ALONE_MAX && !bad.some(file => BY_CHANCE.test(file));
const left = doubtful ? await failing(bad, 1) : bad;
for (const file of bad)
  process.stderr.write(
    `failed${doubtful && !left.includes(file) ? ' beside others, passed alone' : ''}: ${file}\n`,
  );
const seconds = Math.round((performance.now() - started) / 1000);
process.stdout.write(`${files.length} files, ${tests} tests passed, ${failures} failed, ${seconds} s\n`);
process.exitCode = left.length === 0 ? 0 : 1;
