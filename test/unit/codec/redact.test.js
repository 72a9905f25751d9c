// What each class takes out of the wordings of a real server, and what it leaves; that rows stay rows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { REDACT_CLASSES } from '../../../src/base/redact-classes.js';
import { CopyBuffer } from '../../../src/codec/copy-buffer.js';
import { CSVLOG_COLUMNS } from '../../../src/codec/copy-columns.js';
import { addRedactions, noRedactions, Redactor, SEARCHED_BYTES } from '../../../src/codec/redact.js';
import { LOOSE, NONE, Templates } from '../../../src/codec/redact-templates.js';
import { readRows } from '../../fuzz/copy-rows.js';
import { readLogRows, run, sampleColumns, writeRecord } from './csvlog-model.js';

/** @import { RedactClass } from '../../../src/base/redact-classes.js' */
/** @typedef {Partial<Record<string, string | null>>} Texts by column */

const REDACTED_MARK = 1n << 27n;
const WORD = 'zqsecret';
/** Before the CSV columns: stream, file, offset. */
const FIRST = 3;
const NAMES = CSVLOG_COLUMNS.map(([name]) => name);

/** @param {string} text @returns {string} its UTF-8, a character a byte */
const latin1 = text => Buffer.from(text).toString('latin1');

/** @param {string} text */
const utf8 = text => Buffer.from(text, 'latin1').toString();

/** @param {Texts} texts the other columns have nothing to tell @returns {Buffer} of one csvlog record */
function recordOf(texts) {
  const plain = {
    message: 'division by zero',
    detail: null,
    hint: null,
    internal_query: null,
    context: null,
  };
  const values = { ...plain, query: null, application_name: 'psql', ...texts };
  return writeRecord(
    sampleColumns().map((value, column) => {
      const text = Object.entries(values).find(([name]) => name === NAMES[column]);
      return text === undefined ? value : typeof text[1] === 'string' ? latin1(text[1]) : null;
    }),
  );
}

/**
 * @param {Buffer} raw rows
 * @param {readonly RedactClass[]} classes
 * @param {number} [from]
 * @param {import('../../../src/codec/redact.js').Redactions} [counts]
 * @returns {Buffer}
 */
function redact(raw, classes, from = 0, counts = noRedactions()) {
  const rows = new CopyBuffer(16);
  rows.ensure(raw.length);
  rows.length = raw.copy(rows.buffer);
  new Redactor(classes).redact(rows, from, counts);
  return Buffer.from(rows.bytes());
}

/** @param {Texts} texts @param {readonly RedactClass[]} classes @returns {Record<string, unknown>} what is stored, by column */
function stored(texts, classes) {
  const { raw, count } = run(recordOf(texts), { maxRecordBytes: 1 << 24 });
  assert.equal(count, 1);
  const bytes = redact(raw, classes);
  assert.equal(readRows(bytes).length, 1);
  const [row = []] = readLogRows(bytes);
  const values = row.slice(FIRST, -2).map(value => (typeof value === 'string' ? utf8(value) : value));
  return { ...Object.fromEntries(NAMES.map((name, column) => [name, values[column]])), marks: row[30] };
}

/** @param {Texts} texts @param {readonly RedactClass[]} classes */
function redactions(texts, classes) {
  const counts = noRedactions();
  redact(run(recordOf(texts), { maxRecordBytes: 1 << 24 }).raw, classes, 0, counts);
  return counts;
}

