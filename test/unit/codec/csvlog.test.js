// What becomes a row, what is rejected and why, and where the parser finds its way again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CsvlogParser } from '../../../src/codec/csvlog.js';
import {
  checkAccount,
  MESSAGE_COLUMN,
  RECEIVED_AT_MS,
  run,
  sampleColumns,
  writeRecord,
} from './csvlog-model.js';

const ROW = writeRecord(sampleColumns());
const DURATION = 29;
const MARKS = 30;
/** Index of csvlog column 0 in a stored row. */
const FIRST = 3;

/**
 * @param {number} column
 * @param {string | null} value
 */
function rowWith(column, value) {
  return writeRecord(sampleColumns().with(column, value));
}

/** @param {Buffer} bytes */
function reasonOf(bytes) {
  const result = run(Buffer.concat([ROW, bytes, ROW]));
  checkAccount(Buffer.concat([ROW, bytes, ROW]), result);
  assert.equal(result.count, 2);
  assert.equal(result.rejected.length, 1);
  const [rejected] = result.rejected;
  assert.ok(rejected);
  assert.deepEqual(
    { ...rejected, reason: '' },
    {
      streamId: 7,
      fileNo: 9,
      offset: ROW.length,
      length: bytes.length,
      reason: '',
      bytes: bytes.toString('latin1'),
    },
  );
  return rejected.reason;
}

/**
 * @param {number} column
 * @param {string | null} value
 */
function storedAs(column, value) {
  const bytes = rowWith(column, value);
  const result = run(bytes);
  checkAccount(bytes, result);
  assert.deepEqual(result.rejected, []);
  return result.rows[0]?.[FIRST + column];
}

test('rows of 22, 23, 24 and 26 columns are stored, what they lack is NULL', () => {
  for (const columns of [22, 23, 24, 26]) {
    const bytes = writeRecord(sampleColumns().slice(0, columns));
    const result = run(bytes);
    checkAccount(bytes, result);
    assert.equal(result.count, 1);
    assert.equal(result.rows[0]?.slice(FIRST, DURATION).filter(value => value !== null).length, columns);
  }
});

test('any other number of columns is rejected with the number', () => {
  for (const columns of [2, 21, 25, 27, 40]) {
    const bytes = writeRecord([...sampleColumns(), ...Array(20).fill('0')].slice(0, columns));
    assert.equal(reasonOf(bytes), `${columns} columns; a csvlog row has 22, 23, 24 or 26`);
  }
  assert.match(reasonOf(Buffer.from('server started\n')), /^1 column;/);
  assert.match(reasonOf(Buffer.from('\n')), /^1 column;/);
  assert.match(reasonOf(Buffer.from('\r\n')), /^1 column;/);
  assert.match(reasonOf(Buffer.from(`${','.repeat(30)}\n`)), /^31 columns;/);
  assert.match(reasonOf(Buffer.from(`${sampleColumns()[0]}${','.repeat(5000)}\n`)), /^5001 columns;/);
  assert.match(reasonOf(Buffer.from('a\rb\n')), /^1 column;/);
});

test('nothing is NULL, two quotes are an empty string', () => {
  assert.equal(storedAs(1, null), null);
  assert.equal(storedAs(1, ''), '');
  assert.equal(storedAs(3, null), null);
  assert.equal(storedAs(8, null), null);
});

test('a quoted text may hold anything but a lone quote', () => {
  for (const text of [
    '"',
    '""',
    'a"',
    '"a',
    'a\nb',
    '\n',
    'a\r\nb',
    '\r',
    ',',
    '\t\x01\x7f',
    'x"y'.repeat(50),
    'abc"',
  ]) {
    assert.equal(storedAs(MESSAGE_COLUMN, text), text);
  }
});

test('a CR and newline end a record as a newline does', () => {
  for (const columns of [22, 23, 26]) {
    for (const quoteAll of [false, true]) {
      const record = sampleColumns().slice(0, columns);
      const bytes = writeRecord(record, { end: '\r\n', quoteAll });
      const result = run(bytes);
      checkAccount(bytes, result);
      assert.deepEqual(result.rows, run(writeRecord(record)).rows);
    }
  }
  const nothingLast = writeRecord(sampleColumns().with(25, null), { end: '\r\n' });
  assert.equal(run(nothingLast).rows[0]?.[FIRST + 25], null);
});

