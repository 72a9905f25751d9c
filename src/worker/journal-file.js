/**
 * The journal of a unit as one log file, the counterpart of LogFile: each entry's message and a newline are the next
 * bytes of a file that exists nowhere, whose offset counts them; they go through a parser of text logs. journald cuts
 * long lines into several entries (line-max), and when another process writes in between (pid-change): they are put
 * together again. While a line is open the entries of other processes wait for its end.
 * The position is a cursor: "CURSOR" all up to this entry is stored, "CURSOR+N" N bytes from this entry on are. Reading
 * the same entries again gives the same bytes, whenever reading began: what ends an open line is in the entries, or in
 * the host's clock when no entry comes.
 * Handler of a JournalDecoder; pure apart from what the parser writes into the sink. Throws FOLLOWER_PROTOCOL.
 */
import { PgsluiceError } from '../base/errors.js';
import { posixCksum } from '../codec/cksum.js';
import { isSameEntry } from '../codec/journal-cursor.js';

/** @import { JournalEntry } from '../codec/journal-export.js' */
/** @import { RowSink } from '../codec/row-sink.js' */
/** @import { FilePosition } from '../storage/positions.js' */

/**
 * A parser of text logs, as src/codec/line-parser.js.
 * @typedef {object} TextParser
 * @property {number} offset of the next byte
 * @property {number} recordOffset everything before it is in the sink
 * @property {number} pendingBytes
 * @property {(chunk: Buffer, sink: RowSink) => void} write
 * @property {(sink: RowSink) => void} quiet the host has looked again and nothing more was there
 * @property {(sink: RowSink) => void} end
 */

/** @typedef {{ kind: 'vacuumed' | 'suppressed', messages: number, text: string }} JournalLoss messages: 0 not known */

/**
 * Entries after which nothing is open: the bytes before `end` are theirs and those of the groups before.
 * @typedef {{ first: string, last: string, end: number, loss: JournalLoss | null }} Group
 */

/** @typedef {{ bytes: Buffer, pid: string, isOpen: boolean, timeMs: number }} Message isOpen: its line goes on */

/** The rest of a line comes with the same write(2); a process that was killed in the middle never sends it. */
const OPEN_LINE_MAX_MS = 5_000;
/** Messages of other processes that wait for the end of an open line. */
const WAITING_MAX_BYTES = 1024 * 1024;
const WAITING_MAX_ENTRIES = 10_000;
/** Places that are remembered between the last record that is stored and the last entry; more are put together. */
const GROUPS_MAX = 4096;

const NEWLINE = Buffer.from('\n');
const EMPTY_SUM = posixCksum(Buffer.alloc(0));

/** The only file of such a stream. */
export const JOURNAL_FILE_NO = 1;

export class JournalFile {
  #name;
  #createParser;
  #onLoss;
  /** @type {TextParser | null} */
  #parser = null;
  /** Virtual offset of the next byte; less than what is stored while #skip is not 0. */
  #written;
  /** Bytes that are stored already and come again. */
  #skip = 0;
  /** The entry that the next look begins with, and whether it has been dealt with. @type {string | null} */
  #at = null;
  #taken = false;
  /** The first entry of a look proves the place. */
  #proving = false;
  #repeated = false;
  #tookSome = false;

  /** Entries that are not stored in full, oldest first; the last one may be open: its end is Infinity. @type {Group[]} */
  #groups = [];
  /** Of the last group that was dropped from #groups, and the offset that it ends at. @type {string | null} */
  #storedCursor = null;
  #storedEnd;

  /** The process whose line is open; null: none is. @type {string | null} */
  #openPid = null;
  #openSinceMs = 0;
  /** @type {Message[]} */
  #waiting = [];
  #waitingBytes = 0;
  /** The entry whose pieces are coming; '' none. */
  #pieceOf = '';

  /**
   * @param {FilePosition} position as committed, or of a new stream (offset 0, cursor null)
   * @param {object} options
   * @param {(offset: number) => TextParser} options.createParser a record begins at the offset
   * @param {(loss: JournalLoss) => void} options.onLoss called when the position is past it
   */
  constructor(position, { createParser, onLoss }) {
    this.#name = position.name;
    this.#createParser = createParser;
    this.#onLoss = onLoss;
    const [, cursor = null, bytes] = /^([^+]+)(?:\+(\d{1,15}))?$/.exec(position.cursor ?? '') ?? [];
    this.#place(cursor, bytes === undefined);
    this.#skip = Number(bytes ?? 0);
    this.#written = this.#storedEnd = position.offset - this.#skip;
  }

  /** What the follower is to seek to. @returns {string | null} null: the unit had no entry when the stream began */
  get seek() {
    return this.#at;
  }

  get fileNo() {
    return JOURNAL_FILE_NO;
  }

  get name() {
    return this.#name;
  }

  /** Offset of the next byte for the parser. */
  get offset() {
    return this.#written + this.#skip;
  }

