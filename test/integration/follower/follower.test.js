import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { posixCksum } from '../../../src/codec/cksum.js';
import { FollowerRun, known } from '../../helpers/follower.js';
import { testShells } from '../../helpers/shells.js';

const { shells, remove } = testShells();
after(remove);

/** @param {string} text @param {number} lines */
const lines = (text, lines) => Array.from({ length: lines }, (_, i) => `${text} ${i}\n`).join('');

for (const shell of shells) {
  describe(`follower under ${shell.name}`, () => {
    /** @type {string} */
    let dir;
    /** @type {FollowerRun[]} */
    let runs = [];
    /** @param {Partial<import('../../../src/follower/index.js').FollowerParameters>} [parameters] */
    const follow = parameters => {
      const run = new FollowerRun(shell, { path: dir, ...parameters });
      runs.push(run);
      return run;
    };
    beforeEach(() => {
      dir = mkdtempSync(join(tmpdir(), 'pgsluice follower  '));
    });
    afterEach(async () => {
      for (const run of runs) await run.stop();
      runs = [];
      rmSync(dir, { recursive: true, force: true });
      rmSync(`${dir}.away`, { force: true });
    });

    test('needs no room on the host: it writes no file anywhere', async () => {
      writeFileSync(join(dir, 'a.csv'), lines('old', 20_000));
      execFileSync('gzip', [join(dir, 'a.csv')]);
      writeFileSync(join(dir, 'b.csv'), lines('new', 20_000));
      // Any write to a file fails (or kills by SIGXFSZ), as on a full disk; and there is no place for temporary files.
      const run = new FollowerRun(
        shell,
        { path: dir },
        { limits: 'ulimit -f 0', env: { TMPDIR: '/proc/none', HOME: '/proc/none' } },
      );
      runs.push(run);
      const whole = lines('new', 20_000);
      await run.until(() => run.bytes('b.csv').length === whole.length, 'the log');
      await run.until(
        () => [...run.files.values()].flat().some(({ name }) => name.startsWith('a.csv')),
        'the compressed one',
      );
      assert.equal(run.stderr, '');
    });
    /** @param {string} name @param {string} content @param {number} age seconds since it was last written */
    const write = (name, content, age = 0) => {
      writeFileSync(join(dir, name), content);
      if (age > 0) utimesSync(join(dir, name), Date.now() / 1000 - age, Date.now() / 1000 - age);
    };

    test('sends every file from its start, oldest first, then what is appended', async () => {
      write('b.csv', lines('b', 30_000), 100);
      write('c one  two.csv', 'c\n');
      write('a.csv', 'a\n', 50);
      write('other.log', 'not followed\n');
      write('empty.csv', '');
      const run = follow();
      await run.until(() => run.bytes('c one  two.csv').length === 2, 'c');
      assert.deepEqual(
        [...run.files.values()].flat().map(file => file.name),
        ['b.csv', 'a.csv', 'c one  two.csv'],
      );
      assert.equal(run.bytes('b.csv').toString(), lines('b', 30_000));
      appendFileSync(join(dir, 'c one  two.csv'), 'more\n');
      appendFileSync(join(dir, 'empty.csv'), 'no longer\n');
      await run.until(
        () => run.bytes('empty.csv').length > 0 && run.bytes('c one  two.csv').length > 2,
        'appended bytes',
      );
      assert.equal(run.bytes('c one  two.csv').toString(), 'c\nmore\n');
      assert.equal(run.bytes('empty.csv').toString(), 'no longer\n');
    });

    test('reads the old file to its end before the next, also when it is renamed or removed meanwhile', async () => {
      write('1.csv', lines('one', 10));
      const run = follow();
      await run.until(() => run.bytes('1.csv').length > 0, 'the first file');
      renameSync(join(dir, '1.csv'), join(dir, '1.gone'));
      appendFileSync(join(dir, '1.gone'), lines('late', 1000));
      rmSync(join(dir, '1.gone'));
      write('2.csv', lines('two', 10));
      await run.until(() => run.bytes('2.csv').length > 0, 'the second file');
      // A look between the two tells its new name.
      const old = String(run.bytes('1.csv')) + String(run.bytes('1.gone'));
      assert.equal(old, lines('one', 10) + lines('late', 1000));
      assert.equal(run.bytes('2.csv').toString(), lines('two', 10));
    });

    test('returns to an old file that is appended to again', async () => {
      write('1.csv', 'one\n', 5);
      write('2.csv', 'two\n');
      const run = follow();
      await run.until(() => run.bytes('2.csv').length > 0, 'the second file');
      appendFileSync(join(dir, '1.csv'), 'again\n');
      await run.until(() => run.bytes('1.csv').length > 4, 'the appended bytes');
      appendFileSync(join(dir, '2.csv'), 'two again\n');
      await run.until(() => run.bytes('2.csv').length > 4, 'the second file again');
      assert.equal(run.bytes('1.csv').toString(), 'one\nagain\n');
      assert.equal(run.bytes('2.csv').toString(), 'two\ntwo again\n');
      const states = run.frames.flatMap(frame =>
        frame.type === 'file' ? [`${frame.name} ${frame.state} ${frame.offset}`] : [],
      );
      assert.deepEqual(states, ['1.csv new 0', '2.csv new 0', '1.csv known 4', '2.csv known 4']);
    });

    test('resumes a known file at its offset, byte for byte', async () => {
      const content = Buffer.from(lines('some text', 20_000));
      write('1.csv', content.toString());
      for (const offset of [1, 511, 512, 513, 65_535, 65_536, 65_537, 200_000]) {
        const run = follow({ from: 'none', known: [known(join(dir, '1.csv'), content, offset)] });
        await run.until(
          () => run.bytes('1.csv').length >= content.length - offset,
          `the rest after ${offset}`,
        );
        assert.deepEqual(run.bytes('1.csv'), content.subarray(offset));
        await run.stop();
      }
    });

    test('sends nothing of a known file that is complete, and says which known files are gone', async () => {
      const content = Buffer.from(lines('x', 100));
      write('1.csv', content.toString());
      const gone = { ...known(join(dir, '1.csv'), content, 10), inode: '999999999' };
      const run = follow({ from: 'none', known: [known(join(dir, '1.csv'), content, content.length), gone] });
      await run.until(() => run.frames.some(frame => frame.type === 'gone'), 'gone');
      appendFileSync(join(dir, '1.csv'), 'new\n');
      await run.until(() => run.bytes('1.csv').length > 0, 'the new line');
      assert.equal(run.bytes('1.csv').toString(), 'new\n');
      assert.deepEqual(
        run.frames.filter(frame => frame.type === 'gone'),
        [{ type: 'gone', inode: '999999999' }],
      );
    });

    test('a known inode under another name is looked into even if its size is right', async () => {
      const old = Buffer.from(lines('old', 100));
      write('1.csv', lines('new', 100));
      const run = follow({
        from: 'none',
        known: [{ ...known(join(dir, '1.csv'), old, old.length), name: '0.csv' }],
      });
      await run.until(() => run.bytes('1.csv').length > 0, 'the new file');
      assert.equal(run.bytes('1.csv').toString(), lines('new', 100));
      renameSync(join(dir, '1.csv'), join(dir, '2.csv'));
      appendFileSync(join(dir, '2.csv'), 'more\n');
      write('3.csv', 'three\n');
      await run.until(() => run.bytes('3.csv').length > 0, 'the third file');
      // The rest may come under the old name or the new one.
      assert.equal(
        `${run.bytes('1.csv').toString()}${run.bytes('2.csv').toString()}`,
        `${lines('new', 100)}more\n`,
      );
    });

    test('a file that was away for a while is known when it comes back', async () => {
      const content = Buffer.from(lines('text', 100));
      write('1.csv', content.toString());
      write('2.csv', 'two\n');
      const proof = known(join(dir, '1.csv'), content, content.length);
      renameSync(join(dir, '1.csv'), `${dir}.away`);
      const run = follow({ from: 'none', known: [proof] });
      await run.until(() => run.frames.some(frame => frame.type === 'gone'), 'gone');
      renameSync(`${dir}.away`, join(dir, '1.csv'));
      appendFileSync(join(dir, '1.csv'), 'back\n');
      await run.until(() => run.bytes('1.csv').length > 0, 'the file');
      assert.equal(run.bytes('1.csv').toString(), 'back\n');
    });

    test('a file that was gone and is back unchanged is named, in the same run and after a restart', async () => {
      const content = Buffer.from(lines('text', 100));
      write('1.csv', content.toString());
      write('2.csv', 'two\n');
      const proof = known(join(dir, '1.csv'), content, content.length);
      renameSync(join(dir, '1.csv'), `${dir}.away`);
      const run = follow({ from: 'none', known: [proof] });
      await run.until(() => run.frames.some(frame => frame.type === 'gone'), 'gone');
      renameSync(`${dir}.away`, join(dir, '1.csv'));
      const isBack = (/** @type {FollowerRun} */ one) =>
        one.frames.some(frame => frame.type === 'file' && frame.name === '1.csv' && frame.state === 'known');
      await run.until(() => isBack(run), 'the file again');
      assert.equal(run.bytes('1.csv').length, 0);
      await run.stop();
      const next = follow({ from: 'none', known: [{ ...proof, gone: true }] });
      await next.until(() => isBack(next), 'the file again after a restart');
      assert.equal(next.bytes('1.csv').length, 0);
    });

    test('a known inode with another head is a new file', async () => {
      const old = Buffer.from(lines('old', 100));
      write('1.csv', lines('new', 200));
      const run = follow({ from: 'none', known: [known(join(dir, '1.csv'), old, 600)] });
      await run.until(() => run.bytes('1.csv').length > 0, 'the new file');
      assert.equal(run.bytes('1.csv').toString(), lines('new', 200));
    });

    test('the same head with other bytes before the offset is a new file', async () => {
      const head = lines('the very same head', 40);
      const old = Buffer.from(head + lines('old', 100));
      write('1.csv', head + lines('new', 200));
      const run = follow({ from: 'none', known: [known(join(dir, '1.csv'), old, head.length + 300)] });
      await run.until(() => run.bytes('1.csv').length > 0, 'the new file');
      assert.equal(run.bytes('1.csv').toString(), head + lines('new', 200));
    });

    test('a file that lost its end but kept its head continues where it ends now', async () => {
      const content = Buffer.from(lines('text', 1000));
      write('1.csv', content.toString());
      const proof = known(join(dir, '1.csv'), content, content.length);
      truncateSync(join(dir, '1.csv'), 5000);
      const run = follow({ from: 'none', known: [proof] });
      await run.until(() => run.frames.some(frame => frame.type === 'file'), 'the file');
      appendFileSync(join(dir, '1.csv'), 'after the crash\n');
      await run.until(() => run.bytes('1.csv').length > 0, 'the new line');
      assert.equal(run.bytes('1.csv').toString(), 'after the crash\n');
    });

    test('from end skips what is there, and names it', async () => {
      write('1.csv', lines('old', 10), 100);
      write('2.csv', lines('newest', 300));
      const run = follow({ from: 'end' });
      await run.until(() => run.frames.some(frame => frame.type === 'begun'), 'begun');
      appendFileSync(join(dir, '2.csv'), 'after\n');
      write('3.csv', 'next\n');
      await run.until(() => run.bytes('3.csv').length > 0, 'the next file');
      assert.equal(run.bytes('2.csv').toString(), 'after\n');
      assert.equal(run.bytes('1.csv').length, 0);
      const content = Buffer.from(lines('newest', 300));
      const skipped = run.frames.find(frame => frame.type === 'skip' && frame.name === '2.csv');
      assert.ok(skipped?.type === 'skip');
      assert.equal(skipped.offset, content.length);
      assert.equal(skipped.headSum, posixCksum(content.subarray(0, skipped.headLength)));
      assert.equal(skipped.tailSum, posixCksum(content.subarray(content.length - skipped.tailLength)));
    });

    test('from current begins with the newest file', async () => {
      write('1.csv', lines('old', 10), 100);
      write('2.csv', lines('newest', 10));
      const run = follow({ from: 'current' });
      await run.until(() => run.bytes('2.csv').length > 0, 'the newest file');
      assert.equal(run.bytes('2.csv').toString(), lines('newest', 10));
      assert.equal(run.bytes('1.csv').length, 0);
    });

    test('follows one file by name', async () => {
      write('x.csv', 'other\n');
      write('-n one.csv', 'line\n');
      const run = follow({ path: join(dir, '-n one.csv') });
      await run.until(() => run.bytes('-n one.csv').length > 0, 'the file');
      appendFileSync(join(dir, '-n one.csv'), 'more\n');
      await run.until(() => run.bytes('-n one.csv').length > 5, 'the appended bytes');
      assert.equal(run.bytes('-n one.csv').toString(), 'line\nmore\n');
      assert.equal(run.files.size, 1);
    });

    test('finds the log directory of a data directory', async () => {
      mkdirSync(join(dir, 'pg log'));
      write('PG_VERSION', '15\n');
      write('current_logfiles', 'stderr pg log/1.log\ncsvlog pg log/1.csv\n');
      write('pg log/1.csv', 'line\n');
      const run = follow();
      await run.until(() => run.bytes('1.csv').length > 0, 'the file');
    });

    test('waits for a directory that does not exist yet', async () => {
      const path = join(dir, 'later');
      const run = follow({ path, from: 'end' });
      await run.until(() => run.frames.some(frame => frame.type === 'waiting'), 'waiting');
      mkdirSync(path);
      write('later/1.csv', 'line\n');
      await run.until(() => run.bytes('1.csv').length > 0, 'the file');
      assert.deepEqual(
        run.frames.filter(frame => frame.type === 'waiting'),
        [{ type: 'waiting', code: 'missing', text: path }],
      );
    });

    test('heartbeats carry offset and size, and a follower that nobody reads ends', async () => {
      write('1.csv', lines('text', 10));
      const run = follow();
      await run.until(
        () => run.frames.filter(frame => frame.type === 'heartbeat').length === 2,
        'two heartbeats',
      );
      const beat = run.frames.find(frame => frame.type === 'heartbeat');
      assert.ok(beat?.type === 'heartbeat');
      const size = lines('text', 10).length;
      assert.deepEqual([beat.offset, beat.size, beat.behind], [size, size, 0]);
      assert.ok(Math.abs(beat.clock - Date.now() / 1000) < 60);
      run.process.stdout.destroy();
      await run.exited;
    });

    test('a file truncated under the reader is read again from its start', async () => {
      write('1.csv', lines('before', 10));
      const run = follow();
      await run.until(() => run.bytes('1.csv').length > 0, 'the file');
      writeFileSync(join(dir, '1.csv'), 'after\n');
      await run.until(() => run.bytes('1.csv').includes('after'), 'the new content');
      assert.equal(run.bytes('1.csv').toString(), `${lines('before', 10)}after\n`);
    });

    test('leaves no file behind and opens none for writing', async () => {
      write('1.csv', 'a\n');
      const before = execFileSync('ls', ['-a', dir], { encoding: 'utf8' });
      const run = follow();
      await run.until(() => run.bytes('1.csv').length > 0, 'the file');
      assert.equal(execFileSync('ls', ['-a', dir], { encoding: 'utf8' }), before);
    });
  });
}
