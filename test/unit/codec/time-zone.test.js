// Rules of time zones against another way to ask Intl: the wall clock of an instant, formatted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTimeZone, zoneRules } from '../../../src/codec/time-zone.js';

const HOUR = 3600;
const DAY = 24 * HOUR;

/** @param {string} utc */
const secondsOf = utc => Date.parse(utc) / 1000;

/** @param {string} zone */
function rulesOf(zone) {
  const rules = zoneRules(zone);
  assert.ok(rules, zone);
  return rules;
}

/**
 * @param {string} zone
 * @param {string} local
 * @returns {[number, number]} hours
 */
function hoursAt(zone, local) {
  const { earlier, later } = rulesOf(zone).spanAt(secondsOf(`${local}Z`));
  return [earlier / HOUR, later / HOUR];
}

/** @param {string} timeZone @returns {(seconds: number) => number} instant -> seconds east of UTC */
function offsetsOf(timeZone) {
  const clock = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  return seconds => Date.parse(`${clock.format(seconds * 1000).replace(' ', 'T')}Z`) / 1000 - seconds;
}

test('names: those of log_timezone, whatever the case; those that mean something else to ICU are not taken', () => {
  const names = `UTC Etc/UTC UCT Zulu GMT GMT0 PRC ROC W-SU NZ EST EST5EDT MET Europe/Moscow europe/MOSCOW Etc/GMT-3
    posix/Europe/Moscow right/Asia/Tokyo America/Argentina/Buenos_Aires Europe/Kyiv Europe/Kiev
    GMT+3 UTC-5 FOO5 <+03>-3 <+05:30>-05:30 +03 3`;
  for (const name of names.split(/\s+/)) assert.equal(isTimeZone(name), true, name);
  const others = [
    '',
    'Foo/Bar',
    'Z',
    'IST',
    'CST',
    'PST',
    '+03:00:00:00',
    'GMT+99',
    'posix/',
    'Factory',
    ' UTC',
  ];
  for (const name of [...others, 'EST5EDT,M3.2.0,M11.1.0', '<+03', '\0', 'localtime', '-', '<x>', 'ECT']) {
    assert.equal(isTimeZone(name), false, name);
  }
});

test('a POSIX specification counts westwards and has its own abbreviation', () => {
  const cases = /** @type {const} */ ([
    ['GMT+3', 'GMT', -3],
    ['utc-5', 'UTC', 5],
    ['<+03>-3', '+03', 3],
    ['<+05:30>-05:30', '+05:30', 5.5],
    ['+03', '', -3],
    ['FOO0', 'FOO', 0],
  ]);
  for (const [name, abbreviation, hours] of cases) {
    const rules = rulesOf(name);
    assert.equal(rules.abbreviation, abbreviation);
    assert.deepEqual(rules.spanAt(1e9), {
      from: -Infinity,
      to: Infinity,
      earlier: hours * HOUR,
      later: hours * HOUR,
    });
  }
  assert.equal(rulesOf('Etc/GMT+3').abbreviation, null);
  assert.deepEqual(hoursAt('Etc/GMT+3', '2026-05-01T00:00'), [-3, -3]);
});

