/**
 * Creates and upgrades the storage schema: numbered SQL files, each applied once, in order, in one transaction under
 * an advisory lock, so that any number of commands and daemons may start at once.
 * Throws STORAGE_SCHEMA_NEWER when the schema was made by a newer pgsluice, STORAGE_UNFIT when the server cannot serve.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { PgsluiceError } from '../base/errors.js';

const MIGRATION_LOCK = 0x7067_736c; // 'pgsl'; any constant of our own will do
const OLDEST_SERVER = 140_000; // PostgreSQL 14, the oldest that is tested

const directory = new URL('migrations/', import.meta.url);

/** @returns {{ number: number, name: string, sql: string }[]} */
function migrations() {
  return readdirSync(directory)
    .filter(name => /^\d{4}-.*\.sql$/.test(name))
    .toSorted()
    .map(name => ({
      number: Number(name.slice(0, 4)),
      name,
      sql: readFileSync(new URL(name, directory), 'utf8'),
    }));
}

/**
 * @param {import('pg').Client} client
 * @returns {Promise<{ from: number, to: number }>} schema numbers before and after; 0 is no schema
 */
export async function migrate(client) {
  await checkServer(client);
  const known = migrations();
  const newest = known.at(-1)?.number ?? 0;
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    const exists = await client.query(`SELECT to_regclass('pgsluice.migration') IS NOT NULL AS exists`);
    if (!exists.rows[0].exists) {
      await client.query('CREATE SCHEMA IF NOT EXISTS pgsluice');
      await client.query(
        'CREATE TABLE pgsluice.migration (number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
      );
    }
    const from = await schemaNumber(client);
    if (from > newest) throw schemaNewer(from, newest);
    for (const { number, name, sql } of known) {
      if (number <= from) continue;
      await client.query('INSERT INTO pgsluice.migration (number, name) VALUES ($1, $2)', [number, name]);
      await client.query(sql);
    }
    await client.query('COMMIT');
    return { from, to: newest };
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** @param {import('pg').Client} client */
async function schemaNumber(client) {
  const result = await client.query('SELECT coalesce(max(number), 0) AS number FROM pgsluice.migration');
  return Number(result.rows[0].number);
}

/** @param {number} found @param {number} newest */
function schemaNewer(found, newest) {
  return new PgsluiceError(
    'STORAGE_SCHEMA_NEWER',
    `the storage has schema ${found}, this pgsluice knows ${newest}: start the pgsluice that made it, or a newer one`,
  );
}

/** @param {import('pg').Client} client */
async function checkServer(client) {
  const result = await client.query(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS text,
            pg_encoding_to_char(encoding) AS encoding, pg_is_in_recovery() AS recovering
       FROM pg_database WHERE datname = current_database()`,
  );
  const { version, text, encoding, recovering } = result.rows[0];
  if (version < OLDEST_SERVER) {
    throw new PgsluiceError(
      'STORAGE_UNFIT',
      `the storage is PostgreSQL ${text}: version 14 or newer is needed`,
    );
  }
  if (encoding !== 'UTF8') {
    throw new PgsluiceError(
      'STORAGE_UNFIT',
      `the storage database has encoding ${encoding}: create one with ENCODING 'UTF8' and name it in storage.url`,
    );
  }
  if (recovering) {
    throw new PgsluiceError(
      'STORAGE_UNFIT',
      'the storage is a standby, which cannot be written: name its primary in storage.url',
    );
  }
}