test('integers: whole range, nothing beyond', () => {
  for (const value of [-2147483648, -1, 0, 7, 999999999, 1000000000, 2147483647]) {
    assert.equal(storedAs(3, String(value)), value);
  }
  assert.equal(storedAs(3, '0000000000000007'), 7);
  for (const value of [
    '2147483648',
    '-2147483649',
    '99999999999',
    '-',
    '--1',
    '1x',
    'x',
    '1.5',
    ' 1',
    '0x10',
  ]) {
    assert.equal(reasonOf(rowWith(3, value)), `process_id is not an integer of 4 bytes: ${value}`);
  }
  const big = [
    0n,
    1n,
    4294967295n,
    4294967296n,
    999999999n,
    1000000000n,
    999999999999999999n,
    1000000000000000000n,
  ];
  for (const value of [...big, 9223372036854775807n, 9007199254740993n]) {
    assert.equal(storedAs(25, String(value)), value);
    assert.equal(storedAs(25, String(-value)), -value);
  }
  assert.equal(storedAs(25, '-9223372036854775808'), -9223372036854775808n);
  assert.equal(storedAs(25, '000000000000000000000000000012345678901'), 12345678901n);
  for (const value of [
    '9223372036854775808',
    '-9223372036854775809',
    '18446744073709551616',
    '9'.repeat(400),
    '99999999999999999999',
    '1e3',
  ]) {
    assert.equal(
      reasonOf(rowWith(25, value)),
      `query_id is not an integer of 8 bytes: ${value.slice(0, 40)}`,
    );
  }
});

/** @param {string} utc */
const microseconds = utc => BigInt(Date.parse(utc) - Date.UTC(2000, 0, 1)) * 1000n;

test('times: every form of zone, any fraction, dates of the calendar only', () => {
  /** @type {[string, string][]} */
  const times = [
    ['2026-05-01 12:34:56.789 UTC', '2026-05-01T12:34:56.789Z'],
    ['2026-05-01 12:34:56.789 MSK', '2026-05-01T09:34:56.789Z'],
    ['2026-05-01 12:34:56 msk', '2026-05-01T09:34:56Z'],
    ['2026-05-01 00:30:00.5 +03', '2026-04-30T21:30:00.5Z'],
    ['2026-05-01 12:34:56.789 -0330', '2026-05-01T16:04:56.789Z'],
    ['2026-05-01 12:34:56.789 +05:30', '2026-05-01T07:04:56.789Z'],
    ['2024-02-29 23:59:59.999 UTC', '2024-02-29T23:59:59.999Z'],
    ['2000-02-29 00:00:00.000 UTC', '2000-02-29T00:00:00Z'],
    ['1999-12-31 23:59:59.999 UTC', '1999-12-31T23:59:59.999Z'],
    ['1969-07-20 20:17:40.000 UTC', '1969-07-20T20:17:40Z'],
    ['9999-12-31 23:59:59.999 UTC', '9999-12-31T23:59:59.999Z'],
  ];
  for (const [text, utc] of times) {
    assert.equal(storedAs(0, text), microseconds(utc), text);
    assert.equal(storedAs(8, text), microseconds(utc), text);
  }
  assert.equal(storedAs(0, '2026-05-01 12:34:56.789012 UTC'), microseconds('2026-05-01T12:34:56.789Z') + 12n);
  const wrong = [
    '2026-02-29 00:00:00 UTC',
    '2100-02-29 00:00:00 UTC',
    '2026-13-01 00:00:00 UTC',
    '2026-00-01 00:00:00 UTC',
    '2026-04-31 00:00:00 UTC',
    '2026-01-00 00:00:00 UTC',
    '0000-01-01 00:00:00 UTC',
    '2026-01-01 24:00:00 UTC',
    '2026-01-01 00:60:00 UTC',
    '2026-01-01 00:00:60 UTC',
    '2026-01-01 00:00:00',
    '2026-01-01 00:00:00 ',
    '2026-01-01T00:00:00 UTC',
    '2026/01/01 00:00:00 UTC',
    '2026-01-01 00:00:00. UTC',
    '2026-01-01 0:00:00.0 UTC',
    '2026-01-01 00:00:00.1234567 UTC',
    '2026-01-01 00.00:00 UTC',
    '2o26-01-01 00:00:00 UTC',
    'now',
    '""',
  ];
  for (const text of wrong) {
    assert.equal(reasonOf(rowWith(8, text)), `session_start_time is not a time: ${text}`);
    assert.equal(reasonOf(rowWith(0, text)), `log_time is not a time: ${text}`);
  }
  assert.match(reasonOf(rowWith(0, null)), /^log_time is not a time: /);
});