/** @type {[RedactClass, Texts, Texts][]} class, what is written, what is stored */
const CASES = [
  ['statement_text', { query: 'SELECT 1' }, { query: '[redacted]' }],
  ['statement_text', { internal_query: 'SELECT 1' }, { internal_query: '[redacted]' }],
  ['statement_text', { message: 'statement: SELECT 1\nFROM x' }, { message: 'statement: [redacted]' }],
  [
    'statement_text',
    { message: 'execute <unnamed>: SELECT 1' },
    { message: 'execute <unnamed>: [redacted]' },
  ],
  [
    'statement_text',
    { message: 'duration: 0.1 ms  parse a: b: SELECT' },
    { message: 'duration: 0.1 ms  parse a: [redacted]' },
  ],
  [
    'statement_text',
    { context: 'SQL statement "SELECT "x"\n"\nPL/pgSQL function f(integer) line 3 at PERFORM' },
    { context: 'SQL statement "[redacted]"\nPL/pgSQL function f(integer) line 3 at PERFORM' },
  ],
  [
    'statement_text',
    { context: 'something else\nSQL statement "SELECT' },
    { context: 'something else\nSQL statement "[redacted]' },
  ],
  [
    'statement_text',
    {
      detail:
        'Process 1 waits for ShareLock on transaction 2; blocked by process 3.\nProcess 1: UPDATE\nx\nProcess 3: y',
    },
    {
      detail: 'Process 1 waits for ShareLock on transaction 2; blocked by process 3.\nProcess 1: [redacted]',
    },
  ],
  [
    'statement_parameter',
    { detail: "Parameters: $1 = 'a', $2 = NULL" },
    { detail: 'Parameters: [redacted]' },
  ],
  ['statement_parameter', { detail: "parameters: $1 = 'a'" }, { detail: 'parameters: [redacted]' }],
  [
    'statement_parameter',
    { context: "unnamed portal with parameters: $1 = 'a'" },
    { context: 'unnamed portal with parameters: [redacted]' },
  ],
  [
    'table_data',
    { detail: 'Key (lower(a), b)=(x) already exists., y) already exists.' },
    { detail: 'Key (lower(a), b)=([redacted]) already exists.' },
  ],
  [
    'table_data',
    { detail: 'Key (a)=(x) is not present in table "t".' },
    { detail: 'Key (a)=([redacted]) is not present in table "t".' },
  ],
  ['table_data', { detail: 'Key (a)=(x) is in a wording to come.' }, { detail: 'Key (a)=([redacted]' }],
  [
    'table_data',
    { detail: 'Key (a)=(x) conflicts with existing key (a)=(y) conflicts with existing key (a)=(z).' },
    { detail: 'Key (a)=([redacted]' },
  ],
  [
    'table_data',
    { detail: 'Key (a)=(x) already exists.\ny) already exists.\nz).' },
    { detail: 'Key (a)=([redacted]) already exists.\n[redacted]' },
  ],
  [
    'table_data',
    { detail: 'Failing row contains (1, a\n).' },
    { detail: 'Failing row contains ([redacted]).' },
  ],
  ['table_data', { detail: 'Failing row contains (1, a' }, { detail: 'Failing row contains ([redacted]' }],
  [
    'table_data',
    { message: 'invalid input syntax for type integer: "a\n"b"' },
    { message: 'invalid input syntax for type integer: "[redacted]"' },
  ],
  [
    'table_data',
    { context: 'COPY t, line 2, column c: "x' },
    { context: 'COPY t, line 2, column c: "[redacted]' },
  ],
  ['table_data', { context: 'COPY t, line 2: "a\tb"' }, { context: 'COPY t, line 2: "[redacted]"' }],
  [
    'table_data',
    { sql_state_code: '22P02', message: 'ungültige Eingabesyntax: »x«' },
    { message: '[redacted]' },
  ],
  [
    'table_data',
    { sql_state_code: '23505', detail: 'Schlüssel »(a)=(x)« existiert bereits.' },
    { detail: '[redacted]' },
  ],
  [
    'parsing_error',
    { message: 'syntax error at or near "x"y"' },
    { message: 'syntax error at or near "[redacted]"' },
  ],
  ['parsing_error', { message: 'syntax error at or near "x"', query: 'SELEC x' }, { query: '[redacted]' }],
  [
    'parsing_error',
    { sql_state_code: '42601', message: 'Syntaxfehler bei »x«', query: 'SELEC x' },
    { message: '[redacted]', query: '[redacted]' },
  ],
  [
    'parsing_error',
    { message: 'column "x" does not exist', query: 'SELECT x' },
    { message: 'column "[redacted]" does not exist', query: 'SELECT x' },
  ],
  [
    'ops',
    { message: 'could not open file "/etc/x": Permission denied' },
    { message: 'could not open [redacted]' },
  ],
  [
    'ops',
    { detail: 'The failed archive command was: cp a b' },
    { detail: 'The failed archive command was: [redacted]' },
  ],
  [
    'ops',
    {
      detail:
        'Password does not match for user "u".\nConnection matched file "/etc/pg_hba.conf" line 1: "local all"',
    },
    { detail: 'Password does not match for user "u".\nConnection matched [redacted]' },
  ],
  [
    'unidentified',
    { message: 'anything', hint: 'line 1\nline 2' },
    { message: '[redacted]', hint: '[redacted]' },
  ],
  ['unidentified', { message: 'Dauer: 0.1 ms  Anweisung: SELECT 1' }, { message: '[redacted]' }],
  [
    'unidentified',
    { message: 'division by zero', context: 'PL/pgSQL function f() line 1 at RAISE\nanything\nmore' },
    { message: 'division by zero', context: 'PL/pgSQL function f() line 1 at RAISE\n[redacted]' },
  ],
  ['unidentified', { message: 'division by zero and more' }, { message: '[redacted]' }],
  ['unidentified', { detail: 'Key (a)=(x) already exists.' }, { detail: 'Key (a)=(x) already exists.' }],
  ['unidentified', { detail: 'Key (a)=(x) is in a wording to come.' }, { detail: '[redacted]' }],
];

