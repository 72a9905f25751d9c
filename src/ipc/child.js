/**
 * The child's end of the channel to master. When the channel is gone, master is gone: the child's own `onOrphaned`
 * runs, and the process must not outlive it. What is no message is logged, and nothing else.
 */
import { createLogger } from '../base/logger.js';
import { isKnown, nameOf } from './known-messages.js';

/**
 * @template In
 * @template Out
 * @param {{ messages: import('./known-messages.js').Messages, onMessage: (message: In) => void, onOrphaned: () => void }} handlers
 * @returns {{ send: (message: Out) => void, disconnect: () => void }}
 */
export function connectToMaster({ messages, onMessage, onOrphaned }) {
  if (!process.send) throw new Error('this program is started by the pgsluice daemon, not by hand');
  const log = createLogger({ name: process.argv[2] ?? 'child' });
  process.on('message', message => {
    if (isKnown(messages, message)) onMessage(/** @type {In} */ (message));
    else log.warn(`a message of master is not understood: ${nameOf(message)}`);
  });
  process.on('disconnect', onOrphaned);
  // Signals of a terminal or of systemd reach the whole group: children stop when master says so, or when it is gone.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => {});
  process.on('SIGHUP', () => {});
  return {
    send(message) {
      // Master may be gone, and this not be heard yet: what cannot be sent is no exception.
      if (process.connected) process.send?.(message, undefined, {}, () => {});
    },
    disconnect() {
      if (process.connected) process.disconnect();
    },
  };
}
