/**
 * A log that is written, rotated, truncated, renamed, removed and compressed at random while it is followed, and a model
 * that knows which lines must be stored exactly once and which may be missing: those whose bytes were destroyed before
 * they were seen in the storage. Every step follows from the seed; only the time the follower takes does not.
 */
import assert from 'node:assert/strict';
import {
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
  appendFileSync,
} from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

/** @typedef {import('./rotation-world.js').Watched} Watched */
/** @typedef {{ lines: Set<string>, seen: boolean, gz: boolean }} Content what one file holds; seen: it was there at a rest */

const KEPT = 4; // rotated files
const COPIED_MIN_BYTES = 1024;

/** mulberry32: 32 bits of state are enough to choose steps. @param {number} seed */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export class RotationModel {
  /** what was done, to be read after a failure @type {string[]} */
  steps = [];
  /** by name in the directory @type {Map<string, Content>} */
  #files = new Map();
  /** lines that were written whole @type {string[]} */
  #written = [];
  /** their bytes are gone, and they were not stored then @type {Set<string>} */
  #mayMiss = new Set();
  /** of these it must be said when they are missing @type {Set<string>} */
  #mustCount = new Set();
  /** the first half of a line that was written, and the rest of it */
  #torn = '';
  /** lines by the halves that may be all that was read of them @type {Map<string, string>} */
  #halves = new Map();
  #tornLine = '';
  #line = 0;
  #fd = -1;
  #name;
  /** what the writer writes to, also when its name is no longer in the directory @type {Content} */
  #content = { lines: new Set(), seen: false, gz: false };
  #generation = 0;
  #connected = false;
  #killed = false;
  #random;
  #watched;
  #kind;
  /** @type {{ name: string, bytes: Buffer, written: number } | null} */
  #compressing = null;

  /**
   * @param {Watched} watched
   * @param {number} seed
   * @param {'name' | 'directory'} kind one file name with what logrotate makes of it, or a directory with new names
   */
  constructor(watched, seed, kind) {
    this.#watched = watched;
    this.#random = random(seed);
    this.#kind = kind;
    this.#name = kind === 'name' ? 'x.log' : 'p-0001.log';
  }

  /** @param {number} n @returns {number} 0 .. n-1 */
  #below(n) {
    return Math.floor(this.#random() * n);
  }

  /** @param {string} text */
  #say(text) {
    this.steps.push(`${new Date().toISOString().slice(17, 23)} ${text}`);
  }

  /** @param {number} steps */
  async run(steps) {
    this.#reopen();
    if (this.#below(2) === 0) this.#write();
    await this.#connect();
    for (let n = 0; n < steps; n += 1) {
      await this.#step();
      if (this.#below(3) === 0) await this.#rest();
    }
    await this.#finish();
  }

  async #step() {
    const steps = [
      () => this.#write(),
      () => this.#write(),
      () => this.#write(),
      () => this.#tear(),
      () => (this.#kind === 'name' ? this.#rename() : this.#next()),
      () => this.#rename(),
      () => this.#copyTruncate(),
      () => this.#copyTruncate(),
      () => this.#truncate(),
      () => this.#compress(),
      () => this.#compress(),
      () => this.#remove(),
      () => (this.#connected ? this.#disconnect() : this.#connect()),
      () => this.#kill(),
      () => this.#touch(),
    ];
    /** @type {(() => void | Promise<void>) | undefined} */
    const step = steps[this.#below(steps.length)];
    if (step) await step();
  }

  async #rest() {
    const ms = [50, 400, 900, 1500, 2500][this.#below(5)] ?? 0;
    this.#say(`wait ${ms}`);
    await sleep(ms);
    if (ms >= 2500 && this.#connected && !this.#killed)
      for (const content of this.#files.values()) content.seen = true;
  }

  #newLine() {
    this.#line += 1;
    const length = [5, 40, 300, 3000][this.#below(4)] ?? 0;
    return `line ${this.#line} ${'abcdefghij '.repeat(length).slice(0, 1 + this.#below(length))}.`;
  }

  /** @param {string} text */
  #put(text) {
    writeSync(this.#fd, text);
  }

  #write() {
    this.#mend();
    const count = 1 + this.#below(this.#below(4) === 0 ? 300 : 5);
    const lines = Array.from({ length: count }, () => this.#newLine());
    this.#say(`write ${lines[0]?.slice(0, 9)} .. ${lines.at(-1)?.slice(0, 9)} to ${this.#name}`);
    this.#put(lines.map(line => `${line}\n`).join(''));
    for (const line of lines) this.#add(line);
  }

  /** @param {string} line */
  #add(line) {
    this.#written.push(line);
    this.#content.lines.add(line);
  }

  #tear() {
    this.#mend();
    this.#tornLine = this.#newLine();
    const at = 1 + this.#below(this.#tornLine.length - 1);
    this.#torn = `${this.#tornLine.slice(at)}\n`;
    this.#say(`half of ${this.#tornLine.slice(0, 9)}`);
    this.#put(this.#tornLine.slice(0, at));
    this.#halves.set(this.#tornLine.slice(0, at), this.#tornLine);
  }

  /** A writer ends its line before anything else happens to it. */
  #mend() {
    if (this.#torn === '') return;
    this.#put(this.#torn);
    this.#add(this.#tornLine);
    this.#torn = '';
  }

  #reopen() {
    if (this.#fd !== -1) closeSync(this.#fd);
    this.#fd = openSync(this.#watched.at(this.#name), 'a');
    this.#content = { lines: new Set(), seen: false, gz: false };
    this.#files.set(this.#name, this.#content);
  }

  /** The next name, as PostgreSQL's collector does. */
  #next() {
    this.#mend();
    this.#generation += 1;
    this.#name = `p-${String(this.#generation + 1).padStart(4, '0')}.log`;
    this.#say(`next file ${this.#name}`);
    this.#reopen();
  }

  /** X.3 -> X.4 ... X -> X.1, without what is X.KEPT. @returns {Promise<boolean>} */
  async #shift() {
    if (this.#compressing) return false;
    for (const suffix of ['', '.gz']) await this.#destroy(`${this.#name}.${KEPT}${suffix}`);
    for (let n = KEPT - 1; n >= 1; n -= 1) {
      for (const suffix of ['', '.gz']) {
        this.#move(`${this.#name}.${n}${suffix}`, `${this.#name}.${n + 1}${suffix}`);
      }
    }
    return true;
  }

  /** @param {string} from @param {string} to */
  #move(from, to) {
    const content = this.#files.get(from);
    if (!content) return;
    renameSync(this.#watched.at(from), this.#watched.at(to));
    this.#files.delete(from);
    this.#files.set(to, content);
  }

  async #rename() {
    if (!(await this.#shift())) return;
    this.#move(this.#name, `${this.#name}.1`);
    // logrotate's `create` makes the file, the writer goes on in the old one until it is told.
    if (this.#below(2) === 0) {
      this.#say('rename, and the writer goes on in the old file');
      writeFileSync(this.#watched.at(this.#name), '');
      if (this.#below(2) === 0) await sleep(700);
      this.#write();
      if (this.#below(2) === 0) await sleep(700);
    }
    this.#mend();
    this.#say('renamed');
    this.#reopen();
  }

  async #copyTruncate() {
    this.#mend();
    // Of less than a head, a copy and what it was made of cannot be told apart when both are new.
    while (fstatSync(this.#fd).size < COPIED_MIN_BYTES) this.#write();
    if (!(await this.#shift())) return;
    this.#say('copy');
    copyFileSync(this.#watched.at(this.#name), this.#watched.at(`${this.#name}.1`));
    const copied = new Set(this.#content.lines);
    this.#files.set(`${this.#name}.1`, { lines: copied, seen: false, gz: false });
    if (this.#below(3) === 0) await sleep(this.#below(1500));
    if (this.#below(3) === 0) this.#write(); // these are lost unless they are read at once
    if (this.#below(3) === 0) await sleep(this.#below(700));
    await this.#truncate();
  }

  async #truncate() {
    this.#mend();
    const { lines } = this.#content;
    this.#content = { lines: new Set(), seen: false, gz: false };
    this.#files.set(this.#name, this.#content);
    await this.#lose(lines, false);
    this.#say('truncate');
    ftruncateSync(this.#fd);
    // refilled, perhaps with more than before
    if (this.#below(3) === 0) this.#write();
  }

  /** Lines that are in no file any more. @param {Set<string>} lines @param {boolean} counted */
  async #lose(lines, counted) {
    const held = new Set([...this.#files.values()].flatMap(content => [...content.lines]));
    const stored = new Set(await this.#watched.lines());
    for (const line of lines) {
      if (held.has(line) || stored.has(line)) continue;
      this.#mayMiss.add(line);
      if (counted) this.#mustCount.add(line);
    }
  }

  /** @param {string} name */
  async #destroy(name) {
    const content = this.#files.get(name);
    if (!content) return;
    this.#files.delete(name);
    await this.#lose(content.lines, content.seen);
    rmSync(this.#watched.at(name));
    this.#say(`remove ${name}`);
  }

  async #remove() {
    const names = [...this.#files.keys()].filter(name => name !== this.#name).toSorted();
    const name = names[this.#below(names.length)];
    if (!name || name === this.#compressing?.name) return;
    await this.#destroy(name);
  }

  /** gzip as a program does it: the new file grows, then the old one is removed. */
  async #compress() {
    if (this.#compressing) return this.#compressed();
    const names = [...this.#files.keys()].filter(name => name !== this.#name && !name.endsWith('.gz'));
    const name = names.toSorted()[this.#below(names.length)];
    if (!name) return;
    // Nobody compresses what is still being written to.
    if (this.#files.get(name) === this.#content) return;
    const bytes = gzipSync(readFileSync(this.#watched.at(name)));
    const written = this.#below(bytes.length);
    this.#say(`gzip ${name}, ${written} of ${bytes.length} bytes`);
    writeFileSync(this.#watched.at(`${name}.gz`), bytes.subarray(0, written));
    this.#compressing = { name, bytes, written };
    if (this.#below(2) === 0) this.#compressed();
  }

  #compressed() {
    if (!this.#compressing) return;
    const { name, bytes, written } = this.#compressing;
    this.#compressing = null;
    const content = this.#files.get(name);
    assert.ok(content);
    this.#say(`gzip ${name} ends`);
    appendFileSync(this.#watched.at(`${name}.gz`), bytes.subarray(written));
    if (!existsSync(this.#watched.at(name))) return;
    rmSync(this.#watched.at(name));
    this.#files.delete(name);
    this.#files.set(`${name}.gz`, { ...content, gz: true, seen: false });
  }

  /** Something else in the directory, or a copy that somebody keeps. */
  #touch() {
    this.#say('another file');
    writeFileSync(this.#watched.at(`.other${this.#below(3)}`), 'no log\n');
  }

  async #connect() {
    this.#say('connect');
    await this.#watched.connect();
    this.#connected = true;
    this.#killed = false;
  }

  async #disconnect() {
    const fence = this.#below(3) === 0;
    this.#say(fence ? 'fence' : 'disconnect');
    await (fence ? this.#watched.fence() : this.#watched.disconnect());
    this.#connected = false;
  }

  #kill() {
    if (!this.#connected || this.#killed) return;
    this.#say('kill');
    this.#watched.kill();
    this.#killed = true; // once: the back-off doubles
  }

  /** Everything is read, then compared. */
  async #finish() {
    this.#compressed();
    if (!this.#connected || this.#killed) {
      if (this.#connected) await this.#disconnect();
      await this.#connect();
    }
    this.#write();
    const last = this.#written.at(-1) ?? '';
    this.#say('finish');
    await this.#watched.sees(last);
    const must = this.#written.filter(line => !this.#mayMiss.has(line));
    await this.#watched
      .until(async () => {
        const stored = new Set(await this.#watched.lines());
        return must.every(line => stored.has(line));
      }, 'all lines that must be stored')
      .catch(() => {}); // told below
    await this.#watched.settled();
    await this.#watched.disconnect();
    await this.#compare();
    closeSync(this.#fd);
  }

  async #compare() {
    const stored = await this.#watched.lines();
    const counts = new Map();
    for (const line of stored) counts.set(line, (counts.get(line) ?? 0) + 1);
    const written = new Set(this.#written);
    const problems = {
      twice: [...counts]
        .filter(([line, count]) => count > 1 && written.has(line))
        .map(([line]) => line.slice(0, 10)),
      missing: this.#written
        .filter(line => !counts.has(line) && !this.#mayMiss.has(line))
        .map(line => line.slice(0, 10)),
      unknown: [...counts.keys()]
        .filter(line => !written.has(line) && !this.#mayMiss.has(this.#halves.get(line) ?? ''))
        .map(line => line.slice(0, 30)),
    };
    const lost = this.#written.filter(line => !counts.has(line));
    const { events } = await this.#watched.lost();
    const uncounted = lost.filter(line => this.#mustCount.has(line));
    if (
      problems.twice.length + problems.missing.length + problems.unknown.length > 0 ||
      (uncounted.length > 0 && events === 0)
    ) {
      const files = (await this.#watched.files()).map(file => JSON.stringify(file)).join('\n');
      throw new Error(
        `${JSON.stringify({ ...problems, uncounted: uncounted.map(line => line.slice(0, 10)), events })}\n${this.steps.join('\n')}\n${files}`,
      );
    }
    this.lost = lost.length;
    this.written = this.#written.length;
  }

  written = 0;
  lost = 0;
}