for (const [name, texts, expected] of CASES) {
  test(`${name}: ${JSON.stringify(Object.values(texts).at(-1))}`, () => {
    const row = stored(texts, [name]);
    for (const [column, value] of Object.entries(expected)) assert.equal(row[column], value, column);
    const isRedacted = Object.values(expected).some(value => value?.includes('[redacted]'));
    assert.equal(row['marks'] === REDACTED_MARK, isRedacted);
    assert.deepEqual(
      redactions(texts, [name]),
      isRedacted ? { records: 1, classes: { [name]: 1 } } : { records: 0, classes: {} },
    );
    for (const other of REDACT_CLASSES) {
      if (other === name || other === 'unidentified') continue;
      for (const column of Object.keys(expected)) {
        // What is not English may be of any class.
        if (/[«»]/.test(Object.values(texts).join(''))) continue;
        // Statements are a class of their own in their columns.
        if (name === 'unidentified' || column === 'query') continue;
        assert.equal(stored(texts, [other])[column], texts[column], `${other}, ${column}`);
      }
    }
  });
}

test('records are counted once, and in each class that something was taken out of', () => {
  const texts = { query: 'SELECT 1', internal_query: 'SELECT 2', application_name: 'password=x' };
  const counts = redactions(texts, ['statement_text', 'credential', 'ops']);
  assert.deepEqual(counts, { records: 1, classes: { statement_text: 1, credential: 1 } });
  addRedactions(counts, redactions(texts, ['credential']));
  addRedactions(counts, redactions({ message: 'nothing' }, ['credential']));
  assert.deepEqual(counts, { records: 2, classes: { statement_text: 1, credential: 2 } });
});

test('a wording with a secret wins over one without, even if the text ends within the secret', () => {
  const templates = new Templates(['value %i', 'value of %i: "%D"', 'value of "%N" is known']);
  assert.equal(templates.find('value of x: "y', 0), LOOSE);
  assert.deepEqual(templates.spans, [{ from: 13, to: 14, hole: 'D' }]);
  assert.equal(templates.find('value of x: "y"', 0), 15);
  assert.equal(templates.find('value of "x" is new', 0), 19);
  assert.deepEqual(templates.spans, []);
  assert.equal(templates.find('values', 0), NONE);
});

