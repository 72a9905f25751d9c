/**
 * PostgreSQL's own rotation: by size, on request, and by time into a name that was there before, which truncates it;
 * while reading ends and begins again. Takes a minute: that is the shortest log_rotation_age.
 */
import assert from 'node:assert/strict';
import { chownSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { csvlogSettings, startPostgres } from '../../helpers/postgres.js';
import { World } from '../../helpers/rotation-world.js';

const MINUTE_MS = 60_000;

void describe('rotation by PostgreSQL', () => {
  /** @type {World} */
  let world;
  /** @type {Awaited<ReturnType<typeof startPostgres>>} */
  let source;
  before(async () => {
    world = await World.start();
    source = await startPostgres({
      settings: {
        ...csvlogSettings({ rotationAge: '1min', rotationSize: '256kB', filename: 'r-%M.log' }),
        log_truncate_on_rotation: 'on',
      },
    });
  });
  after(async () => {
    await source.stop();
    await world.stop();
  });

  void test('each statement is stored once', { timeout: 180_000 }, async () => {
    // What an hour ago was written under the names of the next minutes.
    const old = [];
    for (const minutes of [1, 2]) {
      const name = `r-${String(new Date(Date.now() + minutes * MINUTE_MS).getUTCMinutes()).padStart(2, '0')}.csv`;
      const row = `2026-11-20 16:08:00.123 UTC,"u","d",17,"[local]",673f.${minutes},1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"statement: SELECT 'old ${minutes}'",,,,,,,,,"psql","client backend",,0\n`;
      old.push(`old ${minutes}`);
      writeFileSync(join(source.logDir, name), row.padStart(row.length));
      const { uid, gid } = statSync(source.logDir);
      chownSync(join(source.logDir, name), uid, gid);
    }
    const log = await world.watch({ dir: source.dataDir, format: 'csvlog' });
    await log.connect();
    const written = [];
    const end = Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS + 5_000;
    for (let n = 0; Date.now() < end; n += 1) {
      for (let m = 0; m < 20; m += 1) {
        await source.query(`SELECT '${n} ${m}'`);
        written.push(`${n} ${m}`);
      }
      if (n % 7 === 2) await source.query('SELECT pg_rotate_logfile()');
      if (n % 10 === 4) log.kill();
      if (n % 10 === 7) await log.disconnect();
      if (n % 10 === 9) {
        await log.disconnect().catch(() => {});
        await log.connect();
      }
      await sleep(400);
    }
    await log.disconnect();
    await log.connect();
    const statements = async () =>
      (await log.lines()).flatMap(line => {
        const found = /^statement: SELECT '((?:old )?\d+(?: \d+)?)'/.exec(line);
        return found?.[1] === undefined ? [] : [found[1]];
      });
    await log.until(async () => (await statements()).length >= written.length + old.length, 'all statements');
    await log.settled();
    assert.deepEqual((await statements()).toSorted(), [...written, ...old].toSorted());
    assert.deepEqual(await log.rejected(), []);
    assert.equal((await log.lost()).bytes, 0);
    assert.ok(readdirSync(source.logDir).length > 2, 'it was rotated');
  });
});