test('known changes: once, twice, never, and to the second', () => {
  const cases = /** @type {const} */ ([
    ['Europe/Berlin', '2026-03-29T01:59:59', 1, 1],
    ['Europe/Berlin', '2026-03-29T02:00:00', 1, 1],
    ['Europe/Berlin', '2026-03-29T02:59:59', 1, 1],
    ['Europe/Berlin', '2026-03-29T03:00:00', 2, 2],
    ['Europe/Berlin', '2026-10-25T01:59:59', 2, 2],
    ['Europe/Berlin', '2026-10-25T02:00:00', 2, 1],
    ['Europe/Berlin', '2026-10-25T02:59:59', 2, 1],
    ['Europe/Berlin', '2026-10-25T03:00:00', 1, 1],
    ['Europe/Moscow', '2014-10-26T00:59:59', 4, 4],
    ['Europe/Moscow', '2014-10-26T01:00:00', 4, 3],
    ['Europe/Moscow', '2014-10-26T02:00:00', 3, 3],
    ['Australia/Lord_Howe', '2026-04-05T01:29:59', 11, 11],
    ['Australia/Lord_Howe', '2026-04-05T01:30:00', 11, 10.5],
    ['Australia/Lord_Howe', '2026-04-05T02:00:00', 10.5, 10.5],
    ['Pacific/Apia', '2011-12-29T23:59:59', -10, -10],
    ['Pacific/Apia', '2011-12-30T12:00:00', -10, -10],
    ['Pacific/Apia', '2011-12-31T00:00:00', 14, 14],
    ['Asia/Kathmandu', '2026-01-01T00:00:00', 5.75, 5.75],
    ['America/Havana', '2026-11-01T00:30:00', -4, -5],
    ['Africa/Casablanca', '2026-02-15T02:30:00', 1, 0],
    ['Europe/Moscow', '0001-01-01T00:00:00', 2 + 30 / 60 + 17 / 3600, 2 + 30 / 60 + 17 / 3600],
    ['Europe/Berlin', '9999-07-31T23:59:59', 2, 2],
  ]);
  for (const [zone, local, earlier, later] of cases) {
    assert.deepEqual(hoursAt(zone, local), [earlier, later], `${zone} ${local}`);
  }
});

test('the spans of a zone tile its time', () => {
  const rules = rulesOf('Australia/Lord_Howe');
  const end = secondsOf('2026-12-31T00:00Z');
  let changes = 0;
  for (let local = secondsOf('2026-01-01T00:00Z'); local < end;) {
    const span = rules.spanAt(local);
    assert.equal(span.from, local);
    assert.equal(rules.spanAt(span.to - 1), span);
    if (span.to % DAY !== 0) changes += 1;
    local = span.to;
  }
  // In April from 01:30 on twice, until 02:00; in October a gap from 02:00 to 02:30.
  assert.equal(changes, 4);
});

test('a new day costs Intl one question, a known one none', t => {
  const original = Intl.DateTimeFormat;
  let asked = 0;
  t.after(() => {
    Intl.DateTimeFormat = original;
  });
  /** @param {ConstructorParameters<typeof original>} options */
  function Counting(...options) {
    const format = new original(...options);
    return {
      resolvedOptions: () => format.resolvedOptions(),
      /** @param {number} ms */
      format(ms) {
        asked += 1;
        return format.format(ms);
      },
    };
  }
  Intl.DateTimeFormat = /** @type {typeof original} */ (/** @type {unknown} */ (Counting));
  // No test before this one may use the zone: what one has asked, all share.
  const rules = rulesOf('Asia/Dushanbe');
  const begin = secondsOf('2026-05-01T00:00Z');
  rules.spanAt(begin);
  assert.ok(asked > 0 && asked <= 4, String(asked));
  asked = 0;
  for (let local = begin; local < begin + 10 * DAY; local += 60) rules.spanAt(local);
  assert.equal(rulesOf('asia/dushanbe'), rules);
  assert.equal(asked, 9);
});

test('every change of every zone since 2006, and the hours around it', () => {
  const first = secondsOf('2006-01-01T00:00Z');
  const last = secondsOf('2027-01-01T00:00Z');
  let changes = 0;
  for (const zone of Intl.supportedValuesOf('timeZone')) {
    const offsetAt = offsetsOf(zone);
    const rules = rulesOf(zone);
    let before = offsetAt(first);
    for (let day = first; day < last; day += 4 * DAY) {
      const after = offsetAt(day + 4 * DAY);
      if (after === before) continue;
      let [low, high] = [day, day + 4 * DAY];
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (offsetAt(middle) === before) low = middle;
        else high = middle;
      }
      const step = before - after;
      const [from, to] = step > 0 ? [high + after, high + before] : [high + before, high + after];
      for (const local of [from - 3 * HOUR, from - 1, from, (from + to) / 2, to - 1, to, to + 3 * HOUR]) {
        const within = local >= from && local < to;
        const expected = within
          ? [before, step > 0 ? after : before]
          : local < from
            ? [before, before]
            : [after, after];
        const { earlier, later } = rules.spanAt(local);
        assert.deepEqual([earlier, later], expected, `${zone} ${new Date(local * 1000).toISOString()}`);
      }
      changes += 1;
      before = after;
    }
  }
  assert.ok(changes > 5000, String(changes));
});
