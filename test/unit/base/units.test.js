// Sizes, durations and bit rates: the written forms, the exact round trip, and what is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import {
  formatBitrate,
  formatDuration,
  formatSize,
  parseBitrate,
  parseDuration,
  parseSize,
} from '../../../src/base/units.js';

test('sizes are read in bytes, with decimal and binary units', () => {
  /** @type {[string | number, number][]} */
  const cases = [
    ['512', 512],
    [512, 512],
    ['0', 0],
    ['0B', 0],
    ['10kB', 10_000],
    ['10KiB', 10_240],
    ['1MB', 1_000_000],
    ['64MiB', 67_108_864],
    ['64 MiB', 67_108_864],
    ['1GB', 1_000_000_000],
    ['1GiB', 1_073_741_824],
    ['2TB', 2_000_000_000_000],
    ['1TiB', 1_099_511_627_776],
    ['1.5KiB', 1536],
    ['1.1GB', 1_100_000_000],
  ];
  for (const [text, bytes] of cases) assert.equal(parseSize(text), bytes, String(text));
});

test('durations are read in milliseconds', () => {
  /** @type {[string, number][]} */
  const cases = [
    ['0', 0],
    ['0s', 0],
    ['1ms', 1],
    ['500ms', 500],
    ['1s', 1000],
    ['1.5s', 1500],
    ['5min', 300_000],
    ['1h', 3_600_000],
    ['7d', 604_800_000],
  ];
  for (const [text, ms] of cases) assert.equal(parseDuration(text), ms, text);
});

test('bit rates are read in bits per second', () => {
  /** @type {[string | number, number][]} */
  const cases = [
    [0, 0],
    ['9600', 9600],
    [9600, 9600],
    ['9600bit/s', 9600],
    ['800kbit/s', 800_000],
    ['1Mbit/s', 1_000_000],
    ['50Mbit/s', 50_000_000],
    ['2.5Gbit/s', 2_500_000_000],
  ];
  for (const [text, rate] of cases) assert.equal(parseBitrate(text), rate, String(text));
});

test('the largest unit that is exact is written', () => {
  /** @type {[string, string][]} */
  const cases = [
    [formatSize(0), '0B'],
    [formatSize(512), '512B'],
    [formatSize(1025), '1025B'],
    [formatSize(10_000), '10kB'],
    [formatSize(67_108_864), '64MiB'],
    [formatSize(1_000_000_000), '1GB'],
    [formatDuration(0), '0ms'],
    [formatDuration(1500), '1500ms'],
    [formatDuration(60_000), '1min'],
    [formatDuration(604_800_000), '7d'],
    [formatBitrate(0), '0bit/s'],
    [formatBitrate(500_000), '500kbit/s'],
    [formatBitrate(1_000_000), '1Mbit/s'],
  ];
  for (const [written, expected] of cases) assert.equal(written, expected);
});

const WHOLE = fc.oneof(
  fc.maxSafeNat(),
  fc.nat({ max: 5000 }),
  fc.nat({ max: 1000 }).map(n => n * 2 ** 20),
);

for (const [name, format, parse] of /** @type {const} */ ([
  ['size', formatSize, parseSize],
  ['duration', formatDuration, parseDuration],
  ['bit rate', formatBitrate, parseBitrate],
])) {
  test(`a ${name} that is written reads back as the same number`, () => {
    fc.assert(fc.property(WHOLE, value => assert.equal(parse(format(value)), value)));
  });

  test(`a ${name} is whole and not negative, or refused`, () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.double().map(String), fc.stringMatching(/^[0-9.]{1,9}[a-zA-Z/]{0,6}$/)),
        text => {
          try {
            const value = parse(text);
            assert.ok(Number.isSafeInteger(value) && value >= 0, `${text} -> ${value}`);
          } catch (error) {
            assert.ok(error instanceof PgsluiceError && error.code === 'CONFIG_INVALID', String(error));
            assert.doesNotMatch(error.message, /\n/);
          }
        },
      ),
    );
  });

  test(`a ${name} that cannot be is not written`, () => {
    for (const wrong of [-1, 1.5, Number.NaN, Infinity, 2 ** 60])
      assert.throws(() => format(wrong), RangeError);
  });
}

test('what is not a quantity is refused with its value and what is accepted', () => {
  /** @type {[() => number, RegExp][]} */
  const cases = [
    [() => parseSize(''), /^"" is not a size in whole bytes: accepted is .*KiB/],
    [() => parseSize('-1'), /^"-1" is not a size/],
    [() => parseSize('1e3'), /^"1e3" is not a size/],
    [() => parseSize('64Mb'), /^"64Mb" is not a size/],
    [() => parseSize('64mib'), /^"64mib" is not a size/],
    [() => parseSize('0.5B'), /^"0\.5B" is not a size/],
    [() => parseSize('9007199254740993'), /is not a size/],
    [() => parseSize('1'.padStart(50, '0')), /^"0+1" is not a size/],
    [() => parseSize(1.5), /^1\.5 is not a size/],
    [() => parseSize(`${'9'.repeat(100)}TiB`), /^"9{79}\.\.\. is not a size/],
    [() => parseSize('1\u001b[31m'), /^"1\\u001b\[31m" is not a size/],
    [() => parseDuration('30'), /^"30" is not a duration in whole milliseconds: accepted is .*min/],
    [() => parseDuration(30), /^30 is not a duration/],
    [() => parseDuration('5m'), /^"5m" is not a duration/],
    [() => parseDuration('0x'), /^"0x" is not a duration/],
    [
      () => parseBitrate('1MB/s'),
      /^"1MB\/s" is not a bit rate in whole bits per second: accepted is .*Mbit\/s/,
    ],
  ];
  for (const [parse, message] of cases) assert.throws(parse, { code: 'CONFIG_INVALID', message });
});
