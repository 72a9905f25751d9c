/**
 * Encodes what could not be parsed or stored as a COPY BINARY row of the table of rejected bytes:
 *   int16 7 | stream_id int4 | file_no int4 | file_offset int8 | length int8 | received_at timestamptz | reason text
 *   | bytes bytea
 * `length` is the true length in the file; `bytes` is its beginning, cut at a limit, so that one broken file cannot
 * fill the storage with itself.
 */

/** @import { CopyBuffer } from './copy-buffer.js' */

/**
 * @typedef {object} Rejected bytes of a stream that did not become a log row
 * @property {number} streamId int4
 * @property {number} fileNo int4
 * @property {number} offset of the first byte in the file
 * @property {number} length true length in bytes; `bytes` may be shorter
 * @property {string} reason for an operator: no NUL, no lone surrogates
 * @property {Uint8Array} bytes the beginning of them; may be a view that is valid only during the call
 */

/** Bytes kept of one rejected piece unless the caller says otherwise. */
export const DEFAULT_MAX_REJECTED_BYTES = 1024 * 1024;

const FIELDS = 7;
/** Unix time of PostgreSQL's epoch, 2000-01-01 00:00:00 UTC, in milliseconds. */
const POSTGRES_EPOCH_MS = 946_684_800_000;
/** Field count, seven lengths, two int4, two int8, one timestamptz. */
const FIXED_BYTES = 2 + FIELDS * 4 + 2 * 4 + 2 * 8 + 8;

/**
 * @param {CopyBuffer} out receives one row
 * @param {Rejected} rejected
 * @param {number} receivedAtMs milliseconds since 1970-01-01 UTC
 * @param {number} [maxRejectedBytes] bytes stored at most
 */
export function encodeRejected(
  out,
  { streamId, fileNo, offset, length, reason, bytes },
  receivedAtMs,
  maxRejectedBytes = DEFAULT_MAX_REJECTED_BYTES,
) {
  const reasonLength = Buffer.byteLength(reason);
  const kept = Math.min(bytes.length, maxRejectedBytes);
  out.ensure(FIXED_BYTES + reasonLength + kept);
  const { buffer } = out;
  let at = buffer.writeInt16BE(FIELDS, out.length);
  at = buffer.writeInt32BE(4, at);
  at = buffer.writeInt32BE(streamId, at);
  at = buffer.writeInt32BE(4, at);
  at = buffer.writeInt32BE(fileNo, at);
  at = buffer.writeInt32BE(8, at);
  at = buffer.writeBigInt64BE(BigInt(offset), at);
  at = buffer.writeInt32BE(8, at);
  at = buffer.writeBigInt64BE(BigInt(length), at);
  at = buffer.writeInt32BE(8, at);
  at = buffer.writeBigInt64BE(BigInt(Math.round((receivedAtMs - POSTGRES_EPOCH_MS) * 1000)), at);
  at = buffer.writeInt32BE(reasonLength, at);
  at += buffer.write(reason, at, 'utf8');
  at = buffer.writeInt32BE(kept, at);
  buffer.set(kept === bytes.length ? bytes : bytes.subarray(0, kept), at);
  out.length = at + kept;
  out.rows += 1;
}
