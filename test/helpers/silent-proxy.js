/**
 * A TCP proxy that can fail as networks do: from silence() on nothing is forwarded in either direction and nobody is
 * told (no FIN, no RST), for connections that exist and new ones; it can also be slow. The kernels at both ends still
 * have a living peer, so that TCP's own keepalive notices nothing: who does notice has a limit of its own.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/**
 * @param {{ host?: string, port: number }} target
 * @returns {Promise<{ port: number, silence: () => void, speak: () => void, cut: () => void,
 *   strand: () => void, slow: (bytesPerSecond: number) => void, accepted: () => number, open: () => number, close: () => Promise<void> }>}
 *   speak: what was held back is forwarded; cut: ends all connections;
 *   strand: ends them for the clients, while the server is not told; slow: 0 is as fast as it goes
 */
export async function startSilentProxy({ host = '127.0.0.1', port }) {
  let silent = false;
  let rate = 0;
  let accepted = 0;
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();
  /** @type {Set<import('node:net').Socket>} clients' */
  const nears = new Set();
  /** @type {WeakSet<import('node:net').Socket>} */
  const stranded = new WeakSet();
  /** @type {Set<() => void>} */
  const heldBack = new Set();

  /** @param {import('node:net').Socket} from @param {import('node:net').Socket} to */
  const forward = (from, to) => {
    from.on('data', chunk => {
      from.pause();
      const go = () => {
        if (silent) {
          heldBack.add(go);
          return;
        }
        heldBack.delete(go);
        to.write(chunk);
        if (rate === 0) from.resume();
        else setTimeout(() => from.resume(), (1000 * chunk.length) / rate);
      };
      go();
    });
    from.on('error', () => {});
    from.on('close', () => {
      sockets.delete(from);
      if (!silent && !stranded.has(from)) to.destroy();
    });
  };

  const server = createServer(near => {
    accepted += 1;
    const far = connect(port, host);
    for (const socket of [near, far]) sockets.add(socket);
    nears.add(near);
    near.on('close', () => nears.delete(near));
    forward(near, far);
    forward(far, near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    heldBack.clear();
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: /** @type {import('node:net').AddressInfo} */ (server.address()).port,
    silence: () => {
      silent = true;
    },
    speak: () => {
      silent = false;
      for (const go of heldBack) go();
    },
    cut,
    strand: () => {
      for (const near of nears) {
        stranded.add(near);
        near.destroy();
      }
    },
    slow: bytesPerSecond => {
      rate = bytesPerSecond;
    },
    accepted: () => accepted,
    open: () => nears.size,
    close: async () => {
      silent = false;
      cut();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
