/**
 * The table of coded errors. Every error that pgsluice raises on purpose is a PgsluiceError whose code is
 * in ERRORS; its class says what happens next, its exit code is what a command ends with.
 *   usage  - the caller typed something wrong: correct it
 *   stop   - nothing will change by itself: an operator has to act
 *   retry  - may pass by itself: try again, with back-off
 *   reset  - forget what is in flight and resume from the committed positions
 * Messages are one line: what happened, to which host or file, and what to do next.
 */

/** @typedef {'usage' | 'stop' | 'retry' | 'reset'} ErrorClass */

/** @satisfies {Record<string, { class: ErrorClass, exit: number, about: string }>} */
export const ERRORS = {
  USAGE: { class: 'usage', exit: 2, about: 'wrong command line' },
  CONFIG_INVALID: { class: 'usage', exit: 2, about: 'a configuration file or environment value is wrong' },
  HOST_EXISTS: { class: 'stop', exit: 1, about: 'a host of that name is already monitored' },
  HOST_UNKNOWN: { class: 'stop', exit: 1, about: 'no host of that name is monitored' },
  HOST_HAS_NO_LOGS: { class: 'stop', exit: 1, about: 'no log was named and none was found on the host' },
  FILE_UNREADABLE: { class: 'stop', exit: 1, about: 'a file that an option names cannot be read' },
  FILE_EXPOSED: { class: 'stop', exit: 1, about: 'a file with a secret can be read or changed by others' },
  OUTPUT_FAILED: { class: 'stop', exit: 1, about: 'what a command prints cannot be written' },
  DIRECTORY_UNUSABLE: { class: 'stop', exit: 1, about: 'a data or runtime directory cannot be used' },
  NOT_SUPPORTED: { class: 'stop', exit: 1, about: 'this version cannot do that' },
  STORAGE_UNREACHABLE: { class: 'retry', exit: 3, about: 'the storage does not answer, or cannot serve now' },
  STORAGE_UNFIT: { class: 'stop', exit: 1, about: 'the storage answers but cannot be used' },
  STORAGE_SCHEMA_NEWER: { class: 'stop', exit: 1, about: 'the schema is newer than this program' },
  EMBEDDED_FAILED: { class: 'stop', exit: 3, about: 'the embedded PostgreSQL did not start' },
  FLEET_HELD: { class: 'retry', exit: 1, about: 'another daemon works on this storage' },
  FENCED: { class: 'reset', exit: 1, about: 'another worker owns the stream now' },
  SSH_UNREACHABLE: { class: 'retry', exit: 4, about: 'no connection to the SSH server' },
  SSH_HOST_KEY_UNKNOWN: { class: 'stop', exit: 4, about: 'the SSH server shows a key that is not pinned' },
  SSH_HOST_KEY_CHANGED: {
    class: 'stop',
    exit: 4,
    about: 'the SSH server shows another key than the pinned one',
  },
  SSH_AUTH_REFUSED: { class: 'stop', exit: 4, about: 'the SSH server refused our key' },
  SSH_SESSION_REFUSED: { class: 'retry', exit: 4, about: 'the SSH server refused another session' },
  SSH_PROTOCOL: { class: 'retry', exit: 4, about: 'the SSH connection failed' },
  FOLLOWER_FAILED: { class: 'retry', exit: 4, about: 'the follower on the host ended' },
  FOLLOWER_DENIED: { class: 'retry', exit: 4, about: "the host's authorized_keys does not allow it" },
  FOLLOWER_PROTOCOL: { class: 'retry', exit: 4, about: 'the follower sent something that is not a frame' },
  DESCRIPTORS_SHORT: { class: 'retry', exit: 1, about: 'the process may not open more files' },
  PROCESS_DIED: { class: 'retry', exit: 1, about: 'a child process ended' },
};

/** @typedef {keyof typeof ERRORS} ErrorCode */

export class PgsluiceError extends Error {
  /**
   * @param {ErrorCode} code
   * @param {string} message one line, for an operator
   * @param {{ cause?: unknown }} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.name = 'PgsluiceError';
    this.code = code;
  }

  /** @returns {ErrorClass} */
  get class() {
    return ERRORS[this.code].class;
  }

  /** @returns {number} the exit code of a command that ends with this error */
  get exitCode() {
    return ERRORS[this.code].exit;
  }
}
