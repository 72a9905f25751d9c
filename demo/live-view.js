/**
 * What the demo shows each second: throughput, lag and the newest records. Redraws on a terminal, appends elsewhere.
 */
import { stripVTControlCharacters, styleText } from 'node:util';
import { printable } from '../src/base/printable.js';

const NEWEST = 5;

export class LiveView {
  #options;
  #before = { at: 0, records: 0, bytes: 0 };
  #lines = 0;

  /** @param {{ daemon: import('../test/helpers/daemon.js').TestDaemon, storage: import('pg').Client, host: string }} options */
  constructor(options) {
    this.#options = options;
  }

  async show() {
    const { daemon, storage, host } = this.#options;
    const status = await daemon.status();
    const stream = status.hosts.find(({ name }) => name === host)?.streams[0];
    const worker = status.workers[0];
    if (!stream) return;
    const now = performance.now();
    const seconds = (now - this.#before.at) / 1000;
    const recordsPerSecond = this.#before.at === 0 ? 0 : (stream.records - this.#before.records) / seconds;
    const mbPerSecond = this.#before.at === 0 ? 0 : (stream.bytes - this.#before.bytes) / seconds / 1e6;
    this.#before = { at: now, records: stream.records, bytes: stream.bytes };
    const { rows } = await storage.query(
      `SELECT log_time, error_severity, database_name, message FROM pgsluice.log
        WHERE host = $1 AND log_time > now() - interval '5 s' ORDER BY log_time DESC LIMIT ${NEWEST}`,
      [host],
    );
    const delayMs = rows[0] ? Date.now() - rows[0].log_time.getTime() : null;
    const head = [
      `${stream.state}`,
      `${stream.records} records`,
      `${recordsPerSecond.toFixed(0)} records/s`,
      `${mbPerSecond.toFixed(2)} MB/s`,
      `lag ${stream.lagBytes ?? '?'} bytes${delayMs === null ? '' : `, newest record ${(delayMs / 1000).toFixed(1)} s old`}`,
      `${stream.rejected} rejected`,
      `worker ${((worker?.rssBytes ?? 0) / 1048576).toFixed(0)} MB`,
    ].join(' · ');
    this.#draw([
      styleText('bold', head),
      ...rows.map(
        row =>
          `  ${row.log_time.toISOString().slice(11, 23)} ${row.error_severity} ${row.database_name ?? '-'} ${printable(row.message ?? '')}`,
      ),
    ]);
  }

  /** @param {string[]} lines */
  #draw(lines) {
    const { stdout } = process;
    if (!stdout.isTTY) {
      stdout.write(`${stripVTControlCharacters(lines.map(line => line.slice(0, 160)).join('\n'))}\n`);
      return;
    }
    if (this.#lines > 0) stdout.write(`\u001b[${this.#lines}A\u001b[J`);
    stdout.write(lines.map(line => `${line.slice(0, stdout.columns - 1)}\u001b[0m\n`).join(''));
    this.#lines = lines.length;
  }
}
