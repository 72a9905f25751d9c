// The oldest and the newest PostgreSQL with a short workload; test/all has every version with the long one.
import { postgresVersions } from '../../helpers/postgres-versions.js';
import { testVersions } from '../../helpers/versions-oracle.js';

const versions = postgresVersions();
testVersions([versions[0], versions[versions.length - 1]], 'quick');
