/**
 * What happens to log files on real hosts, and what must be stored of them: each line once. A case has a stream of its
 * own that is not connected yet.
 */
import assert from 'node:assert/strict';
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** @typedef {import('./rotation-world.js').Watched} Watched */
/** @typedef {import('./rotation-world.js').StreamOptions & { run: (log: Watched) => Promise<void> }} FileCase */

const ONE_LOOK_MS = 2_500; // the follower looks at least every 2 s

/** @param {string} tag @param {number} [count] @returns {string[]} */
export const lines = (tag, count = 20) =>
  Array.from({ length: count }, (_, n) => `${tag} ${n} ${'.'.repeat(60)}`);
/** @param {string[]} list */
export const text = list => list.map(line => `${line}\n`).join('');

/** logrotate's copytruncate. @param {Watched} log @param {string} [copy] @param {string} [name] */
export function copyTruncate(log, copy = 'x.log.1', name = 'x.log') {
  copyFileSync(log.at(name), log.at(copy));
  truncateSync(log.at(name));
}

/** @param {Watched} log @param {string} from @param {string} to */
export const rename = (log, from, to) => renameSync(log.at(from), log.at(to));

/** @param {Watched} log @param {string[]} expected @param {{ bytes?: number, events: number }} lost */
export async function endsWith(log, expected, { bytes = 0, events }) {
  await log.hasExactly(expected);
  await log.settled();
  await log.hasExactly(expected);
  assert.deepEqual(await log.lost(), { bytes, events });
  assert.equal(log.status?.lostEvents, events);
}

