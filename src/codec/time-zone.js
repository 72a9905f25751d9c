/**
 * What the clocks of a time zone show: local time -> seconds east of UTC, with the zone's history, from the ICU data
 * inside Node (Intl.DateTimeFormat). zoneRules() takes a name as log_timezone has it: a name of the IANA database, or
 * a POSIX specification of a fixed offset such as `<+03>-3`. Called by log-time.js, seldom: once for each new day of a
 * log. Asking Intl costs about a microsecond, so answers are kept, shared by all readers of a zone, and bounded.
 * Never throws: a name that means nothing is null.
 *
 *   offset  +2 --------------|                 instants ->        local times of both sides overlap by the step:
 *                            |-------------- +1                   they happen twice, as `earlier` and as `later`
 */

/**
 * @typedef {object} Span local times from <= t < to, in seconds since 1970-01-01 as if the clock showed UTC
 * @property {number} from
 * @property {number} to
 * @property {number} earlier seconds east of UTC; before a gap for times that do not exist
 * @property {number} later the same, unless these local times happen twice
 */

/**
 * @typedef {object} ZoneRules
 * @property {string | null} abbreviation what a POSIX specification calls its one offset, which it may name anything
 *   (GMT+3 is three hours west and writes GMT); null: the zone has none of its own
 * @property {(local: number) => Span} spanAt
 * @property {(abbreviation: string) => readonly number[] | undefined} meaningsOf offsets that upper-case letters can
 *   stand for here or elsewhere; undefined: not known
 */

const HOUR = 3600;
/** In all of tzdata (2025b) changes of a zone are four days apart at least, so that a day holds one at most. */
const DAY = 24 * HOUR;
/** Days kept for a zone: eleven years. */
const MAX_DAYS = 4096;
/** Names of the IANA database; what else Intl takes (`+03:00`) means something else to PostgreSQL. */
const NAME = /^[a-z][a-z0-9_+/-]*$/i;
/** Directories of a system's zoneinfo; PostgreSQL may be built to use that. */
const DIRECTORY = /^(?:posix|right)\//i;
/** ICU gives a meaning to three-letter abbreviations (IST, CST) that no zone of PostgreSQL has as its name. */
const THREE_LETTERS = /^[a-z]{3}$/i;
const THREE_LETTER_ZONES = /^(?:CET|EET|EST|GMT|HST|MET|MST|PRC|ROC|ROK|UCT|UTC|WET)$/i;
/** PostgreSQL takes an empty abbreviation too, and then writes none. */
const POSIX_FIXED = /^(?:<([^>]*)>|([a-z]*))([+-]?)(\d{1,3})(?::(\d{1,2}))?(?::(\d{1,2}))?$/i;
/** As in POSIX. */
const MAX_POSIX_HOURS = 24;

/**
 * The offsets in seconds east of UTC that an alphabetic abbreviation has stood for in the IANA database since 2001;
 * EST, CST and WST also as it had them for Australia, for summer and standard time alike, until 2014.
 * @type {ReadonlyMap<string, readonly number[]>}
 */
const ABBREVIATIONS = new Map(
  /** @type {[string, number[]][]} */ ([
    ['ACDT', [10.5]],
    ['ACST', [9.5]],
    ['ADT', [-3]],
    ['AEDT', [11]],
    ['AEST', [10]],
    ['AKDT', [-8]],
    ['AKST', [-9]],
    ['AST', [-4]],
    ['AWDT', [9]],
    ['AWST', [8]],
    ['BST', [1]],
    ['CAT', [2]],
    ['CDT', [-5]],
    ['CEST', [2]],
    ['CET', [1]],
    ['CHST', [10]],
    ['CST', [-6, 8, 9.5, 10.5]],
    ['EAT', [3]],
    ['EDT', [-4]],
    ['EEST', [3]],
    ['EET', [2]],
    ['EST', [-5, 10, 11]],
    ['GMT', [0]],
    ['HDT', [-9]],
    ['HKT', [8]],
    ['HST', [-10]],
    ['IDT', [3]],
    ['IST', [1, 2, 5.5]],
    ['JST', [9]],
    ['KST', [8.5, 9]],
    ['MDT', [-6]],
    ['MEST', [2]],
    ['MET', [1]],
    ['MSD', [4]],
    ['MSK', [3, 4]],
    ['MST', [-7]],
    ['NDT', [-2.5]],
    ['NST', [-3.5]],
    ['NZDT', [13]],
    ['NZST', [12]],
    ['PDT', [-7]],
    ['PKST', [6]],
    ['PKT', [5]],
    ['PST', [-8, 8]],
    ['SAST', [2]],
    ['SST', [-11]],
    ['UCT', [0]],
    ['UTC', [0]],
    ['WAT', [1]],
    ['WEST', [1]],
    ['WET', [0]],
    ['WIB', [7]],
    ['WIT', [9]],
    ['WITA', [8]],
    ['WST', [8, 9]],
    ['Z', [0]],
  ]).map(([name, hours]) => [name, hours.map(value => value * HOUR)]),
);

/**
 * Cuba's are an hour from those of the United States: for everybody else they must not mean New York's time.
 * @type {ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>}
 */
const LOCAL_ABBREVIATIONS = new Map([
  [
    'America/Havana',
    new Map([
      ['CST', [-5 * HOUR]],
      ['CDT', [-4 * HOUR]],
    ]),
  ],
]);

/** The zones asked for so far, by ICU's name: some hundreds at most. @type {Map<string, ZoneRules>} */
const known = new Map();

/**
 * @param {string} name
 * @returns {boolean} whether zoneRules() knows it
 */
export function isTimeZone(name) {
  return zoneRules(name) !== null;
}

