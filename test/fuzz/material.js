/**
 * What inputs are made of: records of real logs (test/fixtures), the same written as stderr would have them, and random
 * lines. Pure but for reading the fixtures at load.
 */
import { readFileSync } from 'node:fs';
import { FIXTURES, fixture, readRecord } from '../unit/codec/csvlog-model.js';
import { randomWord } from './mutate.js';

/** @import { Random } from './random.js' */
/** @import { Columns } from '../unit/codec/csvlog-model.js' */

/** @typedef {'csvlog' | 'jsonlog' | 'stderr' | 'plain' | 'bytes'} Format */

const LF = 0x0a;
/** A line that begins so begins a csvlog record. */
const ROW = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} /;

/** Prefixes whose values all have a column: %L has none, and marks in it would be missed. */
export const PREFIXES = [
  '%m [%p] %q%u@%d ',
  '%m [%p] ',
  '%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ',
  '%m [%p] %q%u@%d/%a %r %c %l %i %e %s %v %x %b %P %Q ',
  '%c:%l:%e:',
  '%n %p ',
  '',
];

/** @type {Buffer[]} */
const csvRecords = FIXTURES.flatMap(name => recordsOf(fixture(name), line => ROW.test(line)));
/** @type {Buffer[]} */
const jsonRecords = ['postgresql-15', 'postgresql-18', 'win1251-database'].flatMap(name =>
  recordsOf(readFileSync(new URL(`../fixtures/jsonlog/${name}.json`, import.meta.url)), () => true),
);
/** @type {Columns[]} */
const columnsOfRecords = csvRecords.map(readRecord);

/**
 * @param {Buffer} file
 * @param {(line: string) => boolean} begins whether a record begins with the line
 * @returns {Buffer[]}
 */
function recordsOf(file, begins) {
  /** @type {number[]} */
  const starts = [];
  for (let at = 0; at < file.length; at = file.indexOf(LF, at) + 1) {
    if (begins(file.toString('latin1', at, at + 40))) starts.push(at);
  }
  return starts.map((at, index) => file.subarray(at, starts[index + 1] ?? file.length));
}

/**
 * @param {Random} random
 * @param {Format} format
 * @param {number} records
 * @param {string} [prefix] log_line_prefix of stderr
 * @returns {Buffer}
 */
export function records(random, format, records, prefix = random.pick(PREFIXES)) {
  if (format === 'stderr') return stderrRecords(random, records, prefix);
  const parts = Array.from({ length: records }, () => {
    if (format === 'csvlog') return random.pick(csvRecords);
    if (format === 'jsonlog') return random.pick(jsonRecords);
    return format === 'plain' ? plainLine(random) : random.bytes(random.size(1, 300));
  });
  return Buffer.concat(parts);
}

/** @param {Random} random */
function plainLine(random) {
  const words = Array.from({ length: random.int(12) }, () =>
    random.oneIn(6) ? randomWord(random) : Buffer.from(random.int(1e9).toString(36)),
  );
  return Buffer.concat([...words.flatMap(word => [word, Buffer.from(' ')]), Buffer.from('\n')]);
}

/**
 * Lines of several processes, in any order that leaves each process its own.
 * @param {Random} random
 * @param {number} records
 * @param {string} prefix
 */
function stderrRecords(random, records, prefix) {
  /** @type {Buffer[][]} */
  const open = [];
  /** @type {Buffer[]} */
  const written = [];
  for (let left = records; left > 0 || open.length > 0;) {
    const begins = left > 0 && (open.length === 0 || (open.length < 4 && random.oneIn(3)));
    if (begins) {
      left -= 1;
      const columns = [...random.pick(columnsOfRecords)];
      columns[3] = String(100 + open.length);
      open.push(stderrLines(random, columns, prefix));
    }
    const index = random.int(open.length);
    const line = open[index]?.shift();
    if (line) written.push(line);
    else open.splice(index, 1);
  }
  return Buffer.concat(written);
}

