/**
 * Time that grows faster than the input: a damaged piece of a log is repeated until it is long, and sixteen times as
 * much must not take more than a few times sixteen times as long. The time is that of the thread, so that others on the
 * machine do not matter; what seems too long is measured again before it counts.
 */
import assert from 'node:assert/strict';
import { REDACT_CLASSES } from '../../src/base/redact-classes.js';
import { CopyBuffer } from '../../src/codec/copy-buffer.js';
import { LEADING_FIELDS, LOG_FIELDS, MESSAGE } from '../../src/codec/copy-columns.js';
import { compileLinePrefix } from '../../src/codec/line-prefix.js';
import { ENCODING_NAMES, encodingNamed } from '../../src/codec/encodings.js';
import { findLinePrefix } from '../../src/codec/find-prefix.js';
import { FrameDecoder } from '../../src/codec/frames.js';
import { Redactor } from '../../src/codec/redact.js';
import { PgsluiceError } from '../../src/base/errors.js';
import { anyFormat, log, PREFIXES, records } from './material.js';
import { mutate } from './mutate.js';
import { runParser } from './parser-run.js';

/** @import { Options } from './parser-run.js' */
/** @import { Random } from './random.js' */
/** @import { Target } from './targets.js' */

const SMALL_BYTES = 32 * 1024;
const TIMES = 16;
/** So many times as long as linear is too long: quadratic is 16 times as long. */
const SLACK = 4;
/** Less than this is not looked at: the clock, the compiler and the collector are of that order. */
const LEAST_MS = 120;
const REPEATS = 3;

const STARTS_OF_SECRETS = [
  'password ',
  "password '",
  "PASSWORD ''b",
  'token="',
  'secret: $',
  'pwd /*',
  '://b:',
  '\nKey (b)=(',
  '\nSQL statement "',
  '\nCOPY t, line 1, column c: "',
  '\nPL/pgSQL function ',
];
const MESSAGE_FIELD = LEADING_FIELDS + MESSAGE;

/** @type {Target[]} */
export const growthTargets = [
  ...['csvlog', 'stderr', 'stderr-given', 'auto', 'jsonlog', 'plain'].map(name =>
    target(`growth-${name}`, random => parserWork(name, random)),
  ),
  // One row whose message is the input; a text is searched to 1 MiB.
  target('growth-redact', random => {
    const redactor = new Redactor(random.oneIn(2) ? REDACT_CLASSES : [random.pick(REDACT_CLASSES)]);
    const word = random.pick(STARTS_OF_SECRETS);
    return bytes => {
      const rows = new CopyBuffer(16);
      const text = Buffer.from(bytes.toString('latin1').replaceAll('a', word), 'latin1');
      const row = rowOf(text);
      rows.ensure(row.length);
      rows.length = row.copy(rows.buffer);
      redactor.redact(rows, 0);
    };
  }),
  target('growth-encodings', random => {
    const { decode } = encodingNamed(random.pick(ENCODING_NAMES)) ?? {};
    return bytes => {
      decode?.(bytes);
    };
  }),
  // It looks at 64 KiB and no more: from there on the time must not grow at all.
  target('growth-find-prefix', () => findLinePrefix),
  target('growth-frames', random => {
    const size = random.pick([1, 64, 65_536]);
    return bytes => {
      const decoder = new FrameDecoder(
        () => {},
        () => {},
      );
      try {
        for (let at = 0; at < bytes.length; at += size) decoder.write(bytes.subarray(at, at + size));
      } catch (error) {
        if (!(error instanceof PgsluiceError)) throw error;
      }
    };
  }),
];

/** @param {Buffer} message @returns {Buffer} a row of the log table with nothing else */
function rowOf(message) {
  const nothing = Buffer.from('ffffffff', 'hex');
  const length = Buffer.alloc(4);
  length.writeInt32BE(message.length);
  const fields = Array.from({ length: LOG_FIELDS }, (_, field) =>
    field === MESSAGE_FIELD ? Buffer.concat([length, message]) : nothing,
  );
  return Buffer.concat([Buffer.from([0, LOG_FIELDS]), ...fields]);
}

/**
 * @param {string} name
 * @param {(random: Random) => (bytes: Buffer) => unknown} workFor
 * @returns {Target}
 */
function target(name, workFor) {
  return {
    name,
    rare: true,
    make(random) {
      const piece = records(random, anyFormat(random), random.size(1, 3));
      const cut = piece.subarray(random.oneIn(2) ? 0 : random.int(piece.length));
      return mutate(random, cut.subarray(0, random.size(1, 2000)), {
        other: () => log(random, anyFormat(random), { mixed: false }).subarray(0, 200),
      }).subarray(0, SMALL_BYTES / 4);
    },
    check(bytes, random) {
      if (bytes.length === 0) return;
      // Its beginning stays as it is, what follows is repeated.
      const head = bytes.subarray(0, random.oneIn(2) ? 0 : random.int(bytes.length));
      const tail = bytes.subarray(head.length);
      const work = workFor(random);
      const small = Buffer.concat([head, Buffer.alloc(SMALL_BYTES, tail)]);
      const large = Buffer.concat([head, Buffer.alloc(SMALL_BYTES * TIMES, tail)]);
      let [smallMs, largeMs] = [timeOf(work, small), timeOf(work, large)];
      for (let again = 1; again < REPEATS && isTooLong(smallMs, largeMs); again += 1) {
        // The least is nearest to the truth for the large one; the small one may have been lucky.
        smallMs = Math.max(smallMs, timeOf(work, small));
        largeMs = Math.min(largeMs, timeOf(work, large));
      }
      assert.ok(
        !isTooLong(smallMs, largeMs),
        `${Math.round(smallMs)} ms for ${small.length} bytes, ${Math.round(largeMs)} ms for ${large.length}`,
      );
    },
  };
}

/** @param {number} smallMs @param {number} largeMs */
function isTooLong(smallMs, largeMs) {
  return largeMs > LEAST_MS && largeMs > Math.max(smallMs, LEAST_MS / TIMES / 2) * TIMES * SLACK;
}

/** @param {(bytes: Buffer) => unknown} work @param {Buffer} bytes */
function timeOf(work, bytes) {
  const before = process.threadCpuUsage();
  work(bytes);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

/** @param {string} name @param {Random} random */
function parserWork(name, random) {
  const given = name === 'stderr-given';
  const maxRecordBytes = random.pick([300, 65_536, 64 * 1024 * 1024]);
  /** @type {Options} */
  const options = {
    format: /** @type {Options['format']} */ (given ? 'stderr' : name),
    prefixes: { current: given ? compileLinePrefix(random.pick(PREFIXES)) : null, given },
    maxRecordBytes,
    maxRejectedBytes: 1 << 20,
    windowBytes: 65_536,
    timeZone: null,
    decoderOf: undefined,
  };
  const sizes = [random.pick([100, 1000, 65_536])];
  return (/** @type {Buffer} */ bytes) => runParser(bytes, sizes, options);
}
