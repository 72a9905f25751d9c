/**
 * What log_line_prefix prints before a message -> where each value lies. compileLinePrefix() reads the setting once,
 * LinePrefix.match() is called for every line of a stderr log. Times, numbers and ids are read by their own form,
 * without a choice; a free text (%u %d %a %i %b %r %h %L) reaches to the first place where the rest of the prefix
 * fits and a message follows. match() never throws, keeps nothing of the line, and its work is linear in at most
 * SEARCHED_BYTES. compileLinePrefix() throws PgsluiceError('USAGE') for a prefix that cannot be read back.
 */
import {
  CONNECTION_FROM,
  LOCAL_HOST,
  PREFIX_FIELDS,
  PROCESS_ID,
  Q_ENDED,
  SESSION_ID,
  USER_NAME,
} from './line-prefix-fields.js';
import { endOfForm } from './line-prefix-forms.js';
import { DONE, FREE, LITERAL, QUIT, readSteps } from './line-prefix-steps.js';

/** @typedef {(bytes: Uint8Array, at: number, end: number) => boolean} IsMessage */

const SPACE = 0x20;
const AT = 0x40;

/** Free texts end within so many bytes of the line: names are at most 63 bytes, host names 1 024. */
const SEARCHED_BYTES = 4096;

/**
 * @param {string} text the setting log_line_prefix; an empty one matches every line and tells nothing
 * @returns {LinePrefix}
 */
export function compileLinePrefix(text) {
  return new LinePrefix(text);
}

export class LinePrefix {
  #forms;
  #widths;
  /** 1: the value is a host, with a port or without */
  #hosts;
  /** 1: the value is the name of a user */
  #users;
  /** @type {Buffer[]} bytes of a LITERAL */
  #literals;
  /** the next step is a LITERAL that begins so; -1 */
  #nextBytes;
  /** values that a FREE step tries first */
  #phrases;
  /** the byte all of them begin with; -1: not the same one, or behind padding */
  #phraseBytes;
  /** start and end of each step's value */
  #spans;
  /** FREE: from here on it was tried in this line, in vain */
  #failedFrom;
  /** steps with a field, the one that decides last */
  #captured;
  #capturedFields;
  #quit;
  /** the FREE steps */
  #frees;
  /** step at which the line's prefix ended */
  #stop = 0;
  #searchEnd = 0;

