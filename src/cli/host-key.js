/**
 * Public host keys: reading, checking and naming them. Pure: text in, "type base64" out.
 * Format: RFC 4253, section 6.6: a key begins with its type as a string of the wire (uint32 length, bytes); the
 * line "type base64 [comment]" is that of sshd(8), AUTHORIZED_KEYS and SSH_KNOWN_HOSTS FILE FORMAT.
 */
import { createHash } from 'node:crypto';

/** Types of host keys that OpenSSH makes; ssh-dss is gone since 10.0. */
const TYPES = new Set([
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
]);

/** An RSA key of 16384 bits, the largest that ssh-keygen makes, has about 2100 bytes. */
const MAX_KEY_BYTES = 4096;

/**
 * @param {string} line 'type base64 [comment]'
 * @returns {string | null} 'type base64', or null when it is not a public key of a known type
 */
export function parseHostKey(line) {
  const match = /^\s*([a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:\s[^]*)?$/.exec(line);
  if (match === null) return null;
  const [, type, base64] = match;
  const blob = Buffer.from(base64, 'base64');
  // A decoder that skips what it does not know would pin another key than the one on screen.
  if (blob.toString('base64') !== base64 || blob.length > MAX_KEY_BYTES) return null;
  return keyTypeOf(blob) === type ? `${type} ${base64}` : null;
}

/**
 * @param {Buffer} blob a key as it crosses the wire
 * @returns {string | null} 'type base64'
 */
export function hostKeyFromBlob(blob) {
  const type = keyTypeOf(blob);
  return type === null ? null : `${type} ${blob.toString('base64')}`;
}

/**
 * @param {string} key 'type base64'
 * @returns {string} as `ssh-keygen -l` prints it: 'SHA256:...'
 */
export function fingerprint(key) {
  const blob = Buffer.from(key.split(' ')[1] ?? '', 'base64');
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}

/** @param {Buffer} blob @returns {string | null} the embedded type, if it is a known one and a key follows */
function keyTypeOf(blob) {
  if (blob.length < 4) return null;
  const end = 4 + blob.readUInt32BE(0);
  if (end >= blob.length) return null;
  const type = blob.toString('latin1', 4, end);
  return TYPES.has(type) ? type : null;
}
