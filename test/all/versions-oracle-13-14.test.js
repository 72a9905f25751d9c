// PostgreSQL 13 and 14 with the long workload; in pairs, so that no file takes too long.
import { postgresVersions } from '../helpers/postgres-versions.js';
import { testVersions } from '../helpers/versions-oracle.js';

testVersions(
  postgresVersions().filter(major => major === 13 || major === 14),
  'full',
);
