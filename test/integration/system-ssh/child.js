/**
 * A process with a connection, for lifecycle.test.js to kill. argv[2]: ClientConfig as JSON. Runs `cat` twice, the
 * second time on an additional connection; prints "up" and waits.
 */
import { Client } from '../../../src/system-ssh/index.js';

const client = new Client();
client.on('ready', () => {
  client.exec('cat', () => {
    client.exec('cat', () => {
      console.log('up');
    });
  });
});
client.connect(JSON.parse(process.argv[2]));
