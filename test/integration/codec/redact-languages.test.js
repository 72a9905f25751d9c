/**
 * Redaction of what a real server says in other languages, in every format, and in stderr with no SQLSTATE: each class
 * takes the same secrets out as in English. It may take more.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { REDACT_CLASSES } from '../../../src/base/redact-classes.js';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { Redactor } from '../../../src/codec/redact.js';
import { runParser } from '../../fuzz/parser-run.js';
import { tellSecrets, WORD, wordsOf } from '../../helpers/secrets.js';
import { startTranslatedPostgres } from '../../helpers/translated-postgres.js';
import { until } from '../../helpers/until.js';

/**
 * German quotes with other letters and begins with ASCII, Spanish has English severities, Italian knows nothing but
 * ASCII, Japanese none of it and begins with the name. The others of the package are like one of these.
 */
const LANGUAGES = ['de', 'es', 'it', 'ja'];
const FORMATS = /** @type {const} */ ({ log: 'stderr', csv: 'csvlog', json: 'jsonlog' });

/** @type {Awaited<ReturnType<typeof startTranslatedPostgres>>} */
let server;
/** What was written in each language. @type {Map<string, Record<string, Buffer>>} */
const logs = new Map();

before(async () => {
  server = await startTranslatedPostgres({
    logging_collector: 'on',
    log_destination: 'stderr,csvlog,jsonlog',
    log_filename: 'postgresql.log',
    log_line_prefix: '%m [%p] ',
    log_timezone: 'UTC',
    log_statement: 'all',
    log_connections: 'on',
    deadlock_timeout: '50ms',
    max_connections: '50',
  });
  const { postgres } = server;
  const read = (/** @type {string} */ end) => readFileSync(path.join(postgres.logDir, `postgresql.${end}`));
  for (const language of LANGUAGES) {
    const database = await postgres.createDatabase(`secrets_${language}`);
    await postgres.query(`ALTER SYSTEM SET lc_messages = '${language}.UTF-8'`);
    await postgres.query('SELECT pg_reload_conf()');
    await untilShown(database, `${language}.UTF-8`);
    const starts = Object.fromEntries(Object.keys(FORMATS).map(end => [end, read(end).length]));
    await tellSecrets(database);
    await postgres.query(`DO $$ BEGIN RAISE LOG 'the end of %', '${language}'; END $$`);
    const ends = Object.keys(FORMATS);
    await until(async () => ends.every(end => read(end).includes(`the end of ${language}`)), 'the end');
    logs.set(
      language,
      Object.fromEntries(Object.keys(FORMATS).map(end => [end, read(end).subarray(starts[end])])),
    );
  }
});
after(() => server?.stop());

/** The new setting reaches sessions that begin after the postmaster has read it. @param {import('pg').ClientConfig} database @param {string} locale */
function untilShown(database, locale) {
  return until(async () => {
    const client = new Client(database);
    await client.connect();
    const { rows } = await client.query('SHOW lc_messages');
    await client.end();
    return rows[0].lc_messages === locale;
  }, locale);
}

/** @param {Buffer} bytes @param {(typeof FORMATS)[keyof typeof FORMATS]} format */
function rowsOf(bytes, format) {
  const { raw } = runParser(bytes, [65_536], {
    format,
    prefixes: { current: null, given: false },
    maxRecordBytes: 1 << 20,
    maxRejectedBytes: 1 << 20,
    windowBytes: 65_536,
    timeZone: null,
    decoderOf: () => null,
  });
  return raw;
}

/** @param {Buffer} raw rows @param {readonly import('../../../src/base/redact-classes.js').RedactClass[]} classes */
function wordsLeft(raw, classes) {
  const rows = new CopyBuffer(raw.length);
  rows.ensure(raw.length);
  rows.length = raw.copy(rows.buffer);
  if (classes.length > 0) new Redactor(classes).redact(rows, 0);
  return new Set(Buffer.from(rows.bytes()).toString('latin1').match(WORD));
}

for (const [end, format] of /** @type {[keyof typeof FORMATS, (typeof FORMATS)[keyof typeof FORMATS]][]} */ (
  Object.entries(FORMATS)
)) {
  for (const language of LANGUAGES) {
    test(`${format} in ${language}: each class takes its secrets out, all take everything`, () => {
      const raw = rowsOf(logs.get(language)?.[end] ?? Buffer.alloc(0), format);
      const written = wordsLeft(raw, []);
      const leaks = REDACT_CLASSES.map(name => {
        assert.ok(wordsOf(written, name).length > 0, name);
        return [name, wordsOf(wordsLeft(raw, [name]), name).join(' ')];
      });
      assert.deepEqual(
        leaks.filter(([, left]) => left !== ''),
        [],
      );
      assert.deepEqual([...wordsLeft(raw, REDACT_CLASSES)], []);
    });
  }
}