/**
 * @param {string} name of any case, as `SHOW log_timezone` tells it
 * @returns {ZoneRules | null}
 */
export function zoneRules(name) {
  const fixed = fixedRules(name);
  if (fixed !== null) return fixed;
  const plain = name.replace(DIRECTORY, '');
  if (!NAME.test(plain) || (THREE_LETTERS.test(plain) && !THREE_LETTER_ZONES.test(plain))) return null;
  let format;
  try {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: plain,
      hour: '2-digit',
      timeZoneName: 'longOffset',
    });
  } catch {
    return null;
  }
  const id = format.resolvedOptions().timeZone;
  let rules = known.get(id);
  if (rules === undefined) {
    rules = new HistoricRules(format, id);
    known.set(id, rules);
  }
  return rules;
}

/**
 * POSIX, "Environment Variables", TZ: `std offset`; the offset is what is added to local time to get UTC.
 * @param {string} name
 * @returns {ZoneRules | null}
 */
function fixedRules(name) {
  const match = POSIX_FIXED.exec(name);
  if (match === null) return null;
  const [, quoted, letters = '', sign, hours, minutes = '0', seconds = '0'] = match;
  if (Number(hours) > MAX_POSIX_HOURS || Number(minutes) > 59 || Number(seconds) > 59) return null;
  const west = Number(hours) * HOUR + Number(minutes) * 60 + Number(seconds);
  const east = sign === '-' || west === 0 ? west : -west;
  const span = { from: -Infinity, to: Infinity, earlier: east, later: east };
  return {
    abbreviation: (quoted ?? letters).toUpperCase(),
    spanAt: () => span,
    meaningsOf: name => ABBREVIATIONS.get(name),
  };
}

/** @implements {ZoneRules} */
class HistoricRules {
  /** @type {null} */
  abbreviation = null;
  #format;
  #local;
  /** day -> offset at its beginning, in UTC @type {Map<number, number>} */
  #offsets = new Map();
  /** day -> its spans, in local time @type {Map<number, Span[]>} */
  #spans = new Map();

  /**
   * @param {Intl.DateTimeFormat} format
   * @param {string} id
   */
  constructor(format, id) {
    this.#format = format;
    this.#local = LOCAL_ABBREVIATIONS.get(id);
  }

  /** @param {string} abbreviation */
  meaningsOf(abbreviation) {
    return this.#local?.get(abbreviation) ?? ABBREVIATIONS.get(abbreviation);
  }

  /** @param {number} local */
  spanAt(local) {
    const day = Math.floor(local / DAY);
    let spans = this.#spans.get(day);
    if (spans === undefined) {
      spans = this.#spansOf(day);
      if (this.#spans.size >= MAX_DAYS) this.#spans.clear();
      this.#spans.set(day, spans);
    }
    let index = 0;
    while (local >= spans[index].to) index += 1;
    return spans[index];
  }

  /** @param {number} day local @returns {Span[]} they tile the day */
  #spansOf(day) {
    const from = day * DAY;
    const to = from + DAY;
    // No offset reaches a day, so these instants are all that a clock can show this day for.
    const stretches = this.#stretches(day - 1, day + 2);
    const cuts = new Set([from]);
    for (const { start, end, offset } of stretches) {
      for (const cut of [start + offset, end + offset]) if (cut > from && cut < to) cuts.add(cut);
    }
    const edges = [...cuts, to].toSorted((a, b) => a - b);
    return edges.slice(0, -1).map((edge, index) => {
      const shown = stretches.filter(
        ({ start, end, offset }) => edge >= start + offset && edge < end + offset,
      );
      // In a gap: the last stretch that ended before.
      const first = shown[0] ?? stretches.findLast(({ end, offset }) => end + offset <= edge);
      const last = shown.at(-1) ?? first;
      return { from: edge, to: edges[index + 1], earlier: first?.offset ?? 0, later: last?.offset ?? 0 };
    });
  }

  /**
   * @param {number} firstDay
   * @param {number} lastDay
   * @returns {{ start: number, end: number, offset: number }[]} of instants, each with one offset, in order
   */
  #stretches(firstDay, lastDay) {
    let offset = this.#offsetOfDay(firstDay);
    let start = firstDay * DAY;
    const stretches = [];
    for (let day = firstDay; day < lastDay; day += 1) {
      const next = this.#offsetOfDay(day + 1);
      if (next === offset) continue;
      const end = this.#change(day * DAY, (day + 1) * DAY, offset);
      stretches.push({ start, end, offset });
      start = end;
      offset = next;
    }
    return [...stretches, { start, end: lastDay * DAY, offset }];
  }

  /**
   * @param {number} low an instant when the offset still was `before`
   * @param {number} high one when it no longer was
   * @param {number} before
   * @returns {number} the first second with another offset
   */
  #change(low, high, before) {
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.#offsetAt(middle) === before) low = middle;
      else high = middle;
    }
    return high;
  }

  /** @param {number} day */
  #offsetOfDay(day) {
    let offset = this.#offsets.get(day);
    if (offset === undefined) {
      offset = this.#offsetAt(day * DAY);
      if (this.#offsets.size >= MAX_DAYS) this.#offsets.clear();
      this.#offsets.set(day, offset);
    }
    return offset;
  }

  /** @param {number} instant @returns {number} seconds east of UTC */
  #offsetAt(instant) {
    // `01 AM GMT+02:30:17`, in English whatever the locale of the machine
    const match = /GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(this.#format.format(instant * 1000));
    if (match === null) return 0;
    const [, sign, hours, minutes, seconds = '0'] = match;
    const value = Number(hours) * HOUR + Number(minutes) * 60 + Number(seconds);
    return sign === '-' ? -value : value;
  }
}
