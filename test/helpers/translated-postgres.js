/**
 * A real PostgreSQL with every language that the system's package has.
 * No locale is installed for it. glibc takes the catalog from the name of the locale, so C.utf8, which is always
 * there, stands under all the names in a LOCPATH of our own. startPostgres() gives a server no environment, hence a
 * directory of programs in which postgres is a shell script.
 */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { access, chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { startPostgres, systemBinDirectories } from './postgres.js';

const UTF8_LOCALE = '/usr/lib/locale/C.utf8';
const CATALOGS = '/usr/share/locale';
const MIN_LANGUAGES = 10;

/**
 * @param {Record<string, string>} settings
 * @returns {Promise<{ postgres: import('./postgres.js').TestPostgres, languages: string[], stop: () => Promise<void> }>}
 *   languages: their locales are named LANGUAGE.UTF-8
 */
export async function startTranslatedPostgres(settings) {
  const [bin] = await systemBinDirectories();
  assert.ok(bin, 'no PostgreSQL of the system');
  await access(UTF8_LOCALE);
  const major = path.basename(path.dirname(bin));
  const files = globSync(`*/LC_MESSAGES/postgres-${major}.mo`, { cwd: CATALOGS });
  const languages = files.map(file => file.split(path.sep)[0] ?? '').toSorted();
  assert.ok(languages.length >= MIN_LANGUAGES, `PostgreSQL ${major} has ${languages.length} languages here`);

  const directory = await mkdtemp(path.join(os.tmpdir(), 'pgt-languages-'));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    await chmod(directory, 0o755);
    const locales = path.join(directory, 'locale');
    await mkdir(locales);
    for (const language of languages) await symlink(UTF8_LOCALE, path.join(locales, `${language}.UTF-8`));
    for (const name of ['initdb', 'pg_ctl']) await symlink(path.join(bin, name), path.join(directory, name));
    const script = `#!/bin/sh\nLOCPATH='${locales}' exec '${path.join(bin, 'postgres')}' "$@"\n`;
    await writeFile(path.join(directory, 'postgres'), script, { mode: 0o755 });
    const postgres = await startPostgres({ binaries: directory, settings });
    return {
      postgres,
      languages,
      stop: async () => {
        await postgres.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
