// The real program under dash, bash and busybox, with the real journalctl, on real journal files.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { JournalDecoder } from '../../../src/codec/journal-export.js';
import { journalCommand, journalInput, unitOf } from '../../../src/follower/journal.js';
import { JournalFile } from '../../../src/worker/journal-file.js';
import { JournalWriter, START_US, suppressed, UNIT, writeJournal } from '../../helpers/journal.js';
import { startPostgres } from '../../helpers/postgres.js';
import { testShells } from '../../helpers/shells.js';

/** @import { Frame } from '../../../src/codec/frames.js' */
/** @import { RowSink } from '../../../src/codec/row-sink.js' */
/** @import { FilePosition } from '../../../src/storage/positions.js' */
/** @import { JournalLoss } from '../../../src/worker/journal-file.js' */
/** @import { Entry } from '../../helpers/journal.js' */

const { shells, remove } = testShells();
after(remove);
const isRoot = process.getuid?.() === 0;

/** Every line is a record. */
class PlainParser {
  constructor(/** @type {number} */ offset, /** @type {Buffer[]} */ out) {
    this.offset = this.recordOffset = offset;
    this.out = out;
  }
  get pendingBytes() {
    return this.offset - this.recordOffset;
  }
  write(/** @type {Buffer} */ chunk) {
    this.offset += chunk.length;
    this.out.push(Buffer.from(chunk));
    const end = chunk.lastIndexOf(10);
    if (end !== -1) this.recordOffset = this.offset - (chunk.length - end - 1);
  }
  quiet() {}
  end() {}
}

/** @type {FilePosition} */
const NEW_POSITION = {
  fileNo: 1,
  inode: 'journal',
  name: `journal:${UNIT}`,
  offset: 0,
  headLength: 0,
  headSum: 0,
  tailLength: 0,
  tailSum: 0,
  gone: false,
  doneSize: null,
  cursor: null,
};

class JournalRun {
  /** @type {Frame[]} */
  frames = [];
  /** @type {Buffer[]} */
  chunks = [];
  /** @type {JournalLoss[]} */
  losses = [];
  looks = 0;
  stderr = '';
  /** @type {unknown} */
  error = null;

  /**
   * @param {import('../../helpers/shells.js').Shell} shell
   * @param {{ directory: string, from?: 'none' | 'end' | 'current' | 'start', position?: FilePosition, uid?: number, path?: string }} options
   */
  constructor(shell, { directory, from = 'start', position = NEW_POSITION, uid, path = '' }) {
    this.file = new JournalFile(position, {
      createParser: offset => new PlainParser(offset, this.chunks),
      onLoss: loss => this.losses.push(loss),
    });
    const sink = /** @type {RowSink} */ (/** @type {unknown} */ ({ receivedAtMs: 0 }));
    const decoder = new JournalDecoder({
      onFrame: frame => this.frames.push(frame),
      onPlace: (cursor, taken) => this.file.begin(cursor, taken),
      onLook: cursor => {
        this.looks += 1;
        this.file.look(cursor);
      },
      onPiece: (entry, bytes) => this.file.piece(entry, bytes, sink),
      onEntry: (entry, bytes) => this.file.entry(entry, bytes, sink),
      onLookEnd: clock => this.file.lookEnd(clock, sink),
    });
    const [program = 'sh', ...args] = shell.argv;
    this.process = spawn(
      program,
      [...args, '-c', journalCommand(null).replace(/^exec sh /, `exec ${shell.argv.join(' ')} `)],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: { ...process.env, PATH: path + shell.path },
        ...(uid !== undefined && { uid, gid: uid }),
      },
    );
    // One that cannot be started at all has ended, too: afterEach waits for it.
    this.process.on('error', error => (this.error = error));
    /** @type {Promise<number | null>} */
    this.exited = new Promise(resolve => {
      this.process.once('exit', resolve).once('error', () => resolve(null));
    });
    this.process.stdout.on('data', chunk => {
      try {
        if (!this.error) decoder.write(chunk);
      } catch (error) {
        this.error = error;
      }
    });
    this.process.stderr.on('data', chunk => (this.stderr += String(chunk)));
    this.process.stdin.on('error', () => {});
    this.process.stdin.end(journalInput({ unit: UNIT, from, cursor: this.file.seek, directory }));
  }

  get text() {
    return Buffer.concat(this.chunks).toString('latin1');
  }

  /** @param {string} type */
  seen(type) {
    return this.frames.filter(frame => frame.type === type);
  }

  /** @param {() => boolean} condition @param {string} what */
  async until(condition, what) {
    const deadline = Date.now() + 30_000;
    while (!condition()) {
      if (this.error) throw this.error;
      if (Date.now() > deadline) {
        const said = JSON.stringify(this.frames);
        throw new Error(
          `not seen in 30 s: ${what}; frames ${said}; ${this.stderr}; ${this.text.slice(-500)}`,
        );
      }
      await sleep(20);
    }
  }

  async stop() {
    this.process.kill('SIGKILL');
    await this.exited;
    this.process.stdout.destroy();
    this.process.stderr.destroy();
  }
}

