/**
 * Reads the times of PostgreSQL's logs, `2026-05-01 12:34:56.789 MSK`, to instants. Called twice a record, so it works
 * on bytes and remembers the last date, the last zone and from when to when its offset holds.
 * A zone is `+03`, `-0330`, `+05:30` or letters. Digits are the offset. Letters are ambiguous (IST is three zones):
 *   - the server's log_timezone decides, if it is known (time-zone.js); an hour that happens twice is told by the
 *     abbreviation where the two differ, else by order: instants in a file rise
 *   - but letters that cannot mean that zone are believed: the file was written under another log_timezone
 *   - without log_timezone they mean what the storage says: its pg_timezone_abbrevs comes in as a Map
 * One reader for each column of a file, since it learns from one time for the next. Never throws.
 */
import { zoneRules } from './time-zone.js';

const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const COLON = 0x3a;
const SPACE = 0x20;
const ZERO = 0x30;
const OPENING_PARENTHESIS = 0x28;
/** Makes a letter lower case. */
const CASE_BIT = 0x20;
const LOWER_A = 0x61;

/** `2026-05-01 12:34:56` */
const SECOND_LENGTH = 19;
/** What the shortest zone and one byte after it need after the second: ` Z,`. */
const SHORTEST_TIME_LENGTH = SECOND_LENGTH + 3;
const LONGEST_ZONE = 32;
/** As in PostgreSQL's DecodeTimezone(): MAX_TZDISP_HOUR. */
const MAX_ZONE_HOURS = 15;
const MICROSECONDS_OF_DIGITS = [0, 100_000, 10_000, 1000, 100, 10, 1];
/**
 * How far times of several processes may be out of order: a time is taken before its line is written. Less than the
 * shortest time that clocks are put back by, half an hour (Lord Howe).
 */
const DISORDER_SECONDS = 300;
/**
 * How far an offset may be from what letters mean and still be of the same zone: letters that the IANA database has
 * given up (YEKT, VET) have but today's offset in pg_timezone_abbrevs, and a server's rules may be older than Node's.
 */
const MOVED_SECONDS = 3600;
/** Abbreviations learned; a zone has two or three. */
const MAX_LEARNED = 16;

/** read(): not `YYYY-MM-DD HH:MM:SS[.ffffff] zone`, or not a date of the calendar. */
export const NOT_A_TIME = -1;
/** read(): well formed, but nobody knows the zone. */
export const UNKNOWN_ZONE = -2;

export class TimeReader {
  #zones;
  #rules;
  #ordered;
  #date = Buffer.alloc(12);
  #dateView = new DataView(this.#date.buffer, this.#date.byteOffset, 12);
  /** days since 1970-01-01 of #date; NaN never equals */
  #dateDays = NaN;
  /** the last zone and the byte after it */
  #zone = Buffer.alloc(LONGEST_ZONE + 1);
  #zoneLength = 0;
  /** the last zone if #rules decide what it means; upper case */
  #abbreviation = '';
  #zoneSeconds = NaN;
  /** local times that the last zone has #zoneSeconds at; none: from > to */
  #from = Infinity;
  #to = -Infinity;
  /** abbreviation without known meanings -> offset it last went with @type {Map<string, number>} */
  #learned = new Map();

  /** seconds since 1970-01-01 UTC of the time last read */
  seconds;
  /** and its fraction */
  microseconds = 0;
  /** UNKNOWN_ZONE: the index after the zone */
  end = 0;

  /**
   * @param {object} options
   * @param {ReadonlyMap<string, number>} options.zones abbreviation (upper case) -> seconds east of UTC
   * @param {string | null} [options.timeZone] the server's log_timezone; one that is not known is as null
   * @param {number} [options.afterMs] the last instant known before the first time read, milliseconds since 1970
   * @param {boolean} [options.ordered] whether the times rise, but for some seconds: log_time. Else, when only order
   *   could tell, an hour that happens twice is the earlier one
   */
  constructor({ zones, timeZone = null, afterMs = -Infinity, ordered = true }) {
    this.#zones = zones;
    this.#rules = timeZone === null ? null : zoneRules(timeZone);
    this.#ordered = ordered;
    this.seconds = Math.floor(afterMs / 1000);
  }

