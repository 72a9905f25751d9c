/** In which format a log is read and why, what is wrong with it, and that every problem comes with its remedy. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANY_LOG, assessLog } from '../../../src/cli/assess-log.js';

/** @typedef {import('../../../src/follower/probe.js').LogFacts} LogFacts */
/** @typedef {import('../../../src/follower/probe.js').FileFacts} FileFacts */
/** @typedef {import('../../../src/storage/inventory.js').StreamFields} StreamFields */
/** @typedef {'csv' | 'json' | 'log'} Suffix */

const READER = { user: 'monitor', sudo: false };

const CSV = `2024-01-01 00:00:00.000 UTC${','.repeat(25)}\n`;
const JSONLOG = '{"timestamp":"2024-01-01 00:00:00.000 UTC","pid":1,"error_severity":"LOG","message":"x"}\n';
const STDERR = [1, 2, 3, 4].map(n => `2024-01-01 00:00:0${n}.000 UTC [${n}] LOG:  message ${n}\n`).join('');

/** @returns {FileFacts} */
const none = () => ({ count: 0, bytes: 0, unreadable: 0, newest: null, sample: null, denied: null });

/** @param {string} name @param {string | Buffer | null} content @param {Partial<FileFacts>} [changes] @returns {FileFacts} */
const some = (name, content, changes) => ({
  count: 1,
  bytes: 100,
  unreadable: 0,
  newest: { name, size: 100, modifiedAt: 1_700_000_000 },
  sample: content === null ? null : Buffer.from(content),
  denied: null,
  ...changes,
});

/** @param {Partial<Record<Suffix, FileFacts>>} [files] */
const all = files => ({ csv: none(), json: none(), log: none(), ...files });

/** @param {Partial<LogFacts>} [changes] @returns {LogFacts} a data directory in which all is well */
function facts(changes) {
  return {
    path: '/data',
    kind: 'data',
    version: '15',
    destinations: ['csvlog'],
    directory: '/data/log',
    timeZone: 'UTC',
    linePrefix: null,
    files: all({ csv: some('b.csv', CSV, { count: 2, bytes: 300 }), log: some('b.log', null) }),
    journal: null,
    denied: null,
    ...changes,
  };
}

/** @param {Partial<LogFacts>} [changes] @param {Partial<StreamFields>} [wanted] @param {typeof READER} [reader] */
const assess = (changes, wanted, reader = READER) =>
  assessLog(facts(changes), reader, { ...ANY_LOG, ...wanted });

/** @param {Partial<LogFacts>} changes @param {Partial<StreamFields>} [wanted] which are fine, without a note */
function fine(changes, wanted) {
  const report = assess(changes, wanted);
  assert.deepEqual([report.problems, report.notes], [[], []]);
  return report;
}

/** @param {Partial<LogFacts>} changes @param {RegExp} pattern @param {Partial<StreamFields>} [wanted] @param {typeof READER} [reader] */
function problem(changes, pattern, wanted, reader) {
  const report = assess(changes, wanted, reader);
  assert.equal(report.problems.length, 1, JSON.stringify(report.problems));
  assert.match(report.problems[0] ?? '', pattern);
  return report;
}

/** @param {Partial<LogFacts>} changes @param {RegExp} pattern @param {Partial<StreamFields>} [wanted] */
function note(changes, pattern, wanted) {
  const { problems, notes } = assess(changes, wanted);
  assert.deepEqual(problems, []);
  assert.equal(notes.length, 1, JSON.stringify(notes));
  assert.match(notes[0] ?? '', pattern);
}

test('a log that can be followed', () => {
  assert.deepEqual(assess(), {
    path: '/data',
    kind: 'data directory',
    readable: true,
    directory: '/data/log',
    unit: null,
    format: 'csvlog',
    why: 'current_logfiles names no other',
    files: 2,
    bytes: 300,
    newest: { name: 'b.csv', size: 100, modifiedAt: '2023-11-14T22:13:20.000Z' },
    columns: 26,
    linePrefix: null,
    linePrefixFrom: null,
    timeZone: 'UTC',
    timeZoneFrom: 'configured',
    version: '15',
    problems: [],
    notes: [],
  });
});

