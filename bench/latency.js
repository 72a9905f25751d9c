/**
 * From the line in the file to the row visible in pgsluice.log, at 1 000 records/s with default settings. A writer
 * appends csvlog rows whose message carries the time of the write; a reader looks for new rows all the time.
 */
import { appendFileSync, chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { TestDaemon } from '../test/helpers/daemon.js';
import { startSshd } from '../test/helpers/sshd.js';

const RECORDS_PER_SECOND = 1_000;
const SECONDS = 30;
const TICK_MS = 20;
const LOOK_MS = 25;

export async function bench() {
  const dir = mkdtempSync(join(tmpdir(), 'pgsluice-latency-'));
  chmodSync(dir, 0o755);
  const sshd = await startSshd();
  const daemon = new TestDaemon();
  await daemon.start();
  const client = new Client({ host: `${daemon.dir}/run/storage`, user: 'pgsluice', database: 'pgsluice' });
  await client.connect();
  try {
    await daemon.addHost('bench', { log: dir, server: sshd });
    await sleep(3_000);
    const file = join(dir, 'postgresql.csv');
    const written = new Map();
    let count = 0;
    const started = performance.now();
    const writer = setInterval(() => {
      const due = Math.floor(((performance.now() - started) / 1000) * RECORDS_PER_SECOND);
      let text = '';
      const now = performance.now();
      for (; count < due; count += 1) {
        text += row(count);
        written.set(count, now);
      }
      appendFileSync(file, text);
    }, TICK_MS);
    /** @type {number[]} */
    const latencies = [];
    let seen = -1;
    while (performance.now() - started < SECONDS * 1000) {
      const { rows } = await client.query({
        name: 'look',
        text: `SELECT session_line_num::int AS n FROM pgsluice.log WHERE session_line_num > $1 AND log_time > now() - interval '1 minute'`,
        values: [seen],
      });
      const now = performance.now();
      for (const { n } of rows) {
        latencies.push(now - written.get(n));
        seen = Math.max(seen, n);
      }
      await sleep(LOOK_MS);
    }
    clearInterval(writer);
    latencies.sort((a, b) => a - b);
    const quantile = (/** @type {number} */ q) =>
      Math.round(latencies[Math.floor(latencies.length * q)] ?? NaN);
    return [
      {
        records_per_s: RECORDS_PER_SECOND,
        records: latencies.length,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        max_ms: quantile(0.99999),
      },
    ];
  } finally {
    await client.end();
    await daemon.remove();
    await sshd.stop();
    rmSync(dir, { recursive: true });
  }
}

/** @param {number} n */
function row(n) {
  const time = new Date().toISOString().replace('T', ' ').replace('Z', ' UTC');
  return `${time},"app","shop",4711,"10.0.0.7:50412",673f0000.1267,${n},"SELECT",2026-11-20 00:00:00 UTC,5/17,0,LOG,00000,"duration: 0.${n} ms  statement: SELECT * FROM orders WHERE id = ${n}",,,,,,,,,"billing","client backend",,0\n`;
}