  /**
   * Reads a time up to the first byte that cannot belong to its zone; what that is, is the caller's to check.
   * @param {Buffer} bytes ends with a newline
   * @param {DataView} view of the same bytes
   * @param {number} at where the time begins
   * @returns {number} the index after the zone, or NOT_A_TIME, or UNKNOWN_ZONE; then the last time read stays
   */
  read(bytes, view, at) {
    if (at + SHORTEST_TIME_LENGTH > bytes.length) return NOT_A_TIME;
    if (!(this.#isLastDate(view, at) || this.#readDate(bytes, at))) return NOT_A_TIME;
    const hours = twoDigits(bytes, at + 11);
    const minutes = twoDigits(bytes, at + 14);
    const seconds = twoDigits(bytes, at + 17);
    // twoDigits is 100 or more for anything but two digits.
    if (hours > 23 || minutes > 59 || seconds > 59) return NOT_A_TIME;
    if (bytes[at + 10] !== SPACE || bytes[at + 13] !== COLON || bytes[at + 16] !== COLON) return NOT_A_TIME;
    at += SECOND_LENGTH;
    let fraction = 0;
    if (bytes[at] === DOT) {
      const first = at + 1;
      let digit;
      for (at = first; (digit = digitAt(bytes, at)) <= 9; at += 1) fraction = fraction * 10 + digit;
      const scale = MICROSECONDS_OF_DIGITS[at - first];
      if (scale === undefined || at === first) return NOT_A_TIME;
      fraction *= scale;
    }
    if (bytes[at] !== SPACE) return NOT_A_TIME;
    at += 1;
    if (this.#isLastZone(bytes, at)) {
      at += this.#zoneLength - 1;
    } else {
      at = this.#readZone(bytes, at);
      if (at < 0) return at;
    }
    const local = this.#dateDays * 86_400 + hours * 3600 + minutes * 60 + seconds;
    if (local < this.#from || local >= this.#to) this.#findOffset(local);
    this.seconds = local - this.#zoneSeconds;
    this.microseconds = fraction;
    return at;
  }

  /**
   * @param {DataView} view
   * @param {number} at
   */
  #isLastDate(view, at) {
    const last = this.#dateView;
    return (
      view.getInt32(at) === last.getInt32(0) &&
      view.getInt32(at + 4) === last.getInt32(4) &&
      view.getInt16(at + 8) === last.getInt16(8)
    );
  }

  /**
   * @param {Buffer} bytes
   * @param {number} at
   * @returns {boolean} whether it is a date; then it is the last one
   */
  #readDate(bytes, at) {
    const year = twoDigits(bytes, at) * 100 + twoDigits(bytes, at + 2);
    const month = twoDigits(bytes, at + 5);
    const day = twoDigits(bytes, at + 8);
    if (bytes[at + 4] !== MINUS || bytes[at + 7] !== MINUS) return false;
    if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31) return false;
    const date = new Date(0);
    // Not Date.UTC: it takes the years 0 to 99 for 1900 to 1999.
    date.setUTCFullYear(year, month - 1, day);
    if (date.getUTCDate() !== day) return false;
    this.#dateDays = date.getTime() / 86_400_000;
    bytes.copy(this.#date, 0, at, at + 10);
    return true;
  }

  /**
   * @param {Buffer} bytes
   * @param {number} at
   */
  #isLastZone(bytes, at) {
    const last = this.#zone;
    const length = this.#zoneLength;
    for (let index = 0; index < length; index += 1) {
      if (bytes[at + index] !== last[index]) return false;
    }
    return length > 0;
  }

  /**
   * @param {Buffer} bytes
   * @param {number} at
   * @returns {number} the index after the zone; then it is the last one
   */
  #readZone(bytes, at) {
    const end = endOfZone(bytes, at);
    if (end - at > LONGEST_ZONE) return NOT_A_TIME;
    const zone = bytes.toString('latin1', at, end).toUpperCase();
    const own = zone === this.#rules?.abbreviation;
    if (end === at && !own) return NOT_A_TIME;
    let seconds;
    if (own) seconds = this.#rules?.spanAt(0).earlier;
    else if (isLetter(bytes[at])) seconds = this.#rules === null ? this.#meaningOf(zone) : NaN;
    else seconds = numericZone(zone);
    if (seconds === undefined) {
      this.end = end;
      return UNKNOWN_ZONE;
    }
    // After digits a colon may or may not belong to the zone: that depends on more than the byte after it.
    this.#zoneLength = bytes[end] === COLON && !isLetter(bytes[at]) ? 0 : end + 1 - at;
    bytes.copy(this.#zone, 0, at, at + this.#zoneLength);
    this.#abbreviation = zone;
    this.#zoneSeconds = seconds;
    const decided = !Number.isNaN(seconds);
    this.#from = decided ? -Infinity : Infinity;
    this.#to = decided ? Infinity : -Infinity;
    return end;
  }

