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

// busybox runs its own dd and stat, whatever PATH says.
for (const shell of shells.filter(({ name }) => name !== 'busybox')) {
  // They wait more than they work.
  describe(`copytruncate under ${shell.name}`, { concurrency: true }, () => {
    for (const original of ['x.log', 'other.log']) {
      test(`${original === 'x.log' ? 'the open file' : 'a file that is not open'}`, async () => {
        const place = mkdtempSync(join(dir, 'l-'));
        const bin = mkdtempSync(join(dir, 'b-'));
        const [log, copy, armed] = [join(place, original), join(place, `${original}.1`), join(bin, 'armed')];
        const dd = execFileSync('sh', ['-c', 'command -v dd'], { encoding: 'utf8' }).trim();
        const truncate = `case "$*" in *if=/proc/self/fd/5*skip=*) ! [ -e '${armed}' ] || { : >'${log}'; rm '${armed}'; } ;; esac`;
        writeFileSync(join(bin, 'dd'), `#!/bin/sh\n${truncate}\nexec ${dd} "$@"\n`, { mode: 0o755 });
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
          const beats = () => run.frames.filter(({ type }) => type === 'heartbeat').length;
          const before = beats();
          await run.until(() => beats() >= before + 2, 'two more looks');
          assert.equal(sent(original, `${original}.1`), lines('one') + lines('two'));
        } finally {
          await run.stop();
        }
      });
    }

    test(`a known log, between the listing and the look`, async () => {
      const place = mkdtempSync(join(dir, 'l-'));
      const bin = mkdtempSync(join(dir, 'b-'));
      const [log, copy, armed] = [join(place, 'x.log'), join(place, 'x.log.1'), join(bin, 'armed')];
      const stat = execFileSync('sh', ['-c', 'command -v stat'], { encoding: 'utf8' }).trim();
      const rotate = `case "$*" in *'%i %s %d'*) ! [ -e '${armed}' ] || { cp '${log}' '${copy}'; : >'${log}'; rm '${armed}'; } ;; esac`;
      writeFileSync(join(bin, 'stat'), `#!/bin/sh\n${rotate}\nexec ${stat} "$@"\n`, { mode: 0o755 });
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
        const beats = () => run.frames.filter(({ type }) => type === 'heartbeat').length;
        const before = beats();
        await run.until(() => beats() >= before + 2, 'two more looks');
        assert.equal(bytes('x.log.1') + bytes('x.log'), lines('unread') + lines('two'));
      } finally {
        await run.stop();
      }
    });

    for (const before of [lines('one'), '']) {
      test(`${before ? 'a known log' : 'a new log'}, between the look and the read`, async () => {
        const place = mkdtempSync(join(dir, 'l-'));
        const bin = mkdtempSync(join(dir, 'b-'));
        const [log, copy, armed] = [join(place, 'x.log'), join(place, 'x.log.1'), join(bin, 'armed')];
        const unread = lines('unread');
        const next = lines('two').repeat(3);
        const dd = execFileSync('sh', ['-c', 'command -v dd'], { encoding: 'utf8' }).trim();
        const rotate = `[ "$*" != 'bs=${unread.length} count=1' ] || ! [ -e '${armed}' ] || { cp '${log}' '${copy}'; cp '${armed}' '${log}'; rm '${armed}'; }`;
        writeFileSync(join(bin, 'dd'), `#!/bin/sh\n${rotate}\nexec ${dd} "$@"\n`, { mode: 0o755 });
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
          const beats = () => second.frames.filter(({ type }) => type === 'heartbeat').length;
          await second.until(() => beats() >= 2, 'two more looks');
          assert.equal(String(first.bytes('x.log')), '');
          assert.equal(bytes('x.log.1') + bytes('x.log'), unread + next);
        } finally {
          await second.stop();
        }
      });
    }
  });
}