test('of a data directory the best of what current_logfiles names', () => {
  const files = all({ csv: some('b.csv', CSV), json: some('b.json', JSONLOG), log: some('b.log', STDERR) });
  /** @type {[string[], string, string][]} */
  const cases = [
    [['csvlog'], 'csvlog', 'current_logfiles names no other'],
    [['jsonlog'], 'jsonlog', 'current_logfiles names no other'],
    [['stderr'], 'stderr', 'current_logfiles names no other'],
    [['stderr', 'csvlog'], 'csvlog', 'of csvlog, stderr in current_logfiles it tells the most'],
    [['stderr', 'jsonlog'], 'jsonlog', 'of jsonlog, stderr in current_logfiles it tells the most'],
    [['csvlog', 'jsonlog'], 'csvlog', 'of csvlog, jsonlog in current_logfiles it tells the most'],
    [
      ['stderr', 'csvlog', 'jsonlog'],
      'csvlog',
      'of csvlog, jsonlog, stderr in current_logfiles it tells the most',
    ],
  ];
  for (const [destinations, format, why] of cases) {
    const report = fine({ files, destinations });
    assert.deepEqual([report.format, report.why], [format, why]);
    assert.equal(report.newest?.name, { csvlog: 'b.csv', jsonlog: 'b.json', stderr: 'b.log' }[format]);
  }
  // Files of a destination that has none yet.
  const { format, newest } = fine({
    files: all({ log: some('b.log', STDERR) }),
    destinations: ['jsonlog', 'stderr'],
  });
  assert.deepEqual([format, newest], ['jsonlog', null]);
});

test('without current_logfiles the best of what is written now', () => {
  const at = (/** @type {string} */ name, /** @type {string} */ content, /** @type {number} */ modifiedAt) =>
    some(name, content, { newest: { name, size: 100, modifiedAt } });
  /** @type {[Partial<Record<Suffix, FileFacts>>, string, string][]} */
  const cases = [
    [{ csv: some('a.csv', CSV) }, 'csvlog', 'there are no other files'],
    [{ json: some('a.json', JSONLOG) }, 'jsonlog', 'there are no other files'],
    [{ log: some('a.log', STDERR) }, 'stderr', 'there are no other files'],
    [{ log: some('postgres', STDERR) }, 'stderr', 'there are no other files'],
    [
      { csv: at('a.csv', CSV, 1), log: at('a.log', STDERR, 9) },
      'csvlog',
      'of csvlog, stderr there it tells the most',
    ],
    [
      { json: at('a.json', JSONLOG, 9), log: at('a.log', STDERR, 1) },
      'jsonlog',
      'of jsonlog, stderr there it tells the most',
    ],
    [
      { csv: at('a.csv.1', CSV, 2), json: at('a.json.1', JSONLOG, 2) },
      'csvlog',
      'of csvlog, jsonlog there it tells the most',
    ],
    // log_destination was csvlog once.
    [{ csv: at('a.csv', CSV, 1), log: at('b.log', STDERR, 9) }, 'stderr', 'the newest file is'],
    [{ csv: at('b.csv', CSV, 9), log: at('a.log', STDERR, 1) }, 'csvlog', 'the newest file is'],
  ];
  for (const kind of /** @type {const} */ (['directory', 'data'])) {
    for (const [files, format, why] of cases) {
      const report = fine({ kind, destinations: [], files: all(files) });
      assert.deepEqual([report.format, report.why], [format, why]);
    }
  }
});

test('one file: by its name, else by its first record', () => {
  const file = { kind: /** @type {const} */ ('file'), directory: null, destinations: [] };
  /** @type {[Suffix, string, string | null, string, string][]} */
  const cases = [
    ['csv', 'x.csv', CSV, 'csvlog', 'its name says so'],
    ['csv', 'x.csv', null, 'csvlog', 'its name says so'],
    ['json', 'x.json', JSONLOG, 'jsonlog', 'its name says so'],
    ['log', 'x.log', STDERR, 'stderr', 'its name says no other'],
    ['log', 'x.log', null, 'stderr', 'its name says no other'],
    ['log', 'x', CSV, 'csvlog', 'its first record is'],
    ['log', 'x.txt', JSONLOG, 'jsonlog', 'its first record is'],
  ];
  for (const [suffix, name, content, format, why] of cases) {
    const report = fine({ ...file, files: all({ [suffix]: some(name, content) }) });
    assert.deepEqual([report.kind, report.format, report.why, report.files], ['file', format, why, 1]);
    assert.equal(report.columns, format === 'csvlog' && content !== null ? 26 : null);
  }
  problem(
    { ...file, files: all({ csv: some('x.csv', JSONLOG) }) },
    /^x\.csv holds jsonlog, not csvlog: name its format with --format$/,
  );
});

