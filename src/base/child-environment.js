/**
 * The environment for programs that have nothing to do with the storage, ssh above all: without the passwords that an
 * operator may have put there. A `SendEnv *` in an ssh_config would send them to every host.
 */
const SECRET = ['PGPASSWORD', 'PGSLUICE_STORAGE_URL'];

/** @returns {NodeJS.ProcessEnv} */
export function environmentWithoutSecrets() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !SECRET.includes(name)));
}
