/**
 * What log lines say about themselves: names and addresses inside messages, and rules that values obey whatever the
 * log. They decide between meanings and refuse a prefix that the lines contradict. Called by the finder of
 * log_line_prefix, with the lines of one sample as latin1 text.
 */

/**
 * @typedef {object} Line a line with a message
 * @property {string} head what stands before the message
 * @property {string} message from the severity or label on
 */

/** @typedef {Record<string, string>} Facts letter of an escape -> its value in this line */

/** A rule may be broken by so many of the lines: a pid is used again, a clock is set back. */
const TOLERATED = 0.1;
/** What host names and addresses consist of, with the port that %r has. */
const HOST =
  /^(?:\[local\]|(?:[0-9A-Za-z._%-]*[.][0-9A-Za-z._%-]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.%a-z0-9]*|[A-Za-z][0-9A-Za-z_-]*)(?:\(\d+\))?)$/;

/** Messages that name what the prefix may hold, too (PostgreSQL 13 to 18, English). */
const TELLING = [
  /connection authorized: user=(?<u>.+?) database=(?<d>.+?)(?: application_name=(?<a>.*?))?(?: SSL enabled| GSS|$)/,
  /replication connection authorized: user=(?<u>.+?)(?: application_name=(?<a>.*?))?(?: SSL enabled| GSS|$)/,
  /disconnection: session time: \S+ user=(?<u>.+) database=(?<d>.+) host=(?<h>\S+?)(?: port=(?<port>\d+))?$/,
  /connection received: host=(?<h>\S+)(?: port=(?<port>\d+))?$/,
  /^FATAL: {2}(?:\w{5}: )?role "(?<u>.+)" does not exist$/,
  /^FATAL: {2}(?:\w{5}: )?database "(?<d>.+)" does not exist$/,
  /authentication failed for user "(?<u>.+)"$/,
  /^FATAL: {2}(?:\w{5}: )?no pg_hba.conf entry for .*host "(?<h>\S+)", user "(?<u>.+)", database "(?<d>.+?)"/,
];

/**
 * @param {Line} line
 * @returns {Facts}
 */
export function factsOf({ message }) {
  for (const telling of TELLING) {
    const groups = telling.exec(message)?.groups;
    if (!groups) continue;
    const { port, h, ...facts } = groups;
    if (h) {
      facts.h = h;
      facts.r = port ? `${h}(${port})` : h;
    }
    return Object.fromEntries(Object.entries(facts).filter(([, value]) => value));
  }
  return {};
}

/**
 * @param {string} letter
 * @param {(string | undefined)[]} values by line; undefined: not there
 * @param {Facts[]} facts by line
 * @returns {{ hits: number, misses: number }}
 */
export function compareFacts(letter, values, facts) {
  let hits = 0;
  let misses = 0;
  for (const [line, value] of values.entries()) {
    const known = facts[line]?.[letter];
    // Before a session knows its names the prefix has none.
    if (known === undefined || value === undefined || value === '' || /^\[.*\]$/.test(value)) continue;
    if (known === value) hits += 1;
    else misses += 1;
  }
  return { hits, misses };
}

/** @param {string | undefined} value */
export function isHost(value) {
  return value === undefined || value === '' || HOST.test(value);
}

/**
 * @param {(string | undefined)[]} keys the process of each line
 * @param {(string | undefined)[]} values a number by line
 * @returns {{ rises: number, others: number }} how often a number follows its process' last one by 1, and how often not
 */
export function countRises(keys, values) {
  const last = new Map();
  let rises = 0;
  let others = 0;
  for (const [line, value] of values.entries()) {
    if (value === undefined || value === '') continue;
    const before = last.get(keys[line]);
    last.set(keys[line], BigInt(value));
    if (before === undefined) continue;
    if (BigInt(value) === before + 1n) rises += 1;
    else others += 1;
  }
  return { rises, others };
}

/**
 * @param {(string | undefined)[]} times of one zone, by line
 * @returns {boolean} whether they hardly ever go back
 */
export function isRising(times) {
  let last = '';
  let back = 0;
  for (const time of times) {
    if (time === undefined) continue;
    if (time < last) back += 1;
    last = time;
  }
  return back <= times.length * TOLERATED;
}

/**
 * @param {Map<string, (string | undefined)[]>} values letter of an escape -> its text by line
 * @param {Line[]} lines
 * @param {Facts[]} facts by line
 * @returns {boolean} whether some of the lines show that a letter means something else
 */
export function isContradicted(values, lines, facts) {
  const few = lines.length * TOLERATED;
  /**
   * @param {string} letter
   * @param {(value: string, line: number) => boolean} test
   */
  const breaks = (letter, test) => {
    const list = values.get(letter) ?? [];
    return (
      list.filter((value, line) => value !== undefined && value !== '' && !test(value, line)).length > few
    );
  };
  for (const letter of ['u', 'd', 'a', 'h', 'r']) {
    const { hits, misses } = compareFacts(letter, values.get(letter) ?? [], facts);
    if (misses > hits * TOLERATED) return true;
  }
  const sessions = values.get('c');
  if (breaks('h', value => isHost(value) && !value.endsWith(')')) || breaks('r', isHost)) return true;
  if (breaks('p', value => BigInt(value) > 0n)) return true;
  if (sessions && breaks('p', (value, line) => Number(value) === processOf(sessions[line]))) return true;
  if (
    breaks(
      'e',
      (value, line) => value !== '00000' || !/^(?:ERROR|FATAL|PANIC)/.test(lines[line]?.message ?? ''),
    )
  )
    return true;
  const keys = values.get('p') ?? sessions;
  if (keys) {
    const { rises, others } = countRises(keys, values.get('l') ?? []);
    if (others > (rises + others) * TOLERATED) return true;
  }
  return ['m', 't', 'n'].some(letter => !isRising(values.get(letter) ?? []));
}

/** @param {string | undefined} session `69f4a1b0.1092` */
export function processOf(session) {
  return Number.parseInt(session?.split('.')[1] ?? '', 16);
}