test('a format that was given', () => {
  const files = all({
    csv: some('b.csv', CSV),
    json: some('b.json', JSONLOG),
    log: some('b.log', STDERR, { count: 3 }),
  });
  for (const [format, name, count] of /** @type {const} */ ([
    ['csvlog', 'b.csv', 1],
    ['jsonlog', 'b.json', 1],
    ['stderr', 'b.log', 3],
  ])) {
    const report = fine({ files }, { format });
    assert.deepEqual(
      [report.format, report.why, report.newest?.name, report.files],
      [format, 'as --format says', name, count],
    );
  }
  const plain = fine({ files }, { format: 'plain' });
  assert.deepEqual([plain.format, plain.files, plain.bytes, plain.linePrefix], ['plain', 5, 300, null]);
  const file = {
    kind: /** @type {const} */ ('file'),
    directory: null,
    files: all({ csv: some('x.csv', STDERR) }),
  };
  assert.equal(fine(file, { format: 'stderr' }).linePrefix, '%m [%p] ');
  problem(file, /^x\.csv holds text, not csvlog: use --format auto, or name another$/, {
    format: 'csvlog',
  });
  problem(file, /^x\.csv holds text, not jsonlog: use/, { format: 'jsonlog' });
  const newer = some('c.log', STDERR, { newest: { name: 'c.log', size: 9, modifiedAt: 1_800_000_000 } });
  assert.equal(
    fine({ files: all({ csv: some('b.csv', CSV), log: newer }) }, { format: 'plain' }).newest?.name,
    'c.log',
  );
});

test('a format that was given and is not there', () => {
  const files = all({ json: some('b.json', JSONLOG), log: some('b.log', STDERR) });
  problem(
    { files },
    /^no csvlog in \/data\/log, only jsonlog, stderr: use --format auto, or add csvlog to log_destination$/,
    { format: 'csvlog' },
  );
  problem(
    { files: all({ csv: some('b.csv', CSV) }), kind: 'directory' },
    /^no stderr in \/data\/log, only csvlog/,
    {
      format: 'stderr',
    },
  );
});

test('every version of csvlog is fine, other counts are not', () => {
  const row = (/** @type {number} */ columns) =>
    all({ csv: some('b.csv', CSV.replace(/,+/, ','.repeat(columns - 1))) });
  for (const columns of [22, 23, 24, 26]) assert.equal(fine({ files: row(columns) }).columns, columns);
  for (const columns of [21, 25, 27]) problem({ files: row(columns) }, new RegExp(`has ${columns} columns`));
  // A first record longer than what was looked at.
  const long = all({ csv: some('b.csv', `${CSV.slice(0, 35)},"${'x'.repeat(100)}`) });
  assert.equal(fine({ files: long }).columns, null);
});

test('log_line_prefix: given, configured, found', () => {
  const at = { destinations: ['stderr'], files: all({ log: some('b.log', STDERR) }) };
  /** @param {Partial<LogFacts>} changes @param {Partial<StreamFields>} [wanted] */
  const prefix = (changes, wanted) => {
    const { linePrefix, linePrefixFrom } = fine({ ...at, ...changes }, wanted);
    return [linePrefix, linePrefixFrom];
  };
  assert.deepEqual(prefix({}), ['%m [%p] ', 'found']);
  assert.deepEqual(prefix({}, { linePrefix: '%m [%p] ' }), ['%m [%p] ', 'given']);
  // It says more than the lines, which are all of background processes.
  assert.deepEqual(prefix({ linePrefix: '%m [%p] %q%u@%d ' }), ['%m [%p] %q%u@%d ', 'configured']);
  assert.deepEqual(prefix({ linePrefix: '%m [%p] %q%u@%d ' }, { linePrefix: '%m [%p] ' }), [
    '%m [%p] ',
    'given',
  ]);
  // It was changed since the server started, or cannot be read back.
  assert.deepEqual(prefix({ linePrefix: '%t [%p] ' }), ['%m [%p] ', 'found']);
  assert.deepEqual(prefix({ linePrefix: '%u%d ' }), ['%m [%p] ', 'found']);
  const empty = all({ log: some('b.log', null) });
  assert.deepEqual(prefix({ files: empty }), [null, null]);
  assert.deepEqual(prefix({ files: empty, linePrefix: '%t ' }), ['%t ', 'configured']);
  assert.deepEqual(prefix({ files: empty }, { linePrefix: '%t ' }), ['%t ', 'given']);
  // csvlog has none.
  assert.equal(fine({ linePrefix: '%t ' }).linePrefix, null);
});

