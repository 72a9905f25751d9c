/** All cases of files under one shell: each test file runs one of them, since `sh` is found through PATH. */
import { after, before, describe, test } from 'node:test';
import { COMPRESSED_CASES } from './rotation-cases-compressed.js';
import { FORMAT_CASES } from './rotation-cases-formats.js';
import { ROTATION_CASES } from './rotation-cases.js';
import { useShell, World } from './rotation-world.js';

const SIDE_BY_SIDE = 16; // they mostly wait

/** @param {'dash' | 'bash' | 'busybox'} shell */
export function fileCases(shell) {
  void describe(`files under ${shell}`, { concurrency: SIDE_BY_SIDE }, () => {
    /** @type {World} */
    let world;
    /** @type {() => void} */
    let restore = () => {};
    before(async () => {
      world = await World.start();
      restore = useShell(shell);
    });
    after(async () => {
      await world.stop();
      restore();
    });
    for (const [name, { run, ...options }] of Object.entries({
      ...ROTATION_CASES,
      ...COMPRESSED_CASES,
      ...FORMAT_CASES,
    })) {
      void test(name, async () => run(await world.watch(options)));
    }
  });
}
