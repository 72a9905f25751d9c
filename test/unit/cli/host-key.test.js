/** Public keys: what ssh-keygen made is accepted with its fingerprint, everything altered is not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fingerprint, hostKeyFromBlob, parseHostKey } from '../../../src/cli/host-key.js';

/** Made by ssh-keygen (OpenSSH 9.2), fingerprints by ssh-keygen -l. */
/** @type {[line: string, fingerprint: string][]} */
const KEYS = [
  [
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE68bVlMQMGmFVzAmQPMuKLvBLInHLAAE9/jS3AU3wjA x',
    'SHA256:Pe3qGiHsWefP/QXegXCJ2KwAaHpUZYIOY2Pk7x305RE',
  ],
  [
    'ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBAGsEqU3dIwCI0j5IWw7tZNFs3dbBM7XT0RKejOs28PxjsT6hGkjcN4M7OG7IL6TWVY62bh2XulxLBigEkgsGEC5y/3eyujK9+dcmhiiUODZL02qT68aoAMVvatEogp6Og== x',
    'SHA256:z0sDotwdP5kqVIaX9ldZjJ/UlhKQdDGDNUxC+ZPnrPY',
  ],
  [
    'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQCrQdmAvnPpWlf8BI6Nfuw/uIDS0Z3e18x2phHfIJc6139CRWBlgD0jHdm0k5UtfEa9tYpGfMMZ+CCPMTWzA9Og8ZkrALsb0Qf1ugI9Y40MEAWimVRP4rW4fgZdFJ3SmS+NzkutU6yiCMJIv99sSb7abckRxT3lZ8KrA2Hz8653SoMN9GhRfDlzg/5brfX3BYs1zzyDkTrs6ZtBp7Cu4VtEvYnSHGI7Wx6I8Borpu9HMChQuWJmj6L+DlKZdXIOGLpGsh27O9nceBUVZUAJKNwlT9SyWh2B/oVeHdODeNqDklq7m035dtNr/ZbR7nfAXP0TyjxE4Xvjxy7X0ycKinh3 x',
    'SHA256:arB2cUrC03UXtVqonV1i0Xpdk8EqBdwrTOjG09bmo+Y',
  ],
];

test('keys of ssh-keygen and their fingerprints', () => {
  assert.ok(KEYS.length > 0);
  for (const [line, print] of KEYS) {
    const [type = '', base64 = ''] = line.split(' ');
    assert.equal(parseHostKey(line), `${type} ${base64}`);
    assert.equal(parseHostKey(`  ${type} \t ${base64} a comment\r`), `${type} ${base64}`);
    assert.equal(fingerprint(`${type} ${base64}`), print);
    assert.equal(hostKeyFromBlob(Buffer.from(base64, 'base64')), `${type} ${base64}`);
  }
});

/** A blob in base64: a type, and what follows. @param {string} name @param {string} [rest] */
function text(name, rest = 'x'.repeat(32)) {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(name.length);
  return Buffer.concat([head, Buffer.from(name + rest)]).toString('base64');
}

test('what is no key', () => {
  const [type = '', base64 = ''] = (KEYS[0]?.[0] ?? '').split(' ');
  const blob = Buffer.from(base64, 'base64');
  const wrong = [
    '',
    type,
    base64,
    `ssh-rsa ${base64}`,
    `${type} ${base64.slice(0, -1)}`,
    `${type} ${base64}=`,
    `${type} ${base64.slice(0, 10)} ${base64.slice(10)}`,
    `${type} -${base64}`,
    `${type} ${base64}\u0000`,
    `host ${type} ${base64}`,
    `${type} ${blob.subarray(0, 3).toString('base64')}`,
    // The type alone, without a key.
    `${type} ${text(type, '')}`,
    `ssh-dss ${text('ssh-dss')}`,
    `none ${text('none')}`,
    // Longer than any key.
    `${type} ${text(type, 'x'.repeat(5000))}`,
    // A length beyond the end.
    `${type} ${Buffer.from('\xff\xff\xff\xffabc', 'latin1').toString('base64')}`,
    '-----BEGIN OPENSSH PRIVATE KEY-----',
  ];
  for (const line of wrong) assert.equal(parseHostKey(line), null, line);
});

test('a key is one line', () => {
  const line = KEYS[0]?.[0] ?? '';
  assert.doesNotMatch(parseHostKey(`${line} comment\nsecond line`) ?? '', /\n|second/);
});
