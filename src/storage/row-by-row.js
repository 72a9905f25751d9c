/**
 * Stores rows one by one within the server, and says which of them it refuses: a block of PL/pgSQL inserts each in a
 * subtransaction of its own, so that a row costs microseconds and not a conversation. The rows come through a table of
 * the transaction, as they are in the batch but for one field before the others:
 *   int16 32 | place int4 | stream_id int4 | ...
 * A refusal must be the row's own fault. What is certainly not ends the block as it came; what is not certain is tried
 * once more after the other rows, and counts when it is said again.
 */
import { CSVLOG_COLUMNS, LOG_FIELDS } from '../codec/copy-columns.js';
import { copyIn } from './copy-in.js';

/**
 * @typedef {object} RefusedRow
 * @property {number} place of the row in the batch
 * @property {string} code SQLSTATE
 * @property {string} message
 */

/** @typedef {{ target: string, rows: string, refusals: string }} Tables names within the schema pgsluice */

/**
 * POSIX regular expressions of SQLSTATEs, for JavaScript and for PostgreSQL.
 * @typedef {{ dataFault: RegExp, storageFault: RegExp }} States the rest is not certain
 */

const COLUMNS = [
  'stream_id',
  'file_no',
  'file_offset',
  ...CSVLOG_COLUMNS.map(([name]) => name),
  'duration_ms',
  'marks',
];
const PLACE_BYTES = 4 + 4;
const FIELD_COUNT_BYTES = 2;

export class RowByRow {
  #client;
  #tables;
  #block;

  /**
   * @param {import('pg').Client} client in a transaction
   * @param {Tables} tables
   * @param {States} states
   */
  constructor(client, tables, states) {
    this.#client = client;
    this.#tables = tables;
    this.#block = blockOf(tables, states);
  }

  /**
   * @param {import('pg').Client} client in a transaction, which makes and drops the tables
   * @param {string} target where the rows go, of the schema pgsluice
   * @param {States} states
   */
  static async begin(client, target, states) {
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
    const tables = { target, rows: `trial_row_${rows[0].pid}`, refusals: `trial_refusal_${rows[0].pid}` };
    // Not temporary, which is a privilege of its own: whoever makes partitions may make these.
    await client.query(
      `CREATE UNLOGGED TABLE pgsluice.${tables.rows} AS SELECT 0 AS place, r.* FROM pgsluice.record r WITH NO DATA;
       CREATE UNLOGGED TABLE pgsluice.${tables.refusals} (place integer, code text, message text)`,
    );
    return new RowByRow(client, tables, states);
  }

  /**
   * @param {Buffer} buffer COPY BINARY rows
   * @param {Uint32Array} starts of rows, and where the last one ends
   * @param {number} from place of a row
   * @param {number} to after the last
   * @returns {Promise<RefusedRow[]>} in order; the others are stored
   */
  async store(buffer, starts, from, to) {
    const { rows, refusals } = this.#tables;
    await copyIn(this.#client, rows, withPlaces(buffer, starts, from, to));
    const results = await this.#client.query(
      `${this.#block};
       SELECT place, code, message FROM pgsluice.${refusals} ORDER BY place;
       TRUNCATE pgsluice.${rows}, pgsluice.${refusals}`,
    );
    const [, refused] = /** @type {import('pg').QueryResult[]} */ (/** @type {unknown} */ (results));
    return refused?.rows ?? [];
  }

  async end() {
    const { rows, refusals } = this.#tables;
    await this.#client.query(`DROP TABLE pgsluice.${rows}, pgsluice.${refusals}`);
  }
}

/**
 * @param {Buffer} buffer
 * @param {Uint32Array} starts
 * @param {number} from
 * @param {number} to
 */
function withPlaces(buffer, starts, from, to) {
  const placed = Buffer.allocUnsafe(starts[to] - starts[from] + (to - from) * PLACE_BYTES);
  let at = 0;
  for (let place = from; place < to; place += 1) {
    at = placed.writeInt16BE(LOG_FIELDS + 1, at);
    at = placed.writeInt32BE(4, at);
    at = placed.writeInt32BE(place, at);
    at += buffer.copy(placed, at, starts[place] + FIELD_COUNT_BYTES, starts[place + 1]);
  }
  return placed;
}

/**
 * @param {Tables} tables
 * @param {States} states
 * @returns {string} a statement
 */
function blockOf({ target, rows, refusals }, { dataFault, storageFault }) {
  const insert = `INSERT INTO pgsluice.${target} (${COLUMNS.join(', ')}) VALUES (${COLUMNS.map(name => `one.${name}`).join(', ')})`;
  // ASSERT is not among the others.
  return `DO $block$
DECLARE
  one record;
  state text;
  words text;
  in_table text;
  in_constraint text;
  places integer[];
  states text[];
  messages text[];
  doubtful integer[];
BEGIN
  FOR one IN SELECT * FROM pgsluice.${rows} ORDER BY place LOOP
    BEGIN
      ${insert};
    EXCEPTION WHEN OTHERS OR assert_failure THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, words = MESSAGE_TEXT,
        in_table = TABLE_NAME, in_constraint = CONSTRAINT_NAME;
      -- A CHECK has a name; without one it is a partition that was attached meanwhile.
      IF state !~ '${dataFault.source}' OR state = '23514' AND in_table <> '' AND in_constraint = '' THEN
        IF state ~ '${storageFault.source}' THEN RAISE; END IF;
        doubtful := doubtful || one.place;
      END IF;
      places := places || one.place;
      states := states || state;
      messages := messages || words;
    END;
  END LOOP;
  INSERT INTO pgsluice.${refusals} SELECT * FROM unnest(places, states, messages);
  FOR one IN SELECT r.*, f.code FROM pgsluice.${rows} r JOIN pgsluice.${refusals} f USING (place)
              WHERE place = ANY (doubtful) ORDER BY place LOOP
    BEGIN
      ${insert};
      DELETE FROM pgsluice.${refusals} WHERE place = one.place;
    EXCEPTION WHEN OTHERS OR assert_failure THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE;
      IF state <> one.code THEN RAISE; END IF;
    END;
  END LOOP;
END $block$`;
}