test('a log_line_prefix that fits no line, or cannot be found', () => {
  const at = { destinations: ['stderr'], files: all({ log: some('b.log', STDERR) }) };
  problem(at, /^log_line_prefix '%t \[%p\] ' fits no line of b\.log: give it with --line-prefix/, {
    linePrefix: '%t [%p] ',
  });
  // Free texts fit everything: a message must follow.
  problem(at, /^log_line_prefix '%u\|%d\|' fits no line/, { linePrefix: '%u|%d|' });
  problem(at, /^log_line_prefix '%m ' fits no line/, { linePrefix: '%m ' });
  assert.equal(fine(at, { linePrefix: '%a ' }).linePrefix, '%a ');
  const odd = all({ log: some('b.log', 'LOG:  a\n12 LOG:  b\nxx-- LOG:  c\n7 7 LOG:  d\n') });
  problem(
    { ...at, files: odd },
    /^no log_line_prefix could be found from the lines of b\.log: give it with --line-prefix/,
  );
  problem(
    { ...at, files: odd, linePrefix: '%t ' },
    /^log_line_prefix '%t ' of the configuration fits no line of b\.log/,
  );
  note(
    { ...at, files: all({ log: some('b.log', 'hello\nworld\n') }) },
    /^no line of b\.log looks like PostgreSQL's: each is stored/,
  );
  // Of a .log file that other formats were mixed into.
  assert.equal(
    fine({ ...at, kind: 'file', files: all({ log: some('b.log', CSV + STDERR) }) }).format,
    'csvlog',
  );
});

test('log_timezone: given, configured, neither', () => {
  const zone = (
    /** @type {Partial<LogFacts>} */ changes,
    /** @type {Partial<StreamFields>} */ wanted = {},
  ) => {
    const { timeZone, timeZoneFrom } = fine(changes, wanted);
    return [timeZone, timeZoneFrom];
  };
  assert.deepEqual(zone({ timeZone: 'Europe/Moscow' }), ['Europe/Moscow', 'configured']);
  assert.deepEqual(zone({ timeZone: 'Europe/Moscow' }, { timeZone: 'Asia/Tokyo' }), ['Asia/Tokyo', 'given']);
  problem(
    { timeZone: 'Mars/Olympus' },
    /^log_timezone = 'Mars\/Olympus' is not in the IANA database: name one that is equal with --timezone$/,
  );
  assert.deepEqual(zone({ timeZone: 'Mars/Olympus' }, { timeZone: 'UTC' }), ['UTC', 'given']);
  // An abbreviation that means one thing needs no zone.
  for (const clear of ['UTC', 'GMT', '+03', '-0330'])
    assert.deepEqual(
      zone({ timeZone: null, files: all({ csv: some('b.csv', CSV.replace('UTC', clear)) }) }),
      [null, null],
    );
  assert.deepEqual(zone({ timeZone: null, files: all({ csv: some('b.csv', null) }) }), [null, null]);
  for (const [destination, suffix, content] of /** @type {const} */ ([
    ['csvlog', 'csv', CSV],
    ['jsonlog', 'json', JSONLOG],
    ['stderr', 'log', STDERR],
  ])) {
    const files = all({ [suffix]: some(`b.${suffix}`, content.replaceAll('UTC', 'IST')) });
    note(
      { timeZone: null, destinations: [destination], files },
      /^log_timezone was not found.*give it with --timezone, as 'SHOW log_timezone' says it$/,
    );
    fine({ timeZone: null, destinations: [destination], files }, { timeZone: 'Asia/Kolkata' });
    fine({ timeZone: null, files }, { format: 'plain' });
  }
});

test('text that is not UTF-8 needs an encoding', () => {
  const bytes = Buffer.concat([Buffer.from(CSV.slice(0, 60)), Buffer.from([0xcf, 0xf0, 0x0a])]);
  const at = { files: all({ csv: some('b.csv', bytes) }) };
  const { notes } = assess(at);
  assert.match(
    notes.join(),
    /^b\.csv has text that is not UTF-8: say its encoding with --encoding NAME, or DATABASE=NAME/,
  );
  assert.deepEqual(assess(at, { encoding: 'WIN1251' }).notes, []);
  assert.deepEqual(assess(at, { encodings: { shop: 'WIN1251' } }).notes, []);
  // A character that is cut at the end of the sample, as it may be.
  const cut = Buffer.concat([Buffer.from(CSV), Buffer.from('\u20ac').subarray(0, 2)]);
  fine({ files: all({ csv: some('b.csv', cut) }) });
});

