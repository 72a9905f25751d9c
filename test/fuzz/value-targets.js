/**
 * What is read out of a record, under fuzz: encodings, durations, times, prefixes. None of them throws, reads what lies
 * outside its bytes, or gives what the storage would refuse.
 */
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { PgsluiceError } from '../../src/base/errors.js';
import { readDuration } from '../../src/codec/duration.js';
import { ENCODING_NAMES, encodingNamed } from '../../src/codec/encodings.js';
import { findLinePrefix } from '../../src/codec/find-prefix.js';
import { labelAt, NONE, severityAt } from '../../src/codec/languages.js';
import { compileLinePrefix } from '../../src/codec/line-prefix.js';
import { NOT_A_TIME, TimeReader, UNKNOWN_ZONE } from '../../src/codec/log-time.js';
import { log, PREFIXES, records } from './material.js';
import { mutate } from './mutate.js';

/** @import { Random } from './random.js' */
/** @import { LinePrefix } from '../../src/codec/line-prefix.js' */
/** @import { Target } from './targets.js' */

/** More of a decoded text than of what it was: three bytes for one, and some characters become two. */
const DECODED_MOST = 8;
const ZONES = new Map([
  ['UTC', 0],
  ['CET', 3600],
  ['MSK', 10_800],
]);
const TIME_ZONES = [
  null,
  null,
  'UTC',
  'Europe/Moscow',
  'America/New_York',
  'Australia/Lord_Howe',
  'No/Where',
];
/** Hours that an offset can have (15:59:59), and a day for letters. */
const FARTHEST_SECONDS = 26 * 3600;
const PADDING = 40;

/** @type {Target[]} */
export const valueTargets = [
  { name: 'encodings', make: encodedText, check: checkEncodings },
  {
    name: 'duration',
    make(random) {
      const [before, unit] = random.pick([
        ['duration: ', ' ms'],
        ['duration: ', ' ms  statement: SELECT 1'],
        ['продолжительность: ', ' мс'],
        ['Dauer: ', ' ms'],
        ['durée : ', ' ms'],
      ]);
      const number = random.pick(['0.123', '12', '1e3', '99999999999999999999.5', '0.000', '.5', '7.']);
      return mutate(random, Buffer.from(before + number + unit), { most: 3 });
    },
    check: checkDuration,
  },
  {
    name: 'time',
    make(random) {
      const times = Array.from({ length: random.size(1, 30) }, () => {
        const text = new Date(random.int(4e12) - 1e12).toISOString().replace('T', ' ');
        const zone = random.pick(['UTC', 'MSK', 'CET', 'CEST', 'EST', '+03', '-0330', '+05:30', 'LHST', '']);
        return Buffer.from(`${text.slice(0, random.pick([23, 19]))} ${zone},\n`);
      });
      return mutate(random, Buffer.concat(times));
    },
    check: checkTimes,
  },
  {
    name: 'line-prefix',
    make: random => mutate(random, records(random, 'stderr', random.size(1, 4), usedPrefix(random))),
    check(bytes, random) {
      checkLinePrefix(bytes, random, usedPrefix(random));
    },
  },
  {
    name: 'find-prefix',
    make: random => mutate(random, log(random, 'stderr')).subarray(0, 100_000),
    check: checkFindPrefix,
  },
];

/** @param {Random} random */
function encodedText(random) {
  if (random.oneIn(3)) return random.bytes(random.size(1, 4000));
  // Pairs that are characters somewhere.
  const pairs = Array.from({ length: random.size(1, 500) }, () => [
    random.between(0x80, 0xff),
    random.pick([random.between(0x30, 0x39), random.between(0x40, 0xfe), random.between(0x80, 0xff)]),
  ]);
  return mutate(random, Buffer.from(pairs.flat()), { most: 3 });
}

/** @param {Buffer} bytes @param {Random} random */
function checkEncodings(bytes, random) {
  const { decode } = encodingNamed(random.pick(ENCODING_NAMES)) ?? {};
  if (!decode) return;
  const given = Buffer.from(bytes);
  const decoded = decode(given);
  assert.ok(given.equals(bytes), 'the input was changed');
  if (decoded !== null) {
    assert.ok(isUtf8(decoded) && !decoded.includes(0), 'not a text that PostgreSQL takes');
    assert.ok(decoded.length <= bytes.length * DECODED_MOST, 'too long');
  }
  const at = random.int(bytes.length + 1);
  const [first, second] = [bytes.subarray(0, at), bytes.subarray(at)].map(part => decode(Buffer.from(part)));
  if (first && second) assert.deepEqual(decoded, Buffer.concat([first, second]), 'two texts are not one');
  const ascii = Buffer.from(bytes.map(byte => byte & 0x7f || 0x41));
  // What looks like ASCII in SJIS, JOHAB and their likes is.
  assert.deepEqual(decode(ascii), ascii, 'ASCII');
}

