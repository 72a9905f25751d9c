/**
 * A host that means harm: a program in the place of the follower, run by a real sshd as the forced command of a key.
 *   node hostile-host.js CASE     writes what the case says to stdout (or stderr) as fast as it is taken, without end,
 *                                 or says one thing and falls silent
 * It ends when nobody reads it, and after LIFE_MS in any case.
 */
import { pathToFileURL } from 'node:url';

const LIFE_MS = 120_000;
const CHUNK_BYTES = 65_536;
const HELLO = 'V 1 1795000000\n';
const BEGUN = `${HELLO}B\n`;
const FILE = 'F 7 1 0 new a.csv\n';
const HUGE = '999999999999999';
export const ESCAPES = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\u2066\u2028\u007f';

/** @param {string} text @returns {Buffer} the text again and again, whole */
const filled = text =>
  Buffer.from(text.repeat(Math.max(1, Math.floor(CHUNK_BYTES / Buffer.byteLength(text)))));

/** @param {string} start @param {string} text @returns {Attack} */
const endless = (start, text) => {
  const chunk = filled(text);
  return { start, next: () => chunk };
};

/** @param {string} text @returns {Attack} */
const once = text => ({ start: text, next: () => null });

/** @param {string} start @param {(n: number) => string} make @returns {Attack} */
const counted = (start, make) => {
  let n = 0;
  return {
    start,
    next: () => {
      let text = '';
      while (text.length < CHUNK_BYTES) text += make((n += 1));
      return Buffer.from(text);
    },
  };
};

/** @param {number} day @param {string} message */
const row = (day, message) =>
  `${new Date(day * 86_400_000).toISOString().slice(0, 10)} 12:00:00.000 UTC,"u","d",17,"[local]",673f.11,1,"SELECT",2026-11-20 16:07:59 UTC,3/4,0,LOG,00000,"${message}",,,,,,,,,"psql","client backend",,0\n`;

/** @param {string} text */
const data = text => `D 0 ${Buffer.byteLength(text)}\n${text}`;

/** @param {number} n */
const cursor = n => `s=${'0'.repeat(31)}1;i=${n.toString(16)};b=2;m=3;t=4;x=5`;
const LOOK = `${HELLO}P before ${cursor(1)}\nB\nJ ${cursor(1)}\n`;
/** @param {number} n @param {string} fields */
const entry = (n, fields) => `__CURSOR=${cursor(n)}\n__REALTIME_TIMESTAMP=1795000000000000\n${fields}\n\n`;

/** @typedef {{ start: string, next: () => Buffer | null, stderr?: boolean }} Attack */

