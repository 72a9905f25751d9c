/**
 * How one line or more of a message, DETAIL, HINT or CONTEXT is told by its wording, and where secrets stand in it.
 * In: texts as strings of one character a byte (latin1). Out: where the wording ends, and the places of secrets.
 * A template is PostgreSQL's English wording with holes:
 *   %n number, hexadecimal too   %w words without quotes and colons   %i the same with them, on one line
 *   %t the rest, any text                                                                 these four are kept
 *   %S statement   %A plan with its statement and parameters   %P parameters   %D table data   %E text near a syntax error   %N a name that the statement made up
 *   %O operations
 * A kept hole is as short as can be, a secret one as long as can be, so what is doubtful belongs to the secret. What
 * begins like a template up to its first secret and then goes on otherwise is LOOSE: all of the rest is that secret,
 * even if a wording without a secret would fit; but a name (%N) is one only in the wording that says so.
 * Time is linear in the text: a kept hole is bounded, and a secret is looked for once.
 */

/** Nothing is known of the text. */
export const NONE = -1;
/** Begins like a template. */
export const LOOSE = -2;

/** A name has at most 63 bytes; the arguments of a function take more. */
const MAX_KEPT_BYTES = 1000;
const NAME = 'N';
const SECRETS = /%[SAPDENO]/;
const NUMBER = /[0-9A-Fa-fx./:,%+-]*/y;
const WORDS = /[\w .,()[\]-]{1,100}/y;
/** Templates are found by so many of their first characters. */
const KEY_LENGTH = 3;

/** @typedef {{ from: number, to: number, hole: string }} Span */
/** @typedef {{ literals: string[], holes: string[], areSecret: boolean[], hasSecrets: boolean }} Template */

export class Templates {
  /** @type {Map<string, Template[]>} */
  #byBeginning = new Map();

  /** of the last find(): places of secrets; after LOOSE the one that takes the rest @type {Span[]} */
  spans = [];

  /** @param {readonly string[]} formats each begins with three characters that are not a hole */
  constructor(formats) {
    const secretsFirst = formats.toSorted((a, b) => Number(SECRETS.test(b)) - Number(SECRETS.test(a)));
    for (const format of secretsFirst) {
      const parts = format.split(/%([nwitSAPDENO])/);
      const literals = parts.filter((_, index) => index % 2 === 0);
      const holes = parts.filter((_, index) => index % 2 === 1);
      const key = format.slice(0, KEY_LENGTH);
      const list = this.#byBeginning.get(key) ?? [];
      list.push({
        literals,
        holes,
        areSecret: holes.map(hole => SECRETS.test(`%${hole}`)),
        hasSecrets: SECRETS.test(format),
      });
      this.#byBeginning.set(key, list);
    }
  }

  /**
   * @param {string} text
   * @param {number} at where a line begins
   * @returns {number} where the wording ends: the end of the text or a newline; or NONE, or LOOSE
   */
  find(text, at) {
    /** @type {Span | null} */
    let loose = null;
    for (const template of this.#byBeginning.get(text.slice(at, at + KEY_LENGTH)) ?? []) {
      if (loose !== null && !template.hasSecrets) break;
      if (this.spans.length > 0) this.spans = [];
      const end = this.#match(template, text, at);
      if (end >= 0) return end;
      const [first] = this.spans;
      if (end === LOOSE && first && first.hole !== NAME) loose ??= { ...first, to: text.length };
    }
    this.spans = loose === null ? [] : [loose];
    return loose === null ? NONE : LOOSE;
  }

  /**
   * @param {Template} template
   * @param {string} text
   * @param {number} at
   */
  #match({ literals, holes, areSecret }, text, at) {
    const [beginning = ''] = literals;
    if (!text.startsWith(beginning, at)) return NONE;
    let end = at + beginning.length;
    for (let index = 0; index < holes.length; index += 1) {
      const hole = holes[index] ?? '';
      const next = literals[index + 1] ?? '';
      const isLast = index === holes.length - 1;
      const from = end;
      if (areSecret[index]) {
        const to = isLast ? lastEnd(text, from, next) : onlyPlace(text, from, next);
        this.spans.push({ from, to, hole });
        if (to < 0) return LOOSE;
        end = to + next.length;
      } else {
        const to = keptEnd(text, from, hole, next);
        if (to < 0) return this.spans.length > 0 ? LOOSE : NONE;
        end = to + next.length;
      }
    }
    if (end === text.length || text[end] === '\n') return end;
    return this.spans.length > 0 ? LOOSE : NONE;
  }
}

/**
 * @param {string} text
 * @param {number} from
 * @param {string} hole
 * @param {string} next what follows the hole; '': the end of the line
 * @returns {number} where the hole ends, or -1
 */
function keptEnd(text, from, hole, next) {
  if (hole === 't') return text.length;
  if (hole === 'n' || hole === 'w') {
    const pattern = hole === 'n' ? NUMBER : WORDS;
    pattern.lastIndex = from;
    pattern.test(text);
    const longest = pattern.lastIndex;
    // It may have taken the beginning of what follows it, as in "1.".
    for (let end = longest; end > from && end > longest - 3; end -= 1) {
      if (text.startsWith(next, end) && (next !== '' || end === longest)) return end;
    }
    return -1;
  }
  const line = text.slice(from, from + MAX_KEPT_BYTES);
  const newline = line.indexOf('\n');
  const length = newline < 0 ? line.length : newline;
  if (next === '') return newline < 0 && line.length === MAX_KEPT_BYTES ? -1 : from + length;
  const found = line.indexOf(next);
  return found < 0 || found > length ? -1 : from + found;
}

/**
 * @param {string} text
 * @param {number} from
 * @param {string} closing
 * @returns {number} where a secret ends that `closing` and then the end of a line follows: the last such place; or -1
 */
function lastEnd(text, from, closing) {
  if (closing === '') return text.length;
  const atEnd = text.length - closing.length;
  if (atEnd >= from && text.endsWith(closing)) return atEnd;
  const place = text.lastIndexOf(`${closing}\n`);
  return place >= from ? place : -1;
}

/**
 * @param {string} text
 * @param {number} from
 * @param {string} middle
 * @returns {number} where `middle` stands; -1: nowhere, or more than once, so that one of them may be data
 */
function onlyPlace(text, from, middle) {
  const place = text.indexOf(middle, from);
  return place >= 0 && text.indexOf(middle, place + 1) < 0 ? place : -1;
}