  /** Bytes of unfinished records. */
  get pendingBytes() {
    return (this.#parser?.pendingBytes ?? 0) + this.#waitingBytes;
  }

  /** The follower says where the stream begins. @param {string} cursor @param {boolean} taken */
  begin(cursor, taken) {
    this.#place(cursor, taken);
    this.#skip = 0;
  }

  /** A look begins. @param {string} cursor where it seeks to */
  look(cursor) {
    // Of a unit that had no entry the stream begins with whatever comes first.
    if (this.#at === null) this.#place(cursor, false);
    if (cursor !== this.#at) {
      throw new PgsluiceError('FOLLOWER_PROTOCOL', `a look at ${cursor}, expected ${this.#at}`);
    }
    this.#proving = true;
    this.#tookSome = false;
  }

  /** @param {JournalEntry} entry @param {Buffer} bytes @param {RowSink} sink */
  piece(entry, bytes, sink) {
    if (this.#pieceOf === '') {
      this.#pieceOf = entry.cursor;
      this.#repeated = this.#isRepeated(entry.cursor);
      if (!this.#repeated) {
        // Who wrote it may follow the message: it goes on only with a line that is known to be its process's.
        while (this.#openPid !== null && (this.#openPid !== entry.pid || entry.pid === ''))
          this.#closeLine(sink);
        this.#group(entry.cursor);
      }
    }
    if (!this.#repeated) this.#write(bytes, entry.timeMs, sink);
  }

  /** @param {JournalEntry} entry @param {Buffer} bytes its message, or the rest of it @param {RowSink} sink */
  entry(entry, bytes, sink) {
    const { cursor, timeMs, pid, lineBreak, dropped } = entry;
    const inPieces = this.#pieceOf !== '';
    this.#pieceOf = '';
    if (inPieces ? this.#repeated : this.#isRepeated(cursor)) return;
    this.#at = cursor;
    this.#taken = this.#tookSome = true;
    if (dropped > 0) {
      while (this.#openPid !== null) this.#closeLine(sink);
      this.#lose(cursor, { kind: 'suppressed', messages: dropped, text: bytes.toString('utf8', 0, 200) });
    } else {
      if (!inPieces) this.#closeLate(timeMs, sink);
      this.#group(cursor);
      // What comes in pieces has its line to itself since the first of them.
      if (inPieces) this.#openPid = pid;
      this.#goOnOrWait(
        { bytes, pid, isOpen: lineBreak === 'line-max' || lineBreak === 'pid-change', timeMs },
        sink,
      );
      if (this.#waitingBytes > WAITING_MAX_BYTES || this.#waiting.length > WAITING_MAX_ENTRIES)
        this.#closeLine(sink);
    }
    this.#endGroup(cursor);
  }

  /**
   * A look has ended. If nothing was new, what only waited for more lines is complete.
   * @param {number} clock of the host, seconds
   * @param {RowSink} sink
   * @returns {boolean} whether that made a difference
   */
  lookEnd(clock, sink) {
    this.#proving = false;
    if (this.#tookSome || this.pendingBytes === 0) return false;
    const before = this.#recordOffset();
    // A second more, for the clock has whole ones.
    if (this.#openPid !== null && clock * 1000 > this.#openSinceMs + OPEN_LINE_MAX_MS + 1000) {
      this.#closeLine(sink);
      this.#endGroup(this.#at ?? '');
    }
    if (this.#openPid === null) this.#parser?.quiet(sink);
    this.#forgetStored();
    return this.#recordOffset() !== before;
  }

  /** Nothing more will come. @param {RowSink} sink */
  end(sink) {
    while (this.#openPid !== null) this.#closeLine(sink);
    this.#endGroup(this.#at ?? '');
    this.#parser?.end(sink);
    this.#forgetStored();
  }

  /** Gives back the parser's memory while nothing is pending. */
  rest() {
    if (!this.#parser || this.#parser.pendingBytes > 0 || this.#openPid !== null || this.#skip > 0) return;
    this.#parser = null;
  }

  /** @returns {FilePosition} what to commit together with all rows written so far */
  position() {
    this.#forgetStored();
    return {
      fileNo: JOURNAL_FILE_NO,
      inode: 'journal',
      name: this.#name,
      offset: this.#recordOffset(),
      headLength: 0,
      headSum: EMPTY_SUM,
      tailLength: 0,
      tailSum: EMPTY_SUM,
      gone: false,
      doneSize: null,
      cursor: this.#cursor(),
    };
  }

  #cursor() {
    const bytes = this.#recordOffset() - this.#storedEnd;
    const [next] = this.#groups;
    if (next && (bytes > 0 || this.#storedCursor === null)) return `${next.first}+${bytes}`;
    if (this.#storedCursor !== null) return this.#storedCursor;
    if (this.#at === null) return null;
    return this.#taken ? this.#at : `${this.#at}+${bytes}`;
  }

  #recordOffset() {
    return this.#parser?.recordOffset ?? this.offset;
  }

  /** @param {string | null} cursor @param {boolean} taken */
  #place(cursor, taken) {
    this.#at = cursor;
    this.#taken = taken;
    this.#storedCursor = taken ? cursor : null;
  }

  /**
   * Whether the entry was dealt with already. The first one of a look must be the one that was asked for.
   * @param {string} cursor
   */
  #isRepeated(cursor) {
    if (!this.#proving) return false;
    this.#proving = false;
    if (this.#at === null || isSameEntry(cursor, this.#at)) return this.#taken;
    // What the entries after the place were is not known: the bytes that come again cannot be counted off.
    this.#written += this.#skip;
    this.#skip = 0;
    this.#storedCursor ??= this.#at;
    this.#storedEnd = this.#written;
    const text = `${this.#name}: the entry ${this.#at} is not there any more, reading goes on with the next one`;
    this.#lose(cursor, { kind: 'vacuumed', messages: 0, text });
    return false;
  }

  /**
   * The group that the entry belongs to.
   * @param {string} cursor
   * @returns {Group}
   */
  #group(cursor) {
    const last = this.#groups.at(-1);
    if (last && last.last === '') return last;
    if (this.#groups.length >= GROUPS_MAX) this.#groups = inPairs(this.#groups);
    const group = { first: cursor, last: '', end: Infinity, loss: null };
    this.#groups.push(group);
    return group;
  }

  /** @param {string} cursor of the first entry after the loss @param {JournalLoss} loss */
  #lose(cursor, loss) {
    const group = this.#group(cursor);
    group.loss = addLoss(group.loss, loss);
  }

  /** The last entry is dealt with: its group ends if nothing is open. @param {string} cursor */
  #endGroup(cursor) {
    const last = this.#groups.at(-1);
    if (last?.last === '' && this.#openPid === null) {
      last.last = cursor;
      last.end = this.#written;
    }
    this.#forgetStored();
  }

  #forgetStored() {
    // What comes again is not counted before the bytes are there that the committed position lies in.
    if (this.#skip > 0) return;
    const stored = this.#recordOffset();
    let count = 0;
    for (const group of this.#groups) {
      if (group.end > stored) break;
      count += 1;
      this.#storedCursor = group.last;
      this.#storedEnd = group.end;
      if (group.loss) this.#onLoss(group.loss);
    }
    if (count > 0) this.#groups.splice(0, count);
  }

  /**
   * A message: of the open line, of a new one, or of one that has to wait.
   * @param {Message} message its bytes are valid only during the call
   * @param {RowSink} sink
   */
  #goOnOrWait({ bytes, pid, isOpen, timeMs }, sink) {
    if (this.#openPid !== null && this.#openPid !== pid) {
      this.#waiting.push({ bytes: Buffer.from(bytes), pid, isOpen, timeMs });
      this.#waitingBytes += bytes.length;
      return;
    }
    this.#write(bytes, timeMs, sink);
    this.#openSinceMs = timeMs;
    const wasOpen = this.#openPid !== null;
    this.#openPid = pid;
    if (isOpen) return;
    if (wasOpen) return this.#closeLine(sink);
    this.#write(NEWLINE, timeMs, sink);
    this.#openPid = null;
  }

  /** Ends what is open too long when an entry of this time comes. @param {number} timeMs @param {RowSink} sink */
  #closeLate(timeMs, sink) {
    while (this.#openPid !== null && Math.abs(timeMs - this.#openSinceMs) > OPEN_LINE_MAX_MS)
      this.#closeLine(sink);
  }

  /** Ends the open line, and deals with what has waited for that; this may open another. @param {RowSink} sink */
  #closeLine(sink) {
    if (this.#openPid === null) return;
    this.#write(NEWLINE, this.#openSinceMs, sink);
    this.#openPid = null;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const one of waiting) this.#goOnOrWait(one, sink);
  }

  /** @param {Buffer} bytes @param {number} timeMs @param {RowSink} sink */
  #write(bytes, timeMs, sink) {
    const skipped = Math.min(this.#skip, bytes.length);
    this.#skip -= skipped;
    this.#written += skipped;
    if (skipped === bytes.length) return;
    this.#parser ??= this.#createParser(this.#written);
    this.#written += bytes.length - skipped;
    const { receivedAtMs } = sink;
    if (!Number.isNaN(timeMs)) sink.receivedAtMs = timeMs;
    this.#parser.write(skipped > 0 ? bytes.subarray(skipped) : bytes, sink);
    sink.receivedAtMs = receivedAtMs;
  }
}

/**
 * Half as many groups: a position within a group is a number of bytes, so any neighbours can be one.
 * @param {Group[]} groups
 * @returns {Group[]}
 */
function inPairs(groups) {
  const pairs = [];
  for (let i = 0; i < groups.length; i += 2) {
    const [a, b] = /** @type {[Group, Group | undefined]} */ ([groups[i], groups[i + 1]]);
    pairs.push(
      b ? { first: a.first, last: b.last, end: b.end, loss: b.loss ? addLoss(a.loss, b.loss) : a.loss } : a,
    );
  }
  return pairs;
}

/**
 * @param {JournalLoss | null} a
 * @param {JournalLoss} b
 * @returns {JournalLoss}
 */
function addLoss(a, b) {
  return a ? { ...a, messages: a.messages + b.messages } : b;
}