test('parameters in the plan of a statement, and a duration in another language, are secrets of both', () => {
  for (const name of /** @type {const} */ (['statement_text', 'statement_parameter'])) {
    const plan = { message: 'duration: 1.5 ms  plan:\nQuery Text: SELECT $1\nQuery Parameters: $1 = 1' };
    assert.equal(stored(plan, [name])['message'], 'duration: 1.5 ms  plan:[redacted]');
    assert.equal(stored({ message: 'Dauer: 1.5 ms  Plan:\nx' }, [name])['message'], '[redacted]');
  }
});

test('a text that may be in another language is taken out by every class that goes by wordings', () => {
  const worded = REDACT_CLASSES.filter(name => name !== 'credential' && name !== 'unidentified');
  /** @type {[Texts, Texts][]} */
  const cases = [
    [{ message: 'Anweisung: SELECT 1' }, { message: '[redacted]' }],
    [{ message: 'ejecutar <unnamed>: SELECT 1' }, { message: '[redacted]' }],
    [{ message: 'значение' }, { message: '[redacted]' }],
    [{ message: 'Parameter >>a<< auf >>b<< gesetzt' }, { message: '[redacted]' }],
    [{ error_severity: 'FEHLER', message: 'any words' }, { message: '[redacted]' }],
    // The language of the message is that of the others.
    [{ message: 'Anweisung: x', detail: 'any words' }, { detail: '[redacted]' }],
    [
      { context: 'PL/pgSQL function f() line 1 at RAISE\nistruzione SQL "x"' },
      { context: 'PL/pgSQL function f() line 1 at RAISE\n[redacted]' },
    ],
    // English stays what it is.
    [
      { message: 'any words', detail: 'any others' },
      { message: 'any words', detail: 'any others' },
    ],
    [{ message: 'relation "Übung" does not yet exist', detail: 'any words' }, { detail: 'any words' }],
  ];
  for (const [texts, expected] of cases) {
    for (const name of worded) {
      const row = stored({ sql_state_code: '00000', ...texts }, [name]);
      for (const [column, value] of Object.entries(expected)) assert.equal(row[column], value, name);
    }
    for (const [column, value] of Object.entries(texts)) {
      if (column !== 'error_severity') assert.equal(stored(texts, ['credential'])[column], value);
    }
  }
});

test('an error in another language without SQLSTATE may be one of the syntax of its statement', () => {
  const texts = { sql_state_code: null, message: 'error de sintaxis en «x»', query: 'SELEC x' };
  assert.equal(stored(texts, ['parsing_error'])['query'], '[redacted]');
  assert.equal(stored(texts, ['ops'])['query'], 'SELEC x');
  const english = { ...texts, message: 'division by zero' };
  assert.equal(stored(english, ['parsing_error'])['query'], 'SELEC x');
});

const CREDENTIALS = [
  `ALTER ROLE r PASSWORD '${WORD}'`,
  `ALTER ROLE r ENCRYPTED password E'it\\'s ${WORD}' VALID UNTIL 'x'`,
  `ALTER ROLE r PASSWORD 'it''s ${WORD}'`,
  `ALTER ROLE r PASSWORD '''${WORD}''${WORD}'`,
  `ALTER ROLE r PASSWORD U&'\\0061${WORD}'`,
  `ALTER ROLE r PASSWORD $q$a'${WORD}$q$`,
  `ALTER ROLE r PASSWORD /* 'x' */ -- 'y'\n '${WORD}'`,
  `ALTER ROLE r PASSWORD 'a'\n '${WORD}'`,
  `ALTER ROLE r PASSWORD '${WORD}`,
  `DO 'BEGIN EXECUTE ''ALTER ROLE r PASSWORD ''''it''''''''s ${WORD}'''' ''; END'`,
  `EXECUTE 'ALTER ROLE r PASSWORD ''${WORD}'''`,
  `EXECUTE 'ALTER ROLE r PASSWORD ''it''''s ${WORD}'''`,
  `CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'u', password '${WORD}')`,
  `SELECT dblink('host=h password=${WORD} user=u')`,
  `SELECT dblink('host=h password=''it\\''s ${WORD}'' user=u')`,
  `SELECT dblink('password=it''s${WORD}')`,
  `postgresql://u:${WORD}@h/d`,
  `postgres://u:a@${WORD}@h/d`,
  `'https://u:${WORD}@h/d'`,
  `{"password" : "a\\"${WORD}"}`,
  `password => '${WORD}'`,
  `PGPASSWORD=${WORD} psql`,
  `could not connect: "host=h password=${WORD}"`,
  `my_secret: ${WORD}`,
  `API_KEY='${WORD}'`,
  `SCRAM-SHA-256$4096:${WORD}`,
  `-----BEGIN RSA PRIVATE KEY-----\n${WORD}\n${WORD}\n-----END RSA PRIVATE KEY-----`,
  `a://b c://d:${WORD}@e password 'x' PASSWORD '${WORD}'`,
];

