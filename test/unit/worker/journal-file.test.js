// The journal as a file: its bytes, and that reading on from any position gives the records of one uninterrupted read.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import { JournalFile } from '../../../src/worker/journal-file.js';
import { cursorOf, START_US } from '../../helpers/journal.js';

/** @import { RowSink } from '../../../src/codec/row-sink.js' */
/** @import { JournalLoss } from '../../../src/worker/journal-file.js' */

/** @typedef {{ message: string, pid: string, lineBreak: string, atMs: number, dropped?: number }} Item */
/** @typedef {{ offset: number, text: string, receivedAtMs: number }} Row */
/** @typedef {ReturnType<JournalFile['position']>} Position */

const START_MS = START_US / 1000;
/** @type {Position} */
const NEW_POSITION = {
  fileNo: 1,
  inode: 'journal',
  name: 'journal:x.service',
  offset: 0,
  headLength: 0,
  headSum: 0,
  tailLength: 0,
  tailSum: 0,
  gone: false,
  doneSize: null,
  cursor: null,
};

/** A record is a line and the lines after it that begin with a TAB: it ends with the next one, or when all is quiet. */
class TabParser {
  pending = '';
  searched = 0;
  constructor(/** @type {number} */ offset, /** @type {Row[]} */ rows) {
    this.offset = this.recordOffset = offset;
    this.rows = rows;
  }
  get pendingBytes() {
    return this.offset - this.recordOffset;
  }
  write(/** @type {Buffer} */ chunk, /** @type {RowSink} */ sink) {
    this.offset += chunk.length;
    this.pending += chunk.toString('latin1');
    for (;;) {
      const end = /\n[^\t]/.exec(this.pending.slice(this.searched));
      if (!end) break;
      this.release(this.searched + end.index + 1, sink);
    }
    this.searched = Math.max(0, this.pending.length - 1);
  }
  release(/** @type {number} */ length, /** @type {RowSink} */ sink) {
    const text = this.pending.slice(0, length);
    this.rows.push({ offset: this.recordOffset, text, receivedAtMs: sink.receivedAtMs });
    this.pending = this.pending.slice(length);
    this.searched = 0;
    this.recordOffset += length;
  }
  quiet(/** @type {RowSink} */ sink) {
    if (this.pending.endsWith('\n')) this.release(this.pending.length, sink);
  }
  end(/** @type {RowSink} */ sink) {
    if (this.pending) this.release(this.pending.length, sink);
  }
}

/** A journal and a file that reads it; what is "committed" is kept in rows and position. */
class Reader {
  /** @type {Row[]} */
  rows = [];
  /** @type {JournalLoss[]} */
  losses = [];
  Parser = TabParser;
  sink = /** @type {RowSink} */ (/** @type {unknown} */ ({ receivedAtMs: 7 }));

  constructor(/** @type {Item[]} */ items, /** @type {Position} */ position = NEW_POSITION) {
    this.items = items.map((item, i) => ({
      ...item,
      cursor: cursorOf(i + 1, (START_MS + item.atMs) * 1000),
    }));
    this.position = position;
    this.committed = this.committedLosses = 0;
    this.file = this.open();
  }

  open() {
    return new JournalFile(this.position, {
      createParser: offset => new this.Parser(offset, this.rows),
      onLoss: loss => this.losses.push(loss),
    });
  }

  /** The rows so far and the position are stored. */
  commit() {
    this.position = this.file.position();
    this.committed = this.rows.length;
    this.committedLosses = this.losses.length;
  }

  /** What is not stored is forgotten. */
  restart() {
    this.rows.length = this.committed;
    this.losses.length = this.committedLosses;
    this.file = this.open();
  }

