/**
 * `pgsluice status`: what the running daemon says of its streams and processes, over HTTP.
 * Returns 0 when a daemon answers, 1 when none does.
 */
import { PgsluiceError } from '../base/errors.js';
import { askDaemon } from './daemon-http.js';
import { ownCommand } from './own-command.js';

/** @typedef {import('./context.js').Context} Context */
/** @typedef {import('../master/status.js').Status} Status */
/** @typedef {import('../master/status.js').StreamReport} StreamReport */

/** @param {Context} context @returns {Promise<number>} */
export async function status(context) {
  const { listen } = context.config.http;
  if (listen === null || listen.port === 0) {
    return notRunning(
      context,
      `http.listen is ${listen === null ? '"none"' : 'port 0'}, so a daemon cannot be asked: give it an address and a port`,
    );
  }
  const where = `${listen.host}:${listen.port}`;
  let text;
  try {
    text = await askDaemon(context.config.http, '/status');
  } catch (error) {
    if (error instanceof PgsluiceError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    return notRunning(
      context,
      `no daemon answers at ${where} (${why}): start it with "${ownCommand('start')}"`,
    );
  }
  const answer = readStatus(text);
  if (answer === null)
    return notRunning(context, `what answers at ${where} is not pgsluice: see http.listen`);
  if (context.json) context.output.json({ running: true, ...answer });
  else {
    // A daemon that was started before an upgrade says nothing of redaction.
    const { redact = [] } = /** @type {Partial<Status>} */ (answer);
    printStatus(context.output, { ...answer, redact });
  }
  return 0;
}

/** @param {Context} context @param {string} reason */
function notRunning(context, reason) {
  if (context.json) context.output.json({ running: false, reason });
  else context.output.line(reason);
  return 1;
}

/** @param {string} text @returns {Status | null} */
function readStatus(text) {
  try {
    const value = JSON.parse(text);
    const lists = [
      value.hosts,
      value.workers,
      ...value.hosts.map((/** @type {Status['hosts'][0]} */ host) => host.streams),
    ];
    return lists.every(Array.isArray) &&
      typeof value.storage.mode === 'string' &&
      typeof value.master.pid === 'number'
      ? value
      : null;
  } catch {
    return null;
  }
}

/** @param {import('./output.js').Output} output @param {Status} answer */
export function printStatus(output, { ready, reason, storage, hosts, redact, workers, sshproxy, master }) {
  if (!ready) output.labelled('not ready: ', reason ?? 'it is starting', 'yellow');
  if (hosts.length === 0) output.line(`no host is monitored yet: see "${ownCommand('help host add')}"`);
  else {
    output.table(
      ['HOST', 'STREAM', 'STATE', 'RECORDS', 'REJECTED', 'LOST', 'LAG', 'RATE', 'LAST HEARD', 'ERROR'],
      hosts.flatMap(host => host.streams.map(stream => [host.name, ...streamCells(stream)])),
    );
  }
  if (redact.length > 0) output.line(redactedText(workers, redact));
  const restarts = workers.reduce((sum, worker) => sum + worker.restarts, sshproxy.restarts);
  output.line(
    `master ${master.pid}, sshproxy ${sshproxy.pid ?? 'down'}, ${workers.filter(worker => worker.ready).length} of ${workers.length} workers, ${restarts} restarts; storage ${storage.mode}${storage.error === null ? '' : ` (${storage.error})`}`,
  );
}

/** @param {Status['workers']} workers @param {Status['redact']} classes @returns {string} */
function redactedText(workers, classes) {
  const all = workers.flatMap(({ totals }) => (totals ? [totals.redacted] : []));
  const records = all.reduce((sum, redacted) => sum + redacted.records, 0);
  const each = classes.map(
    name => `${name} ${all.reduce((sum, redacted) => sum + (redacted.classes[name] ?? 0), 0)}`,
  );
  return `redacted records: ${records} (${each.join(', ')})`;
}

/** @param {StreamReport} stream @returns {string[]} */
function streamCells(stream) {
  const { path, state, records, rejected, lagBytes, bytesPerSecond, lastHeard, error, notice } = stream;
  return [
    path,
    state,
    String(records),
    String(rejected),
    lostText(stream),
    lagBytes === null ? '-' : bytesText(lagBytes),
    `${bytesText(bytesPerSecond)}/s`,
    lastHeard ?? '-',
    error === null ? (notice ?? '') : `${error.code}: ${error.message}`,
  ];
}

/** @param {StreamReport} stream @returns {string} */
function lostText({ lostBytes, lostEvents }) {
  if (lostEvents === 0) return '-';
  // How much a truncation took cannot be known.
  return lostBytes === 0 ? `${lostEvents} x` : `${lostEvents} x, ${bytesText(lostBytes)}`;
}

/**
 * @param {number} bytes
 * @returns {string} for eyes: three digits or so, in units of 1024
 */
export function bytesText(bytes) {
  let value = bytes;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024) return `${unit === 'B' ? value : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}
