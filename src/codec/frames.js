/**
 * What the follower writes, and its decoder. A frame is a header line; only D is followed by bytes of a log.
 *
 *   V 1 CLOCK                                       hello: protocol version, the host's clock in seconds
 *   S INODE OFFSET HEADLEN HEADSUM TAILLEN TAILSUM NAME   was there before the stream began: skipped up to OFFSET
 *   B                                               all of those were named: the stream has begun
 *   F INODE DEVICE OFFSET STATE NAME                the D frames that follow are of this file, from OFFSET;
 *                                                   STATE new | known | shrunk
 *   D OFFSET LENGTH \n LENGTH bytes                 bytes of the open file
 *   T OFFSET LENGTH \n LENGTH bytes                 the same, but only if K comes next: else the file was truncated while
 *                                                   it was read, and these are bytes of something else
 *   K OFFSET                                        the bytes of T, which end there, hold
 *   I OFFSET                                        looked at the open file again: nothing came after OFFSET
 *   H CLOCK OFFSET SIZE BEHIND                      heartbeat: of the open file, and unread bytes outside it
 *   G INODE                                         this known file is not there (any more)
 *   C INODE INODE NAME                              the bytes of this known file are in another file now
 *   E INODE SIZE                                    this compressed file of SIZE bytes is dealt with for ever
 *   L KIND BYTES NAME                               lost: removed, BYTES unread; it was never opened
 *   Z NAME                                          the server's log_timezone
 *   P TEXT                                          the server's log_line_prefix
 *   W CODE TEXT                                     waiting: missing | unreadable | compressed
 *   X CODE TEXT                                     the follower gives up: tool | moved | renew
 *
 * Bytes come in pieces of any size, cut anywhere. The decoder keeps at most one header line and the bytes of one T; those
 * of D are handed on as views of the input, valid only during the call. Throws FOLLOWER_PROTOCOL on anything else.
 */
import { PgsluiceError } from '../base/errors.js';

const HEADER_MAX_BYTES = 4608; // a name has at most 255 bytes, a path in a message 4096
const TENTATIVE_MAX_BYTES = 65_536;
const NEWLINE = 10;

/**
 * @typedef {{ type: 'hello', version: number, clock: number }} HelloFrame
 * @typedef {{ type: 'skip', inode: string, offset: number, headLength: number, headSum: number, tailLength: number, tailSum: number, name: string }} SkipFrame
 * @typedef {{ type: 'begun' }} BegunFrame
 * @typedef {{ type: 'file', inode: string, device: string, offset: number, state: 'new' | 'known' | 'shrunk', name: string }} FileFrame
 * @typedef {{ type: 'heartbeat', clock: number, offset: number, size: number, behind: number }} HeartbeatFrame
 * @typedef {{ type: 'quiet', offset: number }} QuietFrame
 * @typedef {{ type: 'gone', inode: string }} GoneFrame
 * @typedef {{ type: 'copied', inode: string, copy: string, name: string }} CopiedFrame
 * @typedef {{ type: 'done', inode: string, size: number }} DoneFrame
 * @typedef {{ type: 'lost', kind: string, bytes: number, name: string }} LostFrame
 * @typedef {{ type: 'zone', name: string }} ZoneFrame
 * @typedef {{ type: 'prefix', text: string }} PrefixFrame
 * @typedef {{ type: 'waiting', code: string, text: string }} WaitingFrame
 * @typedef {{ type: 'failed', code: string, text: string }} FailedFrame
 * @typedef {HelloFrame | SkipFrame | BegunFrame | FileFrame | HeartbeatFrame | QuietFrame | GoneFrame | CopiedFrame | DoneFrame | LostFrame | ZoneFrame | PrefixFrame | WaitingFrame | FailedFrame} Frame
 */

// At most 15 digits: the sum of an offset and a length stays below 2^53, where numbers are exact.
const NUMBER = '(0|[1-9][0-9]{0,14})';
const INODE = '([1-9][0-9]{0,19})';
// Of the bytes under a sum: an integer of the storage, whatever a host says.
const LENGTH = '(0|[1-9][0-9]{0,8})';
// s: a name may hold U+2028, which is not a line's end here.
const patterns = {
  V: new RegExp(`^V ${NUMBER} ${NUMBER}$`),
  S: new RegExp(`^S ${INODE} ${NUMBER} ${LENGTH} ${NUMBER} ${LENGTH} ${NUMBER} \\./(.+)$`, 's'),
  B: /^B$/,
  F: new RegExp(`^F ${INODE} ([0-9]{1,20}) ${NUMBER} (new|known|shrunk) (.+)$`, 's'),
  D: new RegExp(`^D ${NUMBER} ${NUMBER}$`),
  T: new RegExp(`^T ${NUMBER} ${NUMBER}$`),
  K: new RegExp(`^K ${NUMBER}$`),
  H: new RegExp(`^H ${NUMBER} ${NUMBER} ${NUMBER} ${NUMBER}$`),
  I: new RegExp(`^I ${NUMBER}$`),
  G: new RegExp(`^G ${INODE}$`),
  C: new RegExp(`^C ${INODE} ${INODE} (.+)$`, 's'),
  E: new RegExp(`^E ${INODE} ${NUMBER}$`),
  L: new RegExp(`^L ([a-z]+) ${NUMBER} (.+)$`, 's'),
  P: /^P (.{1,256})$/s,
  Z: /^Z ([A-Za-z0-9_+/-]{1,64})$/,
  W: /^W ([a-z]+) ?(.*)$/s,
  X: /^X ([a-z]+) ?(.*)$/s,
};

