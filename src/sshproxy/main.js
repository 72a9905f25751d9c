/**
 * The sshproxy process: connects an SshProxy to its master. Ends when master says so or is gone; every ssh it
 * started ends with it.
 */
import { connectToMaster } from '../ipc/child.js';
import { TO_PROXY } from '../ipc/known-messages.js';
import { SshProxy } from './proxy.js';

/** @typedef {import('../ipc/messages.js').ToProxy} ToProxy */
/** @typedef {import('../ipc/messages.js').FromProxy} FromProxy */

const STOP_MAX_MS = 2_000; // for ssh to say goodbye

/** @type {SshProxy | null} */
let proxy = null;
let stopping = false;

function stop() {
  if (stopping) return;
  stopping = true;
  proxy?.stop();
  channel.disconnect();
  // The process ends by itself when the last ssh is gone.
  setTimeout(() => process.exit(0), STOP_MAX_MS).unref();
}

/** @type {{ send: (message: FromProxy) => void, disconnect: () => void }} */
const channel = connectToMaster({
  messages: TO_PROXY,
  onMessage: (/** @type {ToProxy} */ message) => {
    if (message.type === 'configure') proxy ??= new SshProxy(message.settings, m => channel.send(m));
    else if (message.type === 'stop') stop();
    else proxy?.handle(message);
  },
  onOrphaned: stop,
});
