/**
 * The command line: reads the words, runs the command, reports how it went, and ends the process with its exit code.
 * A PgsluiceError is one line on stderr (or one JSON object with --json) and its exit code; anything else is a bug
 * of pgsluice and shows its stack. SIGINT and SIGTERM give back what the command has open.
 */
import { constants } from 'node:os';
import { keepMemoryOutOfCoreDumps } from '../base/core-dump.js';
import { PgsluiceError } from '../base/errors.js';
import { redactUrlsIn } from '../base/redact-url.js';
import { readArguments } from './arguments.js';
import { COMMANDS } from './commands.js';
import { Context } from './context.js';
import { helpOf, helpOverview } from './help.js';
import { Output, toJson } from './output.js';
import { version } from './version.js';

/**
 * @param {string[]} words after the program's name
 * @returns {Promise<void>} the process ends
 */
export async function main(words) {
  keepMemoryOutOfCoreDumps();
  // Also for what fails outside any call, such as a callback of the running daemon.
  const json = words.includes('--json');
  process.on('uncaughtException', error => process.exit(reportError(error, json)));
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      // EPIPE: a reader that has seen enough, such as head. The daemon goes on without one.
      if (error.code !== 'EPIPE') process.exit(reportError(error, json));
    });
  }
  let code;
  try {
    code = await run(words);
  } catch (error) {
    code = reportError(error, json);
  }
  // What was written is out, or its error has been emitted, before the process ends.
  process.stdout.write('', () => setImmediate(() => process.exit(code)));
}

/** @param {string[]} words @returns {Promise<number>} exit code */
async function run(words) {
  const output = new Output(process.stdout);
  if (words.length === 0) {
    new Output(process.stderr).block(helpOverview(COMMANDS));
    return 2;
  }
  const { command, group, operands, values } = readArguments(words, COMMANDS);
  if (command === null) {
    if (values['version'] === true) {
      if (values['json'] === true) output.json({ version: version() });
      else output.line(`pgsluice ${version()}`);
    } else {
      output.block(helpOverview(COMMANDS.filter(({ name }) => group === '' || name.startsWith(`${group} `))));
    }
    return 0;
  }
  if (values['help'] === true) {
    output.block(helpOf(command));
    return 0;
  }
  const context = new Context({ operands, values, output });
  if (!command.ownsSignals) endOnSignals(context);
  try {
    return (await command.run(context)) ?? 0;
  } finally {
    await context.release();
  }
}

/** @param {Context} context */
function endOnSignals(context) {
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    // once: a second one ends the process at once.
    process.once(signal, () => {
      void context.release().finally(() => process.exit(128 + constants.signals[signal]));
    });
  }
}

/**
 * @param {unknown} thrown
 * @param {boolean} json
 * @returns {number} exit code
 */
function reportError(thrown, json) {
  const error = outputError(thrown);
  const output = new Output(process.stderr);
  if (error instanceof PgsluiceError) {
    const { code, exitCode } = error;
    const message = redactUrlsIn(error.message);
    if (json) output.line(toJson({ error: { code, message } }, 0));
    else output.labelled('pgsluice: ', message, 'red');
    return exitCode;
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  if (json) output.line(toJson({ error: { code: 'INTERNAL', message: redactUrlsIn(text) } }, 0));
  else output.block(`pgsluice: this is a bug of pgsluice: ${redactUrlsIn(text)}\n`);
  return 1;
}

/**
 * @param {unknown} error
 * @returns {unknown} the coded error, where stdout or stderr could not be written (files and terminals throw it)
 */
function outputError(error) {
  if (!(error instanceof Error) || !('syscall' in error) || error.syscall !== 'write') return error;
  return new PgsluiceError('OUTPUT_FAILED', `the output cannot be written: ${error.message}`, {
    cause: error,
  });
}
