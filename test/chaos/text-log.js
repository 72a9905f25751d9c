/**
 * A text log that somebody writes, rotates, truncates and copies while it is followed, and the account of its lines: each
 * must be stored once, but those whose bytes were destroyed before they were seen in the storage may be missing. They
 * are the only ones: what PostgreSQL's collector writes is never destroyed unread here.
 */
import {
  closeSync,
  copyFileSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

const NAME = 'app.log';
const KEPT = 5; // rotated files
const WRITE_MS = 20;

export class TextLog {
  #fd = -1;
  #line = 0;
  /** every line by the name of the file that holds it @type {Map<string, string[]>} */
  #files = new Map();
  /** @type {Set<string>} */
  #mayMiss = new Set();
  #stored;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;
  #busy = false;

  /** every line, in order @type {string[]} */
  written = [];

  /**
   * @param {string} directory is made
   * @param {() => Promise<Set<string>>} stored the lines that are stored now
   */
  constructor(directory, stored) {
    mkdirSync(directory, { recursive: true, mode: 0o755 });
    this.directory = directory;
    this.path = join(directory, NAME);
    this.#stored = stored;
    this.#open();
  }

  start() {
    this.#timer = setInterval(() => {
      if (!this.#busy) this.#write();
    }, WRITE_MS);
  }

  stop() {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  close() {
    this.stop();
    closeSync(this.#fd);
  }

  /** @returns {string[]} lines that must be stored */
  get due() {
    return this.written.filter(line => !this.#mayMiss.has(line));
  }

  /** logrotate's default: rename, and the writer opens a new file. */
  async rename() {
    await this.#exclusively(async () => {
      await this.#shift();
      renameSync(this.path, `${this.path}.1`);
      this.#files.set(`${NAME}.1`, this.#files.get(NAME) ?? []);
      closeSync(this.#fd);
      this.#open();
    });
  }

  /** logrotate's copytruncate; nothing is written in between. */
  async copyTruncate() {
    await this.#exclusively(async () => {
      // A copy of less than this cannot be told from what it was made of.
      while ((this.#files.get(NAME) ?? []).join('\n').length < 2048) this.#write();
      await this.#shift();
      copyFileSync(this.path, `${this.path}.1`);
      this.#files.set(`${NAME}.1`, this.#files.get(NAME) ?? []);
      ftruncateSync(this.#fd);
      this.#files.set(NAME, []);
    });
  }

  /** `> app.log`: what was not read is lost. */
  async truncate() {
    await this.#exclusively(async () => {
      ftruncateSync(this.#fd);
      await this.#destroy(NAME);
      this.#files.set(NAME, []);
    });
  }

  #open() {
    this.#fd = openSync(this.path, 'a', 0o644);
    this.#files.set(NAME, []);
  }

  #write() {
    const count = 1 + (this.#line % 7);
    /** @type {string[]} */
    const lines = [];
    for (let n = 0; n < count; n += 1) {
      this.#line += 1;
      lines.push(`line ${this.#line} ${'.'.repeat((this.#line * 37) % 200)}`);
    }
    writeSync(this.#fd, lines.map(line => `${line}\n`).join(''));
    this.written.push(...lines);
    this.#files.get(NAME)?.push(...lines);
  }

  async #shift() {
    await this.#destroy(`${NAME}.${KEPT}`);
    rmSync(`${this.path}.${KEPT}`, { force: true });
    for (let n = KEPT - 1; n >= 1; n -= 1) {
      const lines = this.#files.get(`${NAME}.${n}`);
      if (!lines) continue;
      renameSync(`${this.path}.${n}`, `${this.path}.${n + 1}`);
      this.#files.delete(`${NAME}.${n}`);
      this.#files.set(`${NAME}.${n + 1}`, lines);
    }
  }

  /** The lines of a file that is no more: those that were stored before count, the others may be missing. @param {string} name */
  async #destroy(name) {
    const lines = this.#files.get(name) ?? [];
    this.#files.delete(name);
    const stored = await this.#stored();
    for (const line of lines) if (!stored.has(line)) this.#mayMiss.add(line);
  }

  /** @param {() => Promise<void>} work */
  async #exclusively(work) {
    if (this.#busy) return;
    this.#busy = true;
    try {
      await work();
    } finally {
      this.#busy = false;
    }
  }
}
