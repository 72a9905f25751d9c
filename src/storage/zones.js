/**
 * Time zone abbreviations with their offsets, as the storage reads them: a time in a log means what PostgreSQL's own
 * COPY of that log into the storage would make of it.
 * @param {import('pg').Client} client
 * @returns {Promise<Map<string, number>>} abbreviation -> seconds east of UTC
 */
export async function loadZones(client) {
  const result = await client.query(
    'SELECT abbrev, extract(epoch FROM utc_offset)::int AS seconds FROM pg_catalog.pg_timezone_abbrevs',
  );
  const zones = new Map([
    ['UTC', 0],
    ['GMT', 0],
  ]);
  for (const { abbrev, seconds } of result.rows) zones.set(abbrev, seconds);
  return zones;
}