for (const text of CREDENTIALS) {
  test(`credential: ${JSON.stringify(text)}`, () => {
    for (const column of ['query', 'message', 'application_name', 'context', 'user_name']) {
      const value = String(stored({ [column]: `before ${text} after` }, ['credential'])[column]);
      assert.ok(!value.includes(WORD), value);
      assert.ok(value.startsWith('before '), value);
    }
  });
}

test('a text that only speaks of passwords stays', () => {
  for (const text of [
    'password authentication failed for user "u"',
    'User "u" has no password assigned.',
    `SELECT password, token FROM users WHERE name = 'x'`,
    `ALTER ROLE r PASSWORD '' VALID UNTIL 'x'`,
    'ALTER ROLE r PASSWORD NULL',
    'https://db.example:5432/x',
    'Token "x" is invalid.',
  ])
    assert.equal(stored({ query: text }, ['credential'])['query'], text);
});

test('a row that is cut and cannot be read is redacted whole, whatever the class', () => {
  const row = run(recordOf({ message: WORD })).raw;
  const values = readLogRows(row)[0] ?? [];
  assert.equal(values[FIRST + 13], WORD);
  // error_severity NULL and the mark of a record that was cut.
  const severity = row.indexOf(Buffer.from('\0\0\0\x03LOG', 'latin1'));
  const cut = Buffer.concat([
    row.subarray(0, severity),
    Buffer.from('ffffffff', 'hex'),
    row.subarray(severity + 7, -4),
    Buffer.from('000000080000000004000000', 'hex'),
  ]);
  for (const name of REDACT_CLASSES) {
    const [stored = []] = readLogRows(redact(cut, [name]));
    assert.equal(stored[FIRST + 13], '[redacted]');
    assert.equal(stored[30], (1n << 26n) | REDACTED_MARK);
  }
});

test('of a long text the beginning is searched and the rest redacted, between two characters', () => {
  const long = `SELECT ${'é'.repeat(SEARCHED_BYTES / 2)}${WORD}`;
  const query = String(stored({ query: long }, ['ops'])['query']);
  assert.ok(query === `SELECT ${'é'.repeat(SEARCHED_BYTES / 2 - 4)}[redacted]`);
});

test('rejected bytes become their hash, and a reason loses the value it shows', () => {
  const redactor = new Redactor(['ops']);
  const rejected = { streamId: 1, fileNo: 2, offset: 3, length: 2000, bytes: Buffer.from(WORD) };
  for (const [reason, expected] of /** @type {const} */ ([
    [`log_time is not a time: ${WORD}`, 'log_time is not a time: [redacted]'],
    [`"line" is not a number after "file": ${WORD}: x`, '"line" is not a number after "file": [redacted]'],
    [`jsonlog has no key "${WORD} is not a time: "`, 'jsonlog has no key [redacted]'],
    ['3 columns; a csvlog row has 22, 23, 24 or 26', '3 columns; a csvlog row has 22, 23, 24 or 26'],
    ['not csv: a quote that no csvlog row has there', 'not csv: a quote that no csvlog row has there'],
  ])) {
    const result = redactor.redactRejected({ ...rejected, reason });
    assert.equal(result.reason, expected);
    assert.match(Buffer.from(result.bytes).toString(), /^\[redacted\] sha256 [0-9a-f]{64}$/);
    assert.deepEqual([result.offset, result.length], [3, 2000]);
  }
});

