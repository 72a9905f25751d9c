/** Which files of a directory are read: by format, by what PostgreSQL says it writes, and nothing twice. */
import assert from 'node:assert/strict';
import { renameSync, rmSync } from 'node:fs';
import { endsWith, lines, text } from './rotation-cases.js';

/** @typedef {import('./rotation-world.js').Watched} Watched */
/** @typedef {import('./rotation-cases.js').FileCase} FileCase */

const TIME = '2026-11-20 16:08:00.123 UTC';

let session = 0x100;

/** A row of csvlog for each message. @param {string[]} messages */
const csv = messages =>
  text(
    messages.map(
      message =>
        `${TIME},"u","d",17,"[local]",673f.${session++},1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"${message}",,,,,,,,,"psql","client backend",,0`,
    ),
  );
/** @param {string[]} messages */
const json = messages =>
  text(messages.map(message => JSON.stringify({ timestamp: TIME, pid: 17, error_severity: 'LOG', message })));
/** As the default log_line_prefix '%m [%p] ' makes them. @param {string[]} messages */
const stderr = messages => text(messages.map(message => `${TIME} [17] LOG:  ${message}`));

/** current_logfiles is replaced, as PostgreSQL does it. @param {Watched} log @param {string} content */
function current(log, content) {
  log.write('current_logfiles.tmp', content);
  renameSync(log.at('current_logfiles.tmp'), log.at('current_logfiles'));
}

/** A data directory whose server writes to these. @param {Watched} log @param {string} content */
function dataDirectory(log, content) {
  log.write('PG_VERSION', '18\n');
  log.mkdir('log');
  current(log, content);
}

/** @type {Record<string, FileCase>} */
export const FORMAT_CASES = {
  'a data directory': {
    format: 'auto',
    async run(log) {
      dataDirectory(log, 'stderr log/a.log\ncsvlog log/a.csv\n');
      log.write('log/a.log', stderr(['not stored']));
      log.write('log/a.csv', csv(lines('a')));
      log.write('a.csv', csv(['not a log']));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.write('log/b.log', '');
      log.write('log/b.csv', csv(lines('b')));
      current(log, 'stderr log/b.log\ncsvlog log/b.csv\n');
      await endsWith(log, [...lines('a'), ...lines('b')], { events: 0 });
    },
  },

  'auto: .csv, .json and .log of one name': {
    format: 'auto',
    async run(log) {
      log.write('a.log', stderr(lines('message')), 30);
      log.write('a.json', json(lines('message')), 20);
      log.write('a.csv', csv(lines('message')));
      await log.connect();
      await log.sees(lines('message').at(-1) ?? '');
      log.append('a.csv', csv(lines('more')));
      log.append('a.json', json(lines('more')));
      log.append('a.log', stderr(lines('more')));
      // PostgreSQL makes the .log file first.
      log.write('b.log', stderr(lines('next')));
      await log.sees(lines('more').at(-1) ?? '');
      log.write('b.csv', csv(lines('next')));
      log.write('b.json', json(lines('next')));
      await endsWith(
        log,
        ['message', 'more', 'next'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'auto: the .csv is removed before the .log of the same name': {
    format: 'auto',
    async run(log) {
      for (const name of ['a', 'b']) {
        log.write(`${name}.log`, stderr(lines(name)), 300);
        log.write(`${name}.csv`, csv(lines(name)), 300);
      }
      log.write('c.csv', csv(lines('c')));
      await log.connect();
      await log.sees(lines('c').at(-1) ?? '');
      rmSync(log.at('a.csv'));
      log.append('c.csv', csv(lines('more')));
      await log.sees(lines('more').at(-1) ?? '');
      await log.disconnect();
      rmSync(log.at('b.csv'));
      await log.connect();
      await endsWith(
        log,
        ['a', 'b', 'c', 'more'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'auto: .json and .log of one name': {
    format: 'auto',
    async run(log) {
      log.write('a.log', stderr(lines('message')), 30);
      log.write('a.json', json(lines('message')));
      await log.connect();
      await log.sees(lines('message').at(-1) ?? '');
      log.append('a.log', stderr(lines('more')));
      log.append('a.json', json(lines('more')));
      await endsWith(log, [...lines('message'), ...lines('more')], { events: 0 });
    },
  },

  'auto: only .log': {
    format: 'auto',
    async run(log) {
      log.write('a.log', stderr(lines('message')));
      await log.connect();
      await log.sees(lines('message').at(-2) ?? '');
      log.append('a.log', stderr(lines('more')));
      await log.settled();
      await endsWith(log, [...lines('message'), ...lines('more')], { events: 0 });
    },
  },

  'log_destination changes from stderr to csvlog': {
    format: 'auto',
    async run(log) {
      dataDirectory(log, 'stderr log/a.log\n');
      log.write('log/a.log', stderr(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.append('log/a.log', stderr(lines('last')));
      log.write('log/b.log', stderr(['ending log output to stderr']));
      log.write('log/b.csv', csv(lines('b')));
      current(log, 'csvlog log/b.csv\n');
      await endsWith(
        log,
        ['a', 'last', 'b'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'log_destination changes from stderr to csvlog while disconnected': {
    format: 'auto',
    async run(log) {
      dataDirectory(log, 'stderr log/a.log\n');
      log.write('log/a.log', stderr(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      await log.disconnect();
      log.append('log/a.log', stderr(lines('last')));
      log.write('log/b.log', stderr(['ending log output to stderr']));
      log.write('log/b.csv', csv(lines('b')));
      current(log, 'csvlog log/b.csv\n');
      await log.connect();
      await endsWith(
        log,
        ['a', 'last', 'b'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'log_destination changes from csvlog to stderr with a new name': {
    format: 'auto',
    async run(log) {
      dataDirectory(log, 'csvlog log/a.csv\n');
      log.write('log/a.log', stderr(['ending log output to stderr']));
      log.write('log/a.csv', csv(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      log.append('log/a.csv', csv(lines('last')));
      log.write('log/b.log', stderr(lines('b')));
      current(log, 'stderr log/b.log\n');
      await endsWith(
        log,
        ['a', 'last', 'b'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'log_destination changes from csvlog to stderr while disconnected': {
    format: 'auto',
    async run(log) {
      dataDirectory(log, 'csvlog log/a.csv\n');
      log.write('log/a.log', stderr(['ending log output to stderr']));
      log.write('log/a.csv', csv(lines('a')));
      await log.connect();
      await log.sees(lines('a').at(-1) ?? '');
      await log.disconnect();
      log.append('log/a.csv', csv(lines('last')));
      log.write('log/b.log', stderr(lines('b')));
      current(log, 'stderr log/b.log\n');
      await log.connect();
      await endsWith(
        log,
        ['a', 'last', 'b'].flatMap(tag => lines(tag)),
        { events: 0 },
      );
    },
  },

  'a format takes the files of its extension': {
    format: 'csvlog',
    async run(log) {
      log.write('a.log', stderr(lines('not stored')));
      log.write('a.json', json(lines('not stored')));
      log.write('a.csv', csv(lines('a')));
      log.write('a.csv.1', csv(lines('old')), 100);
      log.write('a.csv~', csv(lines('not stored')));
      log.write('.a.csv', csv(lines('not stored')));
      log.write('a.csv.xz', 'not read');
      await log.connect();
      await endsWith(log, [...lines('old'), ...lines('a')], { events: 0 });
      assert.equal(log.status?.rejected, 0);
    },
  },
};
