/**
 * Starts one ssh process. In: program, arguments, stdio. Out: a child in a session of its own (a Ctrl-C in the
 * terminal must reach pgsluice alone, which ends its connections in order; and ssh finds no tty to ask on),
 * whose end is reported exactly once, also when it could not be started. Never throws.
 */
import { spawn } from 'node:child_process';
import { environmentWithoutSecrets } from '../base/child-environment.js';
import { PgsluiceError } from '../base/errors.js';

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null, failure?: PgsluiceError }} ProcessEnd */

/**
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').StdioOptions} stdio
 * @param {Record<string, string>} environment added to the process's own
 * @param {(end: ProcessEnd) => void} onExit
 * @returns {import('node:child_process').ChildProcess | undefined} undefined when it could not be tried at all
 */
export function startSsh(program, args, stdio, environment, onExit) {
  /** @param {unknown} cause */
  const failed = cause => onExit({ code: null, signal: null, failure: spawnFailure(program, cause) });
  let child;
  try {
    // LocalCommand and ProxyCommand run in $SHELL, which is /usr/sbin/nologin for many a daemon's user.
    const env = { ...environmentWithoutSecrets(), SHELL: '/bin/sh', ...environment };
    child = spawn(program, args, { stdio, env, detached: true });
  } catch (cause) {
    setImmediate(failed, cause);
    return undefined;
  }
  let ended = false;
  child.on('error', cause => {
    // A process that runs can also emit an error (kill, for one); only a start that failed is an end.
    if (ended || child.pid !== undefined) return;
    ended = true;
    failed(cause);
  });
  child.on('exit', (code, signal) => {
    ended = true;
    onExit({ code, signal });
  });
  return child;
}

/** @param {string} program @param {unknown} cause @returns {PgsluiceError} */
function spawnFailure(program, cause) {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined;
  if (code === 'ENOENT' || code === 'EACCES') {
    const what = `no program '${program}' can be run here (${code}): install the OpenSSH client or correct ssh.program`;
    return new PgsluiceError('NOT_SUPPORTED', what, { cause });
  }
  return new PgsluiceError('SSH_PROTOCOL', `'${program}' could not be started: ${code ?? String(cause)}`, {
    cause,
  });
}
