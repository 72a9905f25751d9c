// Times as PostgreSQL writes them, read back to the instants they were written at.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { NOT_A_TIME, TimeReader, UNKNOWN_ZONE } from '../../../src/codec/log-time.js';

const HOUR = 3600;
const DAY = 24 * HOUR;

/** What pg_timezone_abbrevs of PostgreSQL 15 says. */
const ZONES = new Map(
  Object.entries({
    UTC: 0,
    GMT: 0,
    CET: 1,
    CEST: 2,
    MSK: 3,
    IST: 2,
    CST: -6,
    CDT: -5,
    EST: -5,
    EDT: -4,
    PST: -8,
    KST: 9,
    YEKT: 5,
    IRKT: 8,
    VET: -4,
    JST: 9,
  }).map(([name, hours]) => [name, hours * HOUR]),
);
/** @type {Map<string, number>} */
const NONE = new Map();

/** @typedef {ConstructorParameters<typeof TimeReader>[0]} Options */

/**
 * @param {TimeReader} reader
 * @param {string} text a time
 * @param {string} after it
 */
function read(reader, text, after = ',') {
  const before = 'xyz';
  const bytes = Buffer.from(`${before}${text}${after}\n`, 'latin1');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const end = reader.read(bytes, view, before.length);
  return end < 0 ? end : end - before.length;
}

/**
 * @param {TimeReader} reader
 * @param {string} text
 * @param {string} [after]
 * @returns {number} seconds since 1970, exact to the microsecond for the years of the tests
 */
function instant(reader, text, after) {
  assert.equal(read(reader, text, after), text.length, text);
  return reader.seconds + reader.microseconds / 1e6;
}

/** @param {string} utc */
const secondsOf = utc => Date.parse(utc) / 1000;

/**
 * Reads times with one reader, in order.
 * @param {Partial<Options>} options
 * @param {readonly (readonly [text: string, utc: string])[]} times
 */
function check(options, times) {
  const reader = new TimeReader({ zones: ZONES, ...options });
  for (const [text, utc] of times) {
    const expected = new Date(secondsOf(utc) * 1000).toISOString();
    assert.equal(new Date(instant(reader, text) * 1000).toISOString(), expected, text);
  }
}

test('any byte that cannot belong to a zone ends it', () => {
  for (const timeZone of [null, 'Europe/Moscow']) {
    const reader = new TimeReader({ zones: ZONES, timeZone });
    for (const after of [',', '"', ' ', '[', ':', '|', '\t', '', ' [4242]', ':10.0.0.7(5432):bob@shop:']) {
      for (const zone of ['MSK', '+03', '+0300', 'MSK']) {
        assert.equal(instant(reader, `2026-05-01 12:34:56.789 ${zone}`, after), 1777628096.789, zone + after);
        assert.equal(instant(reader, `2026-05-01 12:34:56 ${zone}`, after), 1777628096, zone + after);
      }
    }
    assert.equal(instant(reader, '2026-05-01 12:34:56 MSK', '1'), 1777628096);
    assert.equal(instant(reader, '2026-05-01 12:34:56 MSK', '+1'), 1777628096);
  }
});

test('a colon after digits belongs to the zone or to what follows', () => {
  const reader = new TimeReader({ zones: NONE });
  const cases = /** @type {const} */ ([
    ['-03', ':10.0.0.7(5432)', -3 * HOUR],
    ['-03', ':12345:', -3 * HOUR],
    ['-03', ':66321234.1092:', -3 * HOUR],
    ['-03', ':[local]:', -3 * HOUR],
    ['-03', ':12:bob', -3 * HOUR],
    ['-03', ':1,', -3 * HOUR],
    ['-03:10', ',', -(3 * HOUR + 600)],
    ['-03', ':10.0.0.7(5432)', -3 * HOUR],
    ['+05:30', '"', 5.5 * HOUR],
    ['+05:30:15', ' ', 5.5 * HOUR + 15],
  ]);
  for (const [zone, after, east] of cases) {
    assert.equal(instant(reader, `2026-05-01 00:00:00 ${zone}`, after), 1777593600 - east, zone + after);
  }
});

