/** What a follower does with files that cannot be seen from what is stored: it is at rest when nothing changes. */
import assert from 'node:assert/strict';
import { linkSync, mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { FollowerRun } from '../../helpers/follower.js';
import { testShells } from '../../helpers/shells.js';

const { shells, remove } = testShells();
after(remove);

void describe('a follower at rest', { concurrency: true }, () => {
  for (const shell of shells) {
    void test(`opens nothing again and again under ${shell.name}`, async () => {
      const dir = mkdtempSync(join(tmpdir(), 'pgsluice-follower-'));
      /** @param {string} name @param {number} ageSeconds */
      const write = (name, ageSeconds) => {
        writeFileSync(join(dir, name), `${name}\n`.repeat(100));
        utimesSync(join(dir, name), Date.now() / 1000 - ageSeconds, Date.now() / 1000 - ageSeconds);
      };
      write('a.csv', 50);
      linkSync(join(dir, 'a.csv'), join(dir, 'b.csv'));
      write('c.csv', 40);
      write('d.csv', 30);
      write('e.csv', 0);
      const run = new FollowerRun(shell, { path: dir });
      try {
        const beats = () => run.frames.filter(frame => frame.type === 'heartbeat').length;
        const opened = () => run.frames.flatMap(frame => (frame.type === 'file' ? [frame.name] : []));
        await run.until(() => beats() >= 1, 'a heartbeat');
        assert.deepEqual(opened(), ['a.csv', 'c.csv', 'd.csv', 'e.csv']);
        // A name that changes is looked into once, and is not where the next bytes are expected.
        renameSync(join(dir, 'c.csv'), join(dir, 'c2.csv'));
        await run.until(() => beats() >= 3, 'two more heartbeats');
        assert.deepEqual(opened(), ['a.csv', 'c.csv', 'd.csv', 'e.csv']);
      } finally {
        await run.stop();
        rmSync(dir, { recursive: true });
      }
    });
  }
});
