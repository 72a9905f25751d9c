/**
 * The parts of log lines (find-prefix-parts.js) -> the text of log_line_prefix that prints them. A meaning is given
 * only where the lines show it: by a label before the value, by what messages say, or by how the values behave (a
 * number that equals the process in the session id, that rises by 1 within a process, that is never seen twice).
 * null where something is left without a meaning, unless it is the same in all lines: then it is literal text.
 */
import { UNKNOWN_NAMES } from './line-prefix-fields.js';
import { compareFacts, countRises, isHost, isRising, processOf } from './find-prefix-facts.js';

/** @import { Facts } from './find-prefix-facts.js' */
/** @import { Part } from './find-prefix-parts.js' */

/** Of the pairs of lines that could rise by 1, so many must. */
const RISING_SHARE = 0.9;
/** Lines that make a text that never changes one of the setting. */
const MANY_LINES = 10;
const MAX_XID = 0xffff_ffffn;

/** The word before a value -> its letter, as people label them. @type {readonly (readonly [RegExp, string])[]} */
const NUMBER_LABELS = [
  [/^(?:pid|process|proc|process_id|procid)$/, 'p'],
  [/^(?:line|seq|log_line|line_num|linenum|ln)$/, 'l'],
  [/^(?:xid|txid|trx|trans|transaction|tx|xact)$/, 'x'],
  [/^(?:qid|queryid|query_id|query)$/, 'Q'],
  [/^(?:leader|leader_pid|lpid|ppid)$/, 'P'],
];
/** @type {readonly (readonly [RegExp, string])[]} */
const TEXT_LABELS = [
  [/^(?:user|usr|username|user_name|role|u)$/, 'u'],
  [/^(?:db|database|dbname|database_name|d)$/, 'd'],
  [/^(?:app|application|appname|application_name|app_name|a)$/, 'a'],
  [/^(?:client|host|remote|addr|ip|from|remote_host|client_addr|h|r|rhost)$/, 'h'],
  [/^(?:type|backend|backend_type|bt|btype)$/, 'b'],
  [/^(?:cmd|tag|command|command_tag|ps)$/, 'i'],
];
/** Escapes that print `[unknown]`. */
const NAMES = ['u', 'd', 'a'];
const UNKNOWN = new Set(UNKNOWN_NAMES.map(name => name.toString('latin1')));
const BACKEND =
  /^(?:postmaster|(?:dead-end )?client backend|(?:standalone|autovacuum|background|parallel|io|slotsync|logical replication)\b.*|checkpointer|startup|walreceiver|walsender|walwriter|walsummarizer|archiver|logger|not initialized)$/;
const ACTIVITY =
  /^(?:idle(?: in transaction(?: \(aborted\))?)?|authentication|startup|initializing|streaming .*|[A-Z]{2,}(?: [A-Z]+)*(?: waiting)?)$/;

/**
 * @param {Part[]} parts
 * @param {Facts[]} facts by line
 * @returns {string | null}
 */
export function nameParts(parts, facts) {
  const namer = new Namer(parts, facts);
  return namer.run();
}

class Namer {
  #parts;
  #facts;
  /** @type {Map<Part, string>} '' for text that is literal */
  #letters = new Map();

  /**
   * @param {Part[]} parts
   * @param {Facts[]} facts
   */
  constructor(parts, facts) {
    this.#parts = parts;
    this.#facts = facts;
  }

  /** @returns {string | null} */
  run() {
    for (const [kind, letter] of /** @type {const} */ ([
      ['timeMs', 'm'],
      ['epoch', 'n'],
      ['session', 'c'],
      ['vxid', 'v'],
      ['state', 'e'],
    ])) {
      const [part] = this.#ofKind(kind);
      if (part) this.#letters.set(part, letter);
    }
    this.#nameTimes();
    this.#nameNumbers();
    this.#nameTexts();
    return this.#text();
  }

