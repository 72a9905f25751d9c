/** What happens to log files on real hosts, with the real follower under bash and a real storage. */
import { fileCases } from '../../helpers/rotation-suite.js';

fileCases('bash');
