/**
 * A shell program of this directory as it is sent to a host: without comments and indentation, because dd reads it
 * byte by byte there. No string in these programs spans lines, but for a single newline in quotes. A line "# NAME.sh"
 * stands for that program.
 */
import { readFileSync } from 'node:fs';

/**
 * @param {string} name of the file
 * @returns {string} ends with a newline
 */
export function shellProgram(name) {
  return readFileSync(new URL(name, import.meta.url), 'utf8')
    .split('\n')
    .map(line => line.trimStart())
    .map(line => (/^# [a-z]+\.sh$/.test(line) ? shellProgram(line.slice(2)) : `${line}\n`))
    .filter(line => line !== '\n' && !line.startsWith('#'))
    .join('');
}
