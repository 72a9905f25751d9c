/**
 * Runs the real follower in a local shell and collects what its frames say.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { posixCksum } from '../../src/codec/cksum.js';
import { FrameDecoder } from '../../src/codec/frames.js';
import { followerCommand, followerInput } from '../../src/follower/index.js';

/** @typedef {import('../../src/codec/frames.js').Frame} Frame */

export class FollowerRun {
  /** @type {Frame[]} */
  frames = [];
  /** bytes by inode, as they arrived @type {Map<string, { name: string, start: number, chunks: Buffer[] }[]>} */
  files = new Map();
  stderr = '';
  /** @type {{ name: string, start: number, chunks: Buffer[], next: number } | null} */
  #open = null;

  /**
   * @param {import('./shells.js').Shell} shell
   * @param {Partial<import('../../src/follower/index.js').FollowerParameters> & { path: string }} parameters
   * @param {{ limits?: string, env?: Record<string, string> }} [host] limits: what the shell does before, such as
   *   'ulimit -f 0'
   */
  constructor(shell, parameters, { limits = ':', env = {} } = {}) {
    const [program = 'sh', ...args] = shell.argv;
    this.process = spawn(
      program,
      [
        ...args,
        '-c',
        `${limits}; ${followerCommand(null).replace(/^exec sh /, `exec ${shell.argv.join(' ')} `)}`,
      ],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: { ...process.env, PATH: shell.path, ...env },
      },
    );
    this.exited = once(this.process, 'exit');
    const decoder = new FrameDecoder(
      frame => this.#onFrame(frame),
      (bytes, offset) => {
        if (!this.#open) throw new Error('bytes before a file frame');
        if (offset !== this.#open.next) throw new Error(`bytes at ${offset}, expected ${this.#open.next}`);
        this.#open.next += bytes.length;
        this.#open.chunks.push(Buffer.from(bytes));
      },
    );
    this.process.stdout.on('data', chunk => decoder.write(chunk));
    this.process.stderr.on('data', chunk => (this.stderr += String(chunk)));
    this.process.stdin.on('error', () => {});
    this.process.stdin.end(followerInput({ format: 'csvlog', from: 'start', known: [], ...parameters }));
  }

  /** @param {Frame} frame */
  #onFrame(frame) {
    this.frames.push(frame);
    if (frame.type !== 'file') return;
    this.#open = { name: frame.name, start: frame.offset, chunks: [], next: frame.offset };
    const runs = this.files.get(frame.inode) ?? [];
    runs.push(this.#open);
    this.files.set(frame.inode, runs);
  }

  /** All bytes that came under a file name, in order of arrival. @param {string} name */
  bytes(name) {
    return Buffer.concat(
      [...this.files.values()]
        .flat()
        .filter(run => run.name === name)
        .flatMap(run => run.chunks),
    );
  }

  /**
   * @param {() => boolean} condition
   * @param {string} what
   */
  async until(condition, what) {
    const deadline = Date.now() + Number(process.env['FOLLOWER_WAIT_MS'] ?? 30_000);
    while (!condition()) {
      const { exitCode, signalCode } = this.process;
      const ended = exitCode !== null || signalCode !== null;
      if (ended || Date.now() > deadline) {
        // What it said last may still be on its way.
        if (ended) await sleep(200);
        if (ended && condition()) return;
        throw new Error(
          `not seen ${ended ? `before it ended with ${exitCode ?? signalCode}` : 'in time'}: ${what}; frames ${JSON.stringify(this.frames)}; stderr ${this.stderr}`,
        );
      }
      await sleep(20);
    }
  }

  async stop() {
    this.process.kill('SIGKILL');
    await this.exited;
    this.process.stdout.destroy();
    this.process.stderr.destroy();
  }
}

/** The proof of a file that was read up to offset. @param {string} path @param {Buffer} bytes @param {number} offset */
export function known(path, bytes, offset) {
  const headLength = Math.min(512, offset);
  return {
    inode: String(statSync(path).ino),
    name: basename(path),
    gone: false,
    doneSize: null,
    offset,
    headLength,
    headSum: posixCksum(bytes.subarray(0, headLength)),
    tailLength: Math.min(100, offset),
    tailSum: posixCksum(bytes.subarray(offset - Math.min(100, offset), offset)),
  };
}