test('nothing there', () => {
  const empty = { files: all(), destinations: [] };
  problem(
    empty,
    /^no log files in \/data\/log: name the file that its stderr goes to, or journal:UNIT, as --log; or set logging_collector = on.*restart PostgreSQL$/,
  );
  const report = problem(
    { ...empty, kind: 'directory', path: '/l', directory: '/l' },
    /^no log files in \/l: /,
  );
  assert.deepEqual([report.format, report.why, report.files, report.readable], [null, null, 0, true]);
  // It was said what comes.
  assert.equal(fine(empty, { format: 'jsonlog' }).format, 'jsonlog');
});

test('places that are not there', () => {
  const empty = { files: all(), destinations: [], directory: null };
  problem({ ...empty, kind: 'missing' }, /^\/data does not exist: correct the path, or create it$/);
  problem({ ...empty, kind: 'other' }, /neither a file nor a directory/);
  problem({ ...empty, kind: 'hidden' }, /cannot be seen by monitor/);
  for (const kind of /** @type {const} */ (['missing', 'other', 'hidden']))
    assert.equal(assess({ ...empty, kind }).readable, false);
});

test('permissions name the owner and both remedies', () => {
  const denied = {
    need: /** @type {const} */ ('search'),
    mode: '700',
    path: '/data',
    owner: 'postgres',
    group: 'dba',
  };
  const empty = { files: all(), destinations: [] };
  const report = problem(
    { ...empty, denied },
    /^\/data cannot be entered by monitor \(postgres:dba, mode 700\): put monitor into group dba.*or use --sudo postgres$/,
  );
  assert.equal(report.readable, false);
  problem({ ...empty, denied: { ...denied, need: 'read' } }, /cannot be listed/);
  problem({ ...empty, denied }, /or use --sudo with a user who may$/, {}, { user: 'nobody', sudo: true });
  const file = { ...denied, need: /** @type {const} */ ('read'), mode: '600', path: '/data/log/a.csv' };
  const csv = some('b.csv', CSV, { count: 5, unreadable: 3, denied: file });
  problem(
    { files: all({ csv }) },
    /^3 of 5 log files cannot be read by monitor, such as \/data\/log\/a\.csv.*log_file_mode = 0640, or use --sudo postgres$/,
  );
  // Files of another format are nobody's concern, unless all are read.
  const files = all({ csv: some('b.csv', CSV), log: { ...csv, newest: null, sample: null } });
  fine({ files });
  problem({ files }, /^3 of 6 log files cannot be read/, { format: 'plain' });
});

test('the journal of a unit', () => {
  /** @param {string} state @param {string} [text] @param {string | null} [content] @returns {Partial<LogFacts>} */
  const journal = (state, text = '', content = null) => ({
    path: 'journal:pg.service',
    kind: 'journal',
    version: null,
    directory: null,
    destinations: [],
    files: all({ log: { ...none(), sample: content === null ? null : Buffer.from(content) } }),
    journal: { state: /** @type {'readable'} */ (state), text },
  });
  const report = fine(journal('readable', '', STDERR));
  assert.deepEqual(
    [report.kind, report.unit, report.readable, report.format, report.linePrefix, report.linePrefixFrom],
    ['journald', 'pg.service', true, 'stderr', '%m [%p] ', 'found'],
  );
  assert.equal(fine(journal('readable', '', STDERR), { format: 'plain' }).format, 'plain');
  problem(journal('empty'), /^the journal has nothing of pg\.service: is that its unit\?/);
  const denied = problem(
    journal('denied'),
    /^the journal cannot be read by monitor: put monitor into group systemd-journal, or use --sudo with one who is in it$/,
  );
  assert.equal(denied.readable, false);
  problem(journal('missing'), /no journal files: is systemd-journald running\?/);
  problem(journal('tool'), /journalctl is missing/);
  problem(journal('failed', 'no\u001b'), /^journalctl failed: no/);
});

test('a time beyond all calendars', () => {
  const csv = some('x.csv', CSV, { newest: { name: 'x', size: 1, modifiedAt: 999_999_999_999_999 } });
  assert.equal(assess({ files: all({ csv }) }).newest?.modifiedAt, '+275760-09-13T00:00:00.000Z');
});
