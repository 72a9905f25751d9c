/**
 * `pgsluice/system-ssh`: a client for the system's OpenSSH with the call shapes of the npm package ssh2.
 * It depends on nothing else of pgsluice but the table of coded errors.
 */
export { Client } from './client.js';