/** Texts around a secret that may be taken for its end. */
const hostile = fc.string({
  unit: fc.constantFrom(
    '"',
    "'",
    '\\',
    '\n',
    ')',
    '(',
    ').',
    ': "',
    ' already exists.',
    '"\n',
    ' conflicts with existing key (',
    'a',
    'é',
    'PASSWORD ',
    '=',
  ),
  maxLength: 12,
});
/** @type {fc.Arbitrary<{ name: RedactClass, texts: Texts }>} */
const secret = fc.tuple(hostile, hostile).chain(([before, after]) => {
  const text = before + WORD + after;
  /** @type {{ name: RedactClass, texts: Texts }[]} */
  const cases = [
    { name: 'statement_text', texts: { query: text } },
    { name: 'statement_text', texts: { message: `statement: ${text}` } },
    { name: 'statement_text', texts: { message: `duration: 1.5 ms  execute a/b: ${text}` } },
    {
      name: 'statement_text',
      texts: { context: `SQL statement "${text}"\nPL/pgSQL function f() line 1 at PERFORM` },
    },
    { name: 'statement_parameter', texts: { detail: `Parameters: $1 = '${text}'` } },
    { name: 'table_data', texts: { detail: `Key (a)=(${text}) already exists.` } },
    { name: 'table_data', texts: { detail: `Key (a)=(${text}) conflicts with existing key (a)=(x).` } },
    { name: 'table_data', texts: { detail: `Key (a)=(x) conflicts with existing key (a)=(${text}).` } },
    { name: 'table_data', texts: { detail: `Failing row contains (${text}).` } },
    { name: 'table_data', texts: { message: `invalid input syntax for type json: "${text}"` } },
    { name: 'table_data', texts: { context: `COPY t, line 1, column c: "${text}"` } },
    { name: 'parsing_error', texts: { message: `syntax error at or near "${text}"` } },
    { name: 'ops', texts: { message: `could not open file "${text}": No such file or directory` } },
    { name: 'unidentified', texts: { message: `x${text}`, hint: `x${text}` } },
  ];
  return fc.constantFrom(...cases);
});
const classes = fc.subarray([...REDACT_CLASSES], { minLength: 1 });

test('no secret of a class that is on remains, whatever is around it', () => {
  fc.assert(
    fc.property(secret, classes, ({ name, texts }, names) => {
      const row = stored(texts, [...names, name]);
      for (const column of Object.keys(texts))
        assert.ok(!String(row[column]).includes(WORD), String(row[column]));
    }),
    { numRuns: 2000 },
  );
});

test('rows without a secret keep their bytes, the others all but texts; the place where it begins does not matter', () => {
  fc.assert(
    fc.property(
      fc.array(secret, { minLength: 1, maxLength: 6 }),
      classes,
      fc.nat(),
      (secrets, names, place) => {
        const raws = secrets.map(({ texts }) => run(recordOf(texts)).raw);
        const raw = Buffer.concat(raws);
        const whole = redact(raw, names);
        const from = Buffer.concat(raws.slice(0, place % raws.length)).length;
        const late = redact(raw, names, from);
        assert.deepEqual(late.subarray(0, from), raw.subarray(0, from));
        assert.deepEqual(Buffer.concat([redact(raw.subarray(0, from), names), late.subarray(from)]), whole);
        const [before, after] = [readLogRows(raw), readLogRows(whole)];
        assert.equal(after.length, before.length);
        for (const [index, row] of after.entries()) {
          const old = before[index] ?? [];
          const changed = row.flatMap((value, field) => (value === old[field] ? [] : [field]));
          assert.equal(row[30] === REDACTED_MARK, changed.length > 0);
          for (const field of changed) assert.ok(field === 30 || String(row[field]).includes('[redacted]'));
        }
      },
    ),
  );
});
