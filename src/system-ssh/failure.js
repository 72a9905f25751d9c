/**
 * What the words of OpenSSH on stderr mean. Text in, a code and the decisive lines out; no I/O.
 * ssh has one exit status (255) for every failure of its own, so its words are the only evidence.
 * Every pattern matches a whole line from its start: a server's login banner reaches the same stderr, and a
 * sentence somewhere inside it must not decide. Texts: OpenSSH 9.2, sshconnect.c, sshconnect2.c, packet.c,
 * mux.c, clientloop.c; ssh sets no LC_MESSAGES, so they are English under every locale.
 */

/** @typedef {import('../base/errors.js').ErrorCode} ErrorCode */

/** Longest text quoted in an error: one line on an operator's screen, and a bound on hostile servers. */
const WORDS_MAX_CHARS = 400;

/** How many lines are quoted when none of them is known. */
const UNKNOWN_LINES = 3;

/**
 * The first row with a matching line decides: a changed key is also reported as "Host key verification failed",
 * and a jump host that fails is followed by "Connection closed by UNKNOWN port 65535" of the outer ssh.
 * @type {{ code: ErrorCode, lines: RegExp[] }[]}
 */
const RULES = [
  {
    code: 'CONFIG_INVALID',
    lines: [
      /^\S.*: line \d+: (?:Bad|Unsupported|unsupported|missing|keyword|garbage|invalid)\b/,
      /^\S.* line \d+: (?:Bad|Unsupported|unsupported|missing|keyword|garbage|invalid)\b/,
      /^Bad owner or permissions on /,
    ],
  },
  {
    code: 'SSH_HOST_KEY_CHANGED',
    lines: [
      /^Host key for .* has changed and you have requested strict checking\./,
      /host key for .* was revoked and you have requested strict checking\./,
      /^Offending .* key in /,
    ],
  },
  {
    code: 'SSH_HOST_KEY_UNKNOWN',
    lines: [
      /^No .* host key is known for .* and you have requested strict checking\./,
      /^Host key verification failed\./,
    ],
  },
  {
    code: 'SSH_AUTH_REFUSED',
    lines: [
      /^(?:.*@\S+: )?Permission denied \([\w,@.-]*\)\./,
      /^(?:Received disconnect|Disconnected) from .*Too many authentication failures/,
      /^no such identity: /,
      /^Load key /,
      /^Permissions .* for '.*' are too open\./,
      /^sign_and_send_pubkey: /,
    ],
  },
  {
    code: 'SSH_SESSION_REFUSED',
    lines: [/^(?:mux_client_request_session: )?session request failed: Session open refused by peer/],
  },
  {
    code: 'SSH_UNREACHABLE',
    lines: [
      /^ssh: connect to host .* port \d+: /,
      /^ssh: Could not resolve hostname /,
      /^Connection timed out during banner exchange/,
      /^Connection to .* timed out/,
      /^Timeout, server .* not responding\./,
      /^channel \d+: open failed: /,
      /^stdio forwarding failed/,
    ],
  },
];

/** Lines that say what is wrong with a key even where the connection fails with other words. */
const PREAMBLE = /^(?:no such identity: |Load key |Permissions .* for '.*' are too open\.)/;

/**
 * @param {string} stderr what ssh wrote; may be empty, may hold a banner, CR and control characters
 * @returns {{ code: ErrorCode, words: string }} words: the decisive lines on one line, printable, bounded
 */
export function classifySshFailure(stderr) {
  const lines = stderr
    .split(/\r?\n|\r/)
    .map(printable)
    .filter(line => line !== '');
  for (const rule of RULES) {
    const decisive = lines.filter(line => rule.lines.some(pattern => pattern.test(line)));
    // No line, or none but preambles: a key file that cannot be read is only the cause when the server then refused what was left.
    if (decisive.every(line => PREAMBLE.test(line))) continue;
    return { code: rule.code, words: join(decisive) };
  }
  if (lines.length === 0) return { code: 'SSH_PROTOCOL', words: 'ssh ended without a word' };
  return { code: 'SSH_PROTOCOL', words: join(lines.slice(-UNKNOWN_LINES)) };
}

/** @param {string[]} lines @returns {string} */
function join(lines) {
  const words = lines.map(line => line.replace(/\.$/, '')).join('; ');
  return words.length > WORDS_MAX_CHARS ? `${words.slice(0, WORDS_MAX_CHARS)}…` : words;
}

/** @param {string} line @returns {string} */
function printable(line) {
  return line.replace(/\p{Cc}+/gu, ' ').trim();
}
