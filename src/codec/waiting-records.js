/**
 * The records of a text log that are not released yet, in the order of their first byte: what a process may still add
 * to, and what is complete but lies behind or between such records. LineParser pushes and extends them; release()
 * says how many of the first may become rows: as many as are complete and reach up to a cut point, a place in the
 * file that no record lies on both sides of.
 * Everything is numbers in arrays: a record a slot, positions relative to what a slot says. A record is known by its
 * number, which is never used again while it can be confused. It never throws and knows no bytes.
 */
import { PREFIX_FIELDS } from './line-prefix-fields.js';

/** Kinds of records. */
export const MESSAGE = 0;
export const TEXT = 1;
export const CSVLOG = 2;
export const JSONLOG = 3;

/** Parts of a MESSAGE in the order PostgreSQL writes them, each once (elog.c, send_message_to_server_log()). */
export const MESSAGE_PART = 0;
export const DETAIL_PART = 1;
export const HINT_PART = 2;
export const QUERY_PART = 3;
export const CONTEXT_PART = 4;
export const LOCATION_PART = 5;
export const BACKTRACE_PART = 6;
export const STATEMENT_PART = 7;
export const PARTS = 8;

/** Start and end of each part, then LinePrefix.fields. */
export const STRIDE = 2 * PARTS + 2 * PREFIX_FIELDS;
export const FIELDS_AT = 2 * PARTS;

const SMALL_CAPACITY = 16;
/** Numbers of records are taken modulo this: small integers for V8. */
const NUMBERS = 2 ** 30;
/** More processes than this are forgotten together: a server has fewer that write at one time. */
const MAX_PROCESSES = 8192;

const OPEN = 0;
const COMPLETE = 1;

export class WaitingRecords {
  #windowBytes;
  #mask = 0;
  /** number of the first record */
  #first = 0;
  /** how many of the first records are complete, and where the last of their lines ends */
  #scanned = 0;
  #scannedEnd = 0;
  /** process -> number of its last record @type {Map<number, number>} */
  #lastOf = new Map();
  #state = new Uint8Array(0);

  /** records waiting */
  count = 0;
  /** file offsets of the first byte and of the byte after the last line */
  start = new Float64Array(0);
  end = new Float64Array(0);
  /** bytes of its own lines */
  bytes = new Float64Array(0);
  kind = new Uint8Array(0);
  /** MESSAGE: the highest part, the parts it has and those of them that have more than a line, as bits */
  lastPart = new Uint8Array(0);
  parts = new Uint8Array(0);
  multiLine = new Uint8Array(0);
  /** number of the word that the severity was written as, and bytes of it with what follows it */
  severity = new Int16Array(0);
  severityBytes = new Uint8Array(0);
  process = new Float64Array(0);
  /** file offset that the positions in `spans` count from */
  origin = new Float64Array(0);
  /** fields of its prefix that it has, as bits; only their positions are in `spans` */
  present = new Int32Array(0);
  /** STRIDE of each record */
  spans = new Int32Array(0);

  /** @param {number} windowBytes so many bytes after its last line a record is complete */
  constructor(windowBytes) {
    this.#windowBytes = windowBytes;
  }

