/**
 * The last words of a remote program: the end of its stderr, kept for the message that says how it ended. A host may
 * write there as fast as it can, and who reads here serves others, too: after a share it is read again only when a
 * second has passed. What it has not been able to write holds up the host's own program alone.
 */

const KEPT_CHARS = 500;
const SHARE_BYTES = 64 * 1024;
const REST_MS = 1_000;

/**
 * @param {import('node:stream').Readable | undefined | null} stderr
 * @returns {() => string} what it said last, on one line
 */
export function lastWords(stderr) {
  let words = '';
  let bytes = 0;
  let since = performance.now();
  stderr?.on('data', (/** @type {Buffer} */ chunk) => {
    words = (words + chunk.toString('utf8', Math.max(0, chunk.length - KEPT_CHARS))).slice(-KEPT_CHARS);
    const now = performance.now();
    if (now - since > REST_MS) {
      bytes = 0;
      since = now;
    }
    bytes += chunk.length;
    if (bytes <= SHARE_BYTES) return;
    stderr.pause();
    setTimeout(() => stderr.resume(), REST_MS).unref();
  });
  return () => words.trim().replaceAll(/\s*[\r\n]+\s*/g, '; ');
}
