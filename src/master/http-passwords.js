/**
 * Who may ask over HTTP: the file http.auth_file, USER:PASSWORD a line, blank lines and lines with # left out.
 * The daemon checks every request against it; a command takes its first line.
 * A check takes the same time whatever was sent and however much of it is right.
 * Throws PgsluiceError FILE_UNREADABLE, FILE_EXPOSED, or CONFIG_INVALID with the number of the line, never its text.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { readSecret } from '../base/read-secret.js';

/**
 * @param {string} file
 * @returns {string[]} 'USER:PASSWORD', at least one
 */
export function readHttpPasswords(file) {
  const shown = `http.auth_file ${printable(file)}`;
  const lines = readSecret(file, 'http.auth_file').toString('utf8').split(/\r?\n/);
  const passwords = lines.flatMap((line, index) => {
    if (line.trim() === '' || line.startsWith('#')) return [];
    const colon = line.indexOf(':');
    if (colon < 1 || colon === line.length - 1) {
      throw new PgsluiceError('CONFIG_INVALID', `${shown}:${index + 1}: a line must be USER:PASSWORD`);
    }
    return [line];
  });
  if (passwords.length === 0) {
    throw new PgsluiceError('CONFIG_INVALID', `${shown} names nobody: write USER:PASSWORD lines into it`);
  }
  return passwords;
}

/**
 * @param {readonly string[]} passwords of readHttpPasswords
 * @returns {(authorization: string | undefined) => boolean} whether the header of a request names one of them
 */
export function passwordCheck(passwords) {
  const known = passwords.map(digest);
  return authorization => {
    const [, base64 = ''] = /^Basic +(\S+) *$/i.exec(authorization ?? '') ?? [];
    const given = digest(Buffer.from(base64, 'base64'));
    // Digests have one length, and every one is compared.
    return known.filter(one => timingSafeEqual(one, given)).length > 0;
  };
}

/** @param {string | Buffer} data */
function digest(data) {
  return createHash('sha256').update(data).digest();
}
