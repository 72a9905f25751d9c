/**
 * Whether our own clock can be trusted with dropping partitions: what the monitored hosts say of theirs is held against
 * it. A clock that jumped ahead by years would drop every record there is. Pure.
 */

const HOUR_MS = 3_600_000;
const TOLERANCE_MS = 12 * HOUR_MS; // partitions are days

/** @typedef {Pick<import('./fleet.js').FleetStream, 'spec' | 'status'>} ClockWitness */

/**
 * @param {Iterable<ClockWitness>} streams all streams
 * @returns {string | null} why it is in doubt; null: the clocks of most hosts are ours, or there is no host but this one
 */
export function doubtClock(streams) {
  const hosts = new Map();
  let others = 0;
  for (const { spec, status } of streams) {
    // Its clock is ours.
    if (spec.transport === 'local') continue;
    others += 1;
    // A heartbeat tells the lag, and the clock.
    if (status?.mode === 'reading' && status.lagBytes !== null)
      hosts.set(spec.host.hostId, status.clockSkewMs);
  }
  if (others === 0) return null;
  if (hosts.size === 0) return 'no host can be asked what time it is';
  const skews = [...hosts.values()].toSorted((a, b) => a - b);
  // A few hosts that lie, or are wrong themselves, do not decide.
  const median = skews[Math.floor(skews.length / 2)] ?? 0;
  if (Math.abs(median) <= TOLERANCE_MS) return null;
  const hours = Math.round(Math.abs(median) / HOUR_MS);
  return `the clocks of most hosts are ${hours} h ${median < 0 ? 'behind' : 'ahead of'} ours`;
}
