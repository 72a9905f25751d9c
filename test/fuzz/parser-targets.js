/**
 * The parsers of logs under fuzz: what an input is for each, and what must hold whatever the input is.
 *   - every byte is in one row or one rejected piece: their positions do not overlap, all that is pending at the end is
 *     dealt with, and each mark of the input is found in what was stored as often as it was written
 *   - rows are well-formed and in order, days are those of the rows
 *   - any way of cutting the input gives the same; so does going on at any recordOffset with a new parser
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { compileLinePrefix } from '../../src/codec/line-prefix.js';
import { encodingNamed } from '../../src/codec/encodings.js';
import { checkAccount, run } from '../unit/codec/csvlog-model.js';
import { CUT_MARK, readRows, START_MARK } from './copy-rows.js';
import { anyFormat, log, PREFIXES } from './material.js';
import { addMarks, marksIn, mutate } from './mutate.js';
import { runParser } from './parser-run.js';

/** @import { Options, Result, Step } from './parser-run.js' */
/** @import { Random } from './random.js' */
/** @import { Target } from './targets.js' */

const LF = 0x0a;
/** Encodings whose characters cannot swallow a mark, whose bytes are ASCII. */
const ENCODINGS = ['WIN1251', 'LATIN1', 'EUC_JP'];
/** Characters of this one can: its second bytes are letters, digits and ~. */
const SWALLOWING = 'SJIS';
const SMALL_BYTES = 8 * 1024;

/** @type {Target[]} */
export const parserTargets = [
  target('csvlog', 'csvlog', false),
  target('stderr', 'stderr', false),
  target('stderr-given', 'stderr', true),
  target('auto', 'auto', false),
  target('jsonlog', 'jsonlog', false),
  target('plain', 'plain', false),
];

/**
 * @param {string} name
 * @param {Options['format']} format
 * @param {boolean} given whether the prefix is
 * @returns {Target}
 */
function target(name, format, given) {
  /** @param {Random} random the first number decides the prefix, for the input and for the check */
  const prefixFor = random => random.pick(PREFIXES);
  return {
    name,
    make(random) {
      const prefix = prefixFor(random);
      const own = format === 'auto' ? anyFormat(random) : format;
      const bytes = mutate(random, log(random, own, { prefix, ...(format === 'auto' && { mixed: true }) }), {
        other: () => log(random, anyFormat(random), { mixed: false }).subarray(0, 2000),
      });
      return random.oneIn(2) ? addMarks(random, bytes) : bytes;
    },
    check(bytes, random) {
      const prefix = prefixFor(random);
      const encoding = random.pick([null, null, ...ENCODINGS, SWALLOWING]);
      const decode = encoding === null ? null : (encodingNamed(encoding)?.decode ?? null);
      const maxRecordBytes = random.pick([64, 300, 1000, 4096, 65_536, 1 << 20]);
      /** @type {Options} */
      const options = {
        format,
        prefixes: { current: given ? compileLinePrefix(prefix) : null, given },
        maxRecordBytes,
        maxRejectedBytes: random.pick([maxRecordBytes, maxRecordBytes, 32, 1 << 20]),
        windowBytes: random.pick([200, 4096, 65_536]),
        timeZone: random.pick([null, null, null, 'Europe/Moscow']),
        decoderOf: random.oneIn(3) ? undefined : () => decode,
      };
      const keepsMarks = encoding !== SWALLOWING || options.decoderOf === undefined;
      checkParser(bytes, random, options, { keepsMarks });
      if (format === 'csvlog' && bytes.length < SMALL_BYTES) {
        const { maxRejectedBytes } = options;
        checkAccount(
          bytes,
          run(bytes, { sizes: someSizes(random, bytes), maxRecordBytes, maxRejectedBytes }),
        );
      }
      if (format === 'plain' || format === 'jsonlog') checkLines(bytes, runParser(bytes, [1 << 30], options));
    },
  };
}

/**
 * @param {Buffer} bytes
 * @param {Random} random
 * @param {Options} options
 * @param {{ keepsMarks: boolean }} marks
 */
function checkParser(bytes, random, options, { keepsMarks }) {
  const whole = runParser(bytes, [bytes.length], options);
  checkResult(bytes, whole, keepsMarks);

  const cut = runParser(bytes, someSizes(random, bytes), options);
  assertSame(whole, cut);
  assertSame(whole, runParser(bytes, someSizes(random, bytes), options));

  const step = random.pick(cut.steps.length > 0 ? cut.steps : [null]);
  if (step) checkRestart(bytes, random, options, { whole, cut, step, keepsMarks });

  // Where the host looks in between decides what belongs together, but nothing may be lost.
  const looks = random.size(1, 20);
  const watched = runParser(bytes, someSizes(random, bytes), options, { quiet: n => n % looks === 0 });
  checkResult(bytes, watched, keepsMarks);
}