test('what is no time, and a zone that nobody knows, leave the last time as it was', () => {
  for (const timeZone of [null, 'Foo/Bar', 'Europe/Berlin']) {
    const reader = new TimeReader({ zones: ZONES, timeZone });
    const good = '2026-05-01 12:34:56.789 CEST';
    const seconds = instant(reader, good);
    const wrong = [' UTC', '', ' ', ' +', ' -', ' +x', ' ,', '  UTC', ' \xe9', ` ${'A'.repeat(33)}`, '\tUTC'];
    for (const tail of wrong) {
      assert.equal(read(reader, `2026-05-01 12:34:57${tail === ' UTC' ? '.' : ''}${tail}`), NOT_A_TIME, tail);
    }
    assert.equal(read(reader, '2026-02-29 00:00:00 UTC'), NOT_A_TIME);
    assert.equal(read(reader, '2026-05-01 00:00:00', ''), NOT_A_TIME);
    for (const zone of [
      '+16',
      '+0360',
      '-99',
      '+053015',
      '+05:60',
      ...(timeZone?.startsWith('E') ? [] : ['XYZ']),
    ]) {
      const text = `2026-05-02 12:34:57 ${zone}`;
      assert.equal(read(reader, text), UNKNOWN_ZONE, text);
      assert.equal(reader.end, 'xyz'.length + text.length);
    }
    assert.equal(reader.seconds + reader.microseconds / 1e6, seconds);
    assert.equal(instant(reader, good), seconds);
  }
  const reader = new TimeReader({ zones: NONE });
  for (const zone of ['UTC', 'GMT', 'Z', 'utc'])
    assert.equal(instant(reader, `1970-01-01 00:00:00 ${zone}`), 0);
  assert.equal(read(reader, '1970-01-01 00:00:00 CET'), UNKNOWN_ZONE);
});

test('letters mean what log_timezone makes them mean; without it, what the storage says', () => {
  const cases = /** @type {const} */ ([
    ['Asia/Kolkata', 'IST', 5.5, 2],
    ['Asia/Jerusalem', 'IST', 2, 2],
    ['Asia/Shanghai', 'CST', 8, -6],
    ['America/Havana', 'CST', -5, -6],
    ['America/Chicago', 'CST', -6, -6],
    ['Asia/Manila', 'PST', 8, -8],
    ['Australia/Sydney', 'EST', 11, -5],
    ['posix/Asia/Kolkata', 'IST', 5.5, 2],
    ['prc', 'CST', 8, -6],
    ['Foo/Bar', 'CST', -6, -6],
    ['IST', 'IST', 2, 2],
  ]);
  for (const [timeZone, zone, hours, storage] of cases) {
    const text = `2012-01-15 12:00:00.5 ${zone}`;
    const noon = secondsOf('2012-01-15T12:00:00.500Z');
    assert.equal(instant(new TimeReader({ zones: ZONES, timeZone }), text), noon - hours * HOUR, timeZone);
    assert.equal(instant(new TimeReader({ zones: ZONES }), text), noon - storage * HOUR, timeZone);
  }
  // Moscow was four hours ahead from 2011 to 2014, and called it MSK all the time.
  check({ timeZone: 'Europe/Moscow' }, [
    ['2012-01-01 12:00:00 MSK', '2012-01-01T08:00:00Z'],
    ['2016-01-01 12:00:00 MSK', '2016-01-01T09:00:00Z'],
    ['2010-07-01 12:00:00 MSD', '2010-07-01T08:00:00Z'],
  ]);
  // Letters that the IANA database has given up, and letters that nobody knows.
  check({ timeZone: 'Asia/Yekaterinburg' }, [['2012-01-01 12:00:00 YEKT', '2012-01-01T06:00:00Z']]);
  check({ timeZone: 'America/Caracas' }, [['2012-01-01 12:00:00 VET', '2012-01-01T16:30:00Z']]);
  check({ timeZone: 'Asia/Kabul' }, [['2012-01-01 12:00:00 XYZ', '2012-01-01T07:30:00Z']]);
});