  /**
   * What letters mean without log_timezone.
   * @param {string} zone
   * @returns {number | undefined} seconds east of UTC
   */
  #meaningOf(zone) {
    return this.#zones.get(zone) ?? (zone === 'UTC' || zone === 'GMT' || zone === 'Z' ? 0 : undefined);
  }

  /**
   * What the letters of the last zone mean at a local time, by #rules, and for how long.
   * @param {number} local
   */
  #findOffset(local) {
    // Never null: without rules an offset always holds.
    const rules = /** @type {import('./time-zone.js').ZoneRules} */ (this.#rules);
    const span = rules.spanAt(local);
    const { earlier, later } = span;
    const possible = rules.meaningsOf(this.#abbreviation);
    const seconds =
      earlier === later ? this.#checked(earlier, possible) : this.#eitherOf(earlier, later, possible);
    if (Number.isNaN(seconds)) {
      // Each record anew.
      this.#from = Infinity;
      this.#zoneSeconds = this.#byOrder(local, earlier, later);
    } else {
      this.#from = span.from;
      this.#to = span.to;
      this.#zoneSeconds = seconds;
    }
  }

  /**
   * @param {number} offset the only one that log_timezone has at that time
   * @param {readonly number[] | undefined} possible
   * @returns {number} it, unless the last zone's letters mean something else
   */
  #checked(offset, possible) {
    const zone = this.#abbreviation;
    const meaning = this.#meaningOf(zone);
    if (possible !== undefined) {
      if (possible.includes(offset)) return offset;
      const near = possible.find(value => Math.abs(value - offset) <= MOVED_SECONDS);
      return near ?? meaning ?? (possible.length === 1 ? possible[0] : offset);
    }
    if (meaning !== undefined && Math.abs(meaning - offset) > MOVED_SECONDS) return meaning;
    if (this.#learned.size >= MAX_LEARNED) this.#learned.clear();
    this.#learned.set(zone, offset);
    return offset;
  }

  /**
   * @param {number} earlier
   * @param {number} later
   * @param {readonly number[] | undefined} possible
   * @returns {number} which of them the last zone's letters mean, or what else; NaN: they do not tell
   */
  #eitherOf(earlier, later, possible) {
    const zone = this.#abbreviation;
    const meaning = this.#meaningOf(zone);
    if (possible !== undefined) {
      const isEarlier = possible.includes(earlier);
      const isLater = possible.includes(later);
      if (isEarlier !== isLater) return isEarlier ? earlier : later;
      // Europe/Moscow of 2014-10-26 wrote MSK for both.
      return isEarlier ? NaN : (meaning ?? (possible.length === 1 ? possible[0] : NaN));
    }
    // The last lesson is of the time before the clocks were put back. So letters that went with the later offset are
    // told from the others; those that went with the earlier one may also be used for both.
    const learned = this.#learned.get(zone);
    if (learned === later) return later;
    if (meaning === earlier) return earlier;
    if (meaning === later) return learned === undefined ? later : NaN;
    const moved =
      meaning === undefined ||
      Math.abs(meaning - earlier) <= MOVED_SECONDS ||
      Math.abs(meaning - later) <= MOVED_SECONDS;
    return moved ? NaN : meaning;
  }

  /**
   * The earliest that is not clearly before the last time; so reading a time twice gives the same.
   * @param {number} local
   * @param {number} earlier
   * @param {number} later
   * @returns {number} one of the two
   */
  #byOrder(local, earlier, later) {
    const least = this.#ordered ? this.seconds - DISORDER_SECONDS : -Infinity;
    return local - earlier < least && local - later >= least ? later : earlier;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} the index after the zone at `at`; `at`: there is none
 */
function endOfZone(bytes, at) {
  const first = at;
  if (bytes[at] !== PLUS && bytes[at] !== MINUS) {
    while (isLetter(bytes[at])) at += 1;
    return at;
  }
  at += 1;
  while (digitAt(bytes, at) <= 9) at += 1;
  if (at === first + 1) return first;
  let end = at;
  while (bytes[end] === COLON && twoDigits(bytes, end + 1) <= 99) end += 3;
  // In stderr a colon may come from log_line_prefix: in `-03:10.0.0.7` the zone ends before it.
  const next = bytes[end];
  const goesOn =
    digitAt(bytes, end) <= 9 ||
    isLetter(next) ||
    next === DOT ||
    next === COLON ||
    next === OPENING_PARENTHESIS;
  return goesOn ? at : end;
}

/**
 * @param {string} zone as endOfZone() finds it, beginning with a sign
 * @returns {number | undefined} seconds east of UTC
 */
function numericZone(zone) {
  const match = /^([+-])(\d{1,2})(?::?(\d{2})(?::(\d{2}))?)?$/.exec(zone);
  if (!match) return undefined;
  const [, sign, hours, minutes = '0', seconds = '0'] = match;
  if (Number(hours) > MAX_ZONE_HOURS || Number(minutes) > 59 || Number(seconds) > 59) return undefined;
  return (sign === '-' ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds));
}

/** @param {number | undefined} byte */
function isLetter(byte) {
  return (((byte ?? 0) | CASE_BIT) - LOWER_A) >>> 0 < 26;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} 0..9, or far above for what is not a digit
 */
function digitAt(bytes, at) {
  // Past the end there is no byte, which is no digit either.
  return bytes[at] ^ ZERO;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} 0..99, or above for what is not two digits
 */
function twoDigits(bytes, at) {
  const tens = digitAt(bytes, at);
  const ones = digitAt(bytes, at + 1);
  return tens > 9 || ones > 9 ? 1_000_000 : tens * 10 + ones;
}
