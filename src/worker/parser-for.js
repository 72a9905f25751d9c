/**
 * Which parser reads a file: by the format of its stream, or, when that is `auto`, by the file's name, as
 * PostgreSQL names them: `.csv` and `.json` in the place of `.log` (manual, log_filename). Whatever else a file holds is
 * told record by record.
 */
import { CsvlogParser } from '../codec/csvlog.js';
import { LineParser } from '../codec/line-parser.js';

/** @typedef {import('../codec/row-sink.js').RowSink} RowSink */

/**
 * @typedef {object} LogParser
 * @property {(chunk: Buffer, sink: RowSink) => void} write
 * @property {(sink: RowSink) => void} quiet the host has looked again: nothing more is there now
 * @property {(sink: RowSink) => void} end nothing more will come
 * @property {number} offset of the next byte for write()
 * @property {number} recordOffset of the first byte that is neither stored nor rejected
 * @property {number} pendingBytes
 * @property {Uint8Array} tail the last bytes before recordOffset, 512 of them if there were so many
 */

/**
 * @typedef {object} StreamContext what the files of a stream share
 * @property {number} streamId
 * @property {ReadonlyMap<string, number>} zones
 * @property {string | null} timeZone
 * @property {(databaseName: string | null) => import('../codec/row-sink.js').Decoder | null} decoderOf
 * @property {number} maxRecordBytes
 * @property {import('../base/log-format.js').LogFormat} format
 * @property {import('../codec/line-parser.js').Prefixes} prefixes
 */

/** @typedef {StreamContext} FileContext */

/**
 * @param {string} name
 * @param {FileContext & { fileNo: number, offset: number }} context
 * @returns {LogParser}
 */
export function parserFor(name, { format, ...context }) {
  const found = format === 'auto' ? formatOf(name) : format;
  return found === 'csvlog' ? new CsvlogParser(context) : new LineParser({ ...context, format: found });
}

/** @param {string} name @returns {'csvlog' | 'jsonlog' | 'auto'} */
function formatOf(name) {
  if (/\.csv([.-].*)?$/.test(name)) return 'csvlog';
  if (/\.json([.-].*)?$/.test(name)) return 'jsonlog';
  return 'auto';
}
