/**
 * Whether an SSH server turned us away for a reason that no waiting mends: an operator has to act. What failed so is
 * tried again slowly from the first time on, because sshd's PerSourcePenalties bans clients that keep failing.
 * @param {import('./errors.js').ErrorCode} code
 */
export function isSshRefusal(code) {
  return code === 'SSH_AUTH_REFUSED' || code === 'SSH_HOST_KEY_CHANGED' || code === 'SSH_HOST_KEY_UNKNOWN';
}
