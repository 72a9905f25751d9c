/**
 * Reads the times of csvlog: `2026-05-01 12:34:56.789 MSK`, as write_csvlog() formats them, to the instant that
 * PostgreSQL's COPY would store for them. Called twice a record, so it works on bytes and remembers the last date
 * and the last zone, which rarely change from one record to the next.
 * A zone is `+03`, `-0330`, `+05:30` or an abbreviation. What an abbreviation means is the storage's to say (IST is
 * three zones): its pg_timezone_abbrevs comes in as a Map.
 */

const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const COLON = 0x3a;
const SPACE = 0x20;
const ZERO = 0x30;

/** `2026-05-01 12:34:56` */
const SECOND_LENGTH = 19;
/** What the shortest zone and the comma need after the second: ` Z,`. */
const SHORTEST_TIME_LENGTH = SECOND_LENGTH + 3;
const LONGEST_ZONE = 32;
/** As in PostgreSQL's DecodeTimezone(): MAX_TZDISP_HOUR. */
const MAX_ZONE_HOURS = 15;
const MICROSECONDS_OF_DIGITS = [0, 100_000, 10_000, 1000, 100, 10, 1];

/** read(): not `YYYY-MM-DD HH:MM:SS[.ffffff] zone,` or not a date of the calendar. */
const NOT_A_TIME = -1;
/** read(): well formed, but neither numeric nor in the Map. */
export const UNKNOWN_ZONE = -2;

export class CsvlogTimeReader {
  #zones;
  #date = Buffer.alloc(12);
  #dateView = new DataView(this.#date.buffer, this.#date.byteOffset, 12);
  /** days since 1970-01-01 of #date; NaN never equals */
  #dateDays = NaN;
  /** the last zone and the comma after it */
  #zone = Buffer.alloc(0);
  #zoneSeconds = 0;

  /** seconds since 1970-01-01 UTC of the time last read */
  seconds = 0;
  /** and its fraction */
  microseconds = 0;

  /** @param {ReadonlyMap<string, number>} zones abbreviation (upper case) -> seconds east of UTC */
  constructor(zones) {
    this.#zones = zones;
  }

  /**
   * Reads a time and the comma after it.
   * @param {Buffer} bytes ends with a newline
   * @param {DataView} view of the same bytes
   * @param {number} at where the time begins
   * @returns {number} the index of the comma, or NOT_A_TIME, or UNKNOWN_ZONE
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
      at += this.#zone.length - 1;
    } else {
      at = this.#readZone(bytes, at);
      if (at < 0) return at;
    }
    this.seconds = this.#dateDays * 86_400 + hours * 3600 + minutes * 60 + seconds - this.#zoneSeconds;
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
    for (let index = 0; index < last.length; index += 1) {
      if (bytes[at + index] !== last[index]) return false;
    }
    return last.length > 0;
  }

  /**
   * @param {Buffer} bytes
   * @param {number} at
   * @returns {number} the index of the comma after the zone; then it is the last one
   */
  #readZone(bytes, at) {
    const end = bytes.subarray(at, at + LONGEST_ZONE + 1).indexOf(COMMA) + at;
    if (end <= at) return NOT_A_TIME;
    const zone = bytes.toString('latin1', at, end);
    const seconds = numericZone(zone) ?? this.#zones.get(zone) ?? this.#zones.get(zone.toUpperCase());
    if (seconds === undefined) return UNKNOWN_ZONE;
    this.#zone = Buffer.from(bytes.subarray(at, end + 1));
    this.#zoneSeconds = seconds;
    return end;
  }
}

/**
 * @param {string} zone
 * @returns {number | undefined} seconds east of UTC
 */
function numericZone(zone) {
  const match = /^([+-])(\d{1,2})(?::?(\d{2}))?$/.exec(zone);
  if (!match) return undefined;
  const hours = Number(match[2]);
  const minutes = Number(match[3] ?? 0);
  if (hours > MAX_ZONE_HOURS || minutes > 59) return undefined;
  return (match[1] === '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number} 0..9, or far above for what is not a digit
 */
function digitAt(bytes, at) {
  return (bytes[at] - ZERO) >>> 0;
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
