/**
 * Watches how long a host's log waited: samples the storage and the files, and keeps the longest time in which a host had
 * bytes that were not stored and nothing of it was stored. Time in which a fault lasted counts.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { csvFiles } from '../helpers/conservation.js';

const SAMPLE_MS = 500;

export class Progress {
  #world;
  #stopped = false;
  /** @type {Promise<void>} */
  #running = Promise.resolve();
  /** @type {Map<string, { stored: number, since: number }>} */
  #hosts = new Map();

  longestMs = 0;
  /** the host it was */
  host = '';

  /** @param {import('./world.js').World} world */
  constructor(world) {
    this.#world = world;
  }

  start() {
    this.#running = this.#run();
  }

  async stop() {
    this.#stopped = true;
    await this.#running;
  }

  async #run() {
    /** @type {import('pg').Client | null} */
    let client = null;
    while (!this.#stopped) {
      await sleep(SAMPLE_MS);
      try {
        client ??= await this.#world.connect();
        await this.#sample(client);
      } catch {
        // The storage is away: time goes on.
        await client?.end().catch(() => {});
        client = null;
      }
    }
    await client?.end().catch(() => {});
  }

  /** @param {import('pg').Client} client */
  async #sample(client) {
    const { rows } = await client.query(
      `SELECT h.name, sum(f."offset")::float8 AS stored
         FROM pgsluice.file f JOIN pgsluice.stream USING (stream_id) JOIN pgsluice.host h USING (host_id)
        WHERE f.gone_at IS NULL AND f.name LIKE '%.csv' GROUP BY h.name`,
    );
    const now = performance.now();
    for (const { name, stored } of rows) {
      const source = this.#world.readers.get(name);
      if (!source) continue;
      const sizes = await Promise.all(
        (await csvFiles(source.logDir)).map(async file => (await stat(file).catch(() => null))?.size ?? 0),
      );
      const size = sizes.reduce((sum, bytes) => sum + bytes, 0);
      const before = this.#hosts.get(name);
      if (!before || before.stored !== stored || stored >= size) {
        this.#hosts.set(name, { stored, since: now });
      }
      const waited = now - (before?.since ?? now);
      if (waited > this.longestMs) {
        this.longestMs = waited;
        this.host = name;
      }
    }
  }
}