/** @param {number} from @param {number} to @returns {Entry[]} */
const entries = (from, to) =>
  Array.from({ length: to - from }, (_, i) => ({
    timeUs: START_US + (from + i) * 1000,
    message: `line ${from + i}`,
    pid: '100',
    fields: { _SYSTEMD_INVOCATION_ID: (from + i < 50 ? 'a' : 'b').repeat(32) },
  }));
/** @param {number} from @param {number} to */
const lines = (from, to) => Array.from({ length: to - from }, (_, i) => `line ${from + i}\n`).join('');

describe('names', () => {
  test('a unit has a type', () => {
    assert.equal(unitOf('/var/log/postgresql'), null);
    assert.equal(unitOf('journal:postgresql@15-main'), 'postgresql@15-main.service');
    assert.equal(unitOf('journal:postgresql@15-main.service'), 'postgresql@15-main.service');
    assert.equal(unitOf('journal:run-u1.scope'), 'run-u1.scope');
    for (const bad of ['', 'a b', 'x\ny', '$(reboot)', 'ä', `${'x'.repeat(256)}`]) {
      assert.throws(() => unitOf(`journal:${bad}`), { code: 'USAGE' });
    }
    assert.throws(() => journalInput({ unit: UNIT, from: 'none', cursor: 'a\nunit x' }), { code: 'USAGE' });
  });
});

/** What a real server writes to stderr: errors, multi-line statements, bytes that are no UTF-8. @type {Buffer} */
let written;
before(async () => {
  const server = await startPostgres({ settings: { log_line_prefix: '%m [%p] ', log_statement: 'all' } });
  try {
    await server.query('SELECT 1,\n\t2,\n  3 AS "x y"');
    await server.query('SELECT 1/0').catch(() => {});
    await server.query(
      `DO $$ BEGIN RAISE WARNING 'a\tb' USING DETAIL = E'one\\ntwo', HINT = 'three'; END $$`,
    );
    await server.createDatabase('latin', { encoding: 'LATIN1' });
    await server.query("SELECT 'é ü'", [], 'latin').catch(() => {});
    await server.query(`SELECT '${'long '.repeat(2000)}'`);
  } finally {
    await server.halt();
    written = readFileSync(server.serverLog);
    await server.stop();
  }
});

