/**
 * Writes for people and for programs. Everything passes printable(): what a host, a file name or the storage holds
 * reaches no terminal raw, neither as text nor inside JSON. Colours only where a terminal reads.
 * A reader that has gone (EPIPE) is not an error: the rest is dropped.
 */
import { EventEmitter, once } from 'node:events';
import { styleText } from 'node:util';
import { printable, printableJson } from '../base/printable.js';

/** @typedef {Parameters<typeof styleText>[0]} Style */

/**
 * @typedef {object} Stream what of process.stdout is used
 * @property {(text: string) => unknown} write
 * @property {boolean} [isTTY]
 * @property {boolean} [writableNeedDrain]
 */

export class Output {
  #stream;

  /** nobody reads it any more */
  ended = false;

  /** @param {Stream} stream */
  constructor(stream) {
    this.#stream = stream;
    // process.stdout tells it only here: it is never destroyed.
    if (stream instanceof EventEmitter) stream.on('error', () => (this.ended = true));
  }

  /** @param {string} [text] one line */
  line(text = '') {
    this.#stream.write(`${printable(text)}\n`);
  }

  /**
   * @param {string} label
   * @param {string} text one line, or several that keep their newlines and tabs
   * @param {Style} style of the label
   * @param {{ keepLayout?: boolean }} [options]
   */
  labelled(label, text, style, options) {
    this.#stream.write(`${this.#styled(style, printable(label))}${printable(text, options)}\n`);
  }

  /** @param {unknown} value */
  json(value) {
    this.#stream.write(`${toJson(value)}\n`);
  }

  /** @param {string} json that is JSON already, on one line */
  jsonText(json) {
    this.#stream.write(`${printableJson(json)}\n`);
  }

  /** Resolves when what was written has gone to the reader but for a little, or when the reader has gone. */
  async drained() {
    const stream = this.#stream;
    if (stream.writableNeedDrain !== true || !(stream instanceof EventEmitter)) return;
    const waiting = new AbortController();
    const events = ['drain', 'close'].map(event => once(stream, event, { signal: waiting.signal }));
    await Promise.race(events).catch(() => {});
    waiting.abort();
    await Promise.allSettled(events);
  }

  /**
   * A table with a head; columns are as wide as their widest cell.
   * @param {readonly string[]} head
   * @param {readonly (readonly string[])[]} rows
   */
  table(head, rows) {
    const shown = [head, ...rows].map(row => row.map(cell => printable(cell)));
    const widths = head.map((_, column) => Math.max(...shown.map(row => row[column]?.length ?? 0)));
    for (const [index, row] of shown.entries()) {
      const text = row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd();
      this.#stream.write(`${index === 0 ? this.#styled('bold', text) : text}\n`);
    }
  }

  /** Text of our own that has its layout, such as help. @param {string} text */
  block(text) {
    this.#stream.write(printable(text, { keepLayout: true }));
  }

  /** @param {Style} style @param {string} text */
  #styled(style, text) {
    return this.#stream.isTTY ? styleText(style, text, { validateStream: false }) : text;
  }
}

/**
 * @param {unknown} value
 * @param {number} [indent] 0: on one line
 * @returns {string} JSON with no character that a terminal would act on
 */
export function toJson(value, indent = 2) {
  return printableJson(JSON.stringify(value, null, indent));
}
