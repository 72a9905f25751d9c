/** Compressed logs: what logrotate, gzip and people make of files that were read, half read, or never seen. */
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, rmSync, utimesSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { copyTruncate, endsWith, lines, rename, text } from './rotation-cases.js';

/** @typedef {import('./rotation-world.js').Watched} Watched */
/** @typedef {import('./rotation-cases.js').FileCase} FileCase */

/** As gzip does it: the time of the file is kept. @param {Watched} log @param {string} name @param {boolean} [keep] */
function gzip(log, name, keep = false) {
  const { mtimeMs } = statSync(log.at(name));
  writeFileSync(log.at(`${name}.gz`), gzipSync(readFileSync(log.at(name))));
  utimesSync(log.at(`${name}.gz`), mtimeMs / 1000, mtimeMs / 1000);
  if (!keep) rmSync(log.at(name));
}

/** Reads x.log, then rotates it by rename. @param {Watched} log */
async function rotated(log) {
  log.write('x.log', text(lines('one')));
  await log.connect();
  await log.sees(lines('one').at(-1) ?? '');
  rename(log, 'x.log', 'x.log.1');
  log.write('x.log', text(lines('two')));
  await log.sees(lines('two').at(-1) ?? '');
}

/** @type {Record<string, FileCase>} */
export const COMPRESSED_CASES = {
  'gzip of a file that was read': {
    path: 'x.log',
    async run(log) {
      await rotated(log);
      gzip(log, 'x.log.1');
      await log.settled();
      await log.disconnect();
      rename(log, 'x.log.1.gz', 'x.log.2.gz');
      log.append('x.log', text(lines('three')));
      await log.connect();
      await endsWith(
        log,
        ['one', 'two', 'three'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'gzip -k': {
    path: 'x.log',
    async run(log) {
      await rotated(log);
      gzip(log, 'x.log.1', true);
      await log.settled();
      rmSync(log.at('x.log.1'));
      log.append('x.log', text(lines('three')));
      await endsWith(
        log,
        ['one', 'two', 'three'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'gzip of a file that was read in part, and of one that was never seen': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      await log.disconnect();
      log.append('x.log', text(lines('one again')));
      log.age('x.log', 300);
      rename(log, 'x.log', 'x.log.2');
      gzip(log, 'x.log.2');
      log.write('x.log.1', text(lines('two')), 200);
      gzip(log, 'x.log.1');
      log.write('x.log', text(lines('three')));
      await log.connect();
      await endsWith(
        log,
        ['one', 'one again', 'two', 'three'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'a .gz that is still being written': {
    path: 'x.log',
    async run(log) {
      await rotated(log);
      await log.disconnect();
      const bytes = gzipSync(readFileSync(log.at('x.log.1')));
      const never = gzipSync(text(lines('never seen', 500)));
      rmSync(log.at('x.log.1'));
      writeFileSync(log.at('x.log.1.gz'), bytes.subarray(0, 40));
      writeFileSync(log.at('x.log.2.gz'), never.subarray(0, never.length - 9));
      await log.connect();
      await log.until(() => log.status?.notice?.startsWith('compressed') ?? false, 'the notice');
      appendFileSync(log.at('x.log.1.gz'), bytes.subarray(40));
      appendFileSync(log.at('x.log.2.gz'), never.subarray(never.length - 9));
      log.append('x.log', text(lines('three')));
      await endsWith(
        log,
        [...lines('one'), ...lines('two'), ...lines('never seen', 500), ...lines('three')],
        {
          events: 0,
        },
      );
    },
  },

  'a .gz that is broken is named, and holds nothing up': {
    path: 'x.log',
    async run(log) {
      const broken = gzipSync(text(lines('broken', 200)));
      broken.fill(0x55, 30, 60);
      log.write('x.log.2.gz', broken, 500);
      log.write('x.log.1', text(lines('one')), 300);
      gzip(log, 'x.log.1');
      log.write('x.log', text(lines('two')));
      await log.connect();
      await log.until(() => log.status?.notice?.includes('x.log.2.gz') ?? false, 'the notice');
      await endsWith(log, [...lines('one'), ...lines('two')], { events: 0 });
    },
  },

  'a .gz that gets another name': {
    path: 'x.log',
    async run(log) {
      log.write('x.log.1', text(lines('one')), 300);
      gzip(log, 'x.log.1');
      log.write('x.log', text(lines('two')));
      await log.connect();
      await log.sees(lines('two').at(-1) ?? '');
      rename(log, 'x.log.1.gz', 'x.log.2.gz');
      log.append('x.log', text(lines('three')));
      await endsWith(
        log,
        ['one', 'two', 'three'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'copytruncate with compress': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.append('x.log', text(lines('unread')));
      copyTruncate(log);
      gzip(log, 'x.log.1');
      log.append('x.log', text(lines('two')));
      await log.sees(lines('two').at(-1) ?? '');
      await log.settled();
      await log.disconnect();
      log.append('x.log', text(lines('two again')));
      rename(log, 'x.log.1.gz', 'x.log.2.gz');
      copyTruncate(log);
      gzip(log, 'x.log.1');
      log.append('x.log', text(lines('three')));
      await log.connect();
      const expected = ['one', 'unread', 'two', 'two again', 'three'].flatMap(tag => lines(tag));
      await log.hasExactly(expected);
      await log.settled();
      await log.hasExactly(expected);
      assert.ok((await log.lost()).events <= 2);
    },
  },

  'from start reads what is compressed': {
    async run(log) {
      log.write('a.log', text(lines('a')), 300);
      log.write('b.log', text(lines('b')), 200);
      log.write('c.log', text(lines('c')));
      gzip(log, 'a.log');
      gzip(log, 'b.log');
      await log.connect();
      await endsWith(
        log,
        ['a', 'b', 'c'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
      assert.deepEqual(
        await log.lines(),
        ['a', 'b', 'c'].flatMap(tag => lines(tag)),
      );
    },
  },

  'from end skips what is compressed, also when it is renamed or made later': {
    startAt: 'end',
    async run(log) {
      log.write('x.log.3', text(lines('old')), 300);
      gzip(log, 'x.log.3');
      log.write('x.log.1', text(lines('skipped')), 200);
      log.write('x.log', text(lines('before')));
      await log.connect();
      await log.begun();
      log.append('x.log', text(lines('after')));
      await log.sees(lines('after').at(-1) ?? '');
      await log.disconnect();
      rename(log, 'x.log.3.gz', 'x.log.4.gz');
      gzip(log, 'x.log.1');
      await log.connect();
      await endsWith(log, lines('after'), { events: 0 });
    },
  },

  'from current begins with the newest file that is not compressed': {
    startAt: 'current',
    async run(log) {
      log.write('a.log', text(lines('a')), 300);
      log.write('b.log', text(lines('b')), 200);
      log.write('c.log', text(lines('c')), 100);
      gzip(log, 'a.log');
      await log.connect();
      await log.sees(lines('c').at(-1) ?? '');
      await sleep(500);
      log.append('c.log', text(lines('more')));
      await endsWith(log, [...lines('c'), ...lines('more')], { events: 0 });
    },
  },
};
