/**
 * The child's end of the channel to master. When the channel is gone, master is gone: the child's own `onOrphaned`
 * runs, and the process must not outlive it.
 */

/**
 * @template In
 * @template Out
 * @param {{ onMessage: (message: In) => void, onOrphaned: () => void }} handlers
 * @returns {{ send: (message: Out) => void, disconnect: () => void }}
 */
export function connectToMaster({ onMessage, onOrphaned }) {
  if (!process.send) throw new Error('this program is started by the pgsluice daemon, not by hand');
  process.on('message', message => onMessage(/** @type {In} */ (message)));
  process.on('disconnect', onOrphaned);
  // Signals of a terminal or of systemd reach the whole group: children stop when master says so, or when it is gone.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => {});
  process.on('SIGHUP', () => {});
  return {
    send(message) {
      if (process.connected) process.send?.(message);
    },
    disconnect() {
      if (process.connected) process.disconnect();
    },
  };
}