/** @type {Record<string, () => Attack>} */
const ATTACKS = {
  'beats without end': () => endless(BEGUN, 'H 1795000000 0 0 0\n'),
  'beginnings without end': () => endless(BEGUN, 'B\n'),
  'a header without end': () => endless(BEGUN, 'H'),
  'bytes without end': () => endless(`${BEGUN}${FILE}D 0 ${HUGE}\n`, 'x'),
  'a quote without end': () => endless(`${BEGUN}${FILE}D 0 ${HUGE}\n${row(20_000, '').slice(0, 40)}`, 'x'),
  'broken csv without end': () => endless(`${BEGUN}${FILE}D 0 ${HUGE}\na"b`, `${'x'.repeat(79)}\n`),
  'tiny lines without end': () => endless(`${BEGUN}${FILE}D 0 ${HUGE}\n`, 'x\n'),
  'unfinished files without end': () => {
    const bytes = 4_000_000;
    const body = Buffer.alloc(bytes, 'x');
    body.write('2026-11-20 12:00:00.000 UTC,"');
    let n = 0;
    return {
      start: BEGUN,
      next: () => Buffer.concat([Buffer.from(`F ${(n += 1)} 1 0 new ${n}.csv\nD 0 ${bytes}\n`), body]),
    };
  },
  'files without end': () => counted(BEGUN, n => `F ${n} 1 0 new ${n}.csv\n`),
  'one inode without end': () => counted(BEGUN, n => `F 7 1 0 new ${n}.csv\nD 0 2\nx\n`),
  'files to skip without end': () => counted(HELLO, n => `S ${n} 1 1 1 1 1 ./${n}.csv\n`),
  'days without end': () => {
    let n = 0;
    let offset = 0;
    return {
      start: `${BEGUN}${FILE}`,
      next: () => {
        let text = '';
        while (text.length < CHUNK_BYTES) text += row(17_500 + ((n += 1) % 3_000), 'a day');
        const frame = Buffer.from(`D ${offset} ${text.length}\n${text}`);
        offset += text.length;
        return frame;
      },
    };
  },
  'losses without end': () => endless(BEGUN, `L removed ${HUGE} a${ESCAPES}b\n`),
  'files that are gone without end': () => counted(BEGUN, n => `G ${n}\n`),
  'zones without end': () => counted(BEGUN, n => `Z Etc/GMT+${n % 12}\n`),
  'prefixes without end': () => endless(BEGUN, 'P %m [%p] \n'),
  'waiting without end': () => endless(BEGUN, `W missing ${ESCAPES}\n`),
  'stderr without end': () => ({ ...endless(BEGUN, 'noise '.repeat(100)), stderr: true }),
  'one waiting': () => once(`${BEGUN}W missing /var/${ESCAPES}/log\n`),
  'bytes before a file': () => once(`${BEGUN}${data('x\n')}`),
  'bytes at another place': () => once(`${BEGUN}${FILE}D 100 2\nx\n`),
  'bytes again': () => once(`${BEGUN}${FILE}${data('x\n')}${data('x\n')}`),
  'too many bytes that may not hold': () => once(`${BEGUN}${FILE}T 0 ${HUGE}\nx`),
  'bytes that may not hold, and others': () => once(`${BEGUN}${FILE}T 0 2\nx\n${data('x\n')}`),
  'no bytes': () => once(`${BEGUN}${FILE}D 0 0\n`),
  'a negative length': () => once(`${BEGUN}${FILE}D 0 -1\n`),
  'a length of 30 digits': () => once(`${BEGUN}${FILE}D 0 ${'9'.repeat(30)}\n`),
  'a sum over too much': () => once(`${HELLO}S 1 5 ${HUGE} 1 ${HUGE} 1 ./a.csv\nB\n`),
  'NUL in a name': () => once(`${BEGUN}F 7 1 0 new a\0.csv\n${data(row(20_000, 'm'))}`),
  'NUL in the prefix': () => once(`${BEGUN}P %m\0 \nF 7 1 0 new a.log\n${data('x\n')}`),
  'names of paths and escapes': () =>
    once(`${BEGUN}F 7 1 0 new ../../${'e'.repeat(4_000)}/${ESCAPES}.csv\n${data(row(20_000, ESCAPES))}`),
  'a copy of nothing': () => once(`${BEGUN}C 1 2 a.csv\n`),
  'nothing that is done': () => once(`${BEGUN}E 1 2\n`),
  'hello twice': () => once(`${BEGUN}${HELLO}`),
  'no hello': () => once(`B\n${FILE}${data(row(20_000, 'm'))}`),
  'a file that goes on elsewhere': () => once(`${BEGUN}F 7 1 5 known a.csv\n`),
  'another protocol': () => once('SSH-2.0-OpenSSH_9.2\r\n'),
  'journal entries without end': () => counted(LOOK, n => entry(n, `_PID=${n}\nMESSAGE=x`)),
  'journal looks without end': () => endless(`${HELLO}B\n`, `J ${cursor(1)}\nQ 0 1795000000\n`),
  'journal losses without end': () =>
    counted(LOOK, n => entry(n, `_TRANSPORT=driver\nN_DROPPED=${'9'.repeat(16)}\nMESSAGE=${ESCAPES}`)),
  'journal fields without end': () => endless(`${LOOK}__CURSOR=${cursor(1)}\n`, 'A=b\n'),
  'a journal message without end': () =>
    endless(`${LOOK}__CURSOR=${cursor(1)}\n__REALTIME_TIMESTAMP=1795000000000000\nMESSAGE=`, 'x'),
  'a journal field of 2^52 bytes': () =>
    endless(`${LOOK}__CURSOR=${cursor(1)}\nMESSAGE\n\0\0\0\0\0\0\x10\0`, 'x'),
  'a journal field of 2^63 bytes': () => once(`${LOOK}__CURSOR=${cursor(1)}\nMESSAGE\n${'\x7f'.repeat(8)}`),
  'a journal cursor that is none': () => once(`${HELLO}P after ${ESCAPES}\n`),
  'a journal entry without a look': () => once(`${HELLO}B\n${entry(1, 'MESSAGE=x')}`),
  'a journal entry without a time': () => once(`${LOOK}__CURSOR=${cursor(1)}\nMESSAGE=x\n\n`),
  'a journal of files': () => once(`${BEGUN}${FILE}${data('x\n')}`),
  'words of its own': () => once(`Welcome ${ESCAPES}\n`),
};

export const ATTACK_NAMES = Object.keys(ATTACKS);

async function main() {
  setTimeout(() => process.exit(0), LIFE_MS);
  process.stdin.on('error', () => {}).resume();
  process.stdout.on('error', () => process.exit(0));
  process.stderr.on('error', () => process.exit(0));
  const attack = ATTACKS[process.argv.slice(2).join(' ')]?.();
  if (!attack) process.exit(2);
  const out = attack.stderr ? process.stderr : process.stdout;
  process.stdout.write(attack.start);
  for (let chunk = attack.next(); chunk !== null; chunk = attack.next()) {
    if (!out.write(chunk)) await new Promise(resolve => out.once('drain', () => resolve(undefined)));
    else await new Promise(resolve => setImmediate(resolve));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
