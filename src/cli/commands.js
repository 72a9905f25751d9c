/**
 * The commands, as data: names, options and their help, and what runs. arguments.js reads command lines by this
 * table and help.js writes by it. What a command needs is loaded when it runs, so that help is quick.
 */

/** @typedef {import('./arguments.js').Command} Command */
/** @typedef {import('./arguments.js').OptionSpec} OptionSpec */

/** Options that `host add` and `host update` share. @satisfies {Record<string, OptionSpec>} */
const CONNECTION_OPTIONS = {
  ssh: {
    value: '[user@]address[:port]',
    about: 'where its SSH server is (default: its NAME, port 22; IPv6 as [::1]:22)',
  },
  identity: { value: 'FILE', about: 'private key to log in with' },
  jump: { value: 'HOSTS', about: 'jump hosts, [user@]host[:port] with commas between, the nearest first' },
  sudo: { value: 'USER', about: 'read the logs as this user, by sudo without a password' },
  transport: { value: 'auto|openssh|ssh2|local', about: 'how to connect; local: this machine, without SSH' },
  'host-key': { value: 'KEY', about: "its public key, such as 'ssh-ed25519 AAAA...'" },
  'host-key-file': { value: 'FILE', about: 'its public key file, or a known_hosts file that has it' },
  'trust-on-first-use': { about: 'pin the key that it shows now, and print the fingerprint' },
  label: { value: 'KEY=VALUE', multiple: true, about: 'a label of the host' },
};

/** How logs are read. @satisfies {Record<string, OptionSpec>} */
const READING_OPTIONS = {
  format: {
    value: 'auto|csvlog|jsonlog|stderr|plain',
    about: 'what the logs are; auto (default): the best of what is there',
  },
  'line-prefix': {
    value: 'P',
    about: 'log_line_prefix of stderr logs (default: as configured there, or as their lines show it)',
  },
  timezone: { value: 'ZONE', about: 'log_timezone of the server (default: as configured there)' },
  encoding: {
    value: '[DATABASE=]NAME',
    multiple: true,
    about: 'encoding of text that is not UTF-8, of one database or of all others',
  },
};