/** Labels of send_message_to_server_log() in its order; the first is replaced by the severity. */
const PARTS = /** @type {const} */ ([
  [13, ''],
  [14, 'DETAIL'],
  [15, 'HINT'],
  [16, 'QUERY'],
  [18, 'CONTEXT'],
  [21, 'LOCATION'],
  [19, 'STATEMENT'],
]);
const LANGUAGES = [
  { DETAIL: 'DETAIL', ERROR: 'ERROR', LOG: 'LOG' },
  { DETAIL: 'ПОДРОБНОСТИ', ERROR: 'ОШИБКА', LOG: 'СООБЩЕНИЕ' },
  { DETAIL: 'DETAIL', ERROR: 'FEHLER', LOG: 'LOG' },
];

/**
 * @param {Random} random
 * @param {Columns} columns
 * @param {string} prefix
 * @returns {Buffer[]} one or more lines each; those of one part stay together
 */
function stderrLines(random, columns, prefix) {
  const words = /** @type {Record<string, string>} */ (random.pick(LANGUAGES));
  return PARTS.flatMap(([column, label]) => {
    const text = columns[column] ?? null;
    if (text === null) return [];
    const name = label === '' ? (columns[11] ?? 'LOG') : label;
    const head = `${Buffer.from(words[name] ?? name).toString('latin1')}:  `;
    const position = column === 13 && columns[20] ? ` at character ${columns[20]}` : '';
    return [
      Buffer.from(
        `${prefixOf(prefix, columns)}${head}${text.replaceAll('\n', '\n\t')}${position}\n`,
        'latin1',
      ),
    ];
  });
}

/** Which column an escape prints. @type {Record<string, number>} */
const ESCAPES = {
  m: 0,
  u: 1,
  d: 2,
  p: 3,
  r: 4,
  c: 5,
  l: 6,
  i: 7,
  s: 8,
  v: 9,
  x: 10,
  e: 12,
  a: 22,
  b: 23,
  P: 24,
  Q: 25,
};
const NAMES = 'uda';

/**
 * @param {string} prefix
 * @param {Columns} columns
 * @returns {string} latin1
 */
function prefixOf(prefix, columns) {
  const [shown = '', behind = ''] = prefix.split('%q');
  const isSession = columns[1] !== null && columns[1] !== undefined;
  return (isSession ? shown + behind : shown).replaceAll(/%(.)/g, (_, letter) => {
    const value = columns[ESCAPES[letter] ?? -1] ?? null;
    if (letter === 't') return (columns[0] ?? '').replace(/\.\d+/, '');
    if (letter === 'n') return `${Math.floor(Date.parse(`${(columns[0] ?? '').slice(0, 23)}Z`) / 1000)}.123`;
    if (letter === 'h') return (columns[4] ?? '').replace(/:\d+$/, '');
    if (letter === 'r') return (columns[4] ?? '').replace(/:(\d+)$/, '($1)');
    return value ?? (NAMES.includes(letter) ? '[unknown]' : '');
  });
}

/**
 * A log of mostly one format.
 * @param {Random} random
 * @param {Format} format
 * @param {{ prefix?: string, mixed?: boolean }} [options] mixed: pieces of other formats in it
 * @returns {Buffer}
 */
export function log(random, format, { prefix, mixed = random.oneIn(4) } = {}) {
  const large = random.oneIn(300);
  const count = random.size(1, large ? 6000 : random.oneIn(20) ? 300 : 20);
  if (!mixed) return records(random, format, count, prefix);
  const parts = Array.from({ length: random.between(2, 6) }, () => {
    const other = random.oneIn(2) ? format : anyFormat(random);
    return records(random, other, random.size(1, count), random.oneIn(3) ? undefined : prefix);
  });
  return Buffer.concat(parts);
}

/** @param {Random} random @returns {Format} */
export const anyFormat = random => random.pick(['csvlog', 'jsonlog', 'stderr', 'plain', 'bytes']);
