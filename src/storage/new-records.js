/**
 * The records that were stored since the last look, each once and none left out, without an index: a record is new when
 * its place in its file is not before the position that the file had at the last look, because position and records
 * are committed together. They are searched where they most likely are, at the end of the partitions that grew; the
 * count of their stream tells whether that was all, and if not, more is searched, in the end everything. That is needed
 * only when a place was filled that had become free further in front.
 * All that one look reads is of one moment. Errors are pg's own.
 */
import { lastRecords } from './last-records.js';
import { COLUMNS, inSnapshot, loadPartitions, NAMES, rowsIn } from './log-rows.js';

// Batches that are stored at the same time leave places free between them.
const NEAR_BLOCKS = 4096;
const FAR_BLOCKS = 65_536;
const IDLE_BLOCKS = 64; // of a partition that did not grow
const FETCH_ROWS = 500;

/**
 * One after another until all is found: the block of a partition to begin with, or null: not in this one.
 * @type {((partition: Partition) => number | null)[]}
 */
const SEARCHES = [
  ({ before, hot }) => (hot ? before - NEAR_BLOCKS : null),
  ({ before, hot }) => before - (hot ? FAR_BLOCKS : IDLE_BLOCKS),
  () => 0,
];

/**
 * @typedef {object} Partition
 * @property {string} name
 * @property {number} before blocks at the last look
 * @property {boolean} hot has grown since then, or had new records then
 */

/** @typedef {import('./log-rows.js').BlockRange} BlockRange */
/** @typedef {Map<number, Map<number, number>>} Places offsets by stream and file number */

/**
 * What a look does not tell, in records.
 * @typedef {object} Untold
 * @property {number} passedOver there are more than was asked for
 * @property {number} notFound counted, but not there: somebody has deleted them
 */

/** Of some hosts, or of all. */
export class NewRecords {
  #hosts;
  #severities;
  /** records of each stream at the last look @type {Map<number, number>} */
  #counts = new Map();
  /** at the last look @type {Places} */
  #places = new Map();
  /** blocks of each partition at the last look @type {Map<string, number>} */
  #blocks = new Map();
  /** partitions that had new records at the last look @type {Set<string>} */
  #recent = new Set();

  /** records of the last look that were not all told, because the connection ended meanwhile */
  interrupted = 0;

  /**
   * @param {object} options
   * @param {readonly string[]} options.hosts names; none: all
   * @param {readonly string[] | null} options.severities those of error_severity that are told; null: all
   */
  constructor({ hosts, severities }) {
    this.#hosts = hosts.length > 0 ? hosts : null;
    this.#severities = severities;
  }

