/**
 * Probes a host: what is there of the given logs, or of the clusters that run there.
 * Throws what run-on-host.js throws, and FOLLOWER_PROTOCOL for an answer that is none.
 */
import { PgsluiceError } from '../base/errors.js';
import { PROBE_MAX_BYTES, parseProbe, probeCommand, probeInput } from '../follower/probe.js';
import { runOnHost } from './run-on-host.js';

/** @typedef {import('../storage/inventory.js').HostFields} HostFields */

const TIMEOUT_MS = 30_000;

/**
 * @typedef {object} Probe
 * @property {import('../follower/probe.js').ProbeFacts} facts
 * @property {number} connectMs
 * @property {number} clockSkewMs remote clock minus ours, in whole seconds
 */

/**
 * @param {HostFields & { name: string }} host
 * @param {{ logs: string[], discover: boolean }} wanted
 * @param {import('./context.js').Context} context
 * @returns {Promise<Probe>}
 */
export async function probeHost(host, wanted, context) {
  const { bytes, connectMs, receivedAt } = await runOnHost(
    host,
    {
      command: probeCommand(host.sudoUser),
      input: probeInput(wanted),
      maxBytes: PROBE_MAX_BYTES,
      timeoutMs: TIMEOUT_MS,
      end: '\nE\n',
    },
    context,
  );
  try {
    const facts = parseProbe(bytes, wanted);
    // Its clock is told in whole seconds: half a second is the best guess of the rest.
    const skewMs = facts.clock * 1000 + 500 - receivedAt;
    return { facts, connectMs: Math.round(connectMs), clockSkewMs: Math.round(skewMs / 1000) * 1000 };
  } catch (error) {
    if (!(error instanceof PgsluiceError)) throw error;
    throw new PgsluiceError(error.code, `${host.name}: ${error.message}`, { cause: error });
  }
}
