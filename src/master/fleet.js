/**
 * Policy: which worker reads which stream. Pure: it is told what happened and asked what to do, and does no I/O.
 * A stream is `free` (to be assigned), `assigned`, or `releasing` (its worker is putting it down; it becomes free
 * with its new specification, or is forgotten). It is assigned to the worker with the least measured byte rate; a
 * stream counts at least STREAM_COST, so that a thousand quiet ones are spread, too.
 */

/** @typedef {Omit<import('../ipc/messages.js').StreamSpec, 'epoch'>} WantedStream */
/** @typedef {import('../ipc/messages.js').StreamStatus} StreamStatus */

const STREAM_COST_BYTES_S = 1_000;
const RATE_WEIGHT = 0.2; // of the newest second in the moving average

/**
 * @typedef {object} FleetStream
 * @property {WantedStream} spec as it was assigned
 * @property {WantedStream | null} wanted null: to be forgotten
 * @property {'free' | 'assigned' | 'releasing'} state
 * @property {number | null} worker
 * @property {number} bytesPerSecond
 * @property {StreamStatus | null} status last report
 * @property {{ bytes: number, records: number, rejected: number, lostBytes: number, lostEvents: number, connects: number }} before totals of earlier assignments
 */

export class Fleet {
  /** @type {Map<number, FleetStream>} */
  streams = new Map();

  /**
   * The inventory as it is now.
   * @param {WantedStream[]} wanted
   * @returns {{ streamId: number, worker: number }[]} streams their workers must put down
   */
  want(wanted) {
    const release = [];
    const byId = new Map(wanted.map(spec => [spec.streamId, spec]));
    for (const spec of wanted) {
      if (this.streams.has(spec.streamId)) continue;
      this.streams.set(spec.streamId, {
        spec,
        wanted: spec,
        state: 'free',
        worker: null,
        bytesPerSecond: 0,
        status: null,
        before: { bytes: 0, records: 0, rejected: 0, lostBytes: 0, lostEvents: 0, connects: 0 },
      });
    }
    for (const [streamId, stream] of this.streams) {
      stream.wanted = byId.get(streamId) ?? null;
      if (stream.state === 'free') {
        if (stream.wanted) stream.spec = stream.wanted;
        else this.streams.delete(streamId);
      } else if (stream.state === 'assigned' && !sameSpec(stream.spec, stream.wanted)) {
        stream.state = 'releasing';
        release.push({ streamId, worker: /** @type {number} */ (stream.worker) });
      }
    }
    return release;
  }

  /**
   * @param {number[]} workers that can take streams
   * @returns {{ streamId: number, spec: WantedStream, worker: number }[]} assignments, marked as made
   */
  assign(workers) {
    if (workers.length === 0) return [];
    const load = new Map(workers.map(worker => [worker, 0]));
    for (const { worker, bytesPerSecond } of this.streams.values()) {
      if (worker !== null && load.has(worker)) {
        load.set(worker, (load.get(worker) ?? 0) + bytesPerSecond + STREAM_COST_BYTES_S);
      }
    }
    const assignments = [];
    for (const [streamId, stream] of this.streams) {
      if (stream.state !== 'free') continue;
      const [worker, bytes] = [...load].reduce((least, entry) => (entry[1] < least[1] ? entry : least));
      load.set(worker, bytes + stream.bytesPerSecond + STREAM_COST_BYTES_S);
      stream.state = 'assigned';
      stream.worker = worker;
      assignments.push({ streamId, spec: stream.spec, worker });
    }
    return assignments;
  }

  /** The worker has put it down, or could not take it. @param {number} streamId */
  released(streamId) {
    const stream = this.streams.get(streamId);
    if (!stream) return;
    this.#keepTotals(stream);
    stream.worker = null;
    if (stream.wanted) {
      stream.state = 'free';
      stream.spec = stream.wanted;
    } else {
      this.streams.delete(streamId);
    }
  }

  /** @param {number} worker */
  workerGone(worker) {
    for (const [streamId, stream] of this.streams) if (stream.worker === worker) this.released(streamId);
  }

  /** @param {number} worker @returns {number[]} */
  streamsOf(worker) {
    return [...this.streams].filter(([, stream]) => stream.worker === worker).map(([streamId]) => streamId);
  }

  /**
   * @param {number} worker
   * @param {StreamStatus[]} statuses
   * @param {number} seconds since the last report
   */
  report(worker, statuses, seconds) {
    for (const status of statuses) {
      const stream = this.streams.get(status.streamId);
      if (!stream || stream.worker !== worker) continue;
      const bytes = Math.max(0, status.bytes - (stream.status?.bytes ?? 0));
      stream.bytesPerSecond += RATE_WEIGHT * (bytes / seconds - stream.bytesPerSecond);
      stream.status = status;
    }
  }

  /** @param {FleetStream} stream */
  #keepTotals(stream) {
    for (const key of /** @type {const} */ ([
      'bytes',
      'records',
      'rejected',
      'lostBytes',
      'lostEvents',
      'connects',
    ])) {
      stream.before[key] += stream.status?.[key] ?? 0;
    }
    stream.status = null;
  }
}

/** @param {WantedStream} a @param {WantedStream | null} b */
const sameSpec = (a, b) => JSON.stringify(a) === JSON.stringify(b);