for (const shell of shells) {
  describe(`journal follower under ${shell.name}`, () => {
    /** @type {string} */
    let dir;
    /** @type {JournalRun[]} */
    let runs = [];
    /** @type {JournalWriter[]} */
    let writers = [];
    /** @param {Partial<ConstructorParameters<typeof JournalRun>[1]>} [options] */
    const follow = options => {
      const run = new JournalRun(shell, { directory: dir, ...options });
      runs.push(run);
      return run;
    };
    const path = (/** @type {string} */ name) => join(dir, `${name}.journal`);
    beforeEach(() => {
      dir = mkdtempSync(join(tmpdir(), 'pgsluice journal  '));
      chmodSync(dir, 0o755);
    });
    afterEach(async () => {
      for (const run of runs) await run.stop();
      for (const writer of writers) await writer.end().catch(() => {});
      runs = [];
      writers = [];
      rmSync(dir, { recursive: true, force: true });
    });

    test('what a real server wrote is there byte for byte, and what comes later, through rotation and reconnects', async () => {
      const text = written.toString('latin1');
      assert.match(text, /division by zero/);
      const messages = text
        .split('\n')
        .slice(0, -1)
        .map(message => Buffer.from(message, 'latin1'));
      /** @type {Entry[]} */
      const all = messages.map((message, i) => ({ timeUs: START_US + i * 1000, message, pid: '17' }));
      const third = Math.ceil(all.length / 3);
      await writeJournal(path('1'), [
        { timeUs: START_US - 5, message: 'of another unit', unit: 'cron.service' },
        ...all.slice(0, third),
        { timeUs: START_US + third * 1000 - 1, message: 'sent by syslog', transport: 'syslog' },
      ]);
      const first = follow();
      await first.until(() => first.text.split('\n').length > third, 'the first entries');
      const live = new JournalWriter(path('2'));
      writers.push(live);
      live.write(all.slice(third, 2 * third));
      const wanted = (/** @type {number} */ count) =>
        messages
          .slice(0, count)
          .map(message => `${message.toString('latin1')}\n`)
          .join('');
      await first.until(() => first.text.length >= wanted(2 * third).length, 'entries written meanwhile');
      assert.equal(first.text, wanted(2 * third));
      const position = first.file.position();
      assert.equal(position.offset, first.text.length);
      await first.stop();
      await live.end();
      renameSync(path('1'), path('1@0'));
      await writeJournal(path('3'), all.slice(2 * third));
      const second = follow({ from: 'none', position });
      await second.until(() => second.file.offset >= written.length, 'the last entries');
      assert.equal(first.text + second.text, text);
      assert.deepEqual([...first.losses, ...second.losses], []);
    });

    test('any position can be resumed from, though entries have the same time', async () => {
      const all = entries(0, 40).map(entry => ({ ...entry, timeUs: START_US }));
      await writeJournal(path('1'), all);
      /** @type {FilePosition} */
      let position = NEW_POSITION;
      let text = '';
      for (const upTo of [40, 60]) {
        if (upTo === 60) await writeJournal(path('1'), entries(40, 60));
        const run = follow({ from: position.cursor === null ? 'start' : 'none', position });
        await run.until(() => (text + run.text).length >= lines(0, upTo).length, `${upTo} lines`);
        text += run.text;
        position = run.file.position();
        await run.stop();
      }
      assert.equal(text, lines(0, 60));
    });

    test("from end, from the unit's last start, and with nothing there", async () => {
      await writeJournal(path('1'), entries(0, 100));
      const end = follow({ from: 'end' });
      const current = follow({ from: 'current' });
      await end.until(() => end.looks > 0, 'a look');
      await current.until(() => current.looks > 0, 'a look');
      assert.deepEqual(end.seen('begun').length, 1);
      const { cursor, offset } = end.file.position();
      assert.match(cursor ?? '', /^s=[^+]*$/);
      assert.equal(offset, 0);
      await writeJournal(path('1'), entries(100, 103));
      await end.until(() => end.text.length >= lines(100, 103).length, 'new entries');
      await current.until(() => current.text.length >= lines(50, 103).length, 'new entries');
      assert.equal(end.text, lines(100, 103));
      assert.equal(current.text, lines(50, 103));
      const again = follow({ from: 'none', position: { ...NEW_POSITION, cursor, offset } });
      await again.until(() => again.text.length >= lines(100, 103).length, 'new entries');
      assert.equal(again.text, lines(100, 103));
    });

    test('of a unit without entries the stream begins with the first that comes', async () => {
      await writeJournal(path('1'), [{ timeUs: START_US, message: 'x', unit: 'cron.service' }]);
      const run = follow({ from: 'end' });
      await run.until(() => run.seen('begun').length > 0, 'begun');
      assert.equal(run.file.position().cursor, null);
      await writeJournal(path('1'), entries(1, 3));
      await run.until(() => run.text.length >= lines(1, 3).length, 'the entries');
      assert.equal(run.text, lines(1, 3));
    });

    test('a place that was vacuumed away: nothing that is left is left out, and the loss is told', async () => {
      await writeJournal(path('1'), entries(0, 10));
      const first = follow();
      await first.until(() => first.text.length >= lines(0, 10).length, 'the entries');
      const position = first.file.position();
      await first.stop();
      await writeJournal(path('2'), entries(20, 25));
      rmSync(path('1'));
      const second = follow({ from: 'none', position });
      await second.until(() => second.text.length >= lines(20, 25).length, 'the entries that are left');
      assert.equal(second.text, lines(20, 25));
      assert.equal(second.file.position().offset, lines(0, 10).length + lines(20, 25).length);
      assert.deepEqual(
        second.losses.map(loss => loss.kind),
        ['vacuumed'],
      );
      // The same while it runs.
      rmSync(path('2'));
      await writeJournal(path('3'), entries(30, 31));
      await second.until(() => second.text.endsWith('line 30\n'), 'the entry after the second gap');
      assert.equal(second.text, lines(20, 25) + lines(30, 31));
      second.file.position();
      assert.equal(second.losses.length, 2);
    });

    test('a place that is gone, with nothing after it yet, waits for what comes', async () => {
      await writeJournal(path('1'), entries(0, 3));
      const first = follow();
      await first.until(() => first.text.length >= lines(0, 3).length, 'the entries');
      const position = first.file.position();
      await first.stop();
      rmSync(path('1'));
      await writeJournal(path('2'), [{ timeUs: START_US, message: 'x', unit: 'cron.service' }]);
      const second = follow({ from: 'none', position });
      await second.until(() => second.looks > 3, 'looks');
      await writeJournal(path('2'), entries(5, 7));
      await second.until(() => second.text.length >= lines(5, 7).length, 'the entries');
      assert.equal(second.text, lines(5, 7));
      assert.equal(second.losses.length, 1);
    });

    test('what the journal dropped is told', async () => {
      await writeJournal(path('1'), [...entries(0, 2), suppressed(START_US + 5000, 1234), ...entries(6, 8)]);
      const run = follow();
      await run.until(() => run.text.length >= lines(0, 2).length + lines(6, 8).length, 'the entries');
      run.file.position();
      assert.equal(run.text, lines(0, 2) + lines(6, 8));
      assert.deepEqual(
        run.losses.map(({ kind, messages }) => [kind, messages]),
        [['suppressed', 1234]],
      );
    });

    test('a backlog is read look by look without a wait', async () => {
      await writeJournal(path('1'), entries(0, 9000));
      const begun = Date.now();
      const run = follow();
      await run.until(() => run.text.length >= lines(0, 9000).length, 'the entries');
      assert.equal(run.text, lines(0, 9000));
      assert.ok(run.looks >= 5, `${run.looks} looks`);
      assert.ok(Date.now() - begun < 20_000);
    });

    test('heartbeats come less than 5 s apart, and a follower that nobody reads ends', async () => {
      await writeJournal(path('1'), entries(0, 3));
      const run = follow();
      await run.until(() => run.seen('heartbeat').length >= 3, 'heartbeats');
      const beats = run.seen('heartbeat').map(frame => (frame.type === 'heartbeat' ? frame.clock : 0));
      for (const [i, clock] of beats.entries()) {
        if (i > 0) assert.ok(clock - (beats[i - 1] ?? 0) < 5);
      }
      run.process.stdout.destroy();
      await run.exited;
    });

    test('a journal that this user may not read is told, and read as soon as it may', async () => {
      await writeJournal(path('1'), entries(0, 3));
      chmodSync(path('1'), 0);
      // The applets are in a directory of ours that only we can enter.
      if (shell.name === 'busybox') chmodSync(shell.path, 0o755);
      const run = follow({ from: 'end', ...(isRoot && { uid: 65_534 }) });
      await run.until(() => run.seen('heartbeat').length >= 2, 'two heartbeats');
      assert.deepEqual(run.seen('waiting'), [
        {
          type: 'waiting',
          code: 'unreadable',
          text: 'the journal: this user is not in group systemd-journal or adm',
        },
      ]);
      assert.deepEqual(run.seen('begun'), []);
      chmodSync(path('1'), 0o644);
      await run.until(() => run.seen('begun').length > 0, 'begun');
      await run.until(() => run.looks > 0, 'a look');
      assert.equal(run.text, '');
    });

    test('waits for a journal, and takes all that comes into it', async () => {
      const run = follow({ from: 'end' });
      await run.until(() => run.seen('waiting').length > 0, 'waiting');
      assert.deepEqual(run.seen('waiting'), [
        { type: 'waiting', code: 'missing', text: 'no journal files were found' },
      ]);
      await writeJournal(path('1'), entries(0, 3));
      await run.until(() => run.text.length >= lines(0, 3).length, 'the entries');
      assert.equal(run.text, lines(0, 3));
    });

    test('a directory that cannot be opened ends it with a reason', async () => {
      const run = follow({ directory: join(dir, 'none') });
      await run.exited;
      await run.until(() => run.seen('failed').length > 0, 'failed');
      const [failed] = run.seen('failed');
      assert.ok(failed?.type === 'failed');
      assert.equal(failed.code, 'journal');
      assert.match(failed.text, /No such file or directory/);
    });

    test('a journalctl that knows no --output-fields, as before systemd 236', async () => {
      const real = execFileSync('sh', ['-c', 'command -v journalctl'], { encoding: 'utf8' }).trim();
      const bin = join(dir, 'bin');
      mkdirSync(bin);
      const wrapper = `#!/bin/sh\ncase "$*" in --help) echo -n;; *--output-fields*) exit 9;; *) exec ${real} "$@";; esac\n`;
      writeFileSync(join(bin, 'journalctl'), wrapper, { mode: 0o755 });
      await writeJournal(path('1'), entries(0, 30));
      const run = follow({ path: `${bin}:` });
      await run.until(() => run.text.length >= lines(0, 30).length, 'the entries');
      assert.equal(run.text, lines(0, 30));
      const current = follow({ path: `${bin}:`, from: 'current' });
      await current.until(() => current.text.length >= lines(0, 30).length, 'the entries');
    });

    test('a journalctl that dies in the middle of an entry: nothing of it is taken', async () => {
      const real = execFileSync('sh', ['-c', 'command -v journalctl'], { encoding: 'utf8' }).trim();
      const bin = join(dir, 'bin');
      mkdirSync(bin);
      const wrapper = `#!/bin/sh\ncase "$*" in *--show-cursor*) ${real} "$@" | head -c 700; kill -9 $$;; *) exec ${real} "$@";; esac\n`;
      writeFileSync(join(bin, 'journalctl'), wrapper, { mode: 0o755 });
      await writeJournal(path('1'), entries(0, 30));
      const run = follow({ path: `${bin}:` });
      const code = await run.exited;
      assert.equal(code, 1);
      const whole = run.text.split('\n').length - 1;
      assert.ok(whole < 30);
      assert.equal(run.text, lines(0, whole));
      const next = follow({ from: 'none', position: run.file.position() });
      await next.until(() => (run.text + next.text).length >= lines(0, 30).length, 'the rest');
      assert.equal(run.text + next.text, lines(0, 30));
    });

    test('leaves no file behind', async () => {
      await writeJournal(path('1'), entries(0, 3));
      const files = execFileSync('ls', ['-a', dir], { encoding: 'utf8' });
      const run = follow();
      await run.until(() => run.text.length > 0, 'the entries');
      assert.equal(execFileSync('ls', ['-a', dir], { encoding: 'utf8' }), files);
    });
  });
}
