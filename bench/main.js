/**
 * npm run bench -- NAME [--json]: one benchmark. A line for people says machine, Node version and ratios; --json prints
 * one object a line instead. Nothing here is a test: speed is read, not asserted.
 */
import { availableParallelism, cpus } from 'node:os';
import { parseArgs } from 'node:util';

const BENCHES = ['ingest', 'latency', 'idle-fifos', 'parse', 'huge-record', 'refusals'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
});
const [name = ''] = positionals;
if (!BENCHES.includes(name)) {
  process.stderr.write(`usage: npm run bench -- ${BENCHES.join('|')} [--json]\n`);
  process.exit(2);
}
const machine = {
  machine: cpus()[0]?.model ?? 'unknown',
  cores: availableParallelism(),
  node: process.version,
};
if (!values.json) process.stdout.write(`${machine.cores} x ${machine.machine}, Node ${machine.node}\n`);
const { bench, table = lines } = await import(`./${name}.js`);
const results = await bench();
if (values.json) {
  for (const result of results)
    process.stdout.write(`${JSON.stringify({ bench: name, ...result, ...machine })}\n`);
} else {
  process.stdout.write(table(results));
}

/** @param {Record<string, unknown>[]} results */
function lines(results) {
  return results
    .map(result => Object.entries(result).map(([key, value]) => `${key} ${String(value)}`))
    .map(words => `${words.join('  ')}\n`)
    .join('');
}
