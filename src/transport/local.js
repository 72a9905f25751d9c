/**
 * Runs the follower on this machine, without SSH.
 */
import { spawn } from 'node:child_process';
import { environmentWithoutSecrets } from '../base/child-environment.js';
import { PgsluiceError } from '../base/errors.js';
import { lastWords } from './last-words.js';

/** @typedef {import('./fifo.js').ByteSource} ByteSource */

/**
 * @param {{ command: string, input: string }} follower
 * @param {{ onOpen?: () => void, onChunk: (chunk: Buffer) => void, onEnd: (error: PgsluiceError | null) => void }} handlers
 * @returns {ByteSource}
 */
export function runLocal({ command, input }, { onOpen, onChunk, onEnd }) {
  const child = spawn('/bin/sh', ['-c', command], {
    env: environmentWithoutSecrets(),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // Out of file descriptors there are no pipes, whatever the types say.
  if (!child.pid) return notStarted(child, onEnd);
  let open = true;
  const words = lastWords(child.stderr);
  onOpen?.();
  child.stdout.on('data', chunk => {
    if (open) onChunk(chunk);
  });
  child.stdin.on('error', () => {}); // the exit says why
  child.stdin.end(input);
  /** @param {string} how @param {unknown} [cause] */
  const ended = (how, cause) => {
    if (!open) return;
    open = false;
    onEnd(
      new PgsluiceError('FOLLOWER_FAILED', `the follower ${how}${words() ? `: ${words()}` : ''}`, {
        cause,
      }),
    );
  };
  child.on('error', () => {}); // of a signal that came too late
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

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {(error: PgsluiceError) => void} onEnd
 * @returns {ByteSource}
 */
function notStarted(child, onEnd) {
  let open = true;
  child.on('error', cause => {
    if (!open) return;
    open = false;
    onEnd(
      new PgsluiceError('FOLLOWER_FAILED', `the follower could not be started: ${cause.message}`, { cause }),
    );
  });
  return {
    pause: () => {},
    resume: () => {},
    close: () => {
      open = false;
    },
  };
}