  /**
   * @param {number} index 0 is the first record
   * @returns {number} its slot
   */
  slotAt(index) {
    return (this.#first + index) & this.#mask;
  }

  /** @returns {number} the number of the record pushed last */
  lastNumber() {
    return (this.#first + this.count - 1) % NUMBERS;
  }

  /** @param {number} number @returns {number} the slot; -1: it is complete or gone */
  openSlot(number) {
    const index = (number - this.#first + NUMBERS) % NUMBERS;
    const slot = number & this.#mask;
    return index < this.count && this.#state[slot] === OPEN ? slot : -1;
  }

  /**
   * @param {number} process
   * @param {number} at file offset of the line that may belong to it
   * @returns {number} the number of the open record of a process; -1: there is none
   */
  openOf(process, at) {
    const number = this.#lastOf.get(process);
    if (number === undefined) return -1;
    const slot = this.openSlot(number);
    return slot >= 0 && at - this.end[slot] <= this.#windowBytes ? number : -1;
  }

  /**
   * Adds a record, complete unless it is a MESSAGE.
   * @param {number} kind
   * @param {number} start
   * @param {number} end
   * @returns {number} its slot
   */
  push(kind, start, end) {
    if (this.count === this.start.length) this.#grow();
    const slot = (this.#first + this.count) & this.#mask;
    this.count += 1;
    this.kind[slot] = kind;
    this.start[slot] = start;
    this.end[slot] = end;
    this.bytes[slot] = end - start;
    this.#state[slot] = kind === MESSAGE ? OPEN : COMPLETE;
    this.parts[slot] = 0;
    this.multiLine[slot] = 0;
    return slot;
  }

  /**
   * The record pushed last is the open one of this process from now on.
   * @param {number} process
   */
  own(process) {
    const number = this.lastNumber();
    this.process[number & this.#mask] = process;
    if (this.#lastOf.size > MAX_PROCESSES) this.#forgetProcesses();
    this.#lastOf.set(process, number);
  }

  /**
   * Adds a line with a part to a MESSAGE.
   * @param {number} slot
   * @param {number} part
   * @param {number} textStart file offset
   * @param {number} textEnd file offset
   * @param {number} end file offset after the line
   * @param {number} bytes of the line; 0: those of the record's first line are counted already
   */
  addPart(slot, part, textStart, textEnd, end, bytes) {
    const at = slot * STRIDE + 2 * part;
    const origin = this.origin[slot];
    this.spans[at] = textStart - origin;
    this.spans[at + 1] = textEnd - origin;
    this.parts[slot] |= 1 << part;
    this.lastPart[slot] = part;
    this.end[slot] = end;
    this.bytes[slot] += bytes;
  }

  /**
   * Adds a line that begins with a TAB to the last part of a MESSAGE.
   * @param {number} slot
   * @param {number} textEnd file offset
   * @param {number} end file offset after the line
   * @param {number} bytes of the line
   */
  addLine(slot, textEnd, end, bytes) {
    const part = this.lastPart[slot];
    this.spans[slot * STRIDE + 2 * part + 1] = textEnd - this.origin[slot];
    this.multiLine[slot] |= 1 << part;
    this.end[slot] = end;
    this.bytes[slot] += bytes;
  }

  /**
   * @param {number} slot
   * @param {number} at file offset of a line
   * @returns {boolean} whether all bytes from the start of the record to there are its own
   */
  isContiguous(slot, at) {
    return this.end[slot] === at && at - this.start[slot] === this.bytes[slot];
  }

  /** @param {number} number of a record: nothing will be added to it */
  complete(number) {
    const slot = this.openSlot(number);
    if (slot >= 0) this.#state[slot] = COMPLETE;
  }

  /** @param {number} [except] number of a record that stays as it is */
  completeAll(except = -1) {
    for (let index = this.#scanned; index < this.count; index += 1) {
      const number = (this.#first + index) % NUMBERS;
      if (number !== except) this.#state[number & this.#mask] = COMPLETE;
    }
  }

  /**
   * @param {number} at file offset up to which all lines belong to a record
   * @returns {number} how many of the first records may be released
   */
  releasable(at) {
    let releasable = 0;
    let scanned = this.#scanned;
    let reach = this.#scannedEnd;
    const { count, start, end } = this;
    const state = this.#state;
    const mask = this.#mask;
    while (scanned < count) {
      const slot = (this.#first + scanned) & mask;
      if (state[slot] === OPEN) {
        if (at - end[slot] <= this.#windowBytes) break;
        state[slot] = COMPLETE;
      }
      if (end[slot] > reach) reach = end[slot];
      scanned += 1;
      if (scanned === count || reach <= start[(this.#first + scanned) & mask]) releasable = scanned;
    }
    this.#scanned = scanned;
    this.#scannedEnd = reach;
    return releasable;
  }

  /** @param {number} count of the first records that are gone */
  drop(count) {
    this.#first = (this.#first + count) % NUMBERS;
    this.count -= count;
    this.#scanned -= count;
    if (this.#scanned <= 0) this.#scanned = this.#scannedEnd = 0;
  }

  /** Gives the memory back. Nothing must be waiting. */
  shrink() {
    this.#lastOf.clear();
    if (this.start.length > SMALL_CAPACITY) this.#allocate(0);
  }

  #forgetProcesses() {
    for (const [process, number] of this.#lastOf) {
      if (this.openSlot(number) < 0) this.#lastOf.delete(process);
    }
  }

  #grow() {
    this.#allocate(Math.max(this.start.length * 2, SMALL_CAPACITY));
  }

  /** @param {number} capacity a power of two, or 0 */
  #allocate(capacity) {
    const {
      start,
      end,
      bytes,
      kind,
      lastPart,
      parts,
      multiLine,
      severity,
      severityBytes,
      process,
      origin,
      present,
      spans,
    } = this;
    const state = this.#state;
    const oldMask = this.#mask;
    const mask = Math.max(capacity - 1, 0);
    this.start = new Float64Array(capacity);
    this.end = new Float64Array(capacity);
    this.bytes = new Float64Array(capacity);
    this.kind = new Uint8Array(capacity);
    this.lastPart = new Uint8Array(capacity);
    this.parts = new Uint8Array(capacity);
    this.multiLine = new Uint8Array(capacity);
    this.severity = new Int16Array(capacity);
    this.severityBytes = new Uint8Array(capacity);
    this.process = new Float64Array(capacity);
    this.origin = new Float64Array(capacity);
    this.present = new Int32Array(capacity);
    this.spans = new Int32Array(capacity * STRIDE);
    this.#state = new Uint8Array(capacity);
    this.#mask = mask;
    for (let index = 0; index < this.count; index += 1) {
      const from = (this.#first + index) & oldMask;
      const to = (this.#first + index) & mask;
      this.start[to] = start[from];
      this.end[to] = end[from];
      this.bytes[to] = bytes[from];
      this.kind[to] = kind[from];
      this.lastPart[to] = lastPart[from];
      this.parts[to] = parts[from];
      this.multiLine[to] = multiLine[from];
      this.severity[to] = severity[from];
      this.severityBytes[to] = severityBytes[from];
      this.process[to] = process[from];
      this.origin[to] = origin[from];
      this.present[to] = present[from];
      this.#state[to] = state[from];
      this.spans.set(spans.subarray(from * STRIDE, (from + 1) * STRIDE), to * STRIDE);
    }
  }
}
