// PostgreSQL 17 and 18 with the long workload; in pairs, so that no file takes too long.
import { postgresVersions } from '../helpers/postgres-versions.js';
import { testVersions } from '../helpers/versions-oracle.js';

testVersions(
  postgresVersions().filter(major => major === 17 || major === 18),
  'full',
);
