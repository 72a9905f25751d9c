/**
 * node scripts/make-languages.js DIRECTORY...
 * Reads the message catalogs of PostgreSQL's server (LANGUAGE/LC_MESSAGES/postgres*.mo, at any depth) and adds to
 * src/codec/languages-data.js what it does not have yet. Nothing is ever removed or moved there: the place of a
 * severity is stored in rows. Stops without writing when a word would have two meanings that DECIDED does not settle.
 * Only what a catalog really uses is taken: gettext leaves fuzzy and empty translations out of .mo files.
 * Catalogs: /usr/share/locale of a Debian machine with PostgreSQL, share/locale of the builds for Windows.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { catalogsIn } from './catalogs.js';

const TARGET = fileURLToPath(new URL('../src/codec/languages-data.js', import.meta.url));

const SEVERITIES = ['DEBUG', 'LOG', 'INFO', 'NOTICE', 'WARNING', 'ERROR', 'FATAL', 'PANIC'];
const LABELS = ['DETAIL', 'HINT', 'QUERY', 'CONTEXT', 'LOCATION', 'STATEMENT', 'BACKTRACE'];
const POSITION = ' at character %d';
/** The messages of postgres.c and fastpath.c begin so; auto_explain's is never translated. */
const DURATION = /^duration: %s ms/;
/** What stands before the time, the time, its unit: the rest is not looked at. */
const DURATION_PARTS = /^([^%]+)%s(\s?[^\s,%]+)/;

/**
 * Words with two meanings, and which of them they are given.
 * Georgian has one word for NOTICE and WARNING. It becomes WARNING: a notice among the warnings is a smaller harm
 * than a warning that nobody sees, and sql_state_code still tells them apart (00000 and 01xxx).
 * @type {Record<string, string>}
 */
const DECIDED = { გაფრთხილება: 'WARNING' };

const HEAD = `/**
 * How PostgreSQL's server says its severities, labels, error positions and durations in the languages that it has been
 * translated to (versions 10 to 18, zh_TW: 8 and 9). Data alone; languages.js and duration.js give it its meaning.
 * Written by scripts/make-languages.js, which only ever appends: the place of a severity in its list, counted from 1,
 * is stored in rows for ever.
 */
`;

/** @typedef {[text: string, meaning: string, languages: string]} Entry */

const directories = process.argv.slice(2);
if (directories.length === 0) {
  process.stderr.write('usage: node scripts/make-languages.js DIRECTORY...\n');
  process.exit(2);
}

const old = await import(TARGET).catch(() => ({}));
/** @type {Record<string, Entry[]>} */
const lists = {
  SEVERITIES: structuredClone(old.SEVERITIES ?? []),
  LABELS: structuredClone(old.LABELS ?? []),
  POSITIONS: structuredClone(old.POSITIONS ?? []),
  DURATIONS: structuredClone(old.DURATIONS ?? []),
};

/** Language by language, so that a first run puts together what belongs together. */
const catalogs = catalogsIn(directories);
for (const { catalog, language } of catalogs) take(catalog, language);

const body = Object.entries(lists).map(([name, entries]) => {
  const says = {
    SEVERITIES: '[word, tag, languages]',
    LABELS: '[label with all that is printed before the text, meaning, languages]',
    POSITIONS: '[what is before the number, what is after it, languages]',
    DURATIONS: '[what is before the time, its unit, languages]',
  }[name];
  return `\n/** @type {readonly (readonly [string, string, string])[]} ${says} */\nexport const ${name} = ${JSON.stringify(entries)};\n`;
});
const options = { ...(await resolveConfig(TARGET)), filepath: TARGET };
writeFileSync(TARGET, await format(HEAD + body.join(''), options));
const counts = Object.entries(lists).map(([name, entries]) => `${entries.length} ${name.toLowerCase()}`);
process.stdout.write(`${catalogs.length} catalogs: ${counts.join(', ')}\n`);

/**
 * @param {Map<string, string>} catalog
 * @param {string} language
 */
function take(catalog, language) {
  for (const tag of SEVERITIES) {
    const word = catalog.get(tag);
    if (word && !SEVERITIES.includes(word)) add('SEVERITIES', word, DECIDED[word] ?? tag, language);
  }
  for (const label of LABELS) {
    for (const [id, text] of catalog) {
      if (!id.startsWith(`${label}:  `) || (id !== `${label}:  ` && label !== 'LOCATION')) continue;
      add('LABELS', text.split('%')[0] ?? '', label, language);
    }
  }
  const [before, after] = (catalog.get(POSITION) ?? '').split('%d');
  if (before && after !== undefined) add('POSITIONS', before, after, language, true);
  for (const [id, text] of catalog) {
    const parts = DURATION.test(id) && DURATION_PARTS.exec(text);
    if (parts) add('DURATIONS', parts[1] ?? '', parts[2] ?? '', language, true);
  }
}

/**
 * @param {string} name of the list
 * @param {string} text
 * @param {string} meaning
 * @param {string} language
 * @param {boolean} [both] the text may have several meanings
 */
function add(name, text, meaning, language, both = false) {
  const list = lists[name] ?? [];
  const there = list.find(entry => entry[0] === text && (!both || entry[1] === meaning));
  if (!there) {
    list.push([text, meaning, language]);
  } else if (there[1] !== meaning) {
    throw new Error(`"${text}" is ${there[1]} (${there[2]}) and ${meaning} (${language}): decide which`);
  } else if (!there[2].split(' ').includes(language)) {
    there[2] += ` ${language}`;
  }
}
