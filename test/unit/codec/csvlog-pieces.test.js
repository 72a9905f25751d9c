// The same bytes give the same rows and the same rejected pieces however they are cut.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAccount, FIXTURES, fixture, run, sampleColumns, writeRecord } from './csvlog-model.js';

const NEWLINE = 10;
/** Long enough for several records, short enough to parse it once for each of its bytes. */
const WINDOW_BYTES = 700;

/** Broken in every way that has a rule of its own. */
const row = writeRecord(sampleColumns());
const BROKEN = Buffer.concat([
  row,
  row.subarray(0, row.indexOf('SELECT 1')),
  row,
  Buffer.from('not a row\n\nstray "quote" here\nand more\n2026-05-01 12:34 nearly\n'),
  row,
  Buffer.from('"open, with\n2026-05-01 12:34:56.789 UTC,"x\n'),
  row,
  writeRecord(sampleColumns().slice(0, 25)),
  writeRecord(sampleColumns(), { end: '\r\n', quoteAll: true }),
  Buffer.from('caf\xe9,"\xff"x\r\n', 'latin1'),
  row,
  row.subarray(0, 100),
]);

/** @type {[string, Buffer][]} */
const INPUTS = [
  ...FIXTURES.map(name => /** @type {[string, Buffer]} */ ([name, fixture(name)])),
  ['broken rows', BROKEN],
];

for (const [name, bytes] of INPUTS) {
  const whole = run(bytes);

  test(`${name}: every byte is accounted for`, () => {
    checkAccount(bytes, whole);
    assert.equal(whole.parser.pendingBytes, 0);
    if (name !== 'broken rows') assert.deepEqual(whole.rejected, []);
  });

  test(`${name}: pieces of 1, 2, 3, 7 and 4096 bytes`, () => {
    for (const sizes of [1, 2, 3, 7, 4096]) {
      const cut = run(bytes, { sizes });
      assert.deepEqual(cut.rejected, whole.rejected);
      assert.ok(cut.raw.equals(whole.raw), `pieces of ${sizes}`);
    }
  });

  test(`${name}: in two pieces, cut at every byte`, () => {
    for (const window of windows(bytes)) {
      const uncut = run(window);
      for (let cut = 1; cut < window.length; cut += 1) {
        const result = run(window, { sizes: [cut, window.length] });
        assert.ok(result.raw.equals(uncut.raw), `cut at ${cut} of ${window.toString('latin1')}`);
        assert.deepEqual(result.rejected, uncut.rejected);
      }
    }
  });

  test(`${name}: limits cut the same way in any pieces`, () => {
    for (const maxRecordBytes of [40, 100, 300]) {
      const limits = { maxRecordBytes, maxRejectedBytes: 50 };
      const uncut = run(bytes, limits);
      checkAccount(bytes, uncut);
      for (const sizes of [1, 2, 7, 64, 333]) {
        const cut = run(bytes, { ...limits, sizes });
        assert.deepEqual(cut.rejected, uncut.rejected, `${maxRecordBytes}, pieces of ${sizes}`);
        assert.ok(cut.raw.equals(uncut.raw));
      }
    }
  });
}

/**
 * Cuts between lines, a few records each. Together they have every byte of the input.
 * @param {Buffer} bytes
 */
function* windows(bytes) {
  for (let from = 0; from < bytes.length;) {
    const newline = bytes.indexOf(NEWLINE, from + WINDOW_BYTES);
    const to = newline === -1 ? bytes.length : newline + 1;
    yield bytes.subarray(from, to);
    from = to;
  }
}
