/**
 * The worker process: connects a Worker to its master. Ends when master says so or is gone.
 */
import { connectToMaster } from '../ipc/child.js';
import { TO_WORKER } from '../ipc/known-messages.js';
import { Worker } from './worker.js';

/** @typedef {import('../ipc/messages.js').ToWorker} ToWorker */
/** @typedef {import('../ipc/messages.js').FromWorker} FromWorker */

const STOP_MAX_MS = 6_000; // the daemon has 10 s: what is not committed by then is read again later

/** @type {Worker | null} */
let worker = null;
let stopping = false;

async function stop() {
  if (stopping) return;
  stopping = true;
  setTimeout(() => process.exit(1), STOP_MAX_MS);
  await worker?.stop();
  channel.disconnect();
  process.exit(0);
}

/** @type {{ send: (message: FromWorker) => void, disconnect: () => void }} */
const channel = connectToMaster({
  messages: TO_WORKER,
  onMessage: (/** @type {ToWorker} */ message) => {
    if (message.type === 'configure') {
      worker ??= new Worker(message.settings, m => channel.send(m), process.argv[2] ?? 'worker');
    } else if (message.type === 'stop') {
      void stop();
    } else {
      worker?.handle(message);
    }
  },
  // Without master nobody may hold a stream: a new master assigns all of them anew.
  onOrphaned: () => process.exit(1),
});