/** @param {Buffer} bytes @param {Random} random */
function checkDuration(bytes, random) {
  const value = readDuration(bytes, 0, bytes.length);
  assert.ok(Number.isNaN(value) || value >= 0, 'below 0');
  const [inside, at, end] = padded(random, bytes);
  assert.equal(readDuration(inside, at, end), value, 'what lies around changes it');
  const english = /^duration: (\d+(?:\.\d+)?) ms(?=[ ,]|$)/.exec(bytes.toString('latin1'));
  if (english) assert.equal(value, Number(english[1]));
}

/**
 * @param {Random} random
 * @param {Buffer} bytes
 * @returns {[bytes: Buffer, at: number, end: number]} the same between other bytes
 */
function padded(random, bytes) {
  const before = random.bytes(random.int(PADDING));
  const after = random.oneIn(2)
    ? random.bytes(PADDING)
    : Buffer.alloc(PADDING, random.pick(['1', 'ms', ' ', '\n']));
  return [Buffer.concat([before, bytes, after]), before.length, before.length + bytes.length];
}

/** @param {Buffer} bytes @param {Random} random */
function checkTimes(bytes, random) {
  const timeZone = random.pick(TIME_ZONES);
  const ordered = random.oneIn(2);
  const used = new TimeReader({ zones: ZONES, timeZone, ordered });
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length;) {
    const before = [used.seconds, used.microseconds];
    const end = used.read(bytes, view, at);
    if (end === NOT_A_TIME || end === UNKNOWN_ZONE) {
      assert.deepEqual([used.seconds, used.microseconds], before, 'the last time does not stay');
      if (end === UNKNOWN_ZONE) assert.ok(used.end > at + 19 && used.end <= bytes.length, 'end');
    } else {
      assert.ok(end > at + 19 && end <= bytes.length, 'index after the zone');
      const { seconds, microseconds } = used;
      const local = Date.parse(`${bytes.toString('latin1', at, at + 19).replace(' ', 'T')}Z`) / 1000;
      assert.ok(Math.abs(seconds - local) <= FARTHEST_SECONDS, `${seconds} is far from ${local}`);
      assert.ok(Number.isInteger(microseconds) && microseconds >= 0 && microseconds < 1e6, 'microseconds');
      if (timeZone === null || timeZone === 'No/Where') {
        const fresh = new TimeReader({ zones: ZONES, timeZone, ordered });
        assert.equal(fresh.read(bytes, view, at), end, 'a fresh reader');
        assert.deepEqual([fresh.seconds, fresh.microseconds], [seconds, microseconds], 'a fresh reader');
      }
    }
    const newline = bytes.indexOf(0x0a, at);
    at = random.oneIn(10) ? at + 1 : newline < 0 ? bytes.length : newline + 1;
  }
}

/** @param {Random} random the first number decides @returns {string} */
function usedPrefix(random) {
  const number = random.int(1 << 30);
  return PREFIXES[number % PREFIXES.length] ?? '';
}

/** @param {Buffer} bytes @param {Random} random @param {string} used the records were written with */
function checkLinePrefix(bytes, random, used) {
  const text = random.oneIn(3) ? used : mutate(random, Buffer.from(used), { most: 4 }).toString('latin1');
  /** @type {LinePrefix} */
  let prefix;
  try {
    prefix = compileLinePrefix(text);
  } catch (error) {
    if (error instanceof PgsluiceError && error.code === 'USAGE') return;
    throw error;
  }
  for (let at = 0; at < bytes.length;) {
    const newline = bytes.indexOf(0x0a, at);
    const end = newline < 0 ? bytes.length : newline;
    const after = prefix.match(bytes, at, end, isMessage);
    if (after >= 0) {
      assert.ok(after >= at && after <= end, 'the index after the prefix');
      const { fields } = prefix;
      for (let index = 0; index < fields.length; index += 2) {
        const [from = -1, to = -1] = fields.subarray(index, index + 2);
        assert.ok(from === -1 ? to === -1 : from >= at && from <= to && to <= after, `field ${index / 2}`);
      }
    }
    const found = after < 0 ? null : Array.from(prefix.fields, value => (value < 0 ? value : value - at));
    const [inside, start, stop] = padded(random, bytes.subarray(at, end));
    const again = prefix.match(inside, start, stop, isMessage);
    assert.equal(
      again < 0 ? again : again - start,
      after < 0 ? after : after - at,
      'what lies around matters',
    );
    if (found) {
      const fields = Array.from(prefix.fields, value => (value < 0 ? value : value - start));
      assert.deepEqual(fields, found, 'what lies around changes the fields');
    }
    at = end + 1;
  }
}

/** @type {import('../../src/codec/line-prefix.js').IsMessage} */
function isMessage(bytes, at, end) {
  return severityAt(bytes, at, end) >= 0 || labelAt(bytes, at, end) !== NONE;
}

/** @param {Buffer} bytes */
function checkFindPrefix(bytes) {
  const found = findLinePrefix(bytes);
  assert.deepEqual(findLinePrefix(Buffer.from(bytes)), found, 'a second time');
  if (found === null) return;
  assert.ok(found.matched <= found.lines && found.matched >= 0.95 * found.lines, 'lines that fit');
  assert.equal(compileLinePrefix(found.text).text, found.text);
}
