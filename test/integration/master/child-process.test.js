/** A child that hangs, as a real process: master's own standstill is not held against it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { createLogger } from '../../../src/base/logger.js';
import { ChildProcess } from '../../../src/master/child-process.js';
import { until } from '../../helpers/until.js';

const REPORT_MS = 50;
const SILENT_MAX_MS = 2_000;
const WAIT_MS = 20_000;

const PROGRAM = `
  process.on('message', ({ type }) => {
    if (type === 'hang') for (;;);
    if (type === 'stop') process.exit(0);
  });
  setInterval(() => process.send({ type: 'status' }), ${REPORT_MS});`;

/** @type {string} */
let dir;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-hung-'));
  writeFileSync(join(dir, 'program.mjs'), PROGRAM);
});
after(() => rmSync(dir, { recursive: true }));

/** @param {import('node:test').TestContext} t */
function started(t) {
  /** @type {string[]} */
  const ends = [];
  let reports = 0;
  const child = new ChildProcess({
    name: 'child',
    program: pathToFileURL(join(dir, 'program.mjs')),
    execArgv: [],
    messages: { status: () => true },
    silentMaxMs: SILENT_MAX_MS,
    onStart: () => {},
    onMessage: () => (reports += 1),
    onExit: how => ends.push(how),
    log: createLogger({ name: 'test', level: 'silent' }),
  });
  child.start();
  t.after(() => child.stop({ type: 'stop' }, 1_000));
  return {
    child,
    ends,
    /** Resolves after the next report. */
    report: async () => {
      const before = reports;
      await until(() => reports > before, 'a report', WAIT_MS);
    },
  };
}

test('a child that does not report any more is ended and started again', async t => {
  const { child, ends, report } = started(t);
  await report();
  const { pid } = child;
  child.send({ type: 'hang' });
  await report();
  await until(() => child.pid !== pid, 'its end', WAIT_MS);
  await report();
  assert.deepEqual(ends, ['was ended by SIGKILL']);
  assert.equal(child.restarts, 1);
});

test('one that is stopped is ended, too', async t => {
  const { child, ends, report } = started(t);
  await report();
  process.kill(child.pid ?? 0, 'SIGSTOP');
  await until(() => ends.length > 0, 'its end', WAIT_MS);
  await report();
  assert.equal(child.restarts, 1);
});

test('one that could not be heard, because master itself stood still, goes on', async t => {
  const { ends, report } = started(t);
  await report();
  // Timers come next, before what has been sent is read.
  await immediate();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * SILENT_MAX_MS);
  for (let n = 0; n < 10; n += 1) await report();
  assert.deepEqual(ends, []);
});
