/**
 * Prometheus metrics, made from the same status that /status shows: one truth, two forms. Names follow Prometheus'
 * conventions: base units, _total for what only rises.
 */
import { Counter, Gauge, Registry } from 'prom-client';
import { printable } from '../base/printable.js';

/** @typedef {import('./status.js').Status} Status */
/** @typedef {Record<string, string>} Labels */
/** @typedef {(name: string, help: string, values: [Labels, number][]) => void} Collect */

/**
 * @param {Status} status as now
 * @returns {Promise<{ type: string, text: string }>} an exposition of the moment
 */
export async function renderMetrics(status) {
  const registry = new Registry();
  const registers = [registry];
  /** @type {Collect} */
  const gauge = (name, help, values) => {
    // Without a value the library would show a 0 that means nothing.
    if (values.length === 0) return;
    const metric = new Gauge({ name, help, registers, labelNames: labelNames(values) });
    for (const [labels, value] of values) metric.set(labels, value);
  };
  /** @type {Collect} */
  const counter = (name, help, values) => {
    if (values.length === 0) return;
    const metric = new Counter({ name, help, registers, labelNames: labelNames(values) });
    for (const [labels, value] of values) metric.inc(labels, value);
  };
  gauge('pgsluice_ready', '1 when the daemon takes work', [[{}, status.ready ? 1 : 0]]);
  gauge('pgsluice_storage_ready', '1 when the storage answers and the fleet is ours', [
    [{}, status.storage.mode === 'ready' ? 1 : 0],
  ]);
  gauge('pgsluice_hosts', 'Monitored hosts', [[{}, status.hosts.length]]);
  collectStreams(status, gauge, counter);
  collectWorkers(status, gauge, counter);
  collectProcesses(status, gauge, counter);
  return { type: registry.contentType, text: await registry.metrics() };
}

/** @param {Status} status @param {Collect} gauge @param {Collect} counter */
function collectStreams({ hosts }, gauge, counter) {
  const streams = hosts.flatMap(host =>
    host.streams.map(stream => ({
      labels: { host: printable(host.name), stream: printable(stream.path) },
      stream,
    })),
  );
  /** @param {(stream: import('./status.js').StreamReport) => number | null} value @returns {[Labels, number][]} */
  const each = value =>
    streams.flatMap(({ labels, stream }) => {
      const number = value(stream);
      return number === null ? [] : [/** @type {[Labels, number]} */ ([labels, number])];
    });
  gauge(
    'pgsluice_stream_state',
    'State of each stream, 1 for the state it is in',
    streams.map(({ labels, stream }) => [{ ...labels, state: stream.state }, 1]),
  );
  gauge(
    'pgsluice_stream_error',
    'Why a stream waits, by error code',
    streams.flatMap(({ labels, stream }) =>
      stream.error ? [/** @type {[Labels, number]} */ ([{ ...labels, code: stream.error.code }, 1])] : [],
    ),
  );
  counter(
    'pgsluice_records_total',
    'Records stored',
    each(stream => stream.records),
  );
  counter(
    'pgsluice_rejected_total',
    'Pieces of logs stored as rejected',
    each(stream => stream.rejected),
  );
  counter(
    'pgsluice_lost_bytes_total',
    'Bytes of logs seen on the host and removed before they could be read',
    each(stream => stream.lostBytes),
  );
  counter(
    'pgsluice_losses_total',
    'Truncations and removals of logs that took unread bytes, or may have',
    each(stream => stream.lostEvents),
  );
  counter(
    'pgsluice_received_bytes_total',
    'Bytes of logs received, those received again included',
    each(stream => stream.bytes),
  );
  counter(
    'pgsluice_connects_total',
    'Times a follower was started',
    each(stream => stream.connects),
  );
  gauge(
    'pgsluice_lag_bytes',
    'Bytes unread on the host at the last heartbeat',
    each(stream => stream.lagBytes),
  );
  gauge(
    'pgsluice_last_frame_timestamp_seconds',
    'When the follower was last heard',
    each(stream => (stream.lastHeard ? Date.parse(stream.lastHeard) / 1000 : null)),
  );
  gauge(
    'pgsluice_clock_skew_seconds',
    "Host's clock minus ours, at the last heartbeat",
    each(stream => stream.clockSkewMs / 1000),
  );
}

