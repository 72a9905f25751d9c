/**
 * Which messages of ipc/messages.js there are, as a receiver checks them before it acts on one: a child of another
 * version, or one that has gone wrong, must not take its receiver with it. In: any value. Out: whether it is a message.
 * Only what handlers rely on is looked at. Pure.
 */
import { ERRORS } from '../base/errors.js';
import { showValue } from '../base/show-value.js';

/** @typedef {(value: unknown) => boolean} Check */
/** @typedef {Record<string, Check>} Messages by type */

/** @type {Check} */
const text = value => typeof value === 'string';
/** @type {Check} */
const flag = value => typeof value === 'boolean';
/** @type {Check} */
const id = value => Number.isSafeInteger(value) && Number(value) >= 0;
/** JSON makes null of what is no number. @type {Check} */
const amount = value => value === null || typeof value === 'number';
/** @type {Check} */
const code = value => typeof value === 'string' && Object.hasOwn(ERRORS, value);
/** @param {Check} is @returns {Check} */
const orNull = is => value => value === null || is(value);
/** @param {Check} is @returns {Check} */
const list = is => value => Array.isArray(value) && value.every(is);
/** @param {Record<string, Check>} fields @returns {Check} */
const shape = fields => value =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(fields).every(([key, is]) => is(/** @type {Record<string, unknown>} */ (value)[key]));

const report = shape({ code, message: text });
const error = orNull(report);
const channel = { streamId: id, attempt: id };
const follower = { command: text, input: text };
const assignment = { streamId: id, epoch: id };
const host = shape({ hostId: id, name: text, address: text, port: id, jumpHosts: list(text) });
const settings = shape({ logLevel: text, connectTimeoutMs: id });

const streamStatus = shape({
  ...assignment,
  mode: text,
  error,
  notice: orNull(text),
  file: orNull(text),
  timeZone: orNull(text),
  linePrefix: orNull(text),
  bytes: id,
  records: id,
  rejected: id,
  lostBytes: id,
  lostEvents: id,
  connects: id,
  lagBytes: amount,
  lastFrameAt: amount,
  clockSkewMs: amount,
});
const totals = shape({
  ...Object.fromEntries(
    ['batches', 'records', 'rejected', 'bytes', 'commitSeconds', 'failures'].map(key => [key, amount]),
  ),
  redacted: shape({ records: amount, classes: shape({}) }),
});

/** @type {Messages} */
export const TO_WORKER = {
  configure: shape({ settings }),
  assign: shape({ stream: shape({ ...assignment, host, path: text, format: text, transport: text }) }),
  unassign: shape(assignment),
  fifo: shape({ ...channel, path: text }),
  started: shape(channel),
  turn: shape(channel),
  refused: shape({ ...channel, error: report }),
  closed: shape({ ...channel, error }),
  stop: shape({}),
};

/** @type {Messages} */
export const FROM_WORKER = {
  ready: shape({}),
  open: shape({ ...channel, ...follower }),
  opened: shape(channel),
  close: shape(channel),
  turn: shape(channel),
  outcome: shape({ ...channel, error }),
  released: shape({ ...assignment, fenced: flag }),
  status: shape({
    status: shape({
      ready: flag,
      streams: list(streamStatus),
      totals,
      rssBytes: amount,
      cpuSeconds: amount,
      loopDelayMs: amount,
      storageError: orNull(text),
    }),
  }),
};

/** @type {Messages} */
export const TO_PROXY = {
  configure: shape({ settings }),
  open: shape({ ...channel, ...follower, host }),
  opened: shape(channel),
  close: shape(channel),
  turn: shape({ ...channel, host }),
  outcome: shape({ ...channel, error }),
  forget: shape({ hostId: id }),
  stop: shape({}),
};

/** @type {Messages} */
export const FROM_PROXY = {
  ready: shape({}),
  fifo: shape({ ...channel, path: text }),
  started: shape(channel),
  turn: shape(channel),
  refused: shape({ ...channel, error: report }),
  closed: shape({ ...channel, error }),
  status: shape({
    status: shape({
      connections: amount,
      sessions: amount,
      connects: amount,
      failures: shape({}),
      rssBytes: amount,
    }),
  }),
};

/** For the log; what is in it may be secret. @param {unknown} value @returns {string} */
export function nameOf(value) {
  return typeof value === 'object' && value !== null && 'type' in value
    ? showValue(value.type)
    : typeof value;
}

/** @param {Messages} messages @param {unknown} value */
export function isKnown(messages, value) {
  if (typeof value !== 'object' || value === null || !('type' in value)) return false;
  const { type } = value;
  const check = typeof type === 'string' && Object.hasOwn(messages, type) ? messages[type] : undefined;
  return check !== undefined && check(value);
}