test('a zone that nobody knows: the time of arrival, marked; the rest of the record is stored', () => {
  const bytes = Buffer.concat([
    ...['XYZ', '+16', '+0360'].map(zone => rowWith(0, `2026-05-01 12:34:56.789 ${zone}`)),
    rowWith(8, '2026-05-01 12:34:56 XYZ'),
  ]);
  const result = run(bytes);
  checkAccount(bytes, result);
  const { rows, days } = result;
  for (const row of rows.slice(0, 3)) {
    assert.equal(row[MARKS], 1n);
    assert.equal(row[FIRST], BigInt(RECEIVED_AT_MS - Date.UTC(2000, 0, 1)) * 1000n);
    assert.equal(row[FIRST + MESSAGE_COLUMN], sampleColumns()[MESSAGE_COLUMN]);
  }
  assert.ok(days.includes(Math.floor(RECEIVED_AT_MS / 86_400_000)));
  assert.equal(rows[3]?.[MARKS], 1n << 8n);
  assert.equal(rows[3]?.[FIRST + 8], null);
});

test('duration_ms comes from the beginning of the message alone', () => {
  /** @type {[string, number | null][]} */
  const messages = [
    ['duration: 12.345 ms', 12.345],
    ['duration: 0.001 ms  statement: x', 0.001],
    ['duration: 7 ms', 7],
    ['duration: 123456789012.123 ms', 123456789012.123],
    ['duration: 1234567890123456789.125 ms', Number('1234567890123456789.125')],
    ['duration: 12345678901234567890 ms', Number('12345678901234567890')],
    ['duration: .5 ms', null],
    ['duration: 5. ms', null],
    ['duration: 5.5 s', null],
    ['duration: 5.5 m', null],
    ['duration: ', null],
    ['duration:  1 ms', null],
    ['Duration: 1.5 ms', null],
    ['the duration: 1.5 ms', null],
  ];
  for (const [message, duration] of messages) {
    const bytes = rowWith(MESSAGE_COLUMN, message);
    assert.equal(run(bytes).rows[0]?.[DURATION], duration, message);
    // The row before leaves its bytes in the buffer, after the end of this one's message.
    assert.equal(run(Buffer.concat([ROW, bytes])).rows[1]?.[DURATION], duration, message);
  }
});

test('bytes that are not UTF-8 are escaped in their column alone, and marked', () => {
  const bytes = Buffer.concat([
    ROW,
    writeRecord(sampleColumns().with(1, 'd\xe9j\xe0 \\').with(2, 'back\\slash').with(22, '\xc3\xa9 \xff')),
    rowWith(MESSAGE_COLUMN, 'a\0b'),
    rowWith(MESSAGE_COLUMN, 'duration: 1.5 ms \xe9'),
    rowWith(MESSAGE_COLUMN, '\xf0\x9f\x90\x98 \\'),
  ]);
  const result = run(bytes);
  checkAccount(bytes, result);
  const rows = result.rows;
  assert.deepEqual(
    rows.map(row => row[MARKS]),
    [null, (1n << 1n) | (1n << 22n), 1n << BigInt(MESSAGE_COLUMN), 1n << BigInt(MESSAGE_COLUMN), null],
  );
  assert.equal(rows[1]?.[FIRST + 1], 'd\\xe9j\\xe0 \\\\');
  assert.equal(rows[1]?.[FIRST + 2], 'back\\slash');
  assert.equal(rows[1]?.[FIRST + 22], '\xc3\xa9 \\xff');
  assert.equal(rows[2]?.[FIRST + MESSAGE_COLUMN], 'a\\x00b');
  assert.equal(rows[3]?.[DURATION], 1.5);
  assert.equal(rows[4]?.[FIRST + MESSAGE_COLUMN], '\xf0\x9f\x90\x98 \\');
});

test('a text that escaping makes four times as long', () => {
  const bytes = rowWith(MESSAGE_COLUMN, '\xe9'.repeat(5000));
  const result = run(bytes);
  checkAccount(bytes, result);
  assert.equal(result.rows[0]?.[FIRST + MESSAGE_COLUMN], '\\xe9'.repeat(5000));
});

test('a CR in an unquoted text is data', () => {
  const bytes = Buffer.from(ROW.toString().replace(',alice,', ',al\rice,'));
  for (const sizes of [bytes.length, 1]) {
    const result = run(bytes, { sizes });
    checkAccount(bytes, result);
    assert.equal(result.rows[0]?.[FIRST + 1], 'al\rice');
  }
});

