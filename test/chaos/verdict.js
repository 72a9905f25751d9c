/**
 * The end of a chaos run: waits until everything is stored, then compares what is stored with what was written: the rows
 * of PostgreSQL's own COPY of its csv files in all 26 columns, and the lines of the text log.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { checkConservation, checkCounts, csvFiles, waitUntilDrained } from '../helpers/conservation.js';

const DRAIN_MS = 240_000;
const LOOK_MS = 500;

/**
 * @typedef {object} Account
 * @property {number} written records, once for each host that reads them
 * @property {number} stored
 * @property {number} missing
 * @property {number} duplicated stored more often than written, or never written
 * @property {number} rejected
 * @property {Record<string, object>} hosts the same by host
 */

/**
 * @param {import('./world.js').World} world healed, and without load
 * @returns {Promise<Account>}
 */
export async function settleAccounts(world) {
  const client = await world.connect();
  /** @type {Account} */
  const account = { written: 0, stored: 0, missing: 0, duplicated: 0, rejected: 0, hosts: {} };
  try {
    for (const [host, source] of world.readers) {
      await waitUntilDrained(client, host, source.logDir, DRAIN_MS);
      const archived = host.startsWith('extra') ? [] : (world.archived.get(source) ?? []);
      const found = await checkConservation(client, host, [...(await csvFiles(source.logDir)), ...archived]);
      await checkCounts(client, host);
      add(account, host, { ...found, written: found.source });
    }
    add(account, 'text', await checkText(world, client));
    await checkCounts(client, 'text');
  } finally {
    await client.end();
  }
  return account;
}

/**
 * @param {Account} account
 * @param {string} host
 * @param {{ written: number, stored: number, missing: number, duplicated: number, rejected: number }} found
 */
function add(account, host, found) {
  account.hosts[host] = found;
  for (const key of /** @type {const} */ (['written', 'stored', 'missing', 'duplicated', 'rejected'])) {
    account[key] += found[key];
  }
}

/** @param {import('./world.js').World} world @param {import('pg').Client} client */
async function checkText(world, client) {
  const { text } = world;
  const due = text.due;
  const deadline = Date.now() + DRAIN_MS;
  /** @type {string[]} */
  let lines = [];
  for (;;) {
    lines = await world.textLines();
    const stored = new Set(lines);
    if (due.every(line => stored.has(line)) || Date.now() > deadline) break;
    await sleep(LOOK_MS);
  }
  const stored = new Set(lines);
  const written = new Set(text.written);
  const dueLines = new Set(due);
  const { rows } = await client.query(
    `SELECT count(*)::int AS rejected FROM pgsluice.rejected WHERE host = 'text'`,
  );
  const missing = due.filter(line => !stored.has(line));
  // Half of a line that was truncated away while it was read is all that there was of it.
  const unknown = [...stored].filter(
    line => !written.has(line) && !text.written.some(whole => !stored.has(whole) && whole.startsWith(line)),
  );
  return {
    // Of those that were truncated away some were read before.
    written: due.length + [...stored].filter(line => written.has(line) && !dueLines.has(line)).length,
    stored: lines.length,
    missing: missing.length,
    duplicated: lines.length - stored.size + unknown.length,
    rejected: rows[0].rejected,
    samples: { missing: missing.slice(0, 5), unknown: unknown.slice(0, 5) },
  };
}
