/**
 * Reads an authorized_keys line as sshd does: the command option ends at the first quote without a backslash before it,
 * and \" is a quote (OpenSSH, opt_dequote() and sshkey_advance_past_options()).
 */

/** @param {string} line @returns {string} the forced command */
export function forcedCommandOf(line) {
  const quoted = /command="((?:\\"|[^"])*)" /.exec(line)?.[1];
  if (quoted === undefined) throw new Error(`no command in ${line}`);
  return quoted.replaceAll('\\"', '"');
}
