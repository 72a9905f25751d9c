// The program's own log, in both forms: one line an event, no password, no control character.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { PgsluiceError } from '../../../src/base/errors.js';
import { LOG_LEVELS, createLogger } from '../../../src/base/logger.js';

/**
 * @param {{ isTTY?: boolean, level?: string }} settings
 */
function capture({ isTTY = false, level = 'info' }) {
  /** @type {string[]} */
  const lines = [];
  const destination = { isTTY, write: (/** @type {string} */ line) => lines.push(line) };
  return { lines, logger: createLogger({ name: 'worker-1', level, destination }) };
}

/** @param {string[]} lines */
const onlyJson = lines => {
  assert.equal(lines.length, 1);
  return JSON.parse(lines[0] ?? '');
};

test('for a program a line is one JSON object with time, level, name and message', () => {
  const { lines, logger } = capture({});
  logger.child({ host: 'db1' }).warn({ stream: 'main', bytes: 12, offset: 2n ** 60n }, 'stalled');
  const { time, ...rest } = onlyJson(lines);
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(rest, {
    level: 'warn',
    name: 'worker-1',
    pid: process.pid,
    host: 'db1',
    stream: 'main',
    bytes: 12,
    offset: '1152921504606846976',
    msg: 'stalled',
  });
  assert.equal(lines[0]?.indexOf('\n'), (lines[0]?.length ?? 0) - 1);
});

test('for a person a line is readable text', () => {
  const { lines, logger } = capture({ isTTY: true });
  logger.info({ host: 'db1', path: '/var/log/a b', lag: { bytes: 7 }, empty: '', list: ['x'] }, 'started');
  assert.match(
    lines[0] ?? '',
    /^\S+Z info {2}worker-1: started host=db1 path="\/var\/log\/a b" lag\.bytes=7 empty="" list="\[\\"x\\"\]"\n$/,
  );
  assert.equal(lines.length, 1);
});

test('no control character of a host reaches a terminal', () => {
  const { lines, logger } = capture({ isTTY: true });
  logger.error(
    { banner: '\u001b]0;owned\u0007 \u202e', ['k\u009b']: 'v\nw' },
    'host said\r\u001b[2J\nfatal: x',
  );
  const line = lines.join('');
  // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
  assert.doesNotMatch(line.slice(0, -1), /[\u0000-\u001f\u007f-\u009f\u202e]/);
  assert.match(line, /host said\\r\\x1b\[2J\\nfatal: x/);
  assert.ok(line.endsWith('\n'));
});

for (const isTTY of [false, true]) {
  test(`passwords are hidden ${isTTY ? 'from a person' : 'from a program'}, wherever they stand`, () => {
    const { lines, logger } = capture({ isTTY });
    const url = 'postgres://u:se"cret\\x@h/db';
    const cause = new Error(`deep ${url}`);
    logger.error(
      { url, nested: { list: [url] }, password: 'cret', err: new Error(`at ${url}`, { cause }) },
      `no ${url}`,
    );
    logger.child({ storage: url }).info('connecting');
    logger.info('password=cret');
    const text = lines.join('');
    assert.equal(lines.length, 3);
    assert.doesNotMatch(text, /cret/);
    assert.match(text, /postgres:\/\/u:\*\*\*@h\/db/);
  });
}

test('an expected error shows message, code and causes, a bug shows its stack as well', () => {
  const { lines, logger } = capture({});
  const cause = new Error('connection refused');
  logger.error(new PgsluiceError('SSH_UNREACHABLE', 'db1 does not answer', { cause }));
  const expected = onlyJson(lines);
  assert.deepEqual(expected.err, {
    message: 'db1 does not answer',
    code: 'SSH_UNREACHABLE',
    causes: ['connection refused'],
  });
  assert.equal(expected.msg, 'db1 does not answer');

  lines.length = 0;
  logger.error(new TypeError('x is not a function'));
  assert.match(onlyJson(lines).err.stack, /TypeError: x is not a function\n\s+at /);
});

test('a circle of causes ends', () => {
  const { lines, logger } = capture({});
  const error = new PgsluiceError('SSH_PROTOCOL', 'round');
  error.cause = error;
  logger.error(error);
  assert.equal(onlyJson(lines).err.causes.length, 8);
});

test('a stack stays on one line for a person', () => {
  const { lines, logger } = capture({ isTTY: true });
  logger.error(new TypeError('bug'));
  assert.equal(lines.join('').match(/\n/g)?.length, 1);
  assert.match(lines.join(''), /err\.stack="TypeError: bug\\n/);
});

test('less important events than the level are not written', () => {
  const { lines, logger } = capture({ level: 'warn' });
  logger.info('quiet');
  logger.warn('loud');
  assert.equal(onlyJson(lines).msg, 'loud');
  for (const level of LOG_LEVELS) assert.doesNotThrow(() => capture({ level }));
});

test('without a destination a line goes to stderr, also when the process is killed at once', () => {
  const module = new URL('../../../src/base/logger.js', import.meta.url).href;
  const script = `import { createLogger } from '${module}'; createLogger({ name: 'm' }).info('last words'); process.kill(process.pid, 'SIGKILL');`;
  const { signal, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
  assert.equal(signal, 'SIGKILL');
  assert.equal(stdout, '');
  assert.equal(JSON.parse(stderr).msg, 'last words');
});

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const ACTS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;

test('neither form lets a character through that a terminal acts on', () => {
  const text = 'a\u001b[2J\u009b31m\u202e\u2066\u2028\u007f';
  for (const isTTY of [true, false]) {
    const { lines, logger } = capture({ isTTY });
    logger.warn({ file: text }, `${text} postgres://u:p@h/d`);
    assert.doesNotMatch(lines[0] ?? '', ACTS);
    assert.equal(lines.length, 1);
  }
});
