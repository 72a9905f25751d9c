/**
 * A PostgreSQL client that sends bytes as they are: names, statements and parameters in any encoding or in none,
 * and messages that no driver would send. It reads no more than it needs: SQLSTATEs, row counts, the backend's pid.
 * A server that refuses, fails or goes away never makes it throw: `closed` says so.
 * Format: PostgreSQL manual, "Message Formats" of the frontend/backend protocol 3.0.
 */
import net from 'node:net';

/** @typedef {string | Buffer} Text a string is sent as UTF-8, a Buffer as it is */
/** @typedef {{ host: string, port: number }} Address host: a directory of Unix sockets, or an IP address */

const PROTOCOL_3 = 0x00030000;
const CANCEL_REQUEST = 80877102;
const CLEARTEXT_PASSWORD = 3;
const MD5_PASSWORD = 5;

export class WireSession {
  #socket;
  #password;
  #received = Buffer.alloc(0);
  /** Resolved by the next ReadyForQuery or the end of the connection. */
  #ready = Promise.withResolvers();

  /** SQLSTATEs of all errors so far @type {string[]} */
  errors = [];
  /** of the server's process */
  pid = 0;
  #secret = 0;
  closed = false;

  /**
   * @param {Address} address
   * @param {Text} [password]
   */
  constructor(address, password = '') {
    this.#password = password;
    this.#socket = net.connect(socketOf(address));
    this.#socket.on('data', data => this.#read(data));
    this.#socket.on('error', () => {});
    this.#socket.on('close', () => {
      this.closed = true;
      this.#ready.resolve(undefined);
    });
  }

  /**
   * @param {Address} address
   * @param {Record<string, Text> | [Text, Text][]} parameters user, database, application_name ...
   * @param {Text} [password] for a server that asks
   */
  static async connect(address, parameters, password) {
    const session = new WireSession(address, password);
    const pairs = Array.isArray(parameters) ? parameters : Object.entries(parameters);
    session.write(startupMessage(pairs));
    await session.ready();
    return session;
  }

  /** The next ReadyForQuery, or the end of the connection. */
  async ready() {
    if (!this.closed) await this.#ready.promise;
  }

  /** @param {Buffer} bytes */
  write(bytes) {
    if (!this.closed) this.#socket.write(bytes);
  }

  /**
   * A simple query.
   * @param {Text} sql
   */
  async query(sql) {
    this.#expect();
    this.write(message('Q', cString(sql)));
    await this.ready();
  }

  /**
   * An extended query: Parse, Bind, Describe, Execute, Sync.
   * @param {Text} sql
   * @param {(Text | null)[]} values
   * @param {object} [options]
   * @param {Text} [options.name] of the prepared statement
   * @param {Text} [options.portal]
   * @param {number[]} [options.types] OIDs
   * @param {(0 | 1)[]} [options.formats] 0 text, 1 binary
   * @param {number} [options.limit] rows to fetch; 0 all
   */
  async execute(sql, values, { name = '', portal = '', types = [], formats = [], limit = 0 } = {}) {
    this.#expect();
    this.write(
      Buffer.concat([
        message('P', cString(name), cString(sql), int16(types.length), ...types.map(int32)),
        message(
          'B',
          cString(portal),
          cString(name),
          int16(formats.length),
          ...formats.map(int16),
          int16(values.length),
          ...values.flatMap(value => (value === null ? [int32(-1)] : lengthAndBytes(value))),
          int16(0),
        ),
        message('D', Buffer.from('P'), cString(portal)),
        message('E', cString(portal), int32(limit)),
        message('S'),
      ]),
    );
    await this.ready();
  }

  /**
   * Any message, and what the server says to it.
   * @param {string} type
   * @param {Buffer} body
   */
  async send(type, body) {
    this.#expect();
    this.write(message(type, body));
    await this.ready();
  }

  /**
   * Asks the server to cancel what the session does, over a connection of its own.
   * @param {Address} address
   */
  async cancel(address) {
    const socket = net.connect(socketOf(address));
    socket.on('error', () => {});
    socket.end(Buffer.concat([int32(16), int32(CANCEL_REQUEST), int32(this.pid), int32(this.#secret)]));
    await new Promise(resolve => socket.once('close', resolve));
  }

  /** Says goodbye and waits for the connection's end. */
  async end() {
    await this.#close(() => this.#socket.end(message('X')));
  }

  /** Goes away without a word. */
  async destroy() {
    await this.#close(() => this.#socket.destroy());
  }

  /** @param {() => void} how */
  async #close(how) {
    if (this.closed) return;
    const gone = new Promise(resolve => this.#socket.once('close', resolve));
    how();
    await gone;
  }

  #expect() {
    this.#ready = Promise.withResolvers();
  }

  /** @param {Buffer} data */
  #read(data) {
    this.#received = Buffer.concat([this.#received, data]);
    let at = 0;
    while (this.#received.length >= at + 5) {
      const end = at + 1 + this.#received.readInt32BE(at + 1);
      if (end > this.#received.length) break;
      this.#take(String.fromCharCode(this.#received[at]), this.#received.subarray(at + 5, end));
      at = end;
    }
    this.#received = this.#received.subarray(at);
  }

  /**
   * @param {string} type
   * @param {Buffer} body
   */
  #take(type, body) {
    if (type === 'Z') {
      this.#ready.resolve(undefined);
    } else if (type === 'E') {
      // Fields: a letter and a string each. C is the SQLSTATE.
      const code = body
        .toString('latin1')
        .split('\0')
        .find(field => field[0] === 'C');
      this.errors.push(code?.slice(1) ?? '');
    } else if (type === 'K') {
      this.pid = body.readInt32BE(0);
      this.#secret = body.readInt32BE(4);
    } else if (type === 'R' && [CLEARTEXT_PASSWORD, MD5_PASSWORD].includes(body.readInt32BE(0))) {
      this.write(message('p', cString(this.#password)));
    } else if (type === 'G') {
      this.write(message('f', cString('nothing to copy')));
    }
  }
}

/**
 * @param {[Text, Text][]} parameters
 * @param {number} [protocol]
 */
export function startupMessage(parameters, protocol = PROTOCOL_3) {
  const body = Buffer.concat([int32(protocol), ...parameters.flat().map(cString), Buffer.alloc(1)]);
  return Buffer.concat([int32(body.length + 4), body]);
}

/**
 * @param {string} type
 * @param {...Buffer} parts
 */
function message(type, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type, 'latin1'), int32(body.length + 4), body]);
}

/** @param {Text} text */
function cString(text) {
  return Buffer.concat([bytesOf(text), Buffer.alloc(1)]);
}

/** @param {Text} text */
function lengthAndBytes(text) {
  const bytes = bytesOf(text);
  return [int32(bytes.length), bytes];
}

/** @param {Text} text */
function bytesOf(text) {
  return typeof text === 'string' ? Buffer.from(text) : text;
}

/** @param {number} value */
function int16(value) {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

/** @param {number} value */
function int32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** @param {Address} address */
function socketOf({ host, port }) {
  return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
}
