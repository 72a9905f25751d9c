/**
 * A local Unix socket in the control directory whose connections a master carries to a destination behind the
 * server (`ssh -O forward`). The destination stands in a configuration file, not on a command line. The socket
 * is 0600 in a 0700 directory. Rejects with PgsluiceError; ssh's listener cannot say whether the server will
 * accept a connection: a refused one is simply closed.
 */
import { connect } from 'node:net';
import { PgsluiceError } from '../base/errors.js';
import { classifySshFailure } from './failure.js';
import { TARGET, forwardConfig } from './ssh-config.js';
import { startSsh } from './ssh-process.js';

/** @typedef {import('./ssh-config.js').Destination} Destination */
/** @typedef {import('./master.js').Master} Master */
/** @typedef {{ path: string, close: (callback?: () => void) => void }} LocalSocket */

/**
 * @param {object} wanted
 * @param {string} wanted.program
 * @param {import('./control-directory.js').ControlDirectory} wanted.directory
 * @param {Master} wanted.master
 * @param {string} wanted.name unique in the directory, short
 * @param {Destination} wanted.destination already checked
 * @param {() => () => void} wanted.track called for every process; the function it returns when it is gone
 * @returns {Promise<{ path: string, close: () => Promise<void> }>} close never rejects
 */
export async function openLocalForward({ program, directory, master, name, destination, track }) {
  const path = directory.file(name);
  const config = directory.write(`${name}.config`, forwardConfig(master.controlPath, path, destination));
  const log = `${name}.log`;

  /** @param {'forward' | 'cancel'} verb @returns {Promise<void>} */
  const control = verb =>
    new Promise((resolve, reject) => {
      const gone = track();
      const args = ['-F', config, '-E', directory.file(log), '-O', verb, '--', TARGET];
      startSsh(program, args, 'ignore', {}, ({ code, failure }) => {
        const said = directory.read(log).replace(/^debug\d: .*$/gm, '');
        directory.remove(log);
        if (code === 0) resolve();
        else
          reject(
            failure ?? new PgsluiceError('SSH_PROTOCOL', `no forwarding: ${classifySshFailure(said).words}`),
          );
        gone();
      });
    });

  const forget = () => {
    directory.remove(name);
    directory.remove(`${name}.config`);
  };
  try {
    await control('forward');
  } catch (error) {
    forget();
    throw error;
  }
  /** @type {Promise<void> | undefined} */
  let closing;
  const cancel = async () => {
    // A master that is gone took its listener along.
    if (master.alive) await control('cancel').catch(() => {});
    forget();
  };
  return { path, close: () => (closing ??= cancel()) };
}

/**
 * Connects to a forwarding made for this one connection, and closes it with the connection.
 * @param {LocalSocket} forward
 * @param {Master} master
 * @param {string} name of the destination, for errors
 * @param {import('./client.js').Callback<import('node:net').Socket>} callback
 */
export function connectForward(forward, master, name, callback) {
  const refusedBefore = master.refusedChannels;
  const socket = connect({ path: forward.path, allowHalfOpen: true });
  let connected = false;
  socket.on('error', cause => {
    if (connected) return;
    const message = `no connection to ${name} over SSH: ${cause.message}`;
    callback(new PgsluiceError('SSH_PROTOCOL', message, { cause }), undefined);
  });
  socket.once('close', () => forward.close());
  socket.once('connect', () => {
    connected = true;
    // ssh logs the refusal before it closes the socket, so the line has been read at the end of this turn.
    const blame = () => {
      if (socket.bytesRead > 0 || master.refusedChannels === refusedBefore) return;
      socket.destroy(new PgsluiceError('SSH_UNREACHABLE', `the SSH server opened no connection to ${name}`));
    };
    socket.once('end', () => setImmediate(blame));
    callback(undefined, socket);
  });
}
