/** What happens to log files on real hosts, with the real follower under busybox and a real storage. */
import { fileCases } from '../../helpers/rotation-suite.js';

fileCases('busybox');