test('letters that cannot mean log_timezone are believed: it was another one then', () => {
  check({ timeZone: 'Europe/Moscow' }, [
    ['2026-05-01 12:00:00 MSK', '2026-05-01T09:00:00Z'],
    ['2026-05-01 12:00:00 UTC', '2026-05-01T12:00:00Z'],
    ['2026-05-01 12:00:00 MSK', '2026-05-01T09:00:00Z'],
    ['2026-05-01 12:00:00 CEST', '2026-05-01T10:00:00Z'],
    ['2026-05-01 12:00:00 +05', '2026-05-01T07:00:00Z'],
    ['2026-05-01 12:00:00 -0330', '2026-05-01T15:30:00Z'],
    ['2026-05-01 12:00:00 YEKT', '2026-05-01T07:00:00Z'],
    ['2026-05-01 12:00:00 XYZ', '2026-05-01T09:00:00Z'],
    ['2026-05-01 12:00:00 Z', '2026-05-01T12:00:00Z'],
    ['2014-10-26 01:30:00 UTC', '2014-10-26T01:30:00Z'],
    ['2014-10-26 01:30:00 JST', '2014-10-25T16:30:00Z'],
    ['2014-10-26 01:30:00 WITA', '2014-10-25T17:30:00Z'],
    ['2014-10-26 01:30:00 +05', '2014-10-25T20:30:00Z'],
  ]);
  check({ timeZone: 'America/Havana' }, [['2026-11-01 00:30:00 YEKT', '2026-10-31T19:30:00Z']]);
  // Not Cuba's: CST and CDT of Chicago, where New York is meant.
  check({ timeZone: 'America/New_York' }, [
    ['2026-01-15 12:00:00 CST', '2026-01-15T18:00:00Z'],
    ['2026-07-15 12:00:00 CDT', '2026-07-15T17:00:00Z'],
  ]);
  // A server whose rules are older than Node's, for some months or years: Edmonton left MST in 2026.
  for (const zones of [ZONES, NONE]) {
    check({ zones, timeZone: 'America/Edmonton' }, [['2040-01-15 12:00:00 MST', '2040-01-15T19:00:00Z']]);
    check({ zones, timeZone: 'America/Los_Angeles' }, [['2026-07-15 12:00:00 PST', '2026-07-15T20:00:00Z']]);
    check({ zones, timeZone: 'Asia/Jerusalem' }, [['2026-07-15 12:00:00 IST', '2026-07-15T10:00:00Z']]);
  }
  // Only one zone has these letters, whether the storage knows them or not.
  check({ timeZone: 'Europe/Moscow' }, [['2026-05-01 12:00:00 WITA', '2026-05-01T04:00:00Z']]);
  check({ timeZone: 'Europe/London' }, [['2026-01-01 12:00:00 UTC', '2026-01-01T12:00:00Z']]);
  check({ timeZone: 'Europe/London', zones: NONE }, [['2026-07-01 12:00:00 GMT', '2026-07-01T12:00:00Z']]);
});

test('the abbreviation tells the two hours of the end of summer time apart, in any order', () => {
  for (const zones of [ZONES, NONE]) {
    for (const ordered of [true, false]) {
      check({ zones, ordered, timeZone: 'Europe/Berlin' }, [
        ['2026-10-25 02:30:00 CET', '2026-10-25T01:30:00Z'],
        ['2026-10-25 02:30:00 CEST', '2026-10-25T00:30:00Z'],
        ['2026-10-25 02:00:00 CET', '2026-10-25T01:00:00Z'],
        ['2026-10-25 02:59:59 CEST', '2026-10-25T00:59:59Z'],
      ]);
      check({ zones, ordered, timeZone: 'Asia/Jerusalem' }, [
        ['2026-10-25 01:30:00 IST', '2026-10-24T23:30:00Z'],
        ['2026-10-25 01:30:00 IDT', '2026-10-24T22:30:00Z'],
      ]);
      check({ zones, ordered, timeZone: 'America/Havana' }, [
        ['2026-11-01 00:30:00 CDT', '2026-11-01T04:30:00Z'],
        ['2026-11-01 00:30:00 CST', '2026-11-01T05:30:00Z'],
      ]);
      check({ zones, ordered, timeZone: 'Africa/Casablanca' }, [
        ['2026-02-15 02:30:00 +00', '2026-02-15T02:30:00Z'],
        ['2026-02-15 02:30:00 +01', '2026-02-15T01:30:00Z'],
      ]);
    }
  }
});

