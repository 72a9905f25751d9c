/**
 * Reads a FIFO through epoll, without the thread pool, into one buffer that all FIFOs of the process share: libuv
 * takes the buffer and fills it within one turn, so it is never in use by two of them.
 * The chunk given to onChunk is a view of that buffer, valid only during the call.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { Socket } from 'node:net';

const PIPE_BYTES = 65_536; // what a FIFO holds on Linux: a larger buffer would never be filled
const shared = Buffer.allocUnsafeSlow(PIPE_BYTES);

/**
 * @typedef {object} ByteSource
 * @property {() => void} pause
 * @property {() => void} resume
 * @property {() => void} close ends it; neither onChunk nor onEnd is called after that
 */

/**
 * Opens a FIFO that exists, before or after its writer does.
 * @param {string} path
 * @param {{ onChunk: (chunk: Buffer) => void, onEnd: (error: Error | null) => void }} handlers onEnd: all writers are gone
 * @returns {ByteSource}
 */
export function openFifo(path, { onChunk, onEnd }) {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  let open = true;
  /** @type {Socket} */
  let socket;
  try {
    socket = new Socket({
      fd,
      readable: true,
      writable: false,
      onread: {
        buffer: shared,
        callback(length) {
          if (open) onChunk(shared.subarray(0, length));
          return true;
        },
      },
    });
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  /** @param {Error | null} error */
  const ended = error => {
    if (!open) return;
    open = false;
    socket.destroy();
    onEnd(error);
  };
  socket.on('error', ended);
  socket.on('end', () => ended(null));
  socket.on('close', () => ended(null));
  socket.resume();
  return {
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close() {
      open = false;
      socket.destroy();
    },
  };
}