test('a torn row is rejected alone, the next row is stored', () => {
  const inQuotes = ROW.subarray(0, ROW.indexOf('SELECT 1'));
  const torn = Buffer.concat([inQuotes, Buffer.from('\n')]);
  const bytes = Buffer.concat([ROW, torn, ROW, ROW]);
  const result = run(bytes);
  checkAccount(bytes, result);
  assert.equal(result.count, 3);
  assert.equal(result.rejected[0]?.offset, ROW.length);
  assert.equal(result.rejected[0]?.length, torn.length);
  assert.match(result.rejected[0]?.reason ?? '', /^not csv/);
});

test('a torn row without a newline takes the row it runs into with it, and no more', () => {
  const bytes = Buffer.concat([ROW.subarray(0, ROW.indexOf('SELECT 1')), ROW, ROW]);
  const result = run(bytes);
  checkAccount(bytes, result);
  assert.equal(result.count, 1);
  assert.equal(result.rejected.length, 1);
  assert.equal(result.rejected[0]?.length, bytes.length - ROW.length);
});

test('quotes where none may be: rejected up to the next row', () => {
  for (const text of [
    'a "b" c\n',
    'a,"b"c,d\n',
    '"a"b\n',
    '"a"\rb\n',
    'x"\n',
    '"a" ,b\n',
    '"a"\r,b\n',
    'say "hi"\nsecond\n\nthird\n',
  ]) {
    assert.match(reasonOf(Buffer.from(text)), /^not csv: /);
  }
});

test('something broken waits for the next row, or for the limit', () => {
  const garbage = Buffer.from(`x"${'garbage\n'.repeat(30)}`);
  const waiting = run(garbage, { end: false });
  assert.deepEqual(waiting.rejected, []);
  assert.equal(waiting.parser.pendingBytes, garbage.length);

  const limited = run(Buffer.concat([garbage, ROW]), { maxRecordBytes: 100, maxRejectedBytes: 10 });
  assert.deepEqual(
    limited.rejected.slice(0, 3).map(({ offset, length, bytes }) => [offset, length, bytes.length]),
    [
      [0, 100, 10],
      [100, 100, 10],
      [200, 42, 10],
    ],
  );
  assert.equal(run(Buffer.concat([garbage, ROW]), { maxRecordBytes: 1000 }).count, 1);
});

test('of a record above the limit the beginning is stored, its length and its hash; one at the limit is whole', () => {
  const long = rowWith(MESSAGE_COLUMN, `${'x'.repeat(250)}""\u00e9\n${'y'.repeat(5000)}`);
  const bytes = Buffer.concat([ROW, long, ROW]);
  for (const sizes of [bytes.length, 1, 100]) {
    assert.equal(run(bytes, { sizes, maxRecordBytes: long.length }).cuts.length, 0);
    for (let kept = 150; kept < 700; kept += 1) {
      const result = run(bytes, { sizes, maxRecordBytes: long.length - 1, maxRejectedBytes: kept });
      checkAccount(bytes, result);
      assert.equal(result.count, 3);
      assert.equal(result.cuts.length, 1);
      const message = String(result.rows[1]?.[FIRST + MESSAGE_COLUMN] ?? '');
      assert.ok(message.length >= kept - 220, `${message.length} of ${kept}`);
    }
  }
});

test('a record above the limit that is no csvlog row is rejected with its true length', () => {
  const long = Buffer.from(`2026-05-01 12:34:56.789 UTC,"${'x'.repeat(5000)}"\n`);
  const bytes = Buffer.concat([ROW, long, ROW]);
  for (const sizes of [bytes.length, 1, 100]) {
    const { rejected, count } = run(bytes, { sizes, maxRecordBytes: long.length - 1, maxRejectedBytes: 300 });
    assert.equal(count, 2);
    const reason = `record longer than ${long.length - 1} bytes`;
    const beginning = long.toString('latin1', 0, 300);
    assert.deepEqual(rejected, [
      { streamId: 7, fileNo: 9, offset: ROW.length, length: long.length, reason, bytes: beginning },
    ]);
  }
});

test('one record in two million pieces', () => {
  const text = 'word "x" and\nmore '.repeat(120_000);
  const bytes = rowWith(MESSAGE_COLUMN, text);
  const result = run(bytes, { sizes: 1, maxRecordBytes: 1 << 24 });
  assert.equal(result.rows[0]?.[FIRST + MESSAGE_COLUMN], text);
});

