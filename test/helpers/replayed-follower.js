/**
 * Real followers whose bytes are kept, so that many streams can read what one of them wrote: a follower that is told the
 * same writes the same. For directories that do not change any more.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { environmentWithoutSecrets } from '../../src/base/child-environment.js';

/** @typedef {{ process: import('node:child_process').ChildProcess, chunks: Buffer[], readers: Set<(chunk: Buffer) => void> }} Run */

export class ReplayedFollowers {
  /** by what it was told @type {Map<string, Run>} */
  #runs = new Map();

  /** of followers that were started */
  get count() {
    return this.#runs.size;
  }

  /**
   * All that a follower with this input writes, from its first byte.
   * @param {{ command: string, input: string }} follower
   * @param {(chunk: Buffer) => void} onChunk
   * @returns {() => void} reads no more
   */
  read(follower, onChunk) {
    let run = this.#runs.get(follower.input);
    if (!run) {
      run = start(follower);
      this.#runs.set(follower.input, run);
    }
    const { chunks, readers } = run;
    let reading = true;
    // As a transport does: nothing comes before open() has returned.
    setImmediate(() => {
      if (!reading) return;
      readers.add(onChunk);
      if (chunks.length > 0) onChunk(Buffer.concat(chunks));
    });
    return () => {
      reading = false;
      readers.delete(onChunk);
    };
  }

  async stop() {
    for (const { process: child } of this.#runs.values()) {
      const ended = once(child, 'exit');
      if (child.exitCode === null && child.kill('SIGKILL')) await ended;
    }
  }
}

/** @param {{ command: string, input: string }} follower @returns {Run} */
function start({ command, input }) {
  const child = spawn('/bin/sh', ['-c', command], {
    env: environmentWithoutSecrets(),
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  /** @type {Run} */
  const run = { process: child, chunks: [], readers: new Set() };
  child.stdout.on('data', (/** @type {Buffer} */ chunk) => {
    run.chunks.push(chunk);
    for (const reader of run.readers) reader(Buffer.from(chunk));
  });
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  return run;
}
