#!/usr/bin/env node
// Starts the command line; nothing else. It has to parse under any Node, so that an old one gets a sentence and not
// a syntax error: the program itself is loaded only after the check.
const MINIMUM_MAJOR = 22;

if (Number.parseInt(process.versions.node, 10) < MINIMUM_MAJOR) {
  process.stderr.write(
    `pgsluice: Node ${process.versions.node} is too old: run it with Node ${MINIMUM_MAJOR} or newer\n`,
  );
  process.exitCode = 2;
} else {
  const { main } = await import('../src/cli/main.js');
  await main(process.argv.slice(2));
}