test('a record without an end takes no more memory than the limit', () => {
  const limit = 1024 * 1024;
  const parser = new CsvlogParser({
    streamId: 1,
    fileNo: 1,
    offset: 0,
    zones: new Map(),
    maxRecordBytes: limit,
  });
  /** @type {number[]} */
  const lengths = [];
  const sink = {
    rows: new CopyBuffer(1024),
    days: new Set(),
    receivedAtMs: 0,
    cut() {},
    /** @param {{ length: number }} rejected */
    reject: rejected => lengths.push(rejected.length),
  };
  const chunk = Buffer.alloc(64 * 1024, 'x');
  const chunks = 1000;
  parser.write(Buffer.from('"'), sink);
  const before = process.memoryUsage().arrayBuffers;
  for (let index = 0; index < chunks; index += 1) parser.write(chunk, sink);
  assert.ok(process.memoryUsage().arrayBuffers - before < 8 * limit);
  parser.write(Buffer.from('"\n'), sink);
  assert.deepEqual(lengths, [chunks * chunk.length + 3]);
});

test('the end of the file rejects what is unfinished', () => {
  for (const length of [1, 30, ROW.indexOf('SELECT 1'), ROW.length - 1]) {
    const bytes = Buffer.concat([ROW, ROW.subarray(0, length)]);
    const open = run(bytes, { end: false });
    assert.equal(open.parser.recordOffset, ROW.length);
    assert.equal(open.parser.pendingBytes, length);
    const { rejected, parser } = run(bytes);
    assert.deepEqual(
      rejected.map(({ offset, length: size, reason }) => [offset, size, reason]),
      [[ROW.length, length, 'unfinished record at the end of the file']],
    );
    assert.equal(parser.recordOffset, bytes.length);
  }
  assert.deepEqual(run(ROW).rejected, []);
});

test('offsets are those of the file, past 4 GiB too', () => {
  const offset = 2 ** 40 + 5;
  const { rows, rejected, parser } = run(Buffer.concat([ROW, Buffer.from('x\n'), ROW]), { offset });
  assert.deepEqual(
    rows.map(row => row[2]),
    [BigInt(offset), BigInt(offset + ROW.length + 2)],
  );
  assert.equal(rejected[0]?.offset, offset + ROW.length);
  assert.equal(parser.recordOffset, offset + 2 * ROW.length + 2);
});

test('days and the latest log_time are those of the stored rows, in UTC', () => {
  const bytes = Buffer.concat([
    rowWith(0, '1970-01-02 01:00:00.000 MSK'),
    rowWith(0, '1970-01-03 00:00:00.250 UTC'),
    rowWith(0, '1970-01-02 23:59:59.999 UTC'),
    writeRecord(sampleColumns().with(0, '1970-01-09 00:00:00.000 UTC').slice(0, 5)),
  ]);
  const { days, parser } = run(bytes);
  assert.deepEqual(new Set(days), new Set([0, 1, 2]));
  assert.equal(parser.maxLogTimeMs, 2 * 86_400_000 + 250);
});

test('what is not csv is looked at once, however long it is before a row comes', t => {
  let looked = 0;
  for (const method of /** @type {const} */ (['indexOf', 'lastIndexOf', 'includes'])) {
    /** @type {Function} */
    const original = Buffer.prototype[method];
    /** @this {Buffer} @param {any[]} args */
    const counting = function (...args) {
      looked += this.length - (method === 'indexOf' ? Number(args[1] ?? 0) : 0);
      return original.apply(this, args);
    };
    t.mock.method(Buffer.prototype, method, counting);
  }
  const parser = new CsvlogParser({
    streamId: 7,
    fileNo: 9,
    offset: 0,
    zones: new Map(),
    maxRecordBytes: 1 << 24,
  });
  const rows = new CopyBuffer(1 << 16);
  const sink = { rows, days: new Set(), receivedAtMs: RECEIVED_AT_MS, reject: () => {}, cut: () => {} };
  const line = Buffer.alloc(4096, 'x');
  parser.write(Buffer.from('a"b'), sink);
  for (let n = 0; n < 1000; n += 1) parser.write(line, sink);
  for (let n = 0; n < 1000; n += 1) parser.write(Buffer.concat([line, Buffer.from('\n')]), sink);
  assert.ok(looked < 5 * parser.offset, `${looked} of ${parser.offset} bytes`);
  parser.write(Buffer.concat([Buffer.from('\n'), ROW]), sink);
  assert.equal(rows.rows, 1);
});
