/**
 * The formats of a log, as `--format` takes them; `auto`: what its files are. Shared by all parts that pass one on.
 * @typedef {'auto' | 'csvlog' | 'jsonlog' | 'stderr' | 'plain'} LogFormat
 */

/** @type {readonly LogFormat[]} */
export const LOG_FORMATS = ['auto', 'csvlog', 'jsonlog', 'stderr', 'plain'];