test('where the abbreviation is the same, order tells, though lines may be some seconds late', () => {
  check({ timeZone: 'Europe/Moscow' }, [
    ['2014-10-26 00:59:59 MSK', '2014-10-25T20:59:59Z'],
    ['2014-10-26 01:00:00 MSK', '2014-10-25T21:00:00Z'],
    ['2014-10-26 00:59:58 MSK', '2014-10-25T20:59:58Z'],
    ['2014-10-26 01:59:59 MSK', '2014-10-25T21:59:59Z'],
    ['2014-10-26 01:57:59 MSK', '2014-10-25T21:57:59Z'],
    ['2014-10-26 01:59:58 MSK', '2014-10-25T21:59:58Z'],
    ['2014-10-26 01:00:00 MSK', '2014-10-25T22:00:00Z'],
    ['2014-10-26 01:59:57 MSK', '2014-10-25T21:59:57Z'],
    ['2014-10-26 01:00:01 MSK', '2014-10-25T22:00:01Z'],
    ['2014-10-26 01:00:00 MSK', '2014-10-25T22:00:00Z'],
    ['2014-10-26 01:30:00 MSK', '2014-10-25T22:30:00Z'],
    ['2014-10-26 01:59:59 MSK', '2014-10-25T22:59:59Z'],
    ['2014-10-26 02:00:01 MSK', '2014-10-25T23:00:01Z'],
    ['2014-10-26 01:59:58 MSK', '2014-10-25T22:59:58Z'],
    ['2014-10-26 02:00:02 MSK', '2014-10-25T23:00:02Z'],
  ]);
  // A reader that reads each time twice gives the same: parsers try a record again when more of it has come.
  const once = new TimeReader({ zones: ZONES, timeZone: 'Europe/Moscow' });
  const twice = new TimeReader({ zones: ZONES, timeZone: 'Europe/Moscow' });
  for (const time of ['00:59', '01:10', '01:50', '01:20', '01:15', '01:55', '02:00', '01:59']) {
    const text = `2014-10-26 ${time}:00 MSK`;
    instant(twice, text);
    assert.equal(instant(twice, text), instant(once, text), text);
  }
});

test('reading that is resumed goes on after the last instant known', () => {
  const at = '2014-10-26 01:40:00 MSK';
  const first = '2014-10-25T21:40:00Z';
  const second = '2014-10-25T22:40:00Z';
  const cases = /** @type {const} */ ([
    ['2014-10-25T12:00:00Z', first],
    ['2014-10-25T21:39:00Z', first],
    ['2014-10-25T21:41:00Z', first],
    ['2014-10-25T21:46:00Z', second],
    ['2014-10-25T22:39:00Z', second],
    ['2014-10-25T22:44:00Z', second],
    // Clocks that were wrong for a while.
    ['2030-01-01T00:00:00Z', first],
  ]);
  for (const [after, expected] of cases) {
    check({ timeZone: 'Europe/Moscow', afterMs: Date.parse(after) }, [[at, expected]]);
  }
  check({ timeZone: 'Europe/Moscow' }, [[at, first]]);
  check({ timeZone: 'Europe/Moscow', afterMs: Date.parse(second), ordered: false }, [
    [at, first],
    ['2014-10-26 01:10:00 MSK', '2014-10-25T21:10:00Z'],
  ]);
  assert.equal(new TimeReader({ zones: ZONES, afterMs: 1500 }).seconds, 1);
});

test('letters that nobody knows are learned outside of the hours that happen twice', () => {
  check({ timeZone: 'Europe/Berlin' }, [
    ['2026-01-01 12:00:00 WTIME', '2026-01-01T11:00:00Z'],
    ['2026-10-25 01:59:00 STIME', '2026-10-24T23:59:00Z'],
    ['2026-10-25 02:10:00 STIME', '2026-10-25T00:10:00Z'],
    ['2026-10-25 02:12:00 WTIME', '2026-10-25T01:12:00Z'],
    ['2026-10-25 02:11:59 WTIME', '2026-10-25T01:11:59Z'],
    ['2026-10-25 02:59:59 WTIME', '2026-10-25T01:59:59Z'],
    ['2026-10-25 03:00:00 WTIME', '2026-10-25T02:00:00Z'],
  ]);
  // Unknown, and the same for both.
  check({ timeZone: 'Europe/Berlin' }, [
    ['2026-10-25 01:59:00 XTIME', '2026-10-24T23:59:00Z'],
    ['2026-10-25 02:10:00 XTIME', '2026-10-25T00:10:00Z'],
    ['2026-10-25 02:50:00 XTIME', '2026-10-25T00:50:00Z'],
    ['2026-10-25 02:01:00 XTIME', '2026-10-25T01:01:00Z'],
    ['2026-10-25 02:50:00 XTIME', '2026-10-25T01:50:00Z'],
  ]);
  // The storage knows what IRKT is today. In 2014 it was the same for both.
  check({ timeZone: 'Asia/Irkutsk' }, [
    ['2014-10-26 00:59:00 IRKT', '2014-10-25T15:59:00Z'],
    ['2014-10-26 01:10:00 IRKT', '2014-10-25T16:10:00Z'],
    ['2014-10-26 01:50:00 IRKT', '2014-10-25T16:50:00Z'],
    ['2014-10-26 01:10:00 IRKT', '2014-10-25T17:10:00Z'],
  ]);
  // Names of the storage's own.
  const zones = new Map([
    ['SOMMER', 2 * HOUR],
    ['WINTER', HOUR],
  ]);
  for (const ordered of [true, false]) {
    check({ zones, ordered, timeZone: 'Europe/Berlin' }, [
      ['2026-10-25 02:30:00 WINTER', '2026-10-25T01:30:00Z'],
      ['2026-10-25 02:30:00 SOMMER', '2026-10-25T00:30:00Z'],
    ]);
  }
});

