/**
 * A stored record as text for people, in the manner of PostgreSQL's own stderr log: one line for time, host, process and
 * message, then DETAIL, HINT, QUERY, CONTEXT, LOCATION and STATEMENT; what follows a newline in them begins with a tab,
 * so that no message can look like the next record. Pure. Control characters are still in it.
 */

/** @typedef {Record<string, string | number | null>} StoredRecord by column of pgsluice.log */

const PARTS = /** @type {const} */ ([
  ['DETAIL', 'detail'],
  ['HINT', 'hint'],
  ['QUERY', 'internal_query'],
  ['CONTEXT', 'context'],
  ['LOCATION', 'location'],
  ['STATEMENT', 'query'],
]);

/** @type {Record<string, 'red' | 'yellow'>} */
const COLOURS = { WARNING: 'yellow', ERROR: 'red', FATAL: 'red', PANIC: 'red' };

/**
 * @param {StoredRecord} record
 * @returns {{ head: string, text: string, colour: 'red' | 'yellow' | 'dim' }} head: up to the severity; text: the rest,
 *   of several lines perhaps, without the last newline
 */
export function recordText(record) {
  const {
    host,
    process_id: pid,
    user_name: user,
    database_name: database,
    error_severity: severity,
  } = record;
  const head = [
    timeText(String(record['log_time'])),
    host,
    ...(pid === null ? [] : [`[${pid}]`]),
    ...(user === null && database === null ? [] : [`${user ?? ''}@${database ?? ''}`]),
    ...(severity === null ? [] : [`${severity}:`]),
  ].join(' ');
  const parts = PARTS.flatMap(([label, column]) => {
    const text = record[column];
    return text === null || text === undefined ? [] : [`\n  ${label}:  ${continued(text)}`];
  });
  return {
    head,
    text: `  ${continued(record['message'] ?? '')}${parts.join('')}`,
    colour: COLOURS[String(severity)] ?? 'dim',
  };
}

/** @param {string | number} text */
const continued = text => String(text).replaceAll('\n', '\n\t');

/** @param {string} time '2026-11-20T16:08:00.12+00:00', as row_to_json writes it in UTC */
function timeText(time) {
  const parts = /^(\d+-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?\+00:00(.*)$/.exec(time);
  if (parts === null) return time;
  const [, date, clock, fraction = '', era] = parts;
  return `${date} ${clock}.${fraction.padEnd(3, '0')} UTC${era}`;
}
