/**
 * What the follower of a journal writes (src/follower/journal.sh), and its decoder. Frames as in frames.js (V B H W X L
 * alone), three more, and between J and Q the entries as journalctl -o export writes them
 * (https://systemd.io/JOURNAL_EXPORT_FORMATS/):
 *   P before CURSOR | P after CURSOR     where the stream begins
 *   J CURSOR                             a look: the entries from CURSOR on, that one included, if it is still there
 *   __CURSOR=...\n NAME=text\n NAME\n int64 length, bytes, \n ... \n         an entry; an empty line ends it
 *   Q STATUS CLOCK                       the end of the look: journalctl's exit status, the host's clock in seconds
 * No frame begins with "_", so none can be taken for an entry. Bytes come in pieces of any size. Memory is bounded by
 * maxPieceBytes: a longer message is handed on in pieces. Throws FOLLOWER_PROTOCOL on anything else.
 */
import { PgsluiceError } from '../base/errors.js';
import { FrameDecoder } from './frames.js';
import { isCursor } from './journal-cursor.js';

const LF = 0x0a;
const EQUALS = 0x3d;
const UNDERSCORE = 0x5f;

const HEADER_MAX_BYTES = 4608; // as in frames.js
const NAME_MAX_BYTES = 64; // journal_field_valid()
const SMALL_MAX_BYTES = 1024; // of a value other than the message; a cursor has 140
const LENGTH_BYTES = 8;
const SMALL_MESSAGE_BYTES = 4096;

/** A message is handed on in pieces from here on. journald cuts what comes by stdout and stderr at 48 KiB (LineMax). */
const DEFAULT_PIECE_BYTES = 1024 * 1024;

const NUMBER = '(0|[1-9][0-9]{0,15})';
const PLACE = /^P (before|after) (\S+)$/;
const LOOK = /^J (\S+)$/;
const LOOK_END = new RegExp(`^Q ${NUMBER} ${NUMBER}$`);
const COUNT = /^(0|[1-9][0-9]{0,15})$/;
const PLAIN_FRAMES = 'VBHWXL';
/** Of a driver's message: "Suppressed 17 messages from ...", in versions without N_DROPPED. */
const SUPPRESSED = /^Suppressed (\d{1,15}) /;

// What comes next in an entry, or outside one.
const FRAME = 0;
const NAME = 1;
const TEXT = 2;
const LENGTH = 3;
const BLOB = 4;
const BLOB_END = 5;

const FIELDS = new Map([
  ['__CURSOR', 1],
  ['__REALTIME_TIMESTAMP', 2],
  ['_PID', 3],
  ['_LINE_BREAK', 4],
  ['_TRANSPORT', 5],
  ['N_DROPPED', 6],
  ['MESSAGE', 7],
]);
const OTHER = 0;
const MESSAGE = 7;

/**
 * @typedef {object} JournalEntry one object for all entries of a decoder, valid only during the call
 * @property {string} cursor
 * @property {number} timeMs __REALTIME_TIMESTAMP, milliseconds since 1970-01-01; NaN in a piece that comes before it
 * @property {string} pid '' when it is not known (yet)
 * @property {string} lineBreak _LINE_BREAK: '' at a newline, else nul, line-max, eof or pid-change
 * @property {number} dropped messages that the journal says it dropped; 0: the entry is the unit's own
 */

/**
 * @typedef {object} JournalHandler
 * @property {(frame: import('./frames.js').Frame) => void} onFrame
 * @property {(cursor: string, taken: boolean) => void} onPlace the stream begins with the entry, or after it
 * @property {(cursor: string) => void} onLook
 * @property {(entry: JournalEntry, bytes: Buffer) => void} onPiece the next bytes of a long message, before its entry
 * @property {(entry: JournalEntry, bytes: Buffer) => void} onEntry the message, or what follows its pieces; a view,
 *   valid only during the call
 * @property {(clock: number) => void} onLookEnd
 */

export class JournalDecoder {
  #handler;
  #frames;
  #maxPieceBytes;
  #state = FRAME;
  /** of the header line, the name or the value that has begun */
  #small = Buffer.allocUnsafe(HEADER_MAX_BYTES);
  #smallLength = 0;
  #message = Buffer.allocUnsafe(SMALL_MESSAGE_BYTES);
  #messageLength = 0;
  #field = OTHER;
  /** bytes left of a blob */
  #left = 0;
  #looking = false;
  #driver = false;
  /** @type {JournalEntry} */
  #entry = { cursor: '', timeMs: NaN, pid: '', lineBreak: '', dropped: 0 };