export class FrameDecoder {
  #header = Buffer.allocUnsafe(HEADER_MAX_BYTES);
  #headerLength = 0;
  #bytesLeft = 0;
  #offset = 0;
  /** of T, until K comes @type {Buffer | null} */
  #tentative = null;
  #onFrame;
  #onBytes;

  /**
   * @param {(frame: Frame) => void} onFrame
   * @param {(bytes: Uint8Array, offset: number) => void} onBytes a view, valid only during the call, and the offset
   *   of its first byte in the open file
   */
  constructor(onFrame, onBytes) {
    this.#onFrame = onFrame;
    this.#onBytes = onBytes;
  }

  /** True between two frames: the input may end here without a frame having been cut. */
  get idle() {
    return this.#headerLength === 0 && this.#bytesLeft === 0 && this.#tentative === null;
  }

  /** @param {Uint8Array} chunk */
  write(chunk) {
    let position = 0;
    while (position < chunk.length) {
      if (this.#bytesLeft > 0) {
        const end = Math.min(chunk.length, position + this.#bytesLeft);
        const bytes = chunk.subarray(position, end);
        const offset = this.#offset;
        this.#offset += bytes.length;
        if (this.#tentative) this.#tentative.set(bytes, this.#tentative.length - this.#bytesLeft);
        this.#bytesLeft -= bytes.length;
        if (!this.#tentative) this.#onBytes(bytes, offset);
        position = end;
        continue;
      }
      const newline = chunk.indexOf(NEWLINE, position);
      const end = newline === -1 ? chunk.length : newline;
      if (this.#headerLength + end - position > HEADER_MAX_BYTES) {
        throw new PgsluiceError(
          'FOLLOWER_PROTOCOL',
          `a frame header is longer than ${HEADER_MAX_BYTES} bytes: something else than the follower answers`,
        );
      }
      this.#header.set(chunk.subarray(position, end), this.#headerLength);
      this.#headerLength += end - position;
      if (newline === -1) return;
      position = newline + 1;
      const header = this.#header.toString('utf8', 0, this.#headerLength);
      this.#headerLength = 0;
      this.#decode(header);
    }
  }

  /** @param {string} header */
  #decode(header) {
    const match = patterns[/** @type {keyof typeof patterns} */ (header[0])]?.exec(header);
    // No name and no setting has a NUL, and the storage takes none.
    if (!match || header.includes('\0')) {
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        `not a frame: ${JSON.stringify(header.slice(0, 200))}; a shell profile on the host that prints something is the usual reason`,
      );
    }
    const [, a = '', b = '', c = '', d = '', e = '', f = '', g = ''] = match;
    if ((header[0] === 'K') !== (this.#tentative !== null))
      throw new PgsluiceError(
        'FOLLOWER_PROTOCOL',
        header[0] === 'K'
          ? 'bytes hold that were not sent'
          : 'bytes that may not hold, and nothing more of them',
      );
    switch (header[0]) {
      case 'D':
        return this.#expectBytes(Number(a), Number(b));
      case 'T':
        this.#expectBytes(Number(a), Number(b));
        if (this.#bytesLeft > TENTATIVE_MAX_BYTES)
          throw new PgsluiceError('FOLLOWER_PROTOCOL', `${this.#bytesLeft} bytes that may not hold`);
        this.#tentative = Buffer.allocUnsafe(this.#bytesLeft);
        return;
      case 'K':
        return this.#onKept(Number(a));
      case 'V':
        return this.#onFrame({ type: 'hello', version: Number(a), clock: Number(b) });
      case 'S':
        return this.#onFrame({
          type: 'skip',
          inode: a,
          offset: Number(b),
          headLength: Number(c),
          headSum: Number(d),
          tailLength: Number(e),
          tailSum: Number(f),
          name: g,
        });
      case 'B':
        return this.#onFrame({ type: 'begun' });
      case 'F':
        return this.#onFrame({
          type: 'file',
          inode: a,
          device: b,
          offset: Number(c),
          state: /** @type {FileFrame['state']} */ (d),
          name: e,
        });
      case 'H':
        return this.#onFrame({
          type: 'heartbeat',
          clock: Number(a),
          offset: Number(b),
          size: Number(c),
          behind: Number(d),
        });
      case 'I':
        return this.#onFrame({ type: 'quiet', offset: Number(a) });
      case 'G':
        return this.#onFrame({ type: 'gone', inode: a });
      case 'C':
        return this.#onFrame({ type: 'copied', inode: a, copy: b, name: c });
      case 'E':
        return this.#onFrame({ type: 'done', inode: a, size: Number(b) });
      case 'L':
        return this.#onFrame({ type: 'lost', kind: a, bytes: Number(b), name: c });
      case 'P':
        return this.#onFrame({ type: 'prefix', text: a });
      case 'Z':
        return this.#onFrame({ type: 'zone', name: a });
      case 'W':
        return this.#onFrame({ type: 'waiting', code: a, text: b });
      default:
        return this.#onFrame({ type: 'failed', code: a, text: b });
    }
  }

  /** @param {number} offset @param {number} length */
  #expectBytes(offset, length) {
    if (length === 0) throw new PgsluiceError('FOLLOWER_PROTOCOL', 'a frame of 0 bytes');
    this.#offset = offset;
    this.#bytesLeft = length;
  }

  /** @param {number} end offset after the bytes of T */
  #onKept(end) {
    const bytes = this.#tentative ?? Buffer.alloc(0);
    if (end !== this.#offset)
      throw new PgsluiceError('FOLLOWER_PROTOCOL', `bytes up to ${end} hold, but ${this.#offset} was sent`);
    this.#tentative = null;
    this.#onBytes(bytes, end - bytes.length);
  }
}
