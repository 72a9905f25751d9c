/**
 * Policy: which worker reads which stream. Pure: it is told what happened and asked what to do, and does no I/O.
 * A stream is `free` (to be assigned), `assigned`, or `releasing` (its worker is putting it down; it becomes free
 * with its new specification, or is forgotten). It is assigned to the worker with the least measured byte rate; a
 * stream counts at least STREAM_COST, so that a thousand quiet ones are spread, too.
 */

/** @typedef {Omit<import('../ipc/messages.js').StreamSpec, 'epoch'>} WantedStream */
/** @typedef {import('../ipc/messages.js').StreamStatus} StreamStatus */

const STREAM_COST_BYTES_S = 1_000;
// Reports come every second. A worker that puts a stream down may have to wait for the storage.
const MISSED_MAX = 5;
const RELEASING_MISSED_MAX = 30;
const RATE_WEIGHT = 0.2; // of the newest second in the moving average

/** @typedef {{ streamId: number, worker: number, epoch: number }} Holding who holds a stream, under which assignment */

/**
 * @typedef {object} FleetStream
 * @property {WantedStream} spec as it was assigned
 * @property {WantedStream | null} wanted null: to be forgotten
 * @property {'free' | 'assigned' | 'releasing'} state
 * @property {number | null} worker
 * @property {number | null} epoch of its assignment; null: none, or not told yet
 * @property {number} missed reports of its worker that do not name it
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
   * @returns {Holding[]} streams their workers must put down
   */
  want(wanted) {
    /** @type {Holding[]} */
    const release = [];
    const byId = new Map(wanted.map(spec => [spec.streamId, spec]));
    for (const spec of wanted) {
      if (this.streams.has(spec.streamId)) continue;
      this.streams.set(spec.streamId, {
        spec,
        wanted: spec,
        state: 'free',
        worker: null,
        epoch: null,
        missed: 0,
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
        stream.missed = 0;
        const { worker, epoch } = stream;
        // One that has not been told of it yet is not told any more.
        if (worker !== null && epoch !== null) release.push({ streamId, worker, epoch });
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
      stream.epoch = null;
      stream.missed = 0;
      assignments.push({ streamId, spec: stream.spec, worker });
    }
    return assignments;
  }

  /**
   * The assignment has its epoch.
   * @param {Holding} holding
   * @returns {boolean} whether it still stands: then the worker is told
   */
  assigned({ streamId, worker, epoch }) {
    const stream = this.streams.get(streamId);
    if (!stream || stream.worker !== worker || stream.epoch !== null) return false;
    stream.epoch = epoch;
    if (stream.state === 'assigned') return true;
    this.released(streamId);
    return false;
  }

  /** A worker says that it has put a stream down: that counts if it is the one that holds it. @param {Holding} holding */
  releasedBy({ streamId, worker, epoch }) {
    const stream = this.streams.get(streamId);
    if (stream?.worker === worker && stream.epoch === epoch) this.released(streamId);
  }

  /** The worker has put it down, or could not take it. @param {number} streamId */
  released(streamId) {
    const stream = this.streams.get(streamId);
    if (!stream) return;
    this.#keepTotals(stream);
    stream.worker = null;
    stream.epoch = null;
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
   * @returns {Holding[]} what the worker must put down, and has not heard of, or has been assigned to others since
   */
  report(worker, statuses, seconds) {
    /** @type {Holding[]} */
    const strays = [];
    for (const stream of this.streams.values()) if (stream.worker === worker) stream.missed += 1;
    for (const status of statuses) {
      const stream = this.streams.get(status.streamId);
      if (stream?.worker !== worker || stream.epoch !== status.epoch || stream.state === 'releasing')
        strays.push({ streamId: status.streamId, worker, epoch: status.epoch });
      if (stream?.worker !== worker || stream.epoch !== status.epoch) continue;
      stream.missed = 0;
      const bytes = Math.max(0, status.bytes - (stream.status?.bytes ?? 0));
      stream.bytesPerSecond += RATE_WEIGHT * (bytes / seconds - stream.bytesPerSecond);
      stream.status = status;
    }
    for (const [streamId, { worker: holder, epoch, state, missed }] of this.streams) {
      if (holder !== worker || epoch === null) continue;
      if (missed > (state === 'releasing' ? RELEASING_MISSED_MAX : MISSED_MAX)) this.released(streamId);
    }
    return strays;
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
