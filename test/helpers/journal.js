/**
 * The journal export format, written independently of its decoder, and real journal files made from it by
 * systemd-journal-remote.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';

/**
 * @typedef {object} Entry
 * @property {number} timeUs
 * @property {string | Buffer} message
 * @property {string} [unit]
 * @property {string} [pid]
 * @property {string} [lineBreak]
 * @property {string} [transport]
 * @property {Record<string, string>} [fields] further ones, before the message
 * @property {string} [cursor] left out for journal-remote, which makes its own
 */

export const UNIT = 'postgresql@15-main.service';
const BOOT = '0123456789abcdef0123456789abcdef';
export const START_US = 1_790_000_000_000_000;
const DROPPED_ID = 'a596d6fe7bfa4994828e72309e95d61e';

/** @param {string} name @param {string | Buffer} value @param {boolean} [asBlob] */
export function field(name, value, asBlob) {
  const bytes = Buffer.from(value);
  if (!(asBlob ?? (bytes.includes(10) || bytes.some(byte => byte < 32 && byte !== 9)))) {
    return Buffer.concat([Buffer.from(`${name}=`), bytes, Buffer.from('\n')]);
  }
  const length = Buffer.alloc(8);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([Buffer.from(`${name}\n`), length, bytes, Buffer.from('\n')]);
}

/** A cursor as sd_journal_get_cursor(3) makes it. @param {number} number @param {number} timeUs @param {string} [sequence] */
export function cursorOf(number, timeUs, sequence = 'd00fee1acd464d27b658955a5ea3ff7d') {
  const hash = (BigInt(number) * 0x9e3779b97f4a7c15n) & 0xffffffffffffffffn;
  const monotonic = timeUs - START_US + 1_000_000;
  return `s=${sequence};i=${number.toString(16)};b=${BOOT};m=${monotonic.toString(16)};t=${timeUs.toString(16)};x=${hash.toString(16)}`;
}

/** @param {Entry} entry */
export function exported({
  timeUs,
  message,
  unit = UNIT,
  pid,
  lineBreak,
  transport = 'stdout',
  fields = {},
  cursor,
}) {
  const all = [
    ...(cursor ? [field('__CURSOR', cursor)] : []),
    field('__REALTIME_TIMESTAMP', String(timeUs)),
    field('__MONOTONIC_TIMESTAMP', String(timeUs - START_US + 1_000_000)),
    field('_BOOT_ID', BOOT),
    field('_TRANSPORT', transport),
    ...(transport === 'driver' ? [] : [field('_SYSTEMD_UNIT', unit)]),
    ...(pid ? [field('_PID', pid)] : []),
    ...Object.entries(fields).map(([name, value]) => field(name, value)),
    field('MESSAGE', message),
    ...(lineBreak ? [field('_LINE_BREAK', lineBreak)] : []),
  ];
  return Buffer.concat([...all, Buffer.from('\n')]);
}

/** What journald writes when it has dropped messages. @param {number} timeUs @param {number} count @param {boolean} [counted] */
export function suppressed(timeUs, count, counted = true) {
  return {
    timeUs,
    transport: 'driver',
    message: `Suppressed ${count} messages from ${UNIT}`,
    fields: { MESSAGE_ID: DROPPED_ID, ...(counted && { N_DROPPED: String(count) }) },
  };
}

/** A running writer of one journal file. Entries are visible to readers soon after write(), all of them after end(). */
export class JournalWriter {
  /** @param {string} path .journal */
  constructor(path) {
    const program = ['/usr/lib/systemd', '/lib/systemd']
      .map(directory => `${directory}/systemd-journal-remote`)
      .find(file => existsSync(file));
    if (!program)
      throw new Error('systemd-journal-remote is not there: apt-get install systemd-journal-remote');
    this.process = spawn(program, ['-o', path, '-'], { stdio: ['pipe', 'ignore', 'pipe'] });
    this.exited = once(this.process, 'exit');
    this.stderr = '';
    this.process.stderr.on('data', chunk => (this.stderr += String(chunk)));
    this.process.stdin.on('error', () => {});
  }

  /** @param {Entry[]} entries */
  write(entries) {
    for (const entry of entries) this.process.stdin.write(exported(entry));
  }

  async end() {
    this.process.stdin.end();
    const [code] = await this.exited;
    if (code !== 0) throw new Error(`systemd-journal-remote: ${this.stderr}`);
  }
}

/** @param {string} path @param {Entry[]} entries */
export async function writeJournal(path, entries) {
  const writer = new JournalWriter(path);
  writer.write(entries);
  await writer.end();
}
