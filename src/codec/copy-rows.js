/**
 * Walks the COPY BINARY rows of a CopyBuffer, of the log table or of the table of rejected bytes, without decoding
 * them: both begin with their stream.
 *   int16 fields | int32 length, stream_id int4 | int32 length (-1: NULL), value | ...
 * For what must look into a batch after it was filled: a row that PostgreSQL refuses, a stream that is no longer ours.
 */

/** @import { CopyBuffer } from './copy-buffer.js' */

/** Field count, length of stream_id. */
const STREAM_ID_AT = 2 + 4;

/**
 * @param {CopyBuffer} rows
 * @returns {Uint32Array} where each row begins, and where the last one ends
 */
export function rowStarts({ buffer, length, rows }) {
  const starts = new Uint32Array(rows + 1);
  let at = 0;
  for (let row = 0; row < rows; row += 1) {
    starts[row] = at;
    let fields = buffer.readInt16BE(at);
    at += 2;
    for (; fields > 0; fields -= 1) at += 4 + Math.max(0, buffer.readInt32BE(at));
  }
  starts[rows] = length;
  return starts;
}

/**
 * Takes the rows of some streams out, in place: nothing may be sending the buffer.
 * @param {CopyBuffer} rows
 * @param {ReadonlySet<number>} streamIds
 */
export function dropStreams(rows, streamIds) {
  const { buffer } = rows;
  const starts = rowStarts(rows);
  const count = rows.rows;
  let end = 0;
  rows.rows = 0;
  for (let row = 0; row < count; row += 1) {
    const from = starts[row];
    if (streamIds.has(buffer.readInt32BE(from + STREAM_ID_AT))) continue;
    buffer.copyWithin(end, from, starts[row + 1]);
    end += starts[row + 1] - from;
    rows.rows += 1;
  }
  rows.length = end;
}
