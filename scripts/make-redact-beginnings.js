/**
 * node scripts/make-redact-beginnings.js DIRECTORY...
 * Reads PostgreSQL's message catalogs (catalogs.js) and adds to src/codec/redact-beginnings.js how the messages that may
 * hold a secret (redact-rules.js) begin in other languages. Nothing is ever removed there: older servers say it so.
 * Only what is written in ASCII alone is taken: other letters tell by themselves that a text is not English.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { BEGINNINGS } from '../src/codec/redact-beginnings.js';
import { RULES } from '../src/codec/redact-rules.js';
import { catalogsIn } from './catalogs.js';

const TARGET = fileURLToPath(new URL('../src/codec/redact-beginnings.js', import.meta.url));
const HOLE = /%[nwitSAPDENO]/;
const SECRET = /%[SAPDENO]/;
const TWO_WORDS = /^\S+ ?(?:\S+ ?)?/;
/** Less than that begins too many texts. */
const MIN_LENGTH = 4;

const directories = process.argv.slice(2);
if (directories.length === 0) {
  process.stderr.write('usage: node scripts/make-redact-beginnings.js DIRECTORY...\n');
  process.exit(2);
}

const beginningOf = (/** @type {string} */ rule) => rule.split(HOLE)[0] ?? '';
/** Without the quotes and brackets that may come from somewhere else than the message. */
const secretBeginnings = RULES.filter(rule => SECRET.test(rule))
  .map(rule => beginningOf(rule).replace(/\W+$/, ''))
  .filter(beginning => beginning.length >= MIN_LENGTH - 1);
const found = new Set(BEGINNINGS);
for (const { catalog } of catalogsIn(directories)) {
  for (const [id, text] of catalog) {
    if (!/^[ -~]+$/.test(text)) continue;
    // What is put together from several messages begins with a whole one.
    const isPart = secretBeginnings.includes(id);
    if (!isPart && !(id.includes('%') && secretBeginnings.some(beginning => id.startsWith(beginning))))
      continue;
    const beginning = TWO_WORDS.exec(isPart ? `${text} ` : (text.split('%')[0] ?? ''))?.[0] ?? '';
    if (beginning.length >= MIN_LENGTH && !isEnglish(beginning)) found.add(beginning);
  }
}
const all = [...found].toSorted();
const needed = all.filter(text => !all.some(other => other !== text && text.startsWith(other)));
const head = `/**
 * How messages of PostgreSQL's server that may hold a secret begin in other languages, by two words at most, where ASCII
 * is enough for them. Data alone, written by scripts/make-redact-beginnings.js; redact.js gives it its meaning.
 */
`;
const lines = needed.map(text => `  ${/'/.test(text) ? JSON.stringify(text) : `'${text}'`},\n`).join('');
writeFileSync(TARGET, `${head}export const BEGINNINGS = [\n${lines}];\n`);
process.stdout.write(`${needed.length} beginnings\n`);

/** @param {string} beginning */
function isEnglish(beginning) {
  return RULES.some(rule => rule.startsWith(beginning) || beginning.startsWith(beginningOf(rule)));
}