test('a local time that does not exist has the offset before the gap', () => {
  check({ timeZone: 'Europe/Berlin' }, [
    ['2026-03-29 01:59:59 CET', '2026-03-29T00:59:59Z'],
    ['2026-03-29 02:30:00 CET', '2026-03-29T01:30:00Z'],
    ['2026-03-29 02:30:00 XYZ', '2026-03-29T01:30:00Z'],
    ['2026-03-29 03:00:00 CEST', '2026-03-29T01:00:00Z'],
  ]);
});

test('a POSIX specification names its offset as it likes', () => {
  check({ timeZone: 'GMT+3' }, [
    ['2026-05-01 12:00:00 GMT', '2026-05-01T15:00:00Z'],
    ['2026-05-01 12:00:00 UTC', '2026-05-01T12:00:00Z'],
  ]);
  check({ timeZone: '<+03>-3' }, [['2026-05-01 12:00:00 +03', '2026-05-01T09:00:00Z']]);
  check({ timeZone: '<+03>3' }, [['2026-05-01 12:00:00 +03', '2026-05-01T15:00:00Z']]);
  // PostgreSQL 15 and 18 take '+03', count it westwards, and write no zone at all.
  check({ timeZone: '+03' }, [
    ['2026-05-01 12:00:00 ', '2026-05-01T15:00:00Z'],
    ['2026-05-01 12:00:00 ', '2026-05-01T15:00:00Z'],
    ['2026-05-01 12:00:00 MSK', '2026-05-01T09:00:00Z'],
    ['2026-05-01 12:00:00.123 ', '2026-05-01T15:00:00.123Z'],
  ]);
});

const timeZone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'));
const since2000 = fc.integer({ min: secondsOf('2000-01-01T00:00Z'), max: secondsOf('2040-01-01T00:00Z') });

/** @type {Map<string, Intl.DateTimeFormat>} */
const clocks = new Map();

/**
 * @param {string} zone
 * @param {number} seconds
 * @returns {{ local: string, offset: number }} what a clock shows at an instant
 */
function wallClock(zone, seconds) {
  const clock =
    clocks.get(zone) ??
    new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  clocks.set(zone, clock);
  const local = clock.format(seconds * 1000);
  return { local, offset: secondsOf(`${local.replace(' ', 'T')}Z`) - seconds };
}

/** @param {string} zone @param {number} seconds */
function isNearChange(zone, seconds) {
  return wallClock(zone, seconds - 1.5 * DAY).offset !== wallClock(zone, seconds + 1.5 * DAY).offset;
}

test('random instants in random zones, in any order', () => {
  fc.assert(
    fc.property(timeZone, fc.array(since2000, { minLength: 1, maxLength: 20 }), (zone, instants) => {
      const reader = new TimeReader({ zones: ZONES, timeZone: zone });
      for (const seconds of instants) {
        if (isNearChange(zone, seconds)) continue;
        // Letters that tell nothing.
        const { local } = wallClock(zone, seconds);
        assert.equal(instant(reader, `${local}.250 XYZ`), seconds + 0.25, `${local} ${zone}`);
      }
    }),
    { numRuns: 300 },
  );
});

/** Records a zone's clock is put back between: some zones, years in which most change. */
const changes = fc
  .tuple(
    fc.constantFrom(
      'Europe/Berlin',
      'Europe/London',
      'America/New_York',
      'America/Sao_Paulo',
      'Australia/Lord_Howe',
      'Africa/Casablanca',
      'Asia/Tehran',
      'Europe/Moscow',
      'Pacific/Apia',
      'Asia/Pyongyang',
    ),
    fc.integer({ min: 2006, max: 2030 }),
  )
  .chain(([zone, year]) => {
    const found = [];
    const first = Date.UTC(year, 0, 1) / 1000;
    for (let day = first; day < first + 366 * DAY; day += DAY) {
      if (wallClock(zone, day).offset !== wallClock(zone, day + DAY).offset) found.push(day);
    }
    return fc.constantFrom(...(found.length > 0 ? found : [first])).map(day => ({ zone, day }));
  });

