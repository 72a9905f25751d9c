/**
 * Reads a command line by the table of commands. Pure: words in, an Invocation out.
 * Options may stand before, between and after the words of the command. Everything that is not exactly known is
 * refused with one line that names the nearest known word.
 * Throws PgsluiceError USAGE.
 */
import { parseArgs } from 'node:util';
import { PgsluiceError } from '../base/errors.js';
import { showValue } from '../base/show-value.js';
import { nearest } from '../config/nearest.js';

/**
 * @typedef {object} OptionSpec
 * @property {string} [value] what stands for the value in the usage; none: a switch
 * @property {boolean} [multiple] may be given several times
 * @property {string} about one line
 */

/**
 * @typedef {object} Command
 * @property {string} name its words, such as 'host add'
 * @property {string} about one line
 * @property {string} [operand] the name of the one operand; required, unless operandOptional
 * @property {boolean} [operandOptional]
 * @property {string} [operands] the name of any number of operands
 * @property {Record<string, OptionSpec>} [options] beside those of every command
 * @property {boolean} [ownsSignals] the command handles SIGINT and SIGTERM itself
 * @property {readonly string[]} [notes] more lines for its help
 * @property {(context: import('./context.js').Context) => Promise<number | void>} run returns the exit code
 */

/** @typedef {Record<string, string | boolean | string[] | undefined>} Values */

/**
 * @typedef {object} Invocation
 * @property {Command | null} command null: of the program itself
 * @property {string} group the words that were understood when there is no command: '' or 'host'
 * @property {string[]} operands
 * @property {Values} values by the option's name; a list where it may be given several times
 */

/** @type {Record<string, OptionSpec>} */
export const COMMON_OPTIONS = {
  config: {
    value: 'FILE',
    about: 'the configuration file (otherwise PGSLUICE_CONFIG, otherwise the default one)',
  },
  json: { about: 'print JSON; errors are JSON on stderr' },
  help: { about: 'print this help' },
};

/** @type {Record<string, OptionSpec>} */
const PROGRAM_OPTIONS = { ...COMMON_OPTIONS, version: { about: 'print the version' } };

/**
 * @param {readonly string[]} words after the program's name
 * @param {readonly Command[]} commands
 * @returns {Invocation}
 */
export function readArguments(words, commands) {
  const known = { ...PROGRAM_OPTIONS, ...Object.assign({}, ...commands.map(({ options }) => options)) };
  const { tokens } = parseArgs({
    args: [...words],
    options: parseArgsOptions(known),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const positionals = tokens.flatMap(token => (token.kind === 'positional' ? [token.value] : []));
  const asksForHelp = tokens.some(token => token.kind === 'option' && token.name === 'help');
  const { command, group, operands } = findCommand(
    positionals,
    commands,
    asksForHelp || words.includes('--version'),
  );
  const allowed = command === null ? PROGRAM_OPTIONS : { ...COMMON_OPTIONS, ...command.options };
  const values = readOptions(tokens, allowed, command?.name ?? group);
  if (command !== null && values['help'] !== true) checkOperands(command, operands);
  return { command, group, operands, values };
}

/**
 * @param {Record<string, OptionSpec>} specs
 * @returns {NonNullable<import('node:util').ParseArgsConfig['options']>}
 */
function parseArgsOptions(specs) {
  return Object.fromEntries(
    Object.entries(specs).map(([name, { value }]) => [
      name,
      {
        type: value === undefined ? 'boolean' : 'string',
        multiple: true,
        ...(name === 'help' && { short: 'h' }),
      },
    ]),
  );
}

/**
 * @param {string[]} positionals
 * @param {readonly Command[]} commands
 * @param {boolean} groupIsEnough help and the version need no whole command
 * @returns {{ command: Command | null, group: string, operands: string[] }}
 */
function findCommand(positionals, commands, groupIsEnough) {
  const [first, second] = positionals;
  if (first === undefined) {
    if (groupIsEnough) return { command: null, group: '', operands: [] };
    throw usage('no command was given: "pgsluice help" lists them');
  }
  const members = commands.filter(({ name }) => name.startsWith(`${first} `));
  if (members.length > 0) {
    const names = members.map(({ name }) => name.slice(first.length + 1));
    if (second === undefined) {
      if (groupIsEnough) return { command: null, group: first, operands: [] };
      throw usage(`"pgsluice ${first}" needs one of ${names.join(', ')}`);
    }
    const command = members.find(({ name }) => name === `${first} ${second}`);
    if (command) return { command, group: first, operands: positionals.slice(2) };
    throw usage(
      `unknown command ${showValue(`${first} ${second}`)}${suggestion(nearest(second, names), `${first} `)}`,
    );
  }
  const command = commands.find(({ name }) => name === first);
  if (command) return { command, group: '', operands: positionals.slice(1) };
  const names = commands.map(({ name }) => name.split(' ')[0]);
  // "pgsluice add" is meant for "host add".
  const member = commands.find(({ name }) => name.endsWith(` ${first}`));
  throw usage(`unknown command ${showValue(first)}${suggestion(member?.name ?? nearest(first, names))}`);
}

/**
 * @param {{ kind: string, name?: string, rawName?: string, value?: string, inlineValue?: boolean }[]} tokens
 * @param {Record<string, OptionSpec>} allowed
 * @param {string} command
 * @returns {Values}
 */
function readOptions(tokens, allowed, command) {
  /** @type {Values} */
  const values = Object.create(null);
  for (const { kind, name = '', rawName = '', value, inlineValue } of tokens) {
    if (kind !== 'option') continue;
    const spec = Object.hasOwn(allowed, name) ? allowed[name] : undefined;
    if (spec === undefined) {
      const close = nearest(name, Object.keys(allowed));
      const where = command === '' ? '' : ` of "pgsluice ${command}"`;
      throw usage(`unknown option ${showValue(rawName)}${where}${suggestion(close, '--')}`);
    }
    if (spec.value === undefined) {
      if (value !== undefined) throw usage(`--${name} takes no value`);
      values[name] = true;
      continue;
    }
    if (value === undefined) throw usage(`--${name} needs a value: --${name} ${spec.value}`);
    if (inlineValue !== true && value.startsWith('-') && value !== '-') {
      throw usage(
        `--${name} needs a value: --${name} ${spec.value} (one that begins with a dash as --${name}=VALUE)`,
      );
    }
    const before = values[name];
    if (spec.multiple) values[name] = [...(Array.isArray(before) ? before : []), value];
    else if (before === undefined) values[name] = value;
    else throw usage(`--${name} is given twice`);
  }
  return values;
}

/** @param {Command} command @param {string[]} operands */
function checkOperands({ name, operand, operandOptional, operands: any }, operands) {
  if (any !== undefined) return;
  if (operand !== undefined && operandOptional !== true && operands.length === 0)
    throw usage(`"pgsluice ${name}" needs a ${operand}`);
  const extra = operands[operand === undefined ? 0 : 1];
  if (extra !== undefined)
    throw usage(`"pgsluice ${name}" takes no ${showValue(extra)}: see "pgsluice help ${name}"`);
}

/** @param {string | null} known @param {string} [before] */
function suggestion(known, before = '') {
  return known === null ? ': see "pgsluice help"' : `: did you mean "${before}${known}"?`;
}

/** @param {string} message */
function usage(message) {
  return new PgsluiceError('USAGE', message);
}
