/**
 * What a stream of systemd's journal does with what its follower writes: one file that exists nowhere (journal-file.js),
 * whose position is a cursor. The counterpart of file-reader.js. Throws FOLLOWER_PROTOCOL and FOLLOWER_FAILED.
 */
import { PgsluiceError } from '../base/errors.js';
import { JournalDecoder } from '../codec/journal-export.js';
import { journalCommand, journalInput, unitOf } from '../follower/journal.js';
import { JOURNAL_FILE_NO, JournalFile } from './journal-file.js';
import { NO_SUM } from './log-file.js';
import { parserFor } from './parser-for.js';

/** @typedef {import('./file-reader.js').Reader} Reader */
/** @typedef {import('./file-reader.js').ReaderHost} ReaderHost */
/** @typedef {import('../storage/positions.js').FilePosition} FilePosition */

/** @implements {Reader} */
export class JournalReader {
  #host;
  #greeted = false;
  #begun = false;
  #advanced = false;
  /** @type {JournalFile | null} */
  #file = null;
  /** @type {JournalDecoder | null} */
  #decoder = null;

  /** @param {ReaderHost} host */
  constructor(host) {
    this.#host = host;
  }

  /** @param {import('../storage/positions.js').StreamClaim} claim */
  begin(claim) {
    const { spec, context, status, store, loss } = this.#host;
    const { path, sudoUser, startAt } = spec;
    const unit = unitOf(path);
    if (unit === null) throw new PgsluiceError('USAGE', `${path} is not journal:UNIT`);
    this.#greeted = false;
    this.#begun = claim.begun;
    this.#advanced = false;
    const stored = claim.begun ? claim.files.find(({ fileNo }) => fileNo === JOURNAL_FILE_NO) : undefined;
    const file = new JournalFile(stored ?? newPosition(path), {
      createParser: offset => parserFor(path, { ...context, fileNo: JOURNAL_FILE_NO, offset }),
      onLoss: ({ kind, messages, text }) =>
        loss(0, `${kind}: ${messages > 0 ? `${messages} messages; ` : ''}${text}`),
    });
    this.#file = file;
    status.file = path;
    this.#decoder = new JournalDecoder({
      onFrame: frame => this.#onFrame(frame),
      onPlace: (cursor, taken) => {
        this.#expectGreeted(true);
        file.begin(cursor, taken);
        this.#advance();
      },
      onLook: cursor => {
        this.#expectGreeted(true);
        file.look(cursor);
      },
      onPiece: (entry, bytes) => {
        status.bytes += bytes.length;
        store(sink => {
          // Better than the time of arrival: when the journal got it. Of a piece it may not be known yet.
          if (!Number.isNaN(entry.timeMs)) sink.receivedAtMs = entry.timeMs;
          file.piece(entry, bytes, sink);
        });
        this.#advance();
      },
      onEntry: (entry, bytes) => {
        status.bytes += bytes.length;
        store(sink => {
          sink.receivedAtMs = entry.timeMs;
          file.entry(entry, bytes, sink);
        });
        this.#advance();
      },
      onLookEnd: clock => {
        let advanced = false;
        store(sink => (advanced = file.lookEnd(clock, sink)));
        if (advanced) this.#advance();
      },
    });
    const from = claim.begun ? 'none' : startAt;
    return {
      command: journalCommand(sudoUser),
      input: journalInput({ unit, from, cursor: claim.begun ? file.seek : null }),
    };
  }

  /** @param {Buffer} chunk */
  write(chunk) {
    this.#decoder?.write(chunk);
  }

  /** @returns {import('./file-reader.js').Advance} */
  takeAdvance() {
    /** @type {Map<number, FilePosition>} */
    const files = new Map();
    if (this.#advanced && this.#file) files.set(JOURNAL_FILE_NO, this.#file.position());
    this.#advanced = false;
    return { begun: this.#begun, nextFileNo: JOURNAL_FILE_NO + 1, openFileNo: JOURNAL_FILE_NO, files };
  }

  reset() {
    this.#file = null;
    this.#decoder = null;
    this.#advanced = false;
  }

  /** What is open is closed by the entries and the host's clock alone. */
  tick() {}

  /** @param {import('../codec/frames.js').Frame} frame */
  #onFrame(frame) {
    this.#expectGreeted(frame.type !== 'hello');
    this.#greeted = true;
    if (frame.type === 'begun') {
      this.#begun = true;
      this.#advance();
      return;
    }
    if (frame.type === 'heartbeat' && frame.behind === 0) this.#host.status.notice = null;
    this.#host.onCommonFrame(frame);
  }

  /** @param {boolean} expected */
  #expectGreeted(expected) {
    if (this.#greeted === expected) return;
    throw new PgsluiceError('FOLLOWER_PROTOCOL', expected ? 'hello was expected' : 'hello came twice');
  }

  #advance() {
    this.#advanced = true;
    this.#host.touch();
  }
}

/** @param {string} name @returns {FilePosition} */
function newPosition(name) {
  return {
    fileNo: JOURNAL_FILE_NO,
    inode: 'journal',
    name,
    offset: 0,
    headLength: 0,
    headSum: NO_SUM,
    tailLength: 0,
    tailSum: NO_SUM,
    gone: false,
    doneSize: null,
    cursor: null,
  };
}
