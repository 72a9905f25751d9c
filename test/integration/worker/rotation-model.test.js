/**
 * A log that is rotated in every way at random, while it is followed, disconnected, killed and fenced: each line that
 * could be read is stored exactly once. ROTATION_SEED, ROTATION_SECONDS and ROTATION_SHELL make it other runs, or longer.
 */
import { after, before, describe, test } from 'node:test';
import { RotationModel } from '../../helpers/rotation-model.js';
import { useShell, World } from '../../helpers/rotation-world.js';

const SIDE_BY_SIDE = Number(process.env['ROTATION_STREAMS'] ?? 6);
const STEPS = Number(process.env['ROTATION_STEPS'] ?? 8);
const seed = Number(process.env['ROTATION_SEED'] ?? Date.now() % 1_000_000);
const seconds = Number(process.env['ROTATION_SECONDS'] ?? 0);
const shell = /** @type {'dash'} */ (process.env['ROTATION_SHELL'] ?? ['dash', 'bash', 'busybox'][seed % 3]);

describe(`rotation at random, under ${shell}`, () => {
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

  test(`each line once, from seed ${seed}`, { timeout: 300_000 + seconds * 1000 }, async t => {
    const end = Date.now() + seconds * 1000;
    let next = seed;
    /** @type {string[]} */
    const failures = [];
    let lost = 0;
    let written = 0;
    const follow = async () => {
      do {
        const own = next++;
        const kind = own % 2 === 0 ? 'name' : 'directory';
        const watched = await world.watch({ path: kind === 'name' ? 'x.log' : '' });
        const model = new RotationModel(watched, own, kind);
        try {
          await model.run(STEPS);
        } catch (error) {
          failures.push(
            `seed ${own} under ${shell}: ${error instanceof Error ? error.message : String(error)}\n${model.steps.join('\n')}`,
          );
          if (process.env['ROTATION_PRINT']) process.stderr.write(`${failures.at(-1)}\n`);
        }
        lost += model.lost;
        written += model.written;
      } while (Date.now() < end);
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, follow));
    t.diagnostic(`${next - seed} runs, ${written} lines, ${lost} lost`);
    if (failures.length > 0) throw new Error(failures.join('\n\n'));
  });
});