/**
 * @param {Buffer} bytes
 * @param {Random} random
 * @param {Options} options
 * @param {{ whole: Result, cut: Result, step: Step, keepsMarks: boolean }} runs
 */
function checkRestart(bytes, random, options, { whole, cut, step, keepsMarks }) {
  const { recordOffset: offset } = step;
  const rest = runParser(
    bytes.subarray(offset),
    someSizes(random, bytes),
    { ...options, prefixes: step.prefixes },
    { offset },
  );
  const joined = {
    ...rest,
    raw: Buffer.concat([cut.raw.subarray(0, step.rowBytes), rest.raw]),
    rejected: [...cut.rejected.slice(0, step.rejected), ...rest.rejected],
    cuts: [...cut.cuts.slice(0, step.cuts), ...rest.cuts],
  };
  checkAccounted(bytes, joined, keepsMarks);
  // A prefix that was found, and what order tells about times, is known to the one and not to the other.
  const knowsAsMuch = options.prefixes.given || !['stderr', 'auto'].includes(options.format);
  if (!knowsAsMuch || options.timeZone !== null) return;
  assert.ok(joined.raw.equals(whole.raw), `other rows after a restart at ${offset}`);
  assert.deepEqual(
    extent(joined.rejected),
    extent(whole.rejected),
    `what is rejected after a restart at ${offset}`,
  );
  assert.deepEqual(joined.cuts, whole.cuts, `cut records after a restart at ${offset}`);
}

/**
 * Who goes on within bytes that are no records does not know what was wrong with those before: the pieces are cut
 * otherwise and say other reasons, but they are the same bytes.
 * @param {{ offset: number, length: number }[]} pieces
 * @returns {[from: number, to: number][]}
 */
function extent(pieces) {
  /** @type {[number, number][]} */
  const spans = [];
  for (const { offset, length } of pieces) {
    const last = spans.at(-1);
    if (last && last[1] === offset) last[1] += length;
    else spans.push([offset, offset + length]);
  }
  return spans;
}

/**
 * @param {Random} random
 * @param {Buffer} bytes
 * @returns {number[]}
 */
function someSizes(random, { length }) {
  if (length < SMALL_BYTES && random.oneIn(8)) return [1];
  // Not too many pieces of a large input.
  const least = Math.max(1, Math.floor(length / 4000));
  return Array.from({ length: random.between(1, 30) }, () => random.size(least, Math.max(least, length)));
}

/** @param {Result} one @param {Result} other */
function assertSame(one, other) {
  assert.ok(one.raw.equals(other.raw), 'other rows when cut otherwise');
  assert.equal(one.rows, other.rows);
  assert.deepEqual(one.days, other.days, 'days when cut otherwise');
  assert.deepEqual(one.rejected, other.rejected, 'rejected when cut otherwise');
  assert.deepEqual(one.cuts, other.cuts, 'cut records when cut otherwise');
  assert.equal(one.prefix, other.prefix, 'prefix when cut otherwise');
  assert.equal(one.maxLogTimeMs, other.maxLogTimeMs);
}

/**
 * @param {Buffer} bytes
 * @param {Result} result
 * @param {boolean} keepsMarks
 */
function checkResult(bytes, result, keepsMarks) {
  const rows = checkAccounted(bytes, result, keepsMarks);
  assert.equal(rows.length, result.rows, 'rows counted');
  const days = new Set(rows.map(({ day }) => day));
  assert.deepEqual(
    result.days,
    [...days].toSorted((a, b) => a - b),
    'days',
  );
}

/**
 * @param {Buffer} bytes
 * @param {Pick<Result, 'raw' | 'rejected' | 'cuts'>} result
 * @param {boolean} keepsMarks
 */
function checkAccounted(bytes, { raw, rejected, cuts }, keepsMarks) {
  const rows = readRows(raw);
  const cutRows = rows.filter(({ marks }) => marks & CUT_MARK).map(({ offset }) => offset);
  assert.deepEqual(
    cuts.map(({ offset }) => offset),
    cutRows,
    'cut records and their rows',
  );
  for (const { offset, length, sha256 } of cuts) {
    const record = bytes.subarray(offset, offset + length);
    assert.equal(record.length, length, 'length of a cut record');
    assert.deepEqual(sha256, createHash('sha256').update(record).digest(), 'hash of a cut record');
  }
  for (const { offset, length, bytes: kept } of rejected) {
    assert.ok(length > 0 && kept.length <= length, 'length of a rejected piece');
    assert.ok(bytes.subarray(offset, offset + kept.length).equals(kept), 'bytes of a rejected piece');
  }
  checkTiles(bytes, rows, [...rejected, ...cuts]);
  if (keepsMarks) checkMarks(bytes, raw, rows, { rejected, cuts });
  return rows;
}

