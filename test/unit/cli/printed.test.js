/** Whatever hosts, the inventory and the storage hold: what commands print, what the daemon logs and its
 * metrics act on no terminal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createLogger } from '../../../src/base/logger.js';
import { describeHost, printHost, showLabels } from '../../../src/cli/describe-host.js';
import { Output } from '../../../src/cli/output.js';
import { printStatus } from '../../../src/cli/status.js';
import { renderMetrics } from '../../../src/master/metrics.js';
import { describeStatus } from '../../../src/master/status.js';
import { lastWords } from '../../../src/transport/last-words.js';
import { followerEnded } from '../../../src/transport/follower-ended.js';
import { SparingLog } from '../../../src/worker/sparing-log.js';
import { PassThrough } from 'node:stream';

// Written down again, so that the pattern of the program is not its own measure: C0 but newline, DEL and C1, what breaks
// lines, what turns the direction.
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

const HOSTILE = fc
  .array(
    fc.oneof(
      fc.constantFrom('\u001b[2J', '\u001b]0;owned\u0007', '\u009b31m', '\r', '\n', '\0', '\u202e', '\ud800'),
      fc.constantFrom('\udfff', '\u2028', '\u061c', 'password=x', 'postgres://u:p\u001b@h/', '"', '\\'),
      fc.string({ unit: 'binary', maxLength: 5 }),
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map(parts => parts.join(''));

function screen() {
  let text = '';
  return { write: (/** @type {string} */ part) => void (text += part), text: () => text };
}

/** @param {string} text @returns {import('../../../src/storage/inventory.js').HostRow} */
const hostNamed = text => ({
  hostId: 1,
  name: text,
  address: text,
  port: 22,
  username: text,
  identityFile: text,
  jumpHosts: [text],
  sudoUser: text,
  hostKeys: [`ssh-ed25519 AAAA ${text}`],
  transport: 'auto',
  labels: { [text]: text },
  paused: false,
  addedAt: new Date(0),
  streams: [
    {
      streamId: 1,
      path: text,
      format: 'auto',
      linePrefix: text,
      timeZone: text,
      encoding: text,
      encodings: { [text]: text },
      startAt: 'end',
    },
  ],
});

/** @param {string} text @returns {import('../../../src/ipc/messages.js').StreamStatus} */
const statusOf = text => ({
  streamId: 1,
  epoch: 1,
  mode: 'waiting',
  error: { code: 'FOLLOWER_FAILED', message: text },
  notice: text,
  file: text,
  bytes: 1,
  records: 1,
  rejected: 1,
  lostBytes: 1,
  lostEvents: 1,
  timeZone: text,
  linePrefix: text,
  lagBytes: 1,
  lastFrameAt: 1,
  clockSkewMs: 1,
  connects: 1,
});

/** @param {string} text what hosts, the inventory and the storage say everywhere */
function statusWith(text) {
  const before = { bytes: 0, records: 0, rejected: 0, lostBytes: 0, lostEvents: 0, connects: 0 };
  /** @type {any} */
  const stream = {
    spec: {},
    worker: 0,
    state: 'assigned',
    bytesPerSecond: 1,
    status: statusOf(text),
    before,
  };
  return describeStatus({
    notReady: new Error(text),
    storage: { mode: text, error: new Error(text) },
    hosts: [hostNamed(text)],
    redact: [],
    streams: new Map([[1, stream]]),
    workers: [],
    proxy: { pid: 1, restarts: 0, ready: true, status: null },
  });
}

test('host show, host list and status, as text and as JSON', () => {
  fc.assert(
    fc.property(HOSTILE, text => {
      const seen = screen();
      const output = new Output(seen);
      const host = hostNamed(text);
      const files = [{ file: text, offset: 1, inode: '1' }];
      const place = { begun: true, committedAt: text, foundPrefix: text, lostBytes: 1, lostEvents: 1, files };
      const shown = describeHost(host, new Map([[1, place]]));
      printHost(output, shown);
      output.table(['HOST', 'LABELS'], [[host.name, showLabels(host.labels)]]);
      output.json(shown);
      const status = statusWith(text);
      printStatus(output, status);
      output.json(status);
      assert.doesNotMatch(seen.text(), UNSAFE);
      // Lines of the two tables, one each; JSON has its own.
      assert.ok(seen.text().split('\n').length > 10);
    }),
  );
});

test('the metrics, which somebody may read with curl', async () => {
  await fc.assert(
    fc.asyncProperty(HOSTILE, async text => {
      const { text: shown } = await renderMetrics(statusWith(text));
      assert.doesNotMatch(shown, UNSAFE);
      assert.match(shown, /^pgsluice_records_total\{host=".*",stream=".*"\} 1$/m);
    }),
    { numRuns: 50 },
  );
});

test('the log of the daemon, for a terminal and for a collector', () => {
  fc.assert(
    fc.property(HOSTILE, fc.boolean(), (text, isTTY) => {
      const seen = screen();
      const log = createLogger({ name: text, destination: { ...seen, isTTY } }).child({
        host: text,
        stream: text,
      });
      log.warn({ [text]: text, err: new Error(text, { cause: text }) }, text);
      new SparingLog(log).warn({ file: text, [text]: text }, text);
      assert.doesNotMatch(seen.text(), UNSAFE);
      assert.equal(seen.text().split('\n').length, 3, 'a line each');
    }),
  );
});

test('the last words of a program, in the error of a command', async () => {
  await fc.assert(
    fc.asyncProperty(HOSTILE, fc.boolean(), async (text, denies) => {
      const stderr = new PassThrough();
      const words = lastWords(stderr);
      stderr.end(`${denies ? 'pgsluice denies: ' : ''}${text}`);
      for await (const _ of stderr.iterator({ destroyOnReturn: false }));
      const seen = screen();
      const { message } = followerEnded({ host: text, how: 'ended with exit code 1', words: words() });
      new Output(seen).labelled('pgsluice: ', message, 'red');
      assert.doesNotMatch(seen.text(), UNSAFE);
      assert.equal(seen.text().split('\n').length, 2, 'one line');
    }),
    { numRuns: 50 },
  );
});
