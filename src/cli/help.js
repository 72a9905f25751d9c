/**
 * The help texts, made from the table of commands so that none is forgotten. Pure: data in, text out.
 */
import { COMMON_OPTIONS } from './arguments.js';

/** @typedef {import('./arguments.js').Command} Command */
/** @typedef {import('./arguments.js').OptionSpec} OptionSpec */

const EXIT_CODES = `Exit codes: 0 done, 1 failed, 2 wrong usage, 3 storage not reachable, 4 host not reachable or refused.`;

/** Where a usage line is broken. */
const WIDTH = 100;

/**
 * @param {readonly Command[]} commands all of them, or those of a group
 * @returns {string}
 */
export function helpOverview(commands) {
  const heads = commands.map(command => [usageWords(command).join(' '), command.about]);
  return [
    'pgsluice follows the PostgreSQL logs of many servers over SSH and writes every record once into PostgreSQL.',
    '',
    ...columns(heads),
    '',
    'Options of every command',
    ...optionLines(COMMON_OPTIONS),
    '',
    '"pgsluice help COMMAND" tells more about one; "pgsluice --version" prints the version.',
    EXIT_CODES,
    '',
  ].join('\n');
}

/** @param {Command} command @returns {string} */
export function helpOf(command) {
  const options = { ...command.options, ...COMMON_OPTIONS };
  return [
    ...wrapped(`usage: ${usageWords(command).join(' ')}`, optionUsage(command.options ?? {})),
    '',
    command.about,
    ...(command.notes === undefined ? [] : ['', ...command.notes]),
    '',
    'Options',
    ...optionLines(options),
    '',
    EXIT_CODES,
    '',
  ].join('\n');
}

/** @param {Command} command */
function usageWords({ name, operand, operandOptional, operands }) {
  const one = operand && operandOptional ? `[${operand}]` : operand;
  return ['pgsluice', name, ...(one ? [one] : []), ...(operands ? [`[${operands}...]`] : [])];
}

/** @param {Record<string, OptionSpec>} options */
function optionUsage(options) {
  return Object.entries(options).map(
    ([name, { value, multiple }]) => `[--${name}${value ? ` ${value}` : ''}]${multiple ? '...' : ''}`,
  );
}

/** @param {Record<string, OptionSpec>} options */
function optionLines(options) {
  return columns(
    Object.entries(options).map(([name, { value, about }]) => [
      `--${name}${value ? ` ${value}` : ''}`,
      about,
    ]),
  );
}

/** @param {string[][]} rows */
function columns(rows) {
  const width = Math.max(...rows.map(([head = '']) => head.length));
  return rows.map(([head = '', text = '']) => `  ${head.padEnd(width)}  ${text}`);
}

/** @param {string} start @param {string[]} words */
function wrapped(start, words) {
  const lines = [start];
  for (const word of words) {
    const line = lines.at(-1) ?? '';
    if (line.length + 1 + word.length <= WIDTH) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(`         ${word}`);
  }
  return lines;
}