  /** @param {string} text */
  constructor(text) {
    const steps = readSteps(text);
    this.text = text;
    /**
     * Of the last line that matched: start and end of each value (line-prefix-fields.js), without padding, as
     * indexes into its bytes; both -1 when nothing is written there.
     */
    this.fields = new Int32Array(2 * PREFIX_FIELDS).fill(-1);
    this.#forms = Uint8Array.from(steps, ({ form }) => form);
    this.#widths = Int32Array.from(steps, ({ width }) => width);
    this.#hosts = Uint8Array.from(steps, ({ field }) =>
      field === CONNECTION_FROM || field === LOCAL_HOST ? 1 : 0,
    );
    this.#users = Uint8Array.from(steps, ({ field }) => (field === USER_NAME ? 1 : 0));
    this.#literals = steps.map(({ literal }) => literal);
    this.#phrases = steps.map(({ phrases }) => phrases);
    this.#phraseBytes = Int16Array.from(steps, ({ phrases, width }) => {
      const [first = -1, ...others] = new Set(phrases.map(phrase => phrase[0]));
      return others.length > 0 || width > 0 ? -1 : first;
    });
    this.#nextBytes = Int16Array.from(steps, (_, index) => steps[index + 1]?.literal[0] ?? -1);
    this.#spans = new Int32Array(2 * steps.length);
    this.#failedFrom = new Float64Array(steps.length);
    this.#quit = steps.findIndex(({ form }) => form === QUIT);
    this.#frees = Int32Array.from(steps.flatMap(({ form }, index) => (form === FREE ? [index] : [])));

    const captured = steps.map((step, index) => ({ ...step, index })).filter(({ field }) => field >= 0);
    captured.sort((a, b) => a.rank - b.rank || b.index - a.index);
    this.#captured = Int32Array.from(captured, ({ index }) => index);
    this.#capturedFields = Int32Array.from(captured, ({ field }) => 2 * field);

    /**
     * The escapes whose values `fields` has, one a field. @type {readonly { letter: string, field: number }[]}
     */
    this.values = captured
      .filter(({ field }, index) => !captured.slice(index + 1).some(later => later.field === field))
      .map(({ name, field }) => ({ letter: name.slice(-1), field }));

    /** @param {number} field */
    const first = field => steps.findIndex(step => step.field === field);
    const [process, session] = [first(PROCESS_ID), first(SESSION_ID)];
    const either = process < 0 || (session >= 0 && session < this.#quit && this.#quit < process);
    /** The field that tells processes apart; -1: none. Behind a %q it is missing in lines that end there. */
    this.processKey = either ? (session < 0 ? -1 : SESSION_ID) : PROCESS_ID;
    /** Whether lines of different processes can be told apart. */
    this.hasProcess = this.processKey >= 0;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} at where the line begins
   * @param {number} end of the line, without its newline
   * @param {IsMessage} isMessage whether a severity or a label (`DETAIL:  `) stands there. It is asked only where
   *   the prefix leaves a choice (free texts, %q): what follows a prefix of other values is for the caller to see
   * @returns {number} the index after the prefix, and `fields` is filled; -1: no such prefix, `fields` is undefined
   */
  match(bytes, at, end, isMessage) {
    const frees = this.#frees;
    if (frees.length > 0) {
      for (let index = 0; index < frees.length; index += 1) this.#failedFrom[frees[index]] = Infinity;
      this.#searchEnd = Math.min(end, at + SEARCHED_BYTES);
    }
    const after = this.#run(bytes, at, end, 0, isMessage);
    if (after < 0) return -1;
    const fields = this.fields;
    const spans = this.#spans;
    const captured = this.#captured;
    const capturedFields = this.#capturedFields;
    const stop = this.#stop;
    if (this.#quit >= 0) {
      for (let index = 0; index < captured.length; index += 1) {
        fields[capturedFields[index]] = fields[capturedFields[index] + 1] = -1;
      }
      fields[2 * Q_ENDED] = fields[2 * Q_ENDED + 1] = stop === this.#quit ? after : -1;
    }
    for (let index = 0; index < captured.length; index += 1) {
      const step = captured[index];
      const field = capturedFields[index];
      if (step > stop) continue;
      const start = spans[2 * step];
      const last = spans[2 * step + 1];
      fields[field] = start === last ? -1 : start;
      fields[field + 1] = start === last ? -1 : last;
    }
    return after;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} p
   * @param {number} end
   * @param {number} step where to go on
   * @param {IsMessage} isMessage
   * @returns {number} the index after the prefix, or -1; spans of the steps from `step` on are filled
   */
  #run(bytes, p, end, step, isMessage) {
    const forms = this.#forms;
    for (; ; step += 1) {
      const form = forms[step];
      if (form === LITERAL) {
        const literal = this.#literals[step];
        if (end - p < literal.length) return -1;
        for (let index = 0; index < literal.length; index += 1, p += 1) {
          if (bytes[p] !== literal[index]) return -1;
        }
      } else if (form === FREE) {
        return this.#free(bytes, p, end, step, isMessage);
      } else if (form === QUIT) {
        if (isMessage(bytes, p, end)) {
          this.#stop = step;
          return p;
        }
      } else if (form === DONE) {
        if ((this.#frees.length > 0 || this.#quit >= 0) && !isMessage(bytes, p, end)) return -1;
        this.#stop = step;
        return p;
      } else {
        const width = this.#widths[step];
        let start = p;
        if (width > 0) {
          const most = Math.min(end, p + width);
          while (start < most && bytes[start] === SPACE) start += 1;
        }
        let after = endOfForm(form, bytes, start, end);
        if (after < 0) return -1;
        this.#spans[2 * step] = start;
        this.#spans[2 * step + 1] = after;
        if (width > 0) {
          // Blanks are there only to reach the width.
          if (after - p < width || (start > p && after - p !== width)) return -1;
        } else if (width < 0) {
          const padded = p - width;
          if (padded > end) return -1;
          for (; after < padded; after += 1) if (bytes[after] !== SPACE) return -1;
        }
        p = after;
      }
    }
  }

  /**
   * A free text and the rest of the prefix after it. When the rest fits nowhere behind p it fits nowhere behind a
   * later place either: this is what keeps the work linear.
   * @param {Uint8Array} bytes
   * @param {number} p
   * @param {number} end
   * @param {number} step
   * @param {IsMessage} isMessage
   * @returns {number} as #run()
   */
  #free(bytes, p, end, step, isMessage) {
    if (p >= this.#failedFrom[step]) return -1;
    const width = this.#widths[step];
    const nextByte = this.#nextBytes[step];
    const phraseByte = this.#phraseBytes[step];
    if (phraseByte < 0 || (p < end && bytes[p] === phraseByte)) {
      const after = this.#phrase(bytes, p, end, step, isMessage);
      if (after >= 0) return after;
    }
    let last = this.#searchEnd;
    // A host has no blank in it, unlike the name of an application that may stand before it.
    const isHost = width === 0 && this.#hosts[step] === 1;
    if (isHost) {
      let blank = p;
      while (blank < last && bytes[blank] !== SPACE) blank += 1;
      last = Math.min(last, nextByte >= 0 ? blank + 1 : blank);
    }
    let textEnd = p + Math.abs(width);
    for (; textEnd <= last; textEnd += 1) {
      if (nextByte >= 0) {
        while (textEnd < last && bytes[textEnd] !== nextByte) textEnd += 1;
        if (textEnd >= last) break;
      }
      const after = this.#run(bytes, textEnd, end, step + 1, isMessage);
      if (after < 0) continue;
      if (nextByte === AT && this.#users[step] === 1) {
        // user@database: names with an @ in them are those of users, so the last one that gives the same message, and
        // the same session: a line that ends at %q is of a process without a user.
        const stop = this.#stop;
        let tried = false;
        let later = after - 1;
        for (; later > textEnd; later -= 1) {
          if (bytes[later] !== AT) continue;
          tried = true;
          if (this.#run(bytes, later, end, step + 1, isMessage) === after && this.#stop === stop) break;
        }
        if (later > textEnd) textEnd = later;
        else if (tried) this.#run(bytes, textEnd, end, step + 1, isMessage);
      }
      this.#setSpan(bytes, p, textEnd, step);
      return after;
    }
    // Behind a blank a host may still be found.
    if (!isHost) this.#failedFrom[step] = p;
    return -1;
  }

  /**
   * A free text that is one of the step's phrases, and the rest of the prefix.
   * @param {Uint8Array} bytes
   * @param {number} p
   * @param {number} end
   * @param {number} step
   * @param {IsMessage} isMessage
   * @returns {number} as #run()
   */
  #phrase(bytes, p, end, step, isMessage) {
    const phrases = this.#phrases[step];
    const width = this.#widths[step];
    for (let index = 0; index < phrases.length; index += 1) {
      const phrase = phrases[index];
      const blanks = Math.max(0, Math.abs(width) - phrase.length);
      const textEnd = p + phrase.length + blanks;
      if (textEnd > end) continue;
      const start = width > 0 ? p + blanks : p;
      let same = 0;
      while (same < phrase.length && bytes[start + same] === phrase[same]) same += 1;
      if (same < phrase.length) continue;
      const after = this.#run(bytes, textEnd, end, step + 1, isMessage);
      if (after < 0) continue;
      this.#setSpan(bytes, p, textEnd, step);
      return after;
    }
    return -1;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} start of a free text with its padding
   * @param {number} stop
   * @param {number} step
   */
  #setSpan(bytes, start, stop, step) {
    const width = this.#widths[step];
    // Only a text that is no longer than the width was padded.
    if (stop - start === Math.abs(width)) {
      if (width > 0) while (start < stop && bytes[start] === SPACE) start += 1;
      else while (stop > start && bytes[stop - 1] === SPACE) stop -= 1;
    }
    this.#spans[2 * step] = start;
    this.#spans[2 * step + 1] = stop;
  }
}
