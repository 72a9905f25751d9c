// Nothing leaves a batch with secrets that log.redact names, even what was left by work that failed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redactor } from '../../../src/codec/redact.js';
import { Batcher } from '../../../src/worker/batcher.js';
import { readLogRows, run, sampleColumns, writeRecord } from '../codec/csvlog-model.js';

const QUERY = 22;

/** @import { Stream } from '../../../src/worker/stream.js' */
/** @import { RowSink } from '../../../src/codec/row-sink.js' */

const { raw } = run(writeRecord(sampleColumns()));

/** @param {RowSink} sink */
function write({ rows }) {
  rows.ensure(raw.length);
  rows.length += raw.copy(rows.buffer, rows.length);
  rows.rows += 1;
}

for (const [name, work] of /** @type {[string, (sink: RowSink) => void][]} */ ([
  ['work that ends', write],
  [
    'work that fails',
    sink => {
      write(sink);
      throw new Error('not a frame');
    },
  ],
])) {
  test(`${name} leaves no secrets in a batch`, async () => {
    const batcher = new Batcher({
      settings: { maxBatchBytes: 65_536, maxBatchDelayMs: 60_000 },
      redactor: new Redactor(['statement_text']),
      connect: () => new Promise(() => {}), // the batch waits for it
      onRoom: () => {},
      onFailure: () => {},
      onRefused: () => {},
      onFenced: () => {},
    });
    const { rows } = batcher.sink;
    try {
      batcher.store(work);
    } catch (error) {
      assert.match(String(error), /not a frame/);
    }
    const stream = { streamId: 1, takeAdvance: () => ({ advance: {}, stored: {} }) };
    batcher.touch(/** @type {Stream} */ (/** @type {unknown} */ (stream)));
    batcher.flush();
    assert.notEqual(batcher.sink.rows, rows, 'the batch is closed');
    assert.equal(readLogRows(rows.bytes())[0]?.[QUERY], '[redacted]');
    await batcher.close();
  });
}