/** @param {Status} status @param {Collect} gauge @param {Collect} counter */
function collectWorkers({ workers, redact }, gauge, counter) {
  /** @param {(totals: NonNullable<Status['workers'][number]['totals']>) => number} value @returns {[Labels, number][]} */
  const totals = value =>
    workers.flatMap((worker, index) =>
      worker.totals
        ? [/** @type {[Labels, number]} */ ([{ worker: String(index + 1) }, value(worker.totals)])]
        : [],
    );
  counter(
    'pgsluice_batches_total',
    'Batches committed',
    totals(({ batches }) => batches),
  );
  counter(
    'pgsluice_batch_failures_total',
    'Batches that were not stored and will be read again',
    totals(({ failures }) => failures),
  );
  counter(
    'pgsluice_batch_bytes_total',
    'Bytes of committed batches',
    totals(({ bytes }) => bytes),
  );
  counter(
    'pgsluice_commit_seconds_total',
    'Time spent in transactions of batches',
    totals(({ commitSeconds }) => commitSeconds),
  );
  if (redact.length > 0) {
    counter(
      'pgsluice_redacted_records_total',
      'Records stored that secrets were taken out of',
      totals(({ redacted }) => redacted.records),
    );
    counter(
      'pgsluice_redacted_records_by_class_total',
      'The same by class of secret, as far as it is known: in each of several',
      redact.flatMap(name =>
        totals(({ redacted }) => redacted.classes[name] ?? 0).map(
          ([labels, value]) => /** @type {[Labels, number]} */ ([{ ...labels, class: name }, value]),
        ),
      ),
    );
  }
  gauge(
    'pgsluice_worker_streams',
    'Streams of each worker',
    workers.map((worker, index) => [{ worker: String(index + 1) }, worker.streams]),
  );
  gauge(
    'pgsluice_event_loop_delay_seconds',
    'Event loop delay of each worker, 99th percentile of the last second',
    workers.map((worker, index) => [{ worker: String(index + 1) }, worker.loopDelayMs / 1000]),
  );
}

/** @param {Status} status @param {Collect} gauge @param {Collect} counter */
function collectProcesses({ workers, sshproxy, master }, gauge, counter) {
  /** @type {[Labels, number][]} */
  const rss = workers.map((worker, index) => [{ process: `worker-${index + 1}` }, worker.rssBytes]);
  rss.push(
    [{ process: 'master' }, master.rssBytes],
    [{ process: 'sshproxy' }, sshproxy.status?.rssBytes ?? 0],
  );
  gauge('pgsluice_process_resident_memory_bytes', 'Resident memory of each process', rss);
  counter(
    'pgsluice_process_cpu_seconds_total',
    'CPU time of each worker',
    workers.map((worker, index) => [{ process: `worker-${index + 1}` }, worker.cpuSeconds]),
  );
  /** @type {[Labels, number][]} */
  const restarts = workers.map((worker, index) => [{ process: `worker-${index + 1}` }, worker.restarts]);
  restarts.push([{ process: 'sshproxy' }, sshproxy.restarts]);
  counter('pgsluice_process_restarts_total', 'Times a process ended and was started again', restarts);
  gauge('pgsluice_ssh_connections', 'Open OpenSSH connections', [[{}, sshproxy.status?.connections ?? 0]]);
  gauge('pgsluice_ssh_sessions', 'Open OpenSSH sessions', [[{}, sshproxy.status?.sessions ?? 0]]);
  counter('pgsluice_ssh_connects_total', 'OpenSSH connections begun', [[{}, sshproxy.status?.connects ?? 0]]);
  counter(
    'pgsluice_ssh_failures_total',
    'OpenSSH connections that failed, by error code',
    Object.entries(sshproxy.status?.failures ?? {}).map(([code, count]) => [{ code }, count]),
  );
}

/** @param {[Labels, number][]} values */
const labelNames = values => [...new Set(values.flatMap(([labels]) => Object.keys(labels)))];
