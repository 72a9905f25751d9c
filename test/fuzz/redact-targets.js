/**
 * Redaction under fuzz: rows of damaged logs of every format, any classes.
 *   - rows stay well-formed, as many as before; a row without the mark keeps its bytes, of others only texts change
 *   - it does not matter how many rows are redacted at once
 *   - with all classes no statement remains
 */
import assert from 'node:assert/strict';
import { REDACT_CLASSES } from '../../src/base/redact-classes.js';
import { CopyBuffer } from '../../src/codec/copy-buffer.js';
import { Redactor } from '../../src/codec/redact.js';
import { readLogRows } from '../unit/codec/csvlog-model.js';
import { readRows, REDACTED_MARK } from './copy-rows.js';
import { anyFormat, log } from './material.js';
import { mutate } from './mutate.js';
import { runParser } from './parser-run.js';

/** @import { RedactClass } from '../../src/base/redact-classes.js' */
/** @import { Target } from './targets.js' */

const REDACTED = '[redacted]';
const TEXT_COLUMNS = new Set([4, 5, 7, 8, 10, 12, 16, 17, 18, 19, 21, 22, 24, 25, 26]);
const STATEMENTS = [19, 22];
const MARKS = 30;

/** @type {Target[]} */
export const redactTargets = [
  {
    name: 'redact',
    make(random) {
      const bytes = log(random, anyFormat(random));
      return random.oneIn(4)
        ? bytes
        : mutate(random, bytes, {
            other: () => log(random, anyFormat(random), { mixed: false }).subarray(0, 2000),
          });
    },
    check(bytes, random) {
      const classes = random.oneIn(3) ? REDACT_CLASSES : REDACT_CLASSES.filter(() => random.oneIn(3));
      const { raw } = runParser(bytes, [65_536], {
        format: random.pick(['auto', 'csvlog', 'jsonlog', 'stderr', 'plain']),
        prefixes: { current: null, given: false },
        maxRecordBytes: random.pick([300, 1 << 20]),
        maxRejectedBytes: 1 << 20,
        windowBytes: 65_536,
        timeZone: null,
        decoderOf: undefined,
      });
      const whole = redact(raw, classes, () => false);
      const single = redact(raw, classes, () => random.oneIn(2));
      assert.ok(whole.equals(single), 'it matters how many rows are redacted at once');
      checkRows(raw, whole, classes);
    },
  },
];

/**
 * @param {Buffer} raw
 * @param {Buffer} redacted
 * @param {readonly RedactClass[]} classes
 */
function checkRows(raw, redacted, classes) {
  readRows(redacted);
  const [before, after] = [readLogRows(raw), readLogRows(redacted)];
  assert.equal(after.length, before.length, 'rows');
  for (const [index, row] of after.entries()) {
    const old = before[index] ?? [];
    const isMarked = (BigInt(row[MARKS] ?? 0) & REDACTED_MARK) !== 0n;
    for (const [field, value] of row.entries()) {
      if (value === old[field] || field === MARKS) continue;
      assert.ok(isMarked && TEXT_COLUMNS.has(field), `field ${field} has changed`);
      assert.ok(String(value).includes(REDACTED), `field ${field} has changed into something else`);
    }
    assert.equal(BigInt(row[MARKS] ?? 0) & ~REDACTED_MARK, BigInt(old[MARKS] ?? 0), 'other marks');
    if (!classes.includes('statement_text')) continue;
    for (const field of STATEMENTS)
      assert.ok(!row[field] || row[field] === REDACTED, `a statement remains: ${row[field]}`);
  }
}

/**
 * @param {Buffer} raw rows
 * @param {readonly RedactClass[]} classes
 * @param {() => boolean} cut whether what is there is redacted before the next row comes
 * @returns {Buffer}
 */
function redact(raw, classes, cut) {
  const redactor = new Redactor(classes);
  const rows = new CopyBuffer(16);
  let done = 0;
  for (let at = 0; at < raw.length;) {
    const end = endOfRow(raw, at);
    rows.ensure(end - at);
    rows.length += raw.copy(rows.buffer, rows.length, at, end);
    at = end;
    if (at < raw.length && !cut()) continue;
    redactor.redact(rows, done);
    done = rows.length;
  }
  return Buffer.from(rows.bytes());
}

/** @param {Buffer} raw @param {number} at where a row begins */
function endOfRow(raw, at) {
  const fields = raw.readInt16BE(at);
  at += 2;
  for (let field = 0; field < fields; field += 1) at += 4 + Math.max(0, raw.readInt32BE(at));
  return at;
}