  /** One look, as the follower does it. @param {number} limit entries @param {number} [clock] s after the start @param {number} [piece] bytes */
  look(limit, clock = 0, piece = 0) {
    const { file, sink, items } = this;
    const first = items[0];
    const seek = file.seek ?? first?.cursor;
    if (!first || !seek) return 0;
    const at = items.findIndex(
      item =>
        BigInt(`0x${item.cursor.slice(37).split(';')[0]}`) >= BigInt(`0x${seek.slice(37).split(';')[0]}`),
    );
    file.look(seek);
    const shown = at === -1 ? [] : items.slice(at, at + limit);
    for (const { cursor, message, pid, lineBreak, atMs, dropped = 0 } of shown) {
      const entry = { cursor, timeMs: START_MS + atMs, pid, lineBreak, dropped };
      let bytes = Buffer.from(message, 'latin1');
      const size = piece > 0 && dropped === 0 ? piece : Infinity;
      for (; bytes.length > size; bytes = bytes.subarray(size)) {
        file.piece({ ...entry, pid: '' }, bytes.subarray(0, size), sink);
      }
      file.entry(entry, bytes, sink);
    }
    file.lookEnd(Math.floor(START_MS / 1000) + clock, sink);
    assert.equal(sink.receivedAtMs, 7);
    return shown.length;
  }

  /** Reads everything, then lets all be quiet for long. */
  finish(piece = 0, limit = 1000) {
    for (let i = 0; i < 3; i += 1) this.look(limit, 0, piece);
    for (let i = 0; i < Math.min(30, 2 + this.items.length); i += 1) this.look(limit, 1_000_000, piece);
    return this;
  }

  get text() {
    return this.rows.map(row => row.text).join('');
  }
}

/** @param {string} message @param {Partial<Item>} [more] @returns {Item} */
const line = (message, more) => ({ message, pid: '1', lineBreak: '', atMs: 0, ...more });

/** Rows follow one another without gap or overlap. @param {Row[]} rows */
function assertSeamless(rows) {
  let offset = 0;
  for (const row of rows) {
    assert.equal(row.offset, offset);
    offset += row.text.length;
  }
}