/**
 * Each row has a start of its own, at the first byte or behind a newline or a rejected piece, outside of all pieces
 * whose end is known.
 * @param {Buffer} bytes
 * @param {import('./copy-rows.js').Row[]} rows
 * @param {{ offset: number, length: number }[]} pieces
 */
function checkTiles(bytes, rows, pieces) {
  let last = -1;
  for (const { offset } of rows) {
    assert.ok(offset > last, 'rows are not in order');
    assert.ok(offset < bytes.length, 'a row behind the end');
    assert.ok(offset === 0 || bytes[offset - 1] === LF, 'a row within a line');
    last = offset;
  }
  const sorted = pieces.toSorted((a, b) => a.offset - b.offset);
  const starts = rows.map(({ offset }) => offset);
  let index = 0;
  let end = 0;
  for (const { offset, length } of sorted) {
    assert.ok(offset >= end, 'pieces overlap');
    end = offset + length;
    while (index < starts.length && starts[index] <= offset) index += 1;
    assert.ok(!(starts[index] < end), 'a row within a piece');
  }
  if (bytes.length === 0) return;
  assert.equal(
    Math.min(starts[0] ?? Infinity, sorted[0]?.offset ?? Infinity),
    0,
    'where the first one begins',
  );
}

/**
 * @param {Buffer} bytes
 * @param {Buffer} raw
 * @param {import('./copy-rows.js').Row[]} rows
 * @param {Pick<Result, 'rejected' | 'cuts'>} pieces
 */
function checkMarks(bytes, raw, rows, { rejected, cuts }) {
  const written = marksIn(bytes);
  if (written.length === 0) return;
  // What is no time there is NULL: it is not stored.
  const hasLostTime = rows.some(({ marks }) => marks & START_MARK);
  const stored = [raw, ...joinedBytes(rejected)].flatMap(marksIn).map(({ mark }) => mark);
  const shortened = [
    ...cuts,
    ...rejected
      .filter(({ length, bytes: kept }) => kept.length < length)
      .map(({ offset, length, bytes: kept }) => ({ offset: offset + kept.length - 9, length: length + 9 })),
  ];
  for (const mark of new Set(written.map(each => each.mark))) {
    const places = written.filter(each => each.mark === mark).map(({ at }) => at);
    const needed = places.filter(
      at => !shortened.some(({ offset, length }) => at >= offset && at < offset + length),
    ).length;
    const found = stored.filter(each => each === mark).length;
    assert.ok(found <= places.length, `${mark} is stored ${found} times, written ${places.length} times`);
    if (!hasLostTime && !places.some(at => isBeforeLabel(bytes, at)))
      assert.ok(found >= needed, `${mark} is stored ${found} times of ${needed}`);
  }
}

/**
 * The lines of one message have the same prefix, so only the first one's is stored.
 * @param {Buffer} bytes
 * @param {number} at
 * @returns {boolean} whether something like a label comes later in the line
 */
function isBeforeLabel(bytes, at) {
  const label = bytes.indexOf(':  ', at);
  const newline = bytes.indexOf(LF, at);
  return label >= 0 && (newline < 0 || label < newline);
}

/**
 * @param {Result['rejected']} pieces
 * @returns {Buffer[]} those that follow one another as one: a mark may be cut in two
 */
function joinedBytes(pieces) {
  /** @type {{ parts: Buffer[], end: number }[]} */
  const runs = [];
  for (const { offset, length, bytes } of pieces) {
    const last = runs.at(-1);
    const end = bytes.length === length ? offset + length : NaN;
    if (last?.end === offset) {
      last.parts.push(bytes);
      last.end = end;
    } else {
      runs.push({ parts: [bytes], end });
    }
  }
  return runs.map(({ parts }) => Buffer.concat(parts));
}

/**
 * plain and jsonlog: a line is a row or a rejected piece.
 * @param {Buffer} bytes
 * @param {Result} result
 */
function checkLines(bytes, { raw, rejected }) {
  const starts = [...readRows(raw), ...rejected].map(({ offset }) => offset).toSorted((a, b) => a - b);
  const wanted = [];
  for (let at = 0; at < bytes.length;) {
    wanted.push(at);
    const newline = bytes.indexOf(LF, at);
    at = newline < 0 ? bytes.length : newline + 1;
  }
  assert.deepEqual(starts, wanted, 'where lines begin');
}