  /**
   * The first look: what is stored now is not new any more.
   * @param {import('pg').Client} client outside of a transaction
   * @param {number} count so many of the last records are told
   * @returns {Promise<string[]>} as of lastRecords
   */
  async begin(client, count) {
    return inSnapshot(client, async () => {
      this.#counts = await this.#loadCounts(client);
      const streamIds = [...this.#counts.keys()];
      this.#places = await loadPlaces(client, streamIds);
      await this.#partitions(client);
      return lastRecords(client, { streamIds, severities: this.#severities, count });
    });
  }

  /**
   * @param {import('pg').Client} client outside of a transaction
   * @param {object} options
   * @param {number} options.max when there are more new records than this, none of them is told
   * @param {(records: string[]) => Promise<void>} options.tell gets them in the order of log_time, a part at a time, each
   *   a JSON object with the columns of pgsluice.log. It may take its time: nothing in the storage waits for it
   * @returns {Promise<Untold>}
   */
  async look(client, { max, tell }) {
    const untold = { passedOver: 0, notFound: 0 };
    const seen = await inSnapshot(client, async () => {
      const counts = await this.#loadCounts(client);
      let expected = 0;
      const grown = [];
      for (const [id, count] of counts) {
        const more = count - (this.#counts.get(id) ?? 0);
        if (more <= 0) continue;
        grown.push(id);
        expected += more;
      }
      if (expected === 0) return null;
      const places = await loadPlaces(client, grown);
      const partitions = await this.#partitions(client);
      if (expected > max) {
        untold.passedOver = expected;
        return { counts, places, recent: this.#recent, found: 0 };
      }
      const since = this.#since(places);
      const { ranges, records } = await search(client, partitions, since, expected);
      untold.notFound = expected - records;
      if (ranges.length > 0) await this.#declare(client, ranges, since);
      return { counts, places, recent: new Set(ranges.map(({ name }) => name)), found: records };
    });
    if (seen === null) return untold;
    // Only now: a look that failed is made again.
    this.#counts = seen.counts;
    for (const [id, offsets] of seen.places) this.#places.set(id, offsets);
    this.#recent = seen.recent;
    this.interrupted = seen.found;
    if (seen.found > 0) await fetchAll(client, tell);
    this.interrupted = 0;
    return untold;
  }

  /** @param {import('pg').Client} client @returns {Promise<Map<number, number>>} records by stream */
  async #loadCounts(client) {
    const { rows } = await client.query({
      text: `SELECT s.stream_id, s.records FROM pgsluice.stream s JOIN pgsluice.host h USING (host_id)
              WHERE $1::text[] IS NULL OR h.name = ANY($1)`,
      values: [this.#hosts],
      rowMode: 'array',
    });
    return new Map(rows.map(([id, records]) => [id, Number(records)]));
  }

  /** @param {import('pg').Client} client @returns {Promise<Partition[]>} */
  async #partitions(client) {
    const now = await loadPartitions(client);
    const partitions = now.map(({ name, blocks }) => {
      // It may have been truncated by VACUUM.
      const before = Math.min(blocks, this.#blocks.get(name) ?? 0);
      return { name, before, hot: blocks > before || this.#recent.has(name) };
    });
    this.#blocks = new Map(now.map(({ name, blocks }) => [name, blocks]));
    return partitions;
  }

  /** @param {Places} places @returns {unknown[]} the parameters of NEW: files that advanced, and from where */
  #since(places) {
    const advanced = [...places].flatMap(([id, offsets]) =>
      [...offsets].flatMap(([fileNo, offset]) => {
        const before = this.#places.get(id)?.get(fileNo) ?? 0;
        return offset > before ? [{ id, fileNo, before }] : [];
      }),
    );
    return [
      advanced.map(({ id }) => id),
      advanced.map(({ fileNo }) => fileNo),
      advanced.map(({ before }) => before),
    ];
  }

  /**
   * A cursor that outlives the transaction: the server keeps its rows, and nobody waits for who reads them.
   * @param {import('pg').Client} client
   * @param {BlockRange[]} ranges
   * @param {unknown[]} since
   */
  async #declare(client, ranges, since) {
    await client.query(
      `DECLARE new_records NO SCROLL CURSOR WITH HOLD FOR
       SELECT row_to_json(l)::text
         FROM (SELECT ${COLUMNS}
                 FROM (${ranges.map(range => rowsIn(range)).join(' UNION ALL ')}) r ${NEW} ${NAMES}
                WHERE $4::text[] IS NULL OR r.error_severity = ANY($4)
                ORDER BY r.log_time, r.stream_id, r.file_no, r.file_offset) l`,
      [...since, this.#severities],
    );
  }
}

/** Leaves of rows r those that are new. */
const NEW = `JOIN unnest($1::int[], $2::int[], $3::bigint[]) n(stream_id, file_no, place)
                   ON n.stream_id = r.stream_id AND n.file_no = r.file_no AND n.place <= r.file_offset`;

/**
 * @param {import('pg').Client} client
 * @param {Partition[]} partitions
 * @param {unknown[]} since
 * @param {number} expected records
 * @returns {Promise<{ ranges: BlockRange[], records: number }>} where they are, and how many
 */
async function search(client, partitions, since, expected) {
  /** @type {BlockRange[]} */
  let ranges = [];
  let records = 0;
  for (const beginning of SEARCHES) {
    ranges = [];
    records = 0;
    for (const partition of partitions) {
      const from = beginning(partition);
      if (from === null) continue;
      const range = { name: partition.name, from: Math.max(0, from) };
      const { rows } = await client.query(
        `SELECT count(*)::int AS records FROM (${rowsIn(range, 'stream_id, file_no, file_offset')}) r ${NEW}`,
        since,
      );
      if (rows[0].records > 0) ranges.push(range);
      records += rows[0].records;
      if (records >= expected) return { ranges, records };
    }
  }
  return { ranges, records };
}

/** @param {import('pg').Client} client @param {number[]} streamIds @returns {Promise<Places>} */
async function loadPlaces(client, streamIds) {
  /** @type {Places} */
  const places = new Map(streamIds.map(id => [id, new Map()]));
  const { rows } = await client.query({
    text: 'SELECT stream_id, file_no, "offset" FROM pgsluice.file WHERE stream_id = ANY($1)',
    values: [streamIds],
    rowMode: 'array',
  });
  for (const [id, fileNo, offset] of rows) places.get(id)?.set(fileNo, Number(offset));
  return places;
}

/** @param {import('pg').Client} client @param {(records: string[]) => Promise<void>} tell */
async function fetchAll(client, tell) {
  for (;;) {
    const { rows } = await client.query({ text: `FETCH ${FETCH_ROWS} FROM new_records`, rowMode: 'array' });
    if (rows.length > 0) await tell(rows.map(([json]) => json));
    if (rows.length < FETCH_ROWS) break;
  }
  await client.query('CLOSE new_records');
}
