/** Where the storage's password may come from, each against a server that asks for it, and what is refused. */
import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startPostgres } from '../../helpers/postgres.js';
import { failed, pgsluice } from '../cli/support.js';

const ROLE = 'keeper';
/** Every character that means something in a URL, in a .pgpass file, or to a careless trim. */
const PASSWORD = " 100%25 & p+?#/@:\\ü' ";

/** @type {string} */
let dir;
/** @type {Awaited<ReturnType<typeof startPostgres>>} */
let postgres;
/** @type {string} */
let url;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'pgsluice-password-'));
  postgres = await startPostgres({ tcp: 'scram' });
  await postgres.query(`CREATE ROLE ${ROLE} LOGIN PASSWORD '${PASSWORD.replaceAll("'", "''")}'`);
  await postgres.createDatabase('kept');
  await postgres.query(`ALTER DATABASE kept OWNER TO ${ROLE}`);
  url = `postgres://${ROLE}@127.0.0.1:${postgres.port}/kept`;
});
after(async () => {
  await postgres.stop();
  await rm(dir, { recursive: true });
});

/** @param {string} name @param {string} text @param {number} [mode] */
async function file(name, text, mode = 0o600) {
  const path = join(dir, name);
  await writeFile(path, text);
  await chmod(path, mode);
  return path;
}

/** @param {NodeJS.ProcessEnv} env */
const init = env =>
  pgsluice(['init'], { env: { HOME: dir, PGSLUICE_CONFIG: '', PGSLUICE_STORAGE_URL: url, ...env } });

test('the password is found in its file, in the URL, in the environment and in a .pgpass file', async () => {
  const encoded = encodeURIComponent(PASSWORD);
  const entry = `127.0.0.1:${postgres.port}:kept:${ROLE}:${PASSWORD.replaceAll(/[\\:]/g, '\\$&')}\n`;
  // Only the last one lives there.
  const home = join(dir, 'home');
  await mkdir(home);
  await file('home/.pgpass', entry);
  const withQuery = `${url}?application_name=x`;
  for (const env of [
    { PGSLUICE_STORAGE_PASSWORD_FILE: await file('password', `${PASSWORD}\nnot this\n`) },
    {
      PGSLUICE_STORAGE_PASSWORD_FILE: await file('dos', `${PASSWORD}\r\n`, 0o400),
      PGSLUICE_STORAGE_URL: withQuery,
    },
    { PGSLUICE_STORAGE_URL: url.replace('@', `:${encoded}@`) },
    { PGPASSWORD: PASSWORD },
    { PGPASSFILE: await file('pgpass', `other:*:*:*:x\n${entry}`) },
    { HOME: home },
  ]) {
    const { code, stderr } = await init(env);
    assert.equal(code, 0, `${Object.keys(env).join()}: ${stderr}`);
  }
});

test('without the password, or with a wrong one, the storage refuses and says nothing of it', async () => {
  failed(await init({}), 1, /asks for a password and there is none: set storage\.password_file/);
  const wrong = await init({ PGSLUICE_STORAGE_PASSWORD_FILE: await file('wrong', 'wrong-word\n') });
  failed(wrong, 1, /password authentication failed/);
  assert.doesNotMatch(wrong.stderr, /wrong-word/);
});

test('a file that others can read is refused; of .pgpass it is said, as libpq does', async () => {
  for (const mode of [0o640, 0o604, 0o620]) {
    const path = await file('exposed', `${PASSWORD}\n`, mode);
    failed(
      await init({ PGSLUICE_STORAGE_PASSWORD_FILE: path }),
      1,
      /storage\.password_file .*exposed can be read or changed by others \(mode 06\d\d\): chmod 600 it/,
    );
  }
  const entry = await file('pgpass-exposed', `*:*:*:${ROLE}:${PASSWORD}\n`, 0o640);
  const { code, stderr } = await init({ PGPASSFILE: entry });
  assert.equal(code, 1);
  assert.match(stderr, /password file ".*pgpass-exposed" has group or world access/);
});

test('a file without a password, or none, is refused', async () => {
  const empty = await file('empty', '\nsecond\n');
  failed(await init({ PGSLUICE_STORAGE_PASSWORD_FILE: empty }), 2, /empty has an empty first line/);
  const missing = join(dir, 'missing');
  failed(await init({ PGSLUICE_STORAGE_PASSWORD_FILE: missing }), 1, /missing cannot be read: ENOENT/);
});
