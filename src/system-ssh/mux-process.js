/**
 * One ssh process that uses a master's control socket: a remote command, or a forwarded connection (-W).
 * It is handed over as a stream only when ssh's log says that the server opened the channel: until then nothing
 * was sent or read, and a refused session can be tried again elsewhere with the same descriptors.
 * Exactly one of opened and failed is called, then gone when the process is no more.
 */
import { PgsluiceError } from '../base/errors.js';
import { classifySshFailure } from './failure.js';
import { MuxStream, UNKNOWN_SIGNAL } from './mux-stream.js';
import { TARGET } from './ssh-config.js';
import { startSsh } from './ssh-process.js';

/** @typedef {import('node:child_process').StdioOptions} StdioOptions */

/** mux.c: mux_client_request_session, mux_client_request_stdio_fwd. */
const OPENED = /^debug1: .*master session id: \d+/m;
/** Only a status that the server sent; without one ssh exits with 255 as for any failure of its own. */
const EXIT_STATUS = /^debug2: Received exit status from master (\d+)/m;
const DEBUG_LINE = /^debug\d: .*$/gm;

/**
 * @param {object} wanted
 * @param {string} wanted.program
 * @param {import('./control-directory.js').ControlDirectory} wanted.directory
 * @param {import('./master.js').Master} wanted.master
 * @param {string} wanted.logName unique in the directory
 * @param {{ command: string } | { host: string, port: number }} wanted.channel
 * @param {StdioOptions} wanted.stdio
 * @param {number} wanted.openTimeoutMs a server that lives may still never answer
 * @param {import('./session-pool.js').SessionEvents} events
 */
export function startMuxProcess(
  { program, directory, master, logName, channel, stdio, openTimeoutMs },
  events,
) {
  // After "--" and the name nothing is an option any more, whatever the command begins with.
  const channelArgs =
    'command' in channel
      ? ['--', TARGET, channel.command]
      : ['-W', `[${channel.host}]:${channel.port}`, '--', TARGET];
  const args = ['-F', master.sessionConfigPath, '-E', directory.file(logName), '-T', ...channelArgs];
  let opened = false;
  /** @type {MuxStream | undefined} */
  let stream;
  /** @type {PgsluiceError | undefined} */
  let late;
  const deadline = setTimeout(() => {
    late = new PgsluiceError('SSH_SESSION_REFUSED', `no answer to a session within ${openTimeoutMs} ms`);
    stream?.destroy();
  }, openTimeoutMs);

  /** @param {string} log */
  const noticeOpened = log => {
    if (opened || !stream || !OPENED.test(log)) return;
    opened = true;
    clearTimeout(deadline);
    directory.ignoreChanges(logName);
    events.opened(stream);
  };
  directory.onChange(logName, () => noticeOpened(directory.read(logName)));

  const child = startSsh(program, args, stdio, {}, ({ failure }) => {
    clearTimeout(deadline);
    const log = directory.read(logName);
    directory.remove(logName);
    noticeOpened(log);
    if (!opened) {
      stream?.destroy();
      events.failed(failure ?? late ?? channelFailure(log, channel, master.alive));
      events.gone();
      return;
    }
    /** @type {[number] | [null, string, boolean, string] | []} */
    const exit = 'command' in channel ? exitArguments(log, master.alive) : [];
    // A command can end before its opening was noticed: who awaits the stream needs a turn to attach to `exit`.
    setImmediate(() => {
      stream?.finish(exit);
      events.gone();
    });
  });
  if (child?.pid !== undefined) stream = new MuxStream(child);
}

/**
 * Without a status ssh tells a command that died by a signal no other way than a connection that broke, and the
 * end of the master may be noticed after the end of its session; the client's `close` then follows.
 * @param {string} log
 * @param {boolean} masterAlive
 * @returns {[number] | [null, string, boolean, string]}
 */
function exitArguments(log, masterAlive) {
  const status = EXIT_STATUS.exec(log);
  if (status) return [Number(status[1])];
  const description = masterAlive
    ? 'no exit status came: a signal ended the command, or the session or its connection was ended'
    : 'the connection ended before the command';
  return [null, UNKNOWN_SIGNAL, false, description];
}

/**
 * @param {string} log
 * @param {{ command: string } | { host: string, port: number }} channel
 * @param {boolean} masterAlive
 * @returns {PgsluiceError}
 */
function channelFailure(log, channel, masterAlive) {
  if (!masterAlive)
    return new PgsluiceError('SSH_PROTOCOL', 'the SSH connection ended before the session was opened');
  const { code, words } = classifySshFailure(log.replace(DEBUG_LINE, ''));
  const what =
    'command' in channel ? 'no SSH session' : `no connection to ${channel.host}:${channel.port} over SSH`;
  return new PgsluiceError(code, `${what}: ${words}`);
}
