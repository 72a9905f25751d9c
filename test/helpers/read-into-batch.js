/**
 * What a Stream does with the bytes of its follower, for tests of batches: a csvlog in memory is parsed into the batch
 * that is filling, and its position goes with it.
 */
import { CsvlogParser } from '../../src/codec/csvlog.js';

const ZONES = new Map([['UTC', 0]]);
const MAX_RECORD_BYTES = 100_000;

/** A record whose session_line_num tells it from the others. @param {number} n @param {string} [day] */
export const csvlogRow = (n, day = '2026-11-20') =>
  `${day} 16:08:00.123 UTC,"u","d",17,"[local]",673f.11,${n},"SELECT",${day} 16:07:59 UTC,3/4,0,LOG,00000,"m",,,,,,,,,"psql","client backend",,0\n`;

/**
 * @param {import('../../src/worker/batcher.js').Batcher} batcher
 * @param {{ streamId: number, epoch: number, fileNo?: number, offset?: number }} from
 * @param {Buffer} bytes whole records
 */
export function readIntoBatch(batcher, { streamId, epoch, fileNo = 1, offset = 0 }, bytes) {
  const context = { streamId, fileNo, offset, zones: ZONES, maxRecordBytes: MAX_RECORD_BYTES };
  const parser = new CsvlogParser(context);
  batcher.store(sink => parser.write(bytes, sink));
  const [sum, name] = [{ headLength: 3, headSum: 4, tailLength: 5, tailSum: 6 }, 'a.csv'];
  const file = { fileNo, inode: '7', name, offset: parser.recordOffset, ...sum };
  const files = new Map([[fileNo, { ...file, gone: false, doneSize: null, cursor: null }]]);
  const lost = { lostBytes: 0, lostEvents: 0 };
  const records = bytes.toString('latin1').split('\n').length - 1;
  const next = { begun: true, nextFileNo: 2, openFileNo: 1, foundPrefix: null };
  const advance = { epoch, ...next, ...lost, records, files };
  const stream = {
    streamId,
    takeAdvance: () => ({ advance, stored: { records, rejected: 0, ...lost } }),
    committed: () => {},
  };
  batcher.touch(/** @type {import('../../src/worker/stream.js').Stream} */ (/** @type {unknown} */ (stream)));
}