test('through every change: in order with letters that tell nothing, out of order with letters that do', () => {
  const gaps = fc.array(fc.integer({ min: -2, max: 20 * 60 }), { minLength: 150, maxLength: 300 });
  fc.assert(
    fc.property(changes, gaps, fc.array(fc.nat(), { maxLength: 100 }), ({ zone, day }, steps, jumps) => {
      const inOrder = new TimeReader({ zones: ZONES, timeZone: zone });
      let seconds = day - 2 * HOUR;
      for (const step of steps) {
        seconds += step;
        const { local } = wallClock(zone, seconds);
        assert.equal(instant(inOrder, `${local} XYZ`), seconds, `${local} ${zone}`);
      }
      const zones = new Map();
      for (const ordered of [true, false]) {
        const reader = new TimeReader({ zones, timeZone: zone, ordered });
        for (const jump of jumps) {
          seconds = day + (jump % DAY);
          const { local, offset } = wallClock(zone, seconds);
          const letters = `X${String(Math.abs(offset)).replaceAll(/\d/g, digit => 'ABCDEFGHIJ'[Number(digit)] ?? '')}`;
          zones.set(`${letters}${offset < 0 ? 'W' : 'E'}`, offset);
          assert.equal(
            instant(reader, `${local} ${letters}${offset < 0 ? 'W' : 'E'}`),
            seconds,
            `${local} ${zone}`,
          );
        }
      }
    }),
    { numRuns: 150 },
  );
});

test('years 1 to 9999, leap days, any fraction and numeric zone', () => {
  const digits = fc.integer({ min: 1, max: 6 });
  const instants = fc.integer({ min: Date.parse('0001-01-02T00:00Z'), max: Date.parse('9999-12-30T00:00Z') });
  const east = fc.integer({ min: -15 * 60, max: 15 * 60 });
  const reader = new TimeReader({ zones: NONE, timeZone: 'Europe/Berlin' });
  fc.assert(
    fc.property(instants, digits, fc.nat(999_999), east, (ms, count, micros, minutes) => {
      const seconds = Math.floor(ms / 1000);
      const fraction = String(micros).padStart(6, '0').slice(0, count);
      const zone = `${minutes < 0 ? '-' : '+'}${new Date(Math.abs(minutes) * 60_000).toISOString().slice(11, 16)}`;
      const local = new Date((seconds + minutes * 60) * 1000).toISOString().slice(0, 19).replace('T', ' ');
      for (const written of [zone, zone.replace(':', '')]) {
        assert.equal(
          read(reader, `${local}.${fraction} ${written}`),
          `${local}.${fraction} ${written}`.length,
        );
        assert.deepEqual([reader.seconds, reader.microseconds], [seconds, Number(fraction.padEnd(6, '0'))]);
      }
    }),
    { numRuns: 2000 },
  );
  for (const day of ['2024-02-29', '2000-02-29', '0004-02-29']) {
    assert.equal(instant(reader, `${day} 12:00:00 +00`), secondsOf(`${day}T12:00:00Z`));
  }
  for (const day of ['2026-02-29', '2100-02-29', '0000-01-01']) {
    assert.equal(read(reader, `${day} 12:00:00 +00`), NOT_A_TIME);
  }
  // Before zones had rules they had their own mean time.
  const moscow = new TimeReader({ zones: NONE, timeZone: 'Europe/Moscow' });
  assert.equal(instant(moscow, '0001-01-01 02:30:17 LMT'), secondsOf('0001-01-01T00:00:00Z'));
});

test('random bytes: nothing thrown, nothing read beyond them', () => {
  const part = fc.constantFrom(
    '2026-05-01 12:34:56',
    '.789',
    ' ',
    '+03',
    'MSK',
    ':30',
    '"',
    ',',
    '1',
    'x',
    '\xff',
  );
  const reader = new TimeReader({ zones: ZONES, timeZone: 'Europe/Moscow' });
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), parts => {
      const text = parts.join('');
      const end = read(reader, text, '');
      assert.ok(end === NOT_A_TIME || end === UNKNOWN_ZONE || (end >= 21 && end <= text.length));
      if (end > 0) assert.match(text.slice(0, end), /^2026-05-01 12:34:56(\.\d{1,6})? ([a-z]+|[+-][\d:]+)$/i);
    }),
    { numRuns: 3000 },
  );
});
