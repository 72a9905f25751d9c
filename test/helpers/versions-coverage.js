/** What must be in the logs of a workload for a comparison of them to mean something. */
import assert from 'node:assert/strict';
import { CSVLOG_COLUMNS } from '../../src/codec/copy-columns.js';

/** @import { Client } from 'pg' */
/** @import { Size } from './workload-context.js' */

/**
 * Sees that the workload has made the server write what it is for.
 * @param {Client} client
 * @param {number} major
 * @param {Size} size
 */
export async function covered(client, major, size) {
  const columns = CSVLOG_COLUMNS.map(([name]) => name).filter(
    name => major >= 14 || !['leader_pid', 'query_id'].includes(name),
  );
  const { rows } = await client.query(`
    SELECT ${columns.map(name => `count(${name})::int AS ${name}`).join(', ')},
      count(DISTINCT sql_state_code)::int AS states, max(greatest(length(message), length(query)))::int AS longest,
      array_agg(DISTINCT error_severity) AS severities, array_agg(DISTINCT backend_type) AS backends,
      count(*) FILTER (WHERE marks IS NOT NULL)::int AS escaped,
      count(DISTINCT database_name)::int AS databases, count(DISTINCT process_id)::int AS processes,
      count(*) FILTER (WHERE query ~ E'\\n' AND query ~ '"' AND query ~ E'\\r' AND query ~ E'\\x01')::int AS controls,
      count(*) FILTER (WHERE connection_from ~ '^127[.]0[.]0[.]1:')::int AS tcp,
      count(*) FILTER (WHERE message ~ '^duration: .* plan:\\n')::int AS plans
    FROM ours`);
  const [found] = rows;
  for (const [name, value] of Object.entries(found)) assert.notEqual(value, 0, `no ${name}`);
  assert.ok(found.states > 50, `${found.states} SQLSTATEs`);
  assert.ok(found.longest > (size === 'full' ? 6_000_000 : 1_000_000), `longest statement: ${found.longest}`);
  for (const severity of ['DEBUG', 'INFO', 'NOTICE', 'WARNING', 'LOG', 'ERROR', 'FATAL']) {
    assert.ok(found.severities.includes(severity), `no ${severity}`);
  }
  const backends = ['client backend', 'checkpointer', 'parallel worker', 'postmaster', 'walsender'];
  for (const backend of size === 'full' ? [...backends, 'autovacuum worker', 'startup'] : backends) {
    assert.ok(found.backends.includes(backend), `no ${backend}`);
  }
}