describe('journal file', () => {
  test('each entry is a line; the position is the cursor of the last one that is stored', () => {
    const reader = new Reader([line('a'), line('\tb'), line('c', { atMs: 3 })]);
    reader.look(10);
    assert.deepEqual(
      reader.rows.map(({ offset, text }) => [offset, text]),
      [[0, 'a\n\tb\n']],
    );
    const { offset, cursor, fileNo, name } = reader.file.position();
    assert.deepEqual([offset, cursor, fileNo, name], [5, reader.items[1]?.cursor, 1, 'journal:x.service']);
    reader.look(10);
    assert.deepEqual(reader.rows.at(-1), { offset: 5, text: 'c\n', receivedAtMs: 7 });
    assert.equal(reader.file.position().cursor, reader.items[2]?.cursor);
    assert.equal(reader.file.pendingBytes, 0);
  });

  test('while an entry is dealt with its time is the time of arrival', () => {
    const reader = new Reader([line('a', { atMs: 1 }), line('b', { atMs: 2 })]);
    reader.look(10);
    assert.equal(reader.rows[0]?.receivedAtMs, START_MS + 2);
  });

  test('a long line comes in several entries, and another process may write in between', () => {
    const open = { lineBreak: 'line-max' };
    const reader = new Reader([
      line('A1 ', open),
      line('B', { pid: '2' }),
      line('A2 ', { lineBreak: 'pid-change' }),
      line('C1 ', { pid: '3', ...open }),
      line('D', { pid: '4' }),
      line('A3'),
      line('B2', { pid: '2' }),
      line('C2', { pid: '3', lineBreak: 'eof' }),
      line('E'),
    ]);
    assert.equal(reader.finish().text, 'A1 A2 A3\nB\nC1 C2\nD\nB2\nE\n');
    assertSeamless(reader.rows);
  });

  test('a line whose rest never comes ends after 5 s, by the entries or by the clock', () => {
    const items = [line('half ', { lineBreak: 'line-max' }), line('other', { pid: '2', atMs: 10 })];
    const byEntry = new Reader([...items, line('late', { atMs: 5001 }), line('x', { pid: '2', atMs: 6000 })]);
    byEntry.look(10);
    assert.equal(byEntry.text, 'half \nother\nlate\n');
    const byClock = new Reader(items);
    byClock.look(10);
    byClock.look(10, 6);
    assert.equal(byClock.text, '');
    byClock.look(10, 7);
    assert.equal(byClock.text, 'half \nother\n');
    assert.equal(byClock.file.position().cursor, byClock.items[1]?.cursor);
  });

  test('what waits for the end of a line is bounded', () => {
    const big = 'x'.repeat(300_000);
    const reader = new Reader([
      line('half ', { lineBreak: 'line-max' }),
      ...Array.from({ length: 4 }, () => line(big, { pid: '2' })),
      line('y', { pid: '2' }),
    ]);
    reader.look(10);
    assert.equal(reader.text, `half \n${`${big}\n`.repeat(4)}`);
  });

  test('a place that is gone is told once, when the position is past it, and no entry is left out', () => {
    const reader = new Reader(Array.from({ length: 6 }, (_, i) => line(`line ${i}`)));
    reader.look(3);
    reader.look(3);
    reader.look(1);
    reader.commit();
    const at = reader.position.cursor;
    const stored = reader.rows.length;
    reader.items.splice(0, 5);
    reader.restart();
    reader.look(10);
    assert.equal(reader.losses.length, 0, 'nothing is stored after it yet');
    assert.equal(reader.file.position().cursor, at);
    reader.look(10);
    assert.deepEqual(
      reader.rows.slice(stored).map(row => row.text),
      ['line 5\n'],
    );
    assert.deepEqual(
      reader.losses.map(({ kind, messages }) => [kind, messages]),
      [['vacuumed', 0]],
    );
    reader.commit();
    reader.restart();
    reader.finish();
    assert.equal(reader.losses.length, 1);
  });

  test('a place in the middle of entries that are gone: the offset goes on, the loss is told', () => {
    const open = { lineBreak: 'line-max' };
    const reader = new Reader([
      line('A1', open),
      line('B', { pid: '2' }),
      line('A2'),
      line('C', { atMs: 1 }),
    ]);
    reader.look(3);
    reader.commit();
    assert.deepEqual([reader.text, reader.position.cursor], ['A1A2\n', `${reader.items[0]?.cursor}+5`]);
    reader.items.splice(0, 3);
    reader.restart();
    reader.look(1);
    assert.equal(reader.file.position().cursor, reader.items[0] && reader.position.cursor?.split('+')[0]);
    reader.commit();
    reader.restart();
    reader.look(1);
    reader.look(1);
    assert.equal(reader.text, 'A1A2\nC\n');
    assertSeamless(reader.rows);
    assert.equal(reader.losses.length, 1);
  });

  test('a message in pieces, whose process is not known before its end, does not go on with a line that is open', () => {
    const reader = new Reader([line('half ', { lineBreak: 'line-max' }), line('a long one', { pid: '2' })]);
    reader.look(1);
    reader.look(2, 0, 6);
    reader.finish();
    assert.equal(reader.text, 'half \na long one\n');
  });

  test('messages that the journal dropped are told, in the order of the entries', () => {
    const reader = new Reader([
      line('half ', { lineBreak: 'line-max' }),
      line('Suppressed 5 messages', { pid: '', dropped: 5 }),
      line('next'),
      line('Suppressed 2 messages', { pid: '', dropped: 2 }),
    ]);
    reader.finish();
    assert.equal(reader.text, 'half \nnext\n');
    assert.deepEqual(
      reader.losses.map(({ kind, messages }) => [kind, messages]),
      [
        ['suppressed', 5],
        ['suppressed', 2],
      ],
    );
  });

  test('begins where the follower says, before or after an entry, also when it is asked again', () => {
    for (const taken of [false, true]) {
      const reader = new Reader([line('old'), line('at'), line('new')]);
      reader.file.begin(reader.items[1]?.cursor ?? '', taken);
      reader.commit();
      reader.restart();
      assert.equal(reader.finish().text, taken ? 'new\n' : 'at\nnew\n');
    }
  });

  test('a look at another place than the last entry is refused', () => {
    const reader = new Reader([line('a'), line('b')]);
    reader.look(1);
    assert.throws(() => reader.file.look(cursorOf(9, START_US)), PgsluiceError);
  });

  test('a record of very many entries, more than there are places, is read on in its middle', () => {
    const reader = new Reader([
      line('a'),
      ...Array.from({ length: 10_000 }, (_, i) => line(`\t${i}`)),
      line('b'),
    ]);
    reader.look(8000);
    reader.commit();
    reader.restart();
    reader.look(6000);
    assert.equal(reader.rows.length, 0);
    reader.look(6000);
    reader.look(1);
    assert.equal(reader.rows.length, 2);
    assert.equal(reader.text, reader.items.map(item => `${item.message}\n`).join(''));
    assert.equal(reader.file.position().cursor, reader.items.at(-1)?.cursor);
  });
});

