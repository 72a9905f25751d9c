/**
 * Signals processes one after another; those that ended by themselves meanwhile, as what a shell or a postmaster starts
 * does, are passed over.
 * @param {Iterable<number>} pids
 * @param {NodeJS.Signals} signal
 */
export function signalAll(pids, signal) {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
    }
  }
}
