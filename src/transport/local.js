/**
 * Runs the follower on this machine, without SSH.
 */
import { spawn } from 'node:child_process';
import { environmentWithoutSecrets } from '../base/child-environment.js';
import { PgsluiceError } from '../base/errors.js';

/** @typedef {import('./fifo.js').ByteSource} ByteSource */

/**
 * @param {{ command: string, input: string }} follower
 * @param {{ onChunk: (chunk: Buffer) => void, onEnd: (error: PgsluiceError | null) => void }} handlers
 * @returns {ByteSource}
 */
export function runLocal({ command, input }, { onChunk, onEnd }) {
  const child = spawn('/bin/sh', ['-c', command], {
    env: environmentWithoutSecrets(),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let open = true;
  let words = '';
  child.stdout.on('data', chunk => {
    if (open) onChunk(chunk);
  });
  child.stderr.on('data', chunk => (words = (words + String(chunk)).slice(-500)));
  child.stdin.on('error', () => {}); // the exit says why
  child.stdin.end(input);
  /** @param {string} how @param {unknown} [cause] */
  const ended = (how, cause) => {
    if (!open) return;
    open = false;
    onEnd(
      new PgsluiceError('FOLLOWER_FAILED', `the follower ${how}${words ? `: ${words.trim()}` : ''}`, {
        cause,
      }),
    );
  };
  child.on('error', error => ended(`could not be started: ${error.message}`, error));
  child.on('close', (code, signal) =>
    ended(signal ? `was ended by ${signal}` : `ended with exit code ${code}`),
  );
  return {
    pause: () => child.stdout.pause(),
    resume: () => child.stdout.resume(),
    close() {
      open = false;
      child.stdout.destroy();
      child.stderr.destroy();
      child.kill('SIGTERM');
    },
  };
}