  /**
   * @param {JournalHandler} handler
   * @param {number} [maxPieceBytes]
   */
  constructor(handler, maxPieceBytes = DEFAULT_PIECE_BYTES) {
    this.#handler = handler;
    this.#maxPieceBytes = maxPieceBytes;
    this.#frames = new FrameDecoder(frame => handler.onFrame(frame), refuseBytes);
  }

  /** True between two frames: the input may end here without anything having been cut. */
  get idle() {
    return this.#state === FRAME && this.#smallLength === 0 && !this.#looking;
  }

  /** @param {Buffer} chunk valid only during the call */
  write(chunk) {
    let at = 0;
    while (at < chunk.length) {
      switch (this.#state) {
        case FRAME:
          at = this.#readFrame(chunk, at);
          break;
        case NAME:
          at = this.#readName(chunk, at);
          break;
        case TEXT: {
          const newline = chunk.indexOf(LF, at);
          const end = newline === -1 ? chunk.length : newline;
          this.#take(chunk, at, end);
          at = end;
          if (newline !== -1) {
            at += 1;
            this.#endField();
          }
          break;
        }
        case LENGTH:
          at = this.#readLength(chunk, at);
          break;
        case BLOB: {
          const end = Math.min(chunk.length, at + this.#left);
          this.#take(chunk, at, end);
          this.#left -= end - at;
          at = end;
          if (this.#left === 0) this.#state = BLOB_END;
          break;
        }
        default:
          if (chunk[at] !== LF) throw wrong('a field is longer than it says');
          at += 1;
          this.#endField();
      }
    }
  }

  /** @param {Buffer} chunk @param {number} at @returns {number} where to go on */
  #readFrame(chunk, at) {
    if (this.#smallLength === 0 && chunk[at] === UNDERSCORE) {
      if (!this.#looking) throw wrong('an entry outside a look');
      this.#state = NAME;
      this.#driver = false;
      const entry = this.#entry;
      entry.cursor = entry.pid = entry.lineBreak = '';
      entry.timeMs = NaN;
      entry.dropped = 0;
      return at;
    }
    const newline = chunk.indexOf(LF, at);
    const end = newline === -1 ? chunk.length : newline;
    if (this.#smallLength + end - at > HEADER_MAX_BYTES) {
      throw wrong(`a line of more than ${HEADER_MAX_BYTES} bytes: something else than the follower answers`);
    }
    this.#smallLength += chunk.copy(this.#small, this.#smallLength, at, end);
    if (newline === -1) return end;
    const header = this.#small.toString('utf8', 0, this.#smallLength);
    this.#smallLength = 0;
    this.#decode(header);
    return end + 1;
  }

  /** @param {string} header */
  #decode(header) {
    if (header[0] === 'P') {
      const [, when, cursor = ''] = PLACE.exec(header) ?? [];
      if (!when || !isCursor(cursor) || this.#looking) throw notFrame(header);
      this.#handler.onPlace(cursor, when === 'after');
    } else if (header[0] === 'J') {
      const [, cursor = ''] = LOOK.exec(header) ?? [];
      if (!isCursor(cursor) || this.#looking) throw notFrame(header);
      this.#looking = true;
      this.#handler.onLook(cursor);
    } else if (header[0] === 'Q') {
      const [, status, clock] = LOOK_END.exec(header) ?? [];
      if (!status || !this.#looking) throw notFrame(header);
      this.#looking = false;
      this.#handler.onLookEnd(Number(clock));
    } else if (this.#looking && header.startsWith('-- cursor: ')) {
      // --show-cursor, for the follower itself.
    } else if (!this.#looking && PLAIN_FRAMES.includes(header[0] ?? ' ')) {
      this.#frames.write(Buffer.from(`${header}\n`));
    } else {
      throw notFrame(header);
    }
  }

  /** @param {Buffer} chunk @param {number} at @returns {number} where to go on */
  #readName(chunk, at) {
    const name = this.#small;
    let length = this.#smallLength;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0;
      if (byte === EQUALS || byte === LF) {
        this.#smallLength = 0;
        this.#beginField(name.toString('latin1', 0, length), byte === LF);
        return at + 1;
      }
      // A-Z, 0-9 and _
      const isNameByte =
        (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x30 && byte <= 0x39) || byte === UNDERSCORE;
      if (!isNameByte || length === NAME_MAX_BYTES) throw wrong('an entry that broke off, or no entry');
      name[length] = byte;
      length += 1;
    }
    this.#smallLength = length;
    return at;
  }

  /** @param {string} name @param {boolean} isBlob */
  #beginField(name, isBlob) {
    if (this.#entry.cursor === '' && name !== '__CURSOR') throw wrong(`an entry that begins with ${name}`);
    if (name === '') {
      if (!isBlob) throw wrong('a field without a name');
      this.#endEntry();
      return;
    }
    this.#field = FIELDS.get(name) ?? OTHER;
    this.#state = isBlob ? LENGTH : TEXT;
    // A field may come twice; of the message the last one counts, if it was not handed on in pieces.
    if (this.#field === MESSAGE) this.#messageLength = 0;
  }

  /** @param {Buffer} chunk @param {number} at @returns {number} where to go on */
  #readLength(chunk, at) {
    const end = Math.min(chunk.length, at + LENGTH_BYTES - this.#smallLength);
    this.#smallLength += chunk.copy(this.#small, this.#smallLength, at, end);
    if (this.#smallLength < LENGTH_BYTES) return end;
    this.#smallLength = 0;
    const length = this.#small.readBigUInt64LE(0);
    if (length > BigInt(Number.MAX_SAFE_INTEGER)) throw wrong(`a field of ${length} bytes`);
    this.#left = Number(length);
    this.#state = this.#left === 0 ? BLOB_END : BLOB;
    return end;
  }

  /**
   * The next bytes of the field's value.
   * @param {Buffer} chunk @param {number} at @param {number} end
   */
  #take(chunk, at, end) {
    if (this.#field === OTHER) return;
    if (this.#field !== MESSAGE) {
      if (this.#smallLength + end - at > SMALL_MAX_BYTES) throw wrong('a field that is too long');
      this.#smallLength += chunk.copy(this.#small, this.#smallLength, at, end);
      return;
    }
    while (at < end) {
      if (this.#messageLength === this.#maxPieceBytes) this.#handOnPiece();
      const length = Math.min(end - at, this.#maxPieceBytes - this.#messageLength);
      this.#reserve(this.#messageLength + length);
      this.#messageLength += chunk.copy(this.#message, this.#messageLength, at, at + length);
      at += length;
    }
  }

  #handOnPiece() {
    this.#handler.onPiece(this.#entry, this.#message.subarray(0, this.#messageLength));
    this.#messageLength = 0;
  }

  /** @param {number} needed */
  #reserve(needed) {
    if (needed <= this.#message.length) return;
    const grown = Buffer.allocUnsafeSlow(
      Math.min(this.#maxPieceBytes, Math.max(needed, this.#message.length * 2)),
    );
    this.#message.copy(grown, 0, 0, this.#messageLength);
    this.#message = grown;
  }

  #endField() {
    this.#state = NAME;
    const field = this.#field;
    if (field === OTHER || field === MESSAGE) return;
    const value = this.#small.toString('latin1', 0, this.#smallLength);
    this.#smallLength = 0;
    const entry = this.#entry;
    switch (field) {
      case 1:
        if (entry.cursor !== '' || !isCursor(value)) throw wrong('a cursor that is none');
        entry.cursor = value;
        return;
      case 2:
        if (!COUNT.test(value)) throw wrong('a time that is none');
        entry.timeMs = Math.floor(Number(value) / 1000);
        return;
      case 3:
        entry.pid = value;
        return;
      case 4:
        entry.lineBreak = value;
        return;
      case 5:
        this.#driver = value === 'driver';
        return;
      default:
        entry.dropped = COUNT.test(value) ? Number(value) : 1;
    }
  }

  #endEntry() {
    const entry = this.#entry;
    if (Number.isNaN(entry.timeMs)) throw wrong('an entry without a time');
    const message = this.#message.subarray(0, this.#messageLength);
    if (!this.#driver) {
      entry.dropped = 0;
    } else if (entry.dropped === 0) {
      const [, count] = SUPPRESSED.exec(message.toString('latin1', 0, SMALL_MAX_BYTES)) ?? [];
      entry.dropped = Math.max(1, Number(count ?? 1));
    }
    this.#state = FRAME;
    this.#messageLength = 0;
    this.#handler.onEntry(entry, message);
    // What one long message needed is given back.
    if (this.#message.length > SMALL_MESSAGE_BYTES * 16)
      this.#message = Buffer.allocUnsafe(SMALL_MESSAGE_BYTES);
  }
}

function refuseBytes() {
  throw wrong('bytes of a file');
}

/** @param {string} what */
function wrong(what) {
  return new PgsluiceError('FOLLOWER_PROTOCOL', `the journal's follower sent ${what}`);
}

/** @param {string} header */
function notFrame(header) {
  return new PgsluiceError(
    'FOLLOWER_PROTOCOL',
    `not a frame: ${JSON.stringify(header.slice(0, 200))}; a shell profile on the host that prints something is the usual reason`,
  );
}
