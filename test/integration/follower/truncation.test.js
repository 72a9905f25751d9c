/**
 * A log that copytruncate takes away at the worst moments: while the follower compares it with its copy, after its bytes
 * were found to be those that were sent and before they are held against those of the copy; and between the listing of
 * the files, when there was no copy yet, and the look at the log; and between the look and the read, when it has as much
 * again by then. Real tools; one that is asked at that moment does the copy or the truncation first.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FollowerRun, known } from '../../helpers/follower.js';
import { testShells } from '../../helpers/shells.js';

/** @param {string} tag */
const lines = tag => Array.from({ length: 20 }, (_, n) => `${tag} ${n} ${'.'.repeat(60)}\n`).join('');

const { shells, remove } = testShells();
/** @type {string} */
let dir;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'pgsluice-truncation-'));
  chmodSync(dir, 0o755);
});
after(() => {
  remove();
  rmSync(dir, { recursive: true });
});

/**
 * Places for one test: a log, its copy, and a directory of tools, one of which does something first, once.
 * @param {string} name of the log
 */
function stage(name) {
  const place = mkdtempSync(join(dir, 'l-'));
  const bin = mkdtempSync(join(dir, 'b-'));
  const armed = join(bin, 'armed');
  return {
    place,
    bin,
    log: join(place, name),
    copy: join(place, `${name}.1`),
    armed,
    /**
     * @param {string} tool
     * @param {string} when its arguments are like this pattern of the shell, and `armed` is there
     * @param {string} action in the shell
     */
    trap: (tool, when, action) => {
      const real = execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim();
      const first = `case "$*" in ${when}) ! [ -e '${armed}' ] || { ${action}; rm '${armed}'; } ;; esac`;
      writeFileSync(join(bin, tool), `#!/bin/sh\n${first}\nexec ${real} "$@"\n`, { mode: 0o755 });
    },
  };
}

/** Whatever is to come has come then. @param {FollowerRun} run */
async function twoMoreLooks(run) {
  const beats = () => run.frames.filter(({ type }) => type === 'heartbeat').length;
  const before = beats();
  await run.until(() => beats() >= before + 2, 'two more looks');
}

// busybox runs its own dd and stat, whatever PATH says.
for (const shell of shells.filter(({ name }) => name !== 'busybox')) {
  // They wait more than they work.
  describe(`copytruncate under ${shell.name}`, { concurrency: true }, () => {
    for (const original of ['x.log', 'other.log']) {
      test(`${original === 'x.log' ? 'the open file' : 'a file that is not open'}`, async () => {
        const { place, bin, log, copy, armed, trap } = stage(original);
        trap('dd', '*if=/proc/self/fd/5*skip=*', `: >'${log}'`);
        writeFileSync(log, lines('one'));
        if (original !== 'x.log') writeFileSync(join(place, 'x.log'), '');
        const run = new FollowerRun(
          { ...shell, path: `${bin}:${shell.path}` },
          { path: place, format: 'plain' },
        );
        const sent = (/** @type {string[]} */ ...names) =>
          names.map(name => String(run.bytes(name))).join('');
        try {
          await run.until(() => sent(original) === lines('one'), 'the log');
          if (original !== 'x.log') {
            // The next log is the open one then.
            appendFileSync(join(place, 'x.log'), 'next\n');
            await run.until(() => sent('x.log') === 'next\n', 'the next log');
          }
          writeFileSync(armed, '');
          copyFileSync(log, copy);
          await run.until(() => !existsSync(armed), 'the truncation');
          appendFileSync(log, lines('two'));
          await run.until(() => sent(original).endsWith(lines('two')), 'what came after it');
          await twoMoreLooks(run);
          assert.equal(sent(original, `${original}.1`), lines('one') + lines('two'));
        } finally {
          await run.stop();
        }
      });
    }

    test(`a known log, between the listing and the look`, async () => {
      const { bin, log, copy, armed, trap } = stage('x.log');
      trap('stat', "*'%i %s %d'*", `cp '${log}' '${copy}'; : >'${log}'`);
      writeFileSync(log, lines('one') + lines('unread'));
      writeFileSync(armed, '');
      const sent = Buffer.from(lines('one'));
      const run = new FollowerRun(
        { ...shell, path: `${bin}:${shell.path}` },
        { path: log, format: 'plain', from: 'none', known: [known(log, sent, sent.length)] },
      );
      const bytes = (/** @type {string} */ name) => String(run.bytes(name));
      try {
        await run.until(() => !existsSync(armed), 'the rotation');
        appendFileSync(log, lines('two'));
        await run.until(() => bytes('x.log').endsWith(lines('two')), 'what came after it');
        await twoMoreLooks(run);
        assert.equal(bytes('x.log.1') + bytes('x.log'), lines('unread') + lines('two'));
      } finally {
        await run.stop();
      }
    });

    for (const before of [lines('one'), '']) {
      test(`${before ? 'a known log' : 'a new log'}, between the look and the read`, async () => {
        const { bin, log, copy, armed, trap } = stage('x.log');
        const unread = lines('unread');
        const next = lines('two').repeat(3);
        trap('dd', `'bs=${unread.length} count=1'`, `cp '${log}' '${copy}'; cp '${armed}' '${log}'`);
        writeFileSync(log, before + unread);
        writeFileSync(armed, next);
        const position = before ? [known(log, Buffer.from(before), before.length)] : [];
        const start = () =>
          new FollowerRun(
            { ...shell, path: `${bin}:${shell.path}` },
            { path: log, format: 'plain', from: 'none', known: position },
          );
        const first = start();
        await Promise.race([first.exited, sleep(5_000)]);
        await first.stop();
        assert.equal(existsSync(armed), false, 'it was rotated');
        const second = start();
        const bytes = (/** @type {string} */ name) => String(second.bytes(name));
        try {
          await second.until(() => bytes('x.log').endsWith(next), 'what came after it');
          await twoMoreLooks(second);
          assert.equal(String(first.bytes('x.log')), '');
          assert.equal(bytes('x.log.1') + bytes('x.log'), unread + next);
        } finally {
          await second.stop();
        }
      });
    }
  });
}
