/**
 * COPY FROM STDIN of rows that are in memory as one piece.
 * Rejects with what PostgreSQL or the connection said; the connection can be used again after an error of PostgreSQL.
 */
import { from as copyFrom } from 'pg-copy-streams';
import { COPY_HEADER, COPY_TRAILER } from '../codec/copy-buffer.js';

/**
 * @param {import('pg').Client} client
 * @param {string} table of the schema pgsluice
 * @param {Buffer} rows COPY BINARY rows; must not change before the promise is settled
 * @param {{ before?: string, after?: string }} [statements] sent with it, so that they cost no time of their own
 * @returns {Promise<void>}
 */
export function copyIn(client, table, rows, { before = '', after = '' } = {}) {
  return new Promise((resolve, reject) => {
    const stream = client.query(
      copyFrom(`${before}COPY pgsluice.${table} FROM STDIN (FORMAT binary)${after}`),
    );
    stream.on('error', reject);
    stream.on('finish', () => resolve());
    stream.write(COPY_HEADER);
    stream.write(rows);
    stream.end(COPY_TRAILER);
  });
}
