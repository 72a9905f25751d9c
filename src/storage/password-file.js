/**
 * storage.password_file: its first line, as it is, is the password.
 * Throws PgsluiceError FILE_UNREADABLE, FILE_EXPOSED, or CONFIG_INVALID when the line is empty.
 */
import { PgsluiceError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import { readSecret } from '../base/read-secret.js';

/**
 * @param {string} url of storage.url, without a password
 * @param {string} file
 * @returns {string} the URL with the password: what pg reads from a URL wins over everything beside it
 */
export function urlWithPassword(url, file) {
  const [password = ''] = readSecret(file, 'storage.password_file').toString('utf8').split(/\r?\n/, 1);
  if (password === '') {
    throw new PgsluiceError(
      'CONFIG_INVALID',
      `storage.password_file ${printable(file)} has an empty first line`,
    );
  }
  return `${url}${url.includes('?') ? '&' : '?'}password=${encodeURIComponent(password)}`;
}