/** Every line is a record, but those of the last bytes are not stored yet. */
class LateParser extends TabParser {
  /** @override @param {Buffer} chunk @param {RowSink} sink */
  write(chunk, sink) {
    this.offset += chunk.length;
    this.pending += chunk.toString('latin1');
    while (this.pending.length > 20_000) this.release(this.pending.indexOf('\n') + 1, sink);
  }
}

test('a position among places that were put together is one too, again and again', () => {
  const reader = new Reader(Array.from({ length: 15_000 }, (_, i) => line(String(i % 10), { atMs: i })));
  reader.Parser = LateParser;
  reader.restart();
  for (const limit of [9000, 10_501, 1, 10_334, 1, 10_207, 2, 10_611, 3, 11_002, 1]) {
    reader.look(limit);
    reader.commit();
    reader.look(7);
    reader.restart();
  }
  reader.finish(0, 15_000);
  assertSeamless(reader.rows);
  assert.equal(reader.text, reader.items.map(item => `${item.message}\n`).join(''));
});

const items = fc.array(
  fc.record({
    text: fc.string({ unit: fc.constantFrom('a', '\t', 'é', '\n', ' '), maxLength: 6 }),
    pid: fc.constantFrom('1', '2', '3'),
    lineBreak: fc.constantFrom('', '', '', 'line-max', 'pid-change', 'eof'),
    afterMs: fc.constantFrom(0, 1, 1, 1, 3000, 7000),
    dropped: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 3),
  }),
  { minLength: 1, maxLength: 25 },
);

test('with any restarts the rows are those of one read, each once', () => {
  let restarted = 0;
  fc.assert(
    fc.property(
      items,
      fc.array(fc.tuple(fc.nat(5), fc.boolean(), fc.boolean()), { maxLength: 20 }),
      fc.constantFrom(0, 0, 2),
      (list, steps, piece) => {
        let atMs = 0;
        const all = list.map(({ text, pid, lineBreak, afterMs, dropped }) => ({
          message: text,
          pid: dropped > 0 ? '' : pid,
          lineBreak: dropped > 0 ? '' : lineBreak,
          atMs: (atMs += afterMs),
          dropped,
        }));
        const whole = new Reader(all).finish(piece);
        assertSeamless(whole.rows);
        const reader = new Reader(all);
        for (const [limit, commit, restart] of steps) {
          // Two at least: the first one is the last of the look before. quiet() would end records at other places.
          const { file } = reader;
          const before = file.seek;
          reader.look(limit + 2, 0, piece);
          if (file.seek === before) break;
          if (commit) reader.commit();
          if (restart) {
            restarted += 1;
            reader.restart();
          }
        }
        reader.finish(piece);
        assert.equal(reader.text, whole.text);
        assertSeamless(reader.rows);
        assert.deepEqual(
          reader.losses.map(loss => loss.messages),
          whole.losses.map(loss => loss.messages),
        );
      },
    ),
    { numRuns: 500 },
  );
  assert.ok(restarted > 100);
});

test('every byte of every entry is there, the lines of a process in their order', () => {
  fc.assert(
    fc.property(items, fc.constantFrom(0, 1, 3), (list, piece) => {
      /** @type {Item[]} */
      const all = list.map(({ text, pid, lineBreak }, i) => ({
        message: `${pid}${text}`,
        pid,
        lineBreak,
        atMs: i,
      }));
      const reader = new Reader(all);
      reader.look(1000, 0, piece);
      reader.finish();
      // The model: a process's fragments up to a newline are a line.
      for (const pid of ['1', '2', '3']) {
        const own = all.filter(item => item.pid === pid);
        const ended = own.map(({ message, lineBreak }) =>
          lineBreak === 'line-max' || lineBreak === 'pid-change' ? message : `${message}\n`,
        );
        if (piece > 0 || !ended.at(-1)?.endsWith('\n')) continue;
        const lines = ended.join('');
        if (all.every(item => !item.message.slice(1).includes('\n'))) {
          const got = reader.text.split('\n').filter(text => text.startsWith(pid));
          assert.equal(got.map(text => `${text}\n`).join(''), lines);
        }
      }
      const counted = (/** @type {string} */ text) => text.replaceAll('\n', '').length;
      assert.equal(counted(reader.text), counted(all.map(item => item.message).join('')));
    }),
  );
});
