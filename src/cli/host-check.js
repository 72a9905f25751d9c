/**
 * `pgsluice host check NAME`: connects as the daemon would and reports, line by line, what it found.
 * Returns 0 when all is usable and 1 when something is not; throws PgsluiceError (exit code 4) when the host is not
 * reachable or refused, after the JSON report when --json was given.
 */
import { PgsluiceError } from '../base/errors.js';
import { loadHost } from '../storage/inventory.js';
import { ANY_LOG, assessLog } from './assess-log.js';
import { showAddress } from './describe-host.js';
import { fingerprint } from './host-key.js';
import { hostNameOperand } from './host-options.js';
import { probeHost } from './probe-host.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */
/** @typedef {import('../storage/inventory.js').HostRow} HostRow */
/** @typedef {import('./assess-log.js').LogReport} LogReport */

/** Records keep the server's own times, so a difference loses nothing, but it misleads who compares hosts. */
const CLOCK_TOLERANCE_MS = 5000;

/**
 * @typedef {object} CheckReport
 * @property {string} host
 * @property {boolean} ok
 * @property {{ ok: boolean, transport: string, address: string, port: number, user: string | null, connectMs: number | null,
 *   hostKeys: { type: string, fingerprint: string }[], error: { code: string, message: string } | null }} ssh
 * @property {{ system: string, user: string, missingTools: string[], clockSkewMs: number } | null} remote
 * @property {LogReport[]} logs
 * @property {string[]} problems of the host itself
 * @property {string[]} warnings
 */

/** @param {Context} context @returns {Promise<number>} */
export async function hostCheck(context) {
  const name = hostNameOperand(context.operands[0] ?? '');
  const host = await withStorage(context, ({ client }) => loadHost(client, name));
  let probe;
  try {
    probe = await probeHost(host, { logs: host.streams.map(({ path }) => path), discover: false }, context);
  } catch (error) {
    if (context.json && error instanceof PgsluiceError) {
      const { code, message } = error;
      context.output.json({ ...emptyReport(host), ssh: { ...describeSsh(host), error: { code, message } } });
    }
    throw error;
  }
  const report = makeReport(host, probe);
  if (context.json) context.output.json(report);
  else printReport(context.output, report, host);
  return report.ok ? 0 : 1;
}

/** @param {HostRow} host @returns {CheckReport} of a host that did not answer */
function emptyReport(host) {
  return {
    host: host.name,
    ok: false,
    ssh: describeSsh(host),
    remote: null,
    logs: [],
    problems: [],
    warnings: [],
  };
}

/** @param {HostRow} host @returns {CheckReport['ssh']} */
function describeSsh({ transport, address, port, username, hostKeys }) {
  const keys = hostKeys.map(key => ({ type: key.split(' ')[0] ?? '', fingerprint: fingerprint(key) }));
  return {
    ok: false,
    transport,
    address,
    port,
    user: username,
    connectMs: null,
    hostKeys: keys,
    error: null,
  };
}

/** @param {HostRow} host @param {import('./probe-host.js').Probe} probe @returns {CheckReport} */
function makeReport(host, { facts, connectMs, clockSkewMs }) {
  const { system, user, missingTools } = facts;
  const reader = { user, sudo: host.sudoUser !== null };
  const logs = facts.logs.map((log, index) => assessLog(log, reader, host.streams[index] ?? ANY_LOG));
  const problems = missingTools.map(
    tool => `${tool} is missing there: the follower needs it (coreutils and findutils, or busybox)`,
  );
  const warnings =
    Math.abs(clockSkewMs) > CLOCK_TOLERANCE_MS
      ? [`its clock is ${describeSkew(clockSkewMs)}: is time synchronised?`]
      : [];
  if (host.streams.length === 0)
    problems.push('it has no log to follow: remove it, and add it again with --log');
  return {
    host: host.name,
    ok: problems.length === 0 && logs.every(log => log.problems.length === 0),
    ssh: { ...describeSsh(host), ok: true, connectMs },
    remote: { system, user, missingTools, clockSkewMs },
    logs,
    problems,
    warnings,
  };
}

/** @param {number} ms @returns {string} */
function describeSkew(ms) {
  return ms === 0 ? 'as ours' : `${Math.abs(ms) / 1000} s ${ms > 0 ? 'ahead of' : 'behind'} ours`;
}

/**
 * @param {import('./output.js').Output} output
 * @param {CheckReport} report
 * @param {HostRow} host
 */
function printReport(output, { ssh, remote, logs, problems, warnings }, host) {
  /** @param {string} text */
  const good = text => output.labelled('ok    ', text, 'green');
  /** @param {string} text */
  const bad = text => output.labelled('bad   ', text, 'red');
  if (ssh.transport === 'local') good('local: this machine, without SSH');
  else
    good(
      `ssh ${showAddress({ ...ssh, user: host.username })} (${ssh.transport}), connected in ${ssh.connectMs} ms`,
    );
  for (const key of ssh.transport === 'local' ? [] : ssh.hostKeys)
    good(`host key ${key.fingerprint} (${key.type})`);
  if (remote !== null) {
    good(`system ${remote.system}, user ${remote.user}, clock ${describeSkew(remote.clockSkewMs)}`);
    if (remote.missingTools.length === 0) good('tools of the follower');
  }
  for (const warning of warnings) output.labelled('note  ', warning, 'yellow');
  for (const problem of problems) bad(problem);
  for (const log of logs) {
    const say = log.problems.length === 0 ? good : bad;
    say(`${log.path}: ${describeLog(log)}`);
    for (const problem of log.problems) bad(`  ${problem}`);
    for (const note of log.notes) output.labelled('note  ', `  ${note}`, 'yellow');
  }
}

/** @param {LogReport} log @returns {string} */
function describeLog(log) {
  const { kind, unit, version, files, bytes, newest, format, why, columns } = log;
  const server = version === null ? '' : ` of PostgreSQL ${version}`;
  const parts = [unit === null ? `${kind}${server}` : `${kind}, unit ${unit}`];
  if (kind === 'data directory' || kind === 'log directory' || kind === 'file')
    parts.push(`${files} file${files === 1 ? '' : 's'}, ${bytes} bytes`);
  if (newest !== null) parts.push(`newest ${newest.name} (${newest.size} bytes, ${newest.modifiedAt})`);
  if (format !== null)
    parts.push(`read as ${format}${columns === null ? '' : ` with ${columns} columns`} (${why})`);
  if (log.linePrefix !== null) parts.push(`log_line_prefix '${log.linePrefix}' (${log.linePrefixFrom})`);
  if (log.timeZone !== null) parts.push(`log_timezone ${log.timeZone} (${log.timeZoneFrom})`);
  return parts.join('; ');
}