/** @type {readonly Command[]} */
export const COMMANDS = [
  {
    name: 'init',
    about: 'create or upgrade the storage schema ("start" does it too)',
    run: async context => (await import('./init.js')).init(context),
  },
  {
    name: 'start',
    about: 'run the daemon in the foreground',
    ownsSignals: true,
    run: async context => (await import('./start.js')).start(context),
  },
  {
    name: 'host add',
    operand: 'NAME',
    about: 'monitor a host',
    options: {
      ssh: CONNECTION_OPTIONS.ssh,
      identity: CONNECTION_OPTIONS.identity,
      jump: CONNECTION_OPTIONS.jump,
      sudo: CONNECTION_OPTIONS.sudo,
      log: {
        value: 'PATH',
        multiple: true,
        about:
          'a data directory, log directory, file or journal:UNIT there; without it, its running clusters',
      },
      format: READING_OPTIONS.format,
      'line-prefix': READING_OPTIONS['line-prefix'],
      timezone: READING_OPTIONS.timezone,
      encoding: READING_OPTIONS.encoding,
      from: {
        value: 'end|current|start',
        about: 'where to begin: after what is there (default), with the newest file, with the oldest',
      },
      transport: CONNECTION_OPTIONS.transport,
      'host-key': CONNECTION_OPTIONS['host-key'],
      'host-key-file': CONNECTION_OPTIONS['host-key-file'],
      'trust-on-first-use': CONNECTION_OPTIONS['trust-on-first-use'],
      label: CONNECTION_OPTIONS.label,
    },
    notes: [
      'One of --host-key, --host-key-file and --trust-on-first-use is needed, unless the transport is local.',
      'Example: pgsluice host add db1 --ssh postgres@db1.example --log /var/lib/postgresql/15/main --trust-on-first-use',
    ],
    run: async context => (await import('./host-add.js')).hostAdd(context),
  },
  {
    name: 'host list',
    about: 'list the hosts',
    run: async context => (await import('./host-show.js')).hostList(context),
  },
  {
    name: 'host show',
    operand: 'NAME',
    about: 'show a host, its streams and their positions',
    run: async context => (await import('./host-show.js')).hostShow(context),
  },
  {
    name: 'host check',
    operand: 'NAME',
    about: 'connect to a host and tell what is there and what is missing',
    notes: [
      'Ends with 0 when all is usable, 4 when the host is not reachable or refused, 1 when something there is not usable.',
    ],
    run: async context => (await import('./host-check.js')).hostCheck(context),
  },
  {
    name: 'host authorize',
    operand: 'NAME',
    about: 'print an authorized_keys line with which a key can read the logs of a host, and do nothing else',
    options: {
      key: { value: 'KEY', about: "the public key, such as 'ssh-ed25519 AAAA...'" },
      'key-file': { value: 'FILE', about: 'the public key file (default: of the identity file of the host)' },
    },
    notes: [
      'Print and put it there again after the logs or the sudo user of the host changed, and after an upgrade.',
      'Example: pgsluice host authorize db1 | ssh root@db1.example "cat >>~postgres/.ssh/authorized_keys"',
    ],
    run: async context => (await import('./host-authorize.js')).hostAuthorize(context),
  },
  {
    name: 'host update',
    operand: 'NAME',
    about: 'change how a host is reached and how its logs are read; what is not given stays',
    options: { ...CONNECTION_OPTIONS, ...READING_OPTIONS },
    notes: [
      "--ssh replaces user, address and port together. --identity '', --jump '' and --sudo '' clear the value;",
      '--label KEY=VALUE adds or changes a label, --label KEY= removes it. A new host key replaces the pinned ones.',
      "How logs are read is changed for all streams of the host, for what is read from now on; --line-prefix '',",
      "--timezone '', --encoding '' and --encoding DATABASE= clear the value.",
    ],
    run: async context => (await import('./host-update.js')).hostUpdate(context),
  },
  {
    name: 'host pause',
    operand: 'NAME',
    about: 'stop reading a host until it is resumed; nothing is lost while its log files stay',
    run: async context => (await import('./host-edit.js')).hostPause(context, true),
  },
  {
    name: 'host resume',
    operand: 'NAME',
    about: 'read a paused host again, from where it was',
    run: async context => (await import('./host-edit.js')).hostPause(context, false),
  },
  {
    name: 'host remove',
    operand: 'NAME',
    about: 'stop monitoring a host; its records stay',
    options: { purge: { about: 'also delete its records' } },
    run: async context => (await import('./host-edit.js')).hostRemove(context),
  },
  {
    name: 'host import',
    operand: 'FILE|-',
    about: 'add the hosts of a file, one JSON object a line; all of them or none',
    options: { 'trust-on-first-use': { about: 'pin the keys that hosts without hostKeys show now' } },
    notes: [
      'A line has the fields of "host show --json", at least name, hostKeys and streams; "host export" writes such lines.',
      'Hosts that are there already and the same are left alone.',
      'Example: {"name":"db1","address":"db1.example","user":"postgres","hostKeys":["ssh-ed25519 AAAA..."],',
      '          "streams":["/var/lib/postgresql/17/main"]}          (on one line)',
    ],
    run: async context => (await import('./host-import.js')).hostImport(context),
  },
  {
    name: 'host export',
    operand: 'FILE|-',
    operandOptional: true,
    about: 'write all hosts, one JSON object a line, for "host import"',
    run: async context => (await import('./host-export.js')).hostExport(context),
  },
  {
    name: 'status',
    about: 'show what the running daemon does',
    run: async context => (await import('./status.js')).status(context),
  },
  {
    name: 'tail',
    operands: 'NAME',
    about: 'print the last records of these hosts, or of all, and those that come, as they are stored',
    options: {
      lines: { value: 'N', about: 'begin with the last N records (default: 10)' },
      severity: {
        value: 'LEVEL',
        about:
          'records of this error_severity and graver: DEBUG, LOG, INFO, NOTICE, WARNING, ERROR, FATAL, PANIC',
      },
      'no-follow': { about: 'end after the last records' },
    },
    notes: [
      'With --json each record is a JSON object on a line, with the columns of pgsluice.log.',
      'Example: pgsluice tail db1 db2 --severity ERROR',
    ],
    run: async context => (await import('./tail.js')).tail(context),
  },
  {
    name: 'config print',
    about: 'print the configuration in effect and where each value comes from',
    run: async context => (await import('./config.js')).configPrint(context),
  },
  {
    name: 'config check',
    about: 'check the configuration',
    run: async context => (await import('./config.js')).configCheck(context),
  },
  {
    name: 'help',
    operands: 'COMMAND',
    about: 'print help',
    run: async context => (await import('./help-command.js')).help(context, COMMANDS),
  },
];