/** @type {Record<string, FileCase>} */
export const ROTATION_CASES = {
  'rotation by new name': {
    async run(log) {
      log.write('a.log', text(lines('a')), 50);
      log.write('b.log', text(lines('b')));
      await log.connect();
      await log.sees(lines('b').at(-1) ?? '');
      log.append('b.log', text(lines('b again')));
      log.write('c.log', text(lines('c')));
      await endsWith(log, [...lines('a'), ...lines('b'), ...lines('b again'), ...lines('c')], { events: 0 });
    },
  },

  'many old files are read one after another': {
    async run(log) {
      const tags = Array.from({ length: 120 }, (_, n) => `f${n}`);
      for (const [n, tag] of tags.entries()) log.write(`${tag}.log`, text(lines(tag, 3)), 100_000 - n * 100);
      await log.connect();
      await endsWith(
        log,
        tags.flatMap(tag => lines(tag, 3)),
        { events: 0 },
      );
    },
  },

  'rotation by recycled name with truncation': {
    async run(log) {
      log.write('a.log', text(lines('a')), 50);
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.write('b.log', text(lines('b')));
      await log.sees(lines('b').at(-1) ?? '');
      log.write('a.log', text(lines('a anew', 30)));
      await endsWith(log, [...lines('a'), ...lines('b'), ...lines('a anew', 30)], { events: 0 });
    },
  },

  'rotation by recycled name with append': {
    async run(log) {
      log.write('a.log', text(lines('a')), 50);
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.write('b.log', text(lines('b')));
      await log.sees(lines('b').at(-1) ?? '');
      log.append('a.log', text(lines('a again')));
      await endsWith(log, [...lines('a'), ...lines('b'), ...lines('a again')], { events: 0 });
    },
  },

  'rename and create, while the writer still writes to the renamed file': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      rename(log, 'x.log', 'x.log.1');
      log.write('x.log', '');
      log.append('x.log.1', text(lines('late')));
      await sleep(ONE_LOOK_MS);
      log.append('x.log', text(lines('two')));
      log.append('x.log.1', text(lines('later')));
      await sleep(ONE_LOOK_MS);
      log.append('x.log.1', text(lines('last')));
      log.append('x.log', text(lines('three')));
      const expected = ['one', 'late', 'two', 'later', 'last', 'three'].flatMap(tag => lines(tag));
      await endsWith(log, expected, { events: 0 });
    },
  },

  'copytruncate, with bytes before the copy that were not read yet': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.append('x.log', text(lines('unread')));
      copyTruncate(log);
      log.append('x.log', text(lines('two')));
      await endsWith(log, [...lines('one'), ...lines('unread'), ...lines('two')], { events: 1 });
    },
  },

  'copytruncate whose copy takes a while': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.append('x.log.1', text(lines('one').slice(0, 12)));
      await sleep(ONE_LOOK_MS);
      log.append('x.log.1', text(lines('one').slice(12)));
      await sleep(ONE_LOOK_MS);
      truncateSync(log.at('x.log'));
      log.append('x.log', text(lines('two')));
      await endsWith(log, [...lines('one'), ...lines('two')], { events: 1 });
    },
  },

  'copytruncate of a small file': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', 'a\n');
      await log.connect();
      await log.sees('a');
      log.append('x.log', 'b\n');
      copyTruncate(log);
      log.append('x.log', 'c\n');
      await endsWith(log, ['a', 'b', 'c'], { events: 1 });
    },
  },

  'copytruncate while disconnected': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      await log.disconnect();
      log.append('x.log', text(lines('unread')));
      copyTruncate(log);
      log.append('x.log', text(lines('two', 60)));
      await log.connect();
      await endsWith(log, [...lines('one'), ...lines('unread'), ...lines('two', 60)], { events: 1 });
    },
  },

  'a copy that somebody keeps is not read': {
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      copyFileSync(log.at('x.log'), log.at('backup of x.log'));
      log.age('backup of x.log', 60); // it is finished
      log.append('x.log', text(lines('two')));
      await log.sees(lines('two').at(-1) ?? '');
      await log.settled();
      await log.disconnect();
      rmSync(log.at('x.log'));
      log.write('y.log', text(lines('three')));
      await log.connect();
      await endsWith(
        log,
        ['one', 'two', 'three'].flatMap(tag => lines(tag)),
        { events: 1 },
      );
    },
  },

  'truncated and refilled with more than before, between two looks': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.append('x.log', text(lines('unread')));
      log.write('x.log', text(lines('two', 100)));
      const stored = [...lines('one'), ...lines('two', 100)];
      await log.sees(lines('two', 100).at(-1) ?? '');
      await log.settled();
      // The follower may have looked between the two.
      const unread = (await log.lines()).filter(line => line.startsWith('unread'));
      await endsWith(log, [...stored, ...unread], { events: 1 });
    },
  },

  'truncated and refilled with the same beginning': {
    path: 'x.log',
    async run(log) {
      const banner = `the same first line ${'='.repeat(700)}`;
      log.write('x.log', text([banner, ...lines('one')]));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.write('x.log', text([banner, ...lines('two', 100)]));
      await endsWith(log, [banner, ...lines('one'), banner, ...lines('two', 100)], { events: 1 });
    },
  },

  'truncated while disconnected': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      await log.disconnect();
      log.append('x.log', text(lines('lost')));
      log.write('x.log', text(lines('two', 100)));
      await log.connect();
      await endsWith(log, [...lines('one'), ...lines('two', 100)], { events: 1 });
    },
  },

  'several rotations while disconnected': {
    path: 'x.log',
    async run(log) {
      log.write('x.log', text(lines('one')));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      await log.disconnect();
      log.append('x.log', text(lines('one again')));
      for (const tag of ['two', 'three', 'four']) {
        for (const n of [3, 2, 1]) {
          if (statSync(log.at(`x.log.${n}`), { throwIfNoEntry: false }))
            rename(log, `x.log.${n}`, `x.log.${n + 1}`);
        }
        rename(log, 'x.log', 'x.log.1');
        log.write('x.log', text(lines(tag)));
      }
      await log.connect();
      await endsWith(
        log,
        ['one', 'one again', 'two', 'three', 'four'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'the open file is removed while disconnected': {
    async run(log) {
      log.write('a.log', text(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      await log.disconnect();
      log.append('a.log', text(lines('lost')));
      rmSync(log.at('a.log'));
      log.write('b.log', text(lines('b')));
      await log.connect();
      await endsWith(log, [...lines('a'), ...lines('b')], { events: 1 });
    },
  },

  'a file that was seen is removed before it is read': {
    async run(log) {
      const big = Array.from({ length: 8_000 }, (_, n) => `${n} ${'.'.repeat(5_000)}`);
      log.write('a.log', text(big), 100);
      const lost = text(lines('lost'));
      log.write('b.log', lost, 50);
      log.write('c.log', text(lines('c')));
      await log.connect();
      await log.until(async () => (await log.lines()).length > 0, 'the first line');
      rmSync(log.at('b.log'));
      await endsWith(log, [...big, ...lines('c')], { bytes: lost.length, events: 1 });
    },
  },

  'an open file that is removed is read to its end': {
    async run(log) {
      log.write('a.log', text(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.append('a.log', text(lines('unread')));
      rmSync(log.at('a.log'));
      log.write('b.log', text(lines('b')));
      await endsWith(log, [...lines('a'), ...lines('unread'), ...lines('b')], { events: 0 });
    },
  },

  'an inode that serves the next file at once': {
    async run(log) {
      log.write('a.log', text(lines('a')), 50);
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.write('b.log', text(lines('b')));
      await log.sees(lines('b').at(-1) ?? '');
      const inode = statSync(log.at('a.log')).ino;
      rmSync(log.at('a.log'));
      // ext4 and tmpfs give the lowest free inode: try until it is the same one.
      for (let n = 0; n < 50; n += 1) {
        log.write(`c${n}.log`, text(lines(`c${n}`)));
        if (statSync(log.at(`c${n}.log`)).ino === inode) break;
      }
      const after = Array.from({ length: 50 }, (_, n) => n).filter(n =>
        statSync(log.at(`c${n}.log`), { throwIfNoEntry: false }),
      );
      await log.until(async () => (await log.lines()).length >= 40 + after.length * 20, 'all files');
      await log.disconnect();
      rmSync(log.at('b.log'));
      rmSync(log.at('c0.log'));
      log.write('d.log', text(lines('d', 30)));
      log.write('e.log', text(lines('e', 10)));
      await log.connect();
      const tags = ['a', 'b', ...after.map(n => `c${n}`)];
      await log.hasExactly([...tags.flatMap(tag => lines(tag)), ...lines('d', 30), ...lines('e', 10)]);
      await log.settled();
      await log.hasExactly([...tags.flatMap(tag => lines(tag)), ...lines('d', 30), ...lines('e', 10)]);
    },
  },

  'a directory that does not exist yet': {
    path: 'logs/of today',
    startAt: 'end',
    async run(log) {
      await log.connect();
      await log.until(() => log.status?.notice?.startsWith('missing') ?? false, 'the notice');
      mkdirSync(log.at('logs/of today'), { recursive: true });
      log.write('logs/of today/a.log', text(lines('a')));
      await endsWith(log, lines('a'), { events: 0 });
    },
  },

  'a file that does not exist yet': {
    path: 'x.log',
    startAt: 'end',
    async run(log) {
      log.write('other.log', text(lines('other')));
      await log.connect();
      await log.begun();
      log.write('x.log', text(lines('x')));
      await endsWith(log, lines('x'), { events: 0 });
    },
  },

  'a directory that is replaced': {
    path: 'logs',
    async run(log) {
      log.mkdir('logs');
      log.write('logs/a.log', text(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      rename(log, 'logs', 'logs.old');
      log.mkdir('logs');
      log.write('logs/a.log', text(lines('b')));
      await log.sees(lines('b').at(-1) ?? '');
      log.append('logs/a.log', text(lines('c')));
      await endsWith(
        log,
        ['a', 'b', 'c'].flatMap(tag => lines(tag)),
        { events: 1 },
      );
    },
  },

  'a file that is replaced by another one with the same first line': {
    path: 'x.log',
    async run(log) {
      const banner = `the same first line ${'='.repeat(700)}`;
      log.write('x.log', text([banner, ...lines('one')]));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.write('x.new', text([banner, ...lines('two')]));
      rename(log, 'x.new', 'x.log');
      await log.sees(lines('two').at(-1) ?? '');
      await log.disconnect();
      log.write('x.new', text([banner, ...lines('three')]));
      rename(log, 'x.new', 'x.log');
      await log.connect();
      await endsWith(log, [banner, ...lines('one'), banner, ...lines('two'), banner, ...lines('three')], {
        events: 1,
      });
    },
  },

  'a symlink as a file name, and what it points to changes': {
    path: 'current',
    async run(log) {
      log.mkdir('real');
      log.write('real/1', text(lines('one')));
      symlinkSync('real/1', log.at('current'));
      await log.connect();
      await log.sees(lines('one').at(-1) ?? '');
      log.append('real/1', text(lines('one again')));
      log.write('real/2', text(lines('two')));
      symlinkSync('real/2', log.at('next'));
      rename(log, 'next', 'current');
      await log.sees(lines('two').at(-1) ?? '');
      log.append('real/2', text(lines('two again')));
      await endsWith(
        log,
        ['one', 'one again', 'two', 'two again'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'two names of one file': {
    async run(log) {
      log.write('a.log', text(lines('a')));
      linkSync(log.at('a.log'), log.at('b.log'));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.append('b.log', text(lines('b')));
      await log.sees(lines('b').at(-1) ?? '');
      log.write('c.log', text(lines('c')));
      await endsWith(log, [...lines('a'), ...lines('b'), ...lines('c')], { events: 0 });
    },
  },

  'a file that is renamed to what is no log, and still written to': {
    async run(log) {
      log.write('a.log', text(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      rename(log, 'a.log', 'a.log~');
      log.write('b.log', text(lines('b')));
      await log.sees(lines('b').at(-1) ?? '');
      log.append('a.log~', text(lines('late')));
      await log.sees(lines('late').at(-1) ?? '');
      await log.disconnect();
      log.append('a.log~', text(lines('later')));
      log.write('c.log~', text(lines('never')));
      await log.connect();
      await endsWith(
        log,
        ['a', 'b', 'late', 'later'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'names with spaces, quotes, globs, a leading dash; with a newline they are ignored': {
    async run(log) {
      const names = [
        'a  b ',
        "it's",
        '"q"',
        '*',
        '[a]?',
        '-n',
        '$(x)`y`',
        'back\\slash',
        'ünï',
        '-',
        '%s',
        '~x',
        '#y',
      ];
      for (const name of names) log.write(name, text(lines(name, 3)));
      log.write('new\nline', text(lines('never')));
      await log.connect();
      await log.sees(lines('#y', 3).at(-1) ?? '');
      for (const name of names) log.append(name, text(lines(`${name} again`, 3)));
      await endsWith(
        log,
        names.flatMap(name => [...lines(name, 3), ...lines(`${name} again`, 3)]),
        { events: 0 },
      );
    },
  },

  'a follower that is killed, again and again': {
    path: 'x.log',
    async run(log) {
      await log.connect();
      const all = [];
      for (let n = 0; n < 12; n += 1) {
        const some = lines(`part ${n}`, 50);
        all.push(...some);
        log.append('x.log', text(some));
        await sleep(500);
        if (n % 5 === 2) log.kill();
        if (n === 8) rename(log, 'x.log', 'x.log.1');
      }
      await endsWith(log, all, { events: 0 });
    },
  },
};
