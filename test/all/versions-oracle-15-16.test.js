// PostgreSQL 15 and 16 with the long workload; in pairs, so that no file takes too long.
import { postgresVersions } from '../helpers/postgres-versions.js';
import { testVersions } from '../helpers/versions-oracle.js';

testVersions(
  postgresVersions().filter(major => major === 15 || major === 16),
  'full',
);
