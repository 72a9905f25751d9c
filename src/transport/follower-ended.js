/**
 * The error of a program of pgsluice that ended on a host, from what it wrote to stderr. Pure.
 * What begins with "pgsluice denies: " comes from the forced command of an authorized_keys line, or from a program under
 * it (src/follower/authorized-keys.js).
 */
import { PgsluiceError } from '../base/errors.js';

/** Lines may have been joined by last-words.js. */
const DENIAL = /(?:^|; )pgsluice denies: (.*?)(?:; |$)/m;

/** What sudo says of itself, in whatever language; this alone does not keep it from running the program. */
const SUDO = /(?:^|; )sudo: (?!unable to resolve host)/m;

/**
 * @param {{ host: string, what?: string, how: string, words: string }} end how: 'ended with exit code 3'; words: the
 *   last of its stderr
 * @returns {PgsluiceError} FOLLOWER_FAILED or FOLLOWER_DENIED
 */
export function followerEnded({ host, what = 'the follower', how, words }) {
  const denial = DENIAL.exec(words)?.[1];
  if (denial !== undefined) return denied(host, denial);
  const said = words.trim() === '' ? '' : `: ${words.trim()}`;
  const hint = SUDO.test(words)
    ? ': sudo there must let the SSH user run /bin/sh as the other, without a password and without a terminal'
    : '';
  return new PgsluiceError('FOLLOWER_FAILED', `${host}: ${what} ${how}${said}${hint}`);
}

/**
 * @param {string} host
 * @param {string} why
 */
function denied(host, why) {
  // No other line helps against that.
  const hint = why.startsWith('sha256sum')
    ? ', and its authorized_keys line needs it'
    : `: "pgsluice host authorize ${host}" prints the line it needs`;
  return new PgsluiceError('FOLLOWER_DENIED', `${host}: ${why}${hint}`);
}
