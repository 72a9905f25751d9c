/**
 * What a command gets when it runs: its words, the configuration, and where to write.
 * Whatever a command opens and must give back, it also registers with onExit, so that Ctrl-C gives it back too.
 */
import { loadConfig } from '../config/load.js';

/** @typedef {import('./arguments.js').Values} Values */
/** @typedef {import('../config/load.js').LoadedConfig} LoadedConfig */

export class Context {
  /** @type {LoadedConfig | undefined} */
  #loaded;
  /** @type {(() => Promise<void>)[]} */
  #releasers = [];

  /**
   * @param {object} input
   * @param {string[]} input.operands
   * @param {Values} input.values
   * @param {import('./output.js').Output} input.output
   */
  constructor({ operands, values, output }) {
    this.operands = operands;
    this.values = values;
    this.output = output;
    this.json = values['json'] === true;
  }

  /** @returns {LoadedConfig} read when it is first asked for, so that help works with a broken file */
  get loaded() {
    this.#loaded ??= loadConfig(
      typeof this.values['config'] === 'string' ? { file: this.values['config'] } : {},
    );
    return this.#loaded;
  }

  get config() {
    return this.loaded.config;
  }

  /** @param {string} name @returns {string | undefined} the value of an option that takes one */
  text(name) {
    const value = this.values[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** @param {string} name @returns {string[]} the values of an option that may be given several times */
  list(name) {
    const value = this.values[name];
    return Array.isArray(value) ? value : [];
  }

  /** @param {string} name @returns {boolean} */
  flag(name) {
    return this.values[name] === true;
  }

  /**
   * @param {() => Promise<void> | void} release
   * @returns {() => Promise<void>} call it when done: it releases once, whoever comes first
   */
  onExit(release) {
    /** @type {Promise<void> | undefined} */
    let done;
    const once = () => (done ??= Promise.resolve(release()));
    this.#releasers.push(once);
    return once;
  }

  /** Releases all that is still open, the last first; one that fails does not keep the others. */
  async release() {
    for (const release of this.#releasers.toReversed()) await release().catch(() => {});
  }
}
