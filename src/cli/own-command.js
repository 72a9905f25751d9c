/**
 * How the operator calls pgsluice here, for hints that can be typed as they are: with or without npm.
 */

/**
 * @param {string} words
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string}
 */
export function ownCommand(words, env = process.env) {
  // npm sets it for the script that it runs: "start" and "pgsluice" of package.json.
  const underNpm = ['start', 'pgsluice'].includes(env['npm_lifecycle_event'] ?? '');
  if (!underNpm) return `pgsluice ${words}`;
  return words === 'start' ? 'npm start' : `npm run pgsluice -- ${words}`;
}
