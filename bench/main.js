/**
 * npm run bench -- NAME [--json]: one benchmark. A line for people says machine, Node version and ratios; --json prints
 * one object a line instead. Nothing here is a test: speed is read, not asserted.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';

const BENCHES = ['ingest', 'latency', 'idle-fifos', 'parse'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
});
const [name = ''] = positionals;
if (!BENCHES.includes(name)) {
  process.stderr.write(`usage: npm run bench -- ${BENCHES.join('|')} [--json]\n`);
  process.exit(2);
}
if (name === 'parse') {
  await import('./parse.js');
} else {
  if (!values.json)
    process.stdout.write(`${cpus().length} x ${cpus()[0]?.model ?? '?'}, Node ${process.version}\n`);
  const { bench } = await import(`./${name}.js`);
  const results = await bench();
  for (const result of results) {
    process.stdout.write(
      values.json
        ? `${JSON.stringify({ bench: name, ...result })}\n`
        : `${Object.entries(result)
            .map(([key, value]) => `${key} ${value}`)
            .join('  ')}\n`,
    );
  }
}
