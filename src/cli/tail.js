/**
 * `pgsluice tail [NAME...]`: the last records, then those that are stored from now on, each once, until Ctrl-C or until
 * nobody reads what is printed. A storage that goes away is waited for, and what it got meanwhile is printed too.
 * Throws PgsluiceError USAGE, HOST_UNKNOWN and the storage's.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { PgsluiceError } from '../base/errors.js';
import { showValue } from '../base/show-value.js';
import { nearest } from '../config/nearest.js';
import { loadHost } from '../storage/inventory.js';
import { NewRecords } from '../storage/new-records.js';
import { hostNameOperand } from './host-options.js';
import { Output } from './output.js';
import { recordText } from './record-text.js';
import { withStorage } from './with-storage.js';

/** @typedef {import('./context.js').Context} Context */

const LINES_DEFAULT = 10;
const LINES_MAX = 100_000;
const LOOK_MS = 500;
const RETRY_MS = 2_000;
const AT_ONCE_MAX = 500_000; // records between two looks: more are of no use to who reads, and a burden to the storage
const RELATION_GONE = '42P01'; // a partition that was dropped while it was looked for

/** The least grave first, as client_min_messages orders them (PostgreSQL manual); LOG is below NOTICE there. */
const SEVERITIES = ['DEBUG', 'LOG', 'INFO', 'NOTICE', 'WARNING', 'ERROR', 'FATAL', 'PANIC'];

/** @param {Context} context @returns {Promise<number>} exit code */
export async function tail(context) {
  const names = context.operands.map(hostNameOperand);
  const lines = linesOption(context.text('lines'));
  const records = new NewRecords({ hosts: names, severities: severityOption(context.text('severity')) });
  const warnings = new Output(process.stderr);
  /** @param {string} text */
  const warn = text => warnings.labelled('pgsluice: ', text, 'yellow');
  let begun = false;

  for (;;) {
    try {
      await withStorage(context, async ({ client }) => {
        if (!begun) {
          for (const name of names) await loadHost(client, name);
          await print(context, await records.begin(client, lines));
          begun = true;
        } else {
          warn('the storage is back');
        }
        if (!context.flag('no-follow')) await follow(context, client, records, warn);
      });
      return 0;
    } catch (error) {
      if (!begun || !(error instanceof PgsluiceError) || error.code !== 'STORAGE_UNREACHABLE') throw error;
      warn(`${error.message}: it is tried again every ${RETRY_MS / 1000} s`);
    }
    if (records.interrupted > 0) {
      warn(`up to ${records.interrupted} records were not printed, because the storage went away`);
      records.interrupted = 0;
    }
    await sleep(RETRY_MS);
  }
}

/**
 * Returns when nobody reads the output any more.
 * @param {Context} context
 * @param {import('pg').Client} client
 * @param {NewRecords} records
 * @param {(text: string) => void} warn
 */
async function follow(context, client, records, warn) {
  const tell = (/** @type {string[]} */ some) => print(context, some);
  while (!context.output.ended) {
    try {
      const { passedOver, notFound } = await records.look(client, { max: AT_ONCE_MAX, tell });
      if (passedOver > 0) warn(`${passedOver} records came at once and are not printed: see pgsluice.log`);
      if (notFound > 0) warn(`${notFound} records were stored and are not there any more`);
    } catch (error) {
      if (/** @type {{ code?: unknown }} */ (error).code !== RELATION_GONE) throw error;
    }
    await sleep(LOOK_MS);
  }
}

/**
 * Resolves when whoever reads has taken most of it, so that memory holds little.
 * @param {Context} context
 * @param {string[]} records JSON
 */
async function print({ json, output }, records) {
  for (const record of records) {
    if (json) {
      output.jsonText(record);
    } else {
      const { head, text, colour } = recordText(JSON.parse(record));
      output.labelled(head, text, colour, { keepLayout: true });
    }
    await output.drained();
  }
}

/** @param {string | undefined} text */
function linesOption(text) {
  if (text === undefined) return LINES_DEFAULT;
  const lines = Number(text);
  if (/^\d+$/.test(text) && lines <= LINES_MAX) return lines;
  throw new PgsluiceError('USAGE', `--lines ${showValue(text)} is not a number from 0 to ${LINES_MAX}`);
}

/** @param {string | undefined} text @returns {string[] | null} null: all records, also those without a severity */
function severityOption(text) {
  if (text === undefined) return null;
  const index = SEVERITIES.indexOf(text.toUpperCase());
  if (index >= 0) return SEVERITIES.slice(index);
  const close = nearest(text.toUpperCase(), SEVERITIES);
  const hint = close === null ? `one of ${SEVERITIES.join(', ')}` : `did you mean ${close}?`;
  throw new PgsluiceError('USAGE', `--severity ${showValue(text)} is not known: ${hint}`);
}
