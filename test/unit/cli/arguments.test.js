/** Every command line is understood exactly or refused with one line that says what was meant. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { PgsluiceError } from '../../../src/base/errors.js';
import { COMMON_OPTIONS, readArguments } from '../../../src/cli/arguments.js';
import { COMMANDS } from '../../../src/cli/commands.js';
import { helpOf, helpOverview } from '../../../src/cli/help.js';

/** @param {string[]} words */
const read = (...words) => readArguments(words, COMMANDS);

/** @param {string[]} words @param {RegExp} message */
function refused(words, message) {
  assert.throws(
    () => read(...words),
    error => {
      assert.ok(error instanceof PgsluiceError);
      assert.equal(error.code, 'USAGE');
      assert.match(error.message, message);
      assert.ok(!error.message.includes('\n'));
      return true;
    },
  );
}

test('a command with operands, options and lists', () => {
  const { command, operands, values } = read(
    'host',
    'add',
    'db1',
    '--ssh',
    'a@b',
    '--log',
    '/x',
    '--log=/y',
    '--trust-on-first-use',
    '--json',
  );
  assert.equal(command?.name, 'host add');
  assert.deepEqual(operands, ['db1']);
  assert.deepEqual({ ...values }, { ssh: 'a@b', log: ['/x', '/y'], 'trust-on-first-use': true, json: true });
});

test('options may stand anywhere, and -- ends them', () => {
  for (const words of [
    ['--json', 'host', 'show', 'db1'],
    ['host', '--json', 'show', 'db1'],
    ['host', 'show', 'db1', '--json'],
  ]) {
    const { command, operands, values } = read(...words);
    assert.equal(command?.name, 'host show');
    assert.deepEqual(operands, ['db1']);
    assert.equal(values['json'], true);
  }
  assert.deepEqual(read('host', 'show', '--', '-db1').operands, ['-db1']);
});

test('the value of an option before the command is not the command', () => {
  const { command, values } = read('--config', 'host', 'status');
  assert.equal(command?.name, 'status');
  assert.equal(values['config'], 'host');
});

test('unknown words name the nearest known one', () => {
  refused(['hots', 'list'], /unknown command "hots": did you mean "host"\?/);
  refused(['host', 'lsit'], /unknown command "host lsit": did you mean "host list"\?/);
  refused(['add', 'db1'], /did you mean "host add"\?/);
  refused(['config'], /needs one of print, check/);
  refused(['qwertyuiop'], /see "pgsluice help"/);
  refused(
    ['host', 'add', 'x', '--tranport', 'ssh2'],
    /unknown option "--tranport" of "pgsluice host add": did you mean "--transport"\?/,
  );
  refused(['host', 'remove', 'x', '--purg'], /did you mean "--purge"\?/);
  refused(['host', 'list', '-x'], /unknown option "-x"/);
  refused(['status', '--no-json'], /unknown option "--no-json"/);
  refused(['status', '--version'], /unknown option "--version"/);
});

test('an option of another command is unknown here', () => {
  refused(['host', 'update', 'x', '--log', '/x'], /unknown option "--log" of "pgsluice host update"/);
  refused(['host', 'update', 'x', '--from', 'end'], /unknown option "--from"/);
  refused(['host', 'show', 'x', '--purge'], /unknown option "--purge"/);
});

test('values that are missing, doubled or too many', () => {
  refused([], /no command/);
  refused(['host', 'add'], /needs a NAME/);
  refused(['host', 'add', 'a', 'b'], /takes no "b"/);
  refused(['host', 'list', 'a'], /takes no "a"/);
  refused(['host', 'add', 'a', '--ssh'], /--ssh needs a value/);
  refused(['host', 'add', 'a', '--ssh', '--json'], /--ssh needs a value/);
  refused(['host', 'add', 'a', '--ssh', 'x', '--ssh', 'y'], /--ssh is given twice/);
  refused(['host', 'list', '--json=yes'], /--json takes no value/);
});

test('names of the prototype are names like others', () => {
  refused(['constructor'], /unknown command/);
  refused(['host', '__proto__'], /unknown command/);
  refused(['host', 'list', '--constructor'], /unknown option/);
  refused(['host', 'list', '--__proto__=1'], /unknown option/);
});

test('help and the version need no whole command', () => {
  assert.equal(read('--help').command, null);
  assert.equal(read('-h').command, null);
  assert.equal(read('host', '--help').group, 'host');
  assert.equal(read('host', 'add', '--help').command?.name, 'host add');
  assert.equal(read('--version').values['version'], true);
});

test('whatever is typed, it is understood or a coded error of one line', () => {
  const word = fc.oneof(
    fc.constantFrom(
      'host',
      'add',
      'list',
      'help',
      'status',
      '--json',
      '--ssh',
      '--log',
      '--',
      '-',
      '--config',
      '-h',
    ),
    fc.string(),
    fc.string().map(text => `--${text}`),
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), words => {
      try {
        readArguments(words, COMMANDS);
      } catch (error) {
        assert.ok(error instanceof PgsluiceError, String(error));
        assert.equal(error.exitCode, 2);
        assert.doesNotMatch(error.message, /\n/);
      }
    }),
  );
});

test('an option means the same in every command, so it can be read before the command is known', () => {
  /** @type {Map<string, string>} */
  const shapes = new Map();
  for (const { name, options = {} } of COMMANDS) {
    for (const [option, { value, multiple }] of Object.entries({ ...COMMON_OPTIONS, ...options })) {
      const shape = JSON.stringify([value !== undefined, multiple === true]);
      assert.equal(shapes.get(option) ?? shape, shape, `--${option} of ${name}`);
      shapes.set(option, shape);
    }
  }
});

test('every command is in the overview, every option in the help of its command', () => {
  const overview = helpOverview(COMMANDS);
  for (const command of COMMANDS) {
    assert.ok(overview.includes(`pgsluice ${command.name}`), command.name);
    for (const option of Object.keys({ ...COMMON_OPTIONS, ...command.options })) {
      assert.match(helpOf(command), new RegExp(`^ {2}--${option}\\b`, 'm'), `${command.name} --${option}`);
    }
  }
});
