/**
 * A process that may write no file (ulimit -f 0, as a full disk does it), for errors.test.js: connects and prints what
 * comes of it. argv[2]: ClientConfig as JSON.
 */
import { Client } from '../../../src/system-ssh/index.js';

const client = new Client();
client.on('error', error => console.log(error.code, error.message));
client.on('close', () => console.log('closed'));
client.connect(JSON.parse(process.argv[2] ?? ''));
