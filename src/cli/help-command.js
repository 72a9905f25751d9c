/**
 * `pgsluice help [COMMAND...]`: the overview, a group such as "host", or one command.
 * Throws PgsluiceError USAGE for a command that is not there.
 */
import { readArguments } from './arguments.js';
import { helpOf, helpOverview } from './help.js';

/**
 * @param {import('./context.js').Context} context
 * @param {readonly import('./arguments.js').Command[]} commands
 */
export async function help({ operands, output }, commands) {
  const { command, group } = readArguments([...operands, '--help'], commands);
  if (command !== null) output.block(helpOf(command));
  else
    output.block(helpOverview(commands.filter(({ name }) => group === '' || name.startsWith(`${group} `))));
}
