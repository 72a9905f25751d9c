/** Every text here was written by OpenSSH 9.2p1; paths and fingerprints are shortened. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classifySshFailure } from '../../../src/system-ssh/failure.js';

const CHANGED = `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
Someone could be eavesdropping on you right now (man-in-the-middle attack)!\r
It is also possible that a host key has just been changed.\r
The fingerprint for the ED25519 key sent by the remote host is\nSHA256:GQNh.\r
Please contact your system administrator.\r
Add correct host key in /k/known_hosts to get rid of this message.\r
Offending ED25519 key in /k/known_hosts:1\r
  remove with:\r
  ssh-keygen -f "/k/known_hosts" -R "al"\r
Host key for al has changed and you have requested strict checking.\r
Host key verification failed.\r
`;

const REVOKED = `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@       WARNING: REVOKED HOST KEY DETECTED!               @\r
The ED25519 host key for al is marked as revoked.\r
ED25519 host key for al was revoked and you have requested strict checking.\r
Host key verification failed.\r
`;

/** @type {[string, import('../../../src/base/errors.js').ErrorCode, RegExp][]} */
const CASES = [
  [
    CHANGED,
    'SSH_HOST_KEY_CHANGED',
    /^Offending ED25519 key in \/k\/known_hosts:1; Host key for al has changed/,
  ],
  [REVOKED, 'SSH_HOST_KEY_CHANGED', /was revoked/],
  [
    'No ED25519 host key is known for al and you have requested strict checking.\r\nHost key verification failed.\r\n',
    'SSH_HOST_KEY_UNKNOWN',
    /^No ED25519 host key is known for al .*; Host key verification failed$/,
  ],
  [
    'Host key verification failed.\r\nConnection closed by UNKNOWN port 65535\r\n',
    'SSH_HOST_KEY_UNKNOWN',
    /^Host key verification failed$/,
  ],
  [
    'root@127.0.0.1: Permission denied (publickey).\r\n',
    'SSH_AUTH_REFUSED',
    /^root@127\.0\.0\.1: Permission denied/,
  ],
  [
    'no such identity: /k/id: No such file or directory\r\nu@h: Permission denied (publickey,password,keyboard-interactive).\r\n',
    'SSH_AUTH_REFUSED',
    /^no such identity: \/k\/id: .*; u@h: Permission denied/,
  ],
  [
    'Received disconnect from 127.0.0.1 port 22:2: Too many authentication failures\r\nDisconnected from 127.0.0.1 port 22\r\n',
    'SSH_AUTH_REFUSED',
    /Too many authentication failures/,
  ],
  ['a b@127.0.0.1: Permission denied (publickey).\r\n', 'SSH_AUTH_REFUSED', /^a b@127/],
  ['ssh: connect to host 127.0.0.1 port 1: Connection refused\r\n', 'SSH_UNREACHABLE', /Connection refused$/],
  [
    'no such identity: /k/id: No such file or directory\r\nssh: connect to host 127.0.0.1 port 1: Connection refused\r\n',
    'SSH_UNREACHABLE',
    /^ssh: connect/,
  ],
  [
    'ssh: Could not resolve hostname no.such.host.invalid: Name or service not known\r\n',
    'SSH_UNREACHABLE',
    /Could not resolve hostname/,
  ],
  ['Connection timed out during banner exchange\r\n', 'SSH_UNREACHABLE', /banner exchange/],
  [
    'Timeout, server 127.0.0.1 not responding.\r\n',
    'SSH_UNREACHABLE',
    /^Timeout, server 127\.0\.0\.1 not responding$/,
  ],
  [
    'channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\nConnection closed by UNKNOWN port 65535\r\n',
    'SSH_UNREACHABLE',
    /^channel 0: open failed/,
  ],
  [
    'mux_client_request_session: session request failed: Session open refused by peer\r\nkex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n',
    'SSH_SESSION_REFUSED',
    /Session open refused by peer$/,
  ],
  [
    'Connection to 127.0.0.1 closed by remote host.\r\n',
    'SSH_PROTOCOL',
    /^Connection to 127\.0\.0\.1 closed by remote host$/,
  ],
  [
    'Unable to negotiate with 127.0.0.1 port 22: no matching host key type found. Their offer: ssh-ed25519\r\n',
    'SSH_PROTOCOL',
    /^Unable to negotiate/,
  ],
  [
    '/c/s-x/m1.config: line 40: Bad configuration option: nosuchkey\r\n/c/s-x/m1.config: terminating, 1 bad configuration options\r\n',
    'CONFIG_INVALID',
    /nosuchkey$/,
  ],
  ['', 'SSH_PROTOCOL', /^ssh ended without a word$/],
];

for (const [text, code, words] of CASES) {
  test(`${code}: ${text.trim().split('\n').at(-1)}`, () => {
    const failure = classifySshFailure(text);
    assert.equal(failure.code, code);
    assert.match(failure.words, words);
  });
}

test('a sentence inside a login banner does not decide', () => {
  const banner =
    'Welcome. If you see "Permission denied (publickey)." or Host key verification failed. call us.\r\n';
  assert.equal(
    classifySshFailure(`${banner}Connection to h closed by remote host.\r\n`).code,
    'SSH_PROTOCOL',
  );
});

test('words are one printable line of bounded length', () => {
  const { words } = classifySshFailure(`\u001b[2Jevil\u0007\n${'x'.repeat(5000)}\n`);
  assert.doesNotMatch(words, /\p{Cc}/u);
  assert.ok(words.length <= 401, `${words.length}`);
});