  /** @param {Part['kind']} kind */
  #ofKind(kind) {
    return this.#parts.filter(part => part.kind === kind && !this.#letters.has(part));
  }

  /** @param {string} letter */
  #named(letter) {
    return [...this.#letters].find(([, name]) => name === letter)?.[0];
  }

  /**
   * @param {Part} part
   * @param {string} letter
   */
  #name(part, letter) {
    if (!this.#named(letter)) this.#letters.set(part, letter);
  }

  #nameTimes() {
    const times = this.#ofKind('time');
    const log = this.#named('m')?.values.map(time => time?.slice(0, 19));
    const others = log ? times : times.filter(({ values }) => isRising(values));
    // Without milliseconds the later of two is the time of the line, the other that of the session.
    const now = log ?? others.toSorted((a, b) => compareTimes(b.values, a.values))[0]?.values;
    for (const part of times) {
      const same = part.values.every(
        (time, line) => time === undefined || time.slice(0, 19) === now?.[line]?.slice(0, 19),
      );
      const before = part.values.every(
        (time, line) => time === undefined || !now || time.slice(0, 19) <= (now[line] ?? ''),
      );
      if (same) this.#name(part, 't');
      else if (before) this.#name(part, 's');
    }
  }

  #nameNumbers() {
    const numbers = this.#ofKind('number');
    for (const part of numbers) this.#nameByLabel(part, NUMBER_LABELS);
    const left = () => numbers.filter(part => !this.#letters.has(part));
    const full = () =>
      left().filter(({ values }) => values.every(value => value === undefined || /^[1-9]\d*$/.test(value)));

    const session = this.#named('c');
    if (session && !this.#named('p')) {
      const found = full().find(({ values }) =>
        values.every(
          (value, line) => value === undefined || Number(value) === processOf(session.values[line]),
        ),
      );
      if (found) this.#letters.set(found, 'p');
    }
    if (!session && !this.#named('p')) {
      const found = this.#findProcess(full());
      if (found) this.#letters.set(found, 'p');
    }
    const keys = (this.#named('p') ?? session)?.values;
    for (const part of keys ? full() : []) {
      const { rises, others } = countRises(keys ?? [], part.values);
      if (rises > 0 && rises >= (rises + others) * RISING_SHARE) this.#name(part, 'l');
    }
    for (const part of left()) {
      const values = part.values.flatMap(value => (value ? [BigInt(value)] : []));
      if (part.values.includes('')) this.#name(part, 'P');
      else if (values.some(value => value < 0n || value > MAX_XID)) this.#name(part, 'Q');
      else if (!values.includes(0n)) continue;
      else if (values.some(value => value > 0n) || this.#follows(part, 'v')) this.#name(part, 'x');
      else if (this.#named('x')) this.#name(part, 'Q');
    }
    // Nothing that PostgreSQL counts is the same in several processes, but 0.
    for (const part of new Set(keys).size > 1 ? full() : []) {
      if (new Set(part.values).size === 1) this.#letters.set(part, '');
    }
  }

  /**
   * The number that is the process: the one within which another rises by 1, else the only one that changes, where
   * some process wrote twice or it stands in brackets, and it does not itself look like the numbers of lines.
   * @param {Part[]} numbers
   */
  #findProcess(numbers) {
    for (const part of numbers) {
      for (const line of numbers) {
        if (line === part) continue;
        const { rises, others } = countRises(part.values, line.values);
        if (rises > 0 && rises >= (rises + others) * RISING_SHARE) return part;
      }
    }
    const changing = numbers.filter(({ values }) => new Set(values).size > 1);
    const candidates = changing.length > 0 ? changing : numbers;
    const [part] = candidates;
    if (!part || candidates.length > 1) return undefined;
    if (/[[(]$/.test(this.#before(part))) return part;
    const values = part.values.filter(value => value !== undefined);
    return new Set(values).size < values.length && !areCounted(values) ? part : undefined;
  }

  #nameTexts() {
    const texts = this.#ofKind('free');
    for (const part of texts) {
      // Written for a process without a client, and often the client's own address otherwise.
      if (part.values.includes('[none]')) this.#name(part, 'L');
      else this.#nameByLabel(part, TEXT_LABELS);
    }
    for (const part of texts) {
      if (this.#letters.has(part)) continue;
      for (const letter of ['u', 'd', 'a', 'r', 'h']) {
        const { hits, misses } = compareFacts(letter, part.values, this.#facts);
        if (hits > 0 && misses === 0 && !this.#named(letter)) {
          this.#name(part, letter);
          break;
        }
      }
    }
    for (const part of texts) {
      if (this.#letters.has(part)) continue;
      const values = part.values.filter(value => value);
      if (values.length === 0) continue;
      if (values.every(value => BACKEND.test(value ?? ''))) this.#name(part, 'b');
      else if (values.every(value => isAddress(value ?? '')))
        this.#name(part, values.some(value => value?.endsWith(')')) ? 'r' : 'h');
      else if (
        values.some(value => /^(?:idle|authentication)/.test(value ?? '')) &&
        values.every(value => ACTIVITY.test(value ?? ''))
      )
        this.#name(part, 'i');
      else if (this.#isBeforeAt(part)) this.#name(part, 'u');
      else if (this.#isBehindAt(part)) this.#name(part, 'd');
      else if (this.#isLastName(part)) this.#name(part, NAMES.find(letter => !this.#named(letter)) ?? '');
      else if (isSame(part.values)) this.#letters.set(part, '');
    }
  }

  /**
   * @param {Part} part
   * @param {readonly (readonly [RegExp, string])[]} labels
   */
  #nameByLabel(part, labels) {
    const label = /([A-Za-z_]+) ?[=:] ?["'[(]?$/.exec(this.#before(part))?.[1]?.toLowerCase();
    if (label === undefined) return;
    const letter = labels.find(([pattern]) => pattern.test(label))?.[1];
    if (letter === undefined) return;
    if (letter === 'h') {
      if (!part.values.every(isHost)) return;
      this.#name(part, part.values.some(value => value?.endsWith(')')) ? 'r' : 'h');
    } else {
      this.#name(part, letter);
    }
  }

  /**
   * @param {Part} part
   * @returns {string} the literal text before it
   */
  #before(part) {
    let text = '';
    for (let index = this.#parts.indexOf(part) - 1; index >= 0; index -= 1) {
      const before = this.#parts[index];
      if (before?.kind === 'literal') text = before.text + text;
      else if (before?.kind !== 'quit') break;
    }
    return text;
  }

  /**
   * @param {Part} part
   * @param {string} letter
   * @returns {boolean} whether the value before it has this letter
   */
  #follows(part, letter) {
    const before = this.#parts
      .slice(0, this.#parts.indexOf(part))
      .findLast(({ kind }) => kind !== 'literal' && kind !== 'quit');
    return before !== undefined && this.#letters.get(before) === letter;
  }

  /**
   * @param {Part} part
   * @returns {boolean} whether it is the one of user, database and application that is left: nothing else is unknown
   */
  #isLastName(part) {
    const unknown = part.values.some(value => UNKNOWN.has(value ?? ''));
    return unknown && NAMES.filter(letter => this.#named(letter)).length === 2;
  }

  /** @param {Part} part */
  #isBeforeAt(part) {
    const index = this.#parts.indexOf(part);
    return this.#parts[index + 1]?.text === '@' && this.#parts[index + 2]?.kind === 'free';
  }

  /** @param {Part} part */
  #isBehindAt(part) {
    const index = this.#parts.indexOf(part);
    const user = this.#parts[index - 2];
    return this.#parts[index - 1]?.text === '@' && user !== undefined && this.#letters.get(user) === 'u';
  }

  /** @returns {string | null} */
  #text() {
    let text = '';
    for (const part of this.#parts) {
      const letter = this.#letters.get(part);
      if (part.kind === 'literal') text += escaped(part.text);
      else if (part.kind === 'quit') text += '%q';
      else if (letter) text += `%${part.width || ''}${letter}`;
      else if (letter === '' && part.width === 0) text += escaped(part.values.find(value => value) ?? '');
      else return null;
    }
    return text;
  }
}

/** @param {string} text latin1 */
function escaped(text) {
  return Buffer.from(text.replaceAll('%', '%%'), 'latin1').toString();
}

/**
 * @param {string[]} values numbers by line
 * @returns {boolean} whether most follow an earlier one by 1, as the line numbers of several processes do
 */
function areCounted(values) {
  /** @type {Map<string, number>} number -> processes whose last line it may be of */
  const last = new Map();
  let rises = 0;
  for (const value of values) {
    const before = String(BigInt(value) - 1n);
    const waiting = last.get(before) ?? 0;
    if (waiting > 0) {
      last.set(before, waiting - 1);
      rises += 1;
    }
    last.set(value, (last.get(value) ?? 0) + 1);
  }
  return rises > values.length / 2;
}

/**
 * @param {(string | undefined)[]} values
 * @returns {boolean} whether the text is the same in so many lines that it must be part of the setting
 */
function isSame(values) {
  const [first = ''] = values;
  return values.length >= MANY_LINES && !/^\d*$/.test(first) && values.every(value => value === first);
}

/** @param {string} value an address, not just any word */
function isAddress(value) {
  return isHost(value) && (value === '[local]' || /^[\d.]+(?:\(\d+\))?$|:|\(\d+\)$/.test(value));
}

/**
 * @param {(string | undefined)[]} a
 * @param {(string | undefined)[]} b
 * @returns {number} > 0: a is the later one
 */
function compareTimes(a, b) {
  let later = 0;
  for (const [line, time] of a.entries()) {
    const other = b[line];
    if (time === undefined || other === undefined || time === other) continue;
    later += time > other ? 1 : -1;
  }
  return later;
}
