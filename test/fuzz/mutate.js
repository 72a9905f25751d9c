/**
 * Damage: bytes -> other bytes, a few mutations at random places. What is put in is what parsers of logs trip over.
 * And marks: words that are in an input once or a few times, by which a check sees whether a byte got lost.
 */

/** @import { Random } from './random.js' */

/** What matters to some parser; latin1. */
const WORDS = [
  '\n', '\r', '\r\n', '\n\n', '\t', '\n\t', '\0', '\0\0\0', '"', '""', '",', '"\n', ',', ',,,,,,,,,,', '\\', '\\"',
  '\\u0000', '\\ud800', '\\udc00', '\\u', '\\n', '{', '}', '[', ']', ':', ':  ', '{}', '{"timestamp":"', '":null,"',
  '\xff', '\xc3', '\xe9', '\xed\xa0\x80', '\xf4\x90\x80\x80', '\xc0\x80', '\xe2\x82', '\xef\xbb\xbf', '\xcf\xf0\xe8',
  '-1', '0', '00', '1e999', '9007199254740993', '18446744073709551616', '-9223372036854775809', '2147483648',
  '0000-00-00', '2026-02-30 25:61:61.9999999 ZZZ', '2026-05-01 12:34:56.789 UTC', ' UTC', ' +99', ' -0330',
  'ERROR:  ', 'LOG:  ', 'DETAIL:  ', 'HINT:  ', 'QUERY:  ', 'CONTEXT:  ', 'STATEMENT:  ', 'LOCATION:  ',
  'BACKTRACE:  ', 'ОШИБКА:  ', 'ПОДРОБНОСТИ:  ', 'FEHLER:  ', 'duration: ', ' ms', ' ms  statement: ',
  ' at character 7', ' at character 99999999999', 'ERROR:  42P01: ', '%', '[', ']: ', '[unknown]', '@', '(5432)',
  'D 0 4\n', 'D 0 99999999\n', 'T 0 4\n', 'K 4\n', 'J s=1;i=2;b=3\n', 'Q 0 1\n', '__CURSOR=', 'MESSAGE=', 'MESSAGE\n', 'B\n', 'E\n',
].map(word => Buffer.from(word, /[^\0-\xff]/.test(word) ? 'utf8' : 'latin1')); // prettier-ignore

const MARK = /~k[0-9a-z]{6}~/g;

/** @param {Random} random */
export const randomWord = random => random.pick(WORDS);

/**
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {{ most?: number, other?: () => Buffer }} [options] mutations at most; other: bytes of another format
 * @returns {Buffer}
 */
export function mutate(random, bytes, { most = 8, other = () => random.bytes(random.size(1, 200)) } = {}) {
  let result = bytes;
  for (let left = random.int(most + 1); left > 0; left -= 1) result = mutateOnce(random, result, other);
  return result;
}

/**
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {() => Buffer} other
 * @returns {Buffer}
 */
function mutateOnce(random, bytes, other) {
  const at = random.int(bytes.length + 1);
  const length = Math.min(bytes.length - at, random.size(1, random.oneIn(4) ? 4000 : 40));
  const before = bytes.subarray(0, at);
  const piece = bytes.subarray(at, at + length);
  const after = bytes.subarray(at + length);
  switch (random.int(12)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      if (at < bytes.length) flipped[at] = (bytes[at] ?? 0) ^ (1 << random.int(8));
      return flipped;
    }
    case 1:
      return Buffer.concat([before, after]);
    case 2:
      return Buffer.concat([before, piece, piece, after]);
    case 3:
      return Buffer.concat([before, other(), piece, after]);
    case 4:
      return random.oneIn(2) ? before : Buffer.concat([piece, after]);
    case 5: {
      // Two pieces change places.
      const middle = random.int(after.length + 1);
      return Buffer.concat([before, after.subarray(0, middle), piece, after.subarray(middle)]);
    }
    case 6:
      return random.oneIn(4)
        ? Buffer.concat([before, Buffer.alloc(random.size(1, 20_000), randomWord(random)), piece, after])
        : Buffer.concat([before, random.bytes(random.size(1, 60)), after]);
    case 7: {
      // A number becomes another one.
      const number = /\d+/.exec(bytes.toString('latin1', at, at + 200));
      if (!number) return bytes;
      const from = at + number.index;
      const to = from + number[0].length;
      const digits = random.pick(['0', '-1', '4294967296', '9'.repeat(random.size(1, 60)), '00000000']);
      return Buffer.concat([bytes.subarray(0, from), Buffer.from(digits), bytes.subarray(to)]);
    }
    case 8: {
      // A line break goes or comes.
      const newline = bytes.indexOf(0x0a, at);
      if (newline < 0) return Buffer.concat([bytes, Buffer.from('\n')]);
      const rest = bytes.subarray(newline + random.int(2));
      return Buffer.concat([
        bytes.subarray(0, newline),
        Buffer.from(random.pick(['', '\r', '\t', '\0'])),
        rest,
      ]);
    }
    default:
      return Buffer.concat([before, randomWord(random), random.oneIn(3) ? after : piece, after]);
  }
}

/**
 * @param {Random} random
 * @param {Buffer} bytes
 * @returns {Buffer} with marks in some places
 */
export function addMarks(random, bytes) {
  const places = Array.from({ length: random.between(1, 12) }, () => random.int(bytes.length + 1));
  places.sort((a, b) => a - b);
  const parts = [];
  let from = 0;
  for (const at of places) {
    const name = random
      .int(36 ** 6)
      .toString(36)
      .padStart(6, '0');
    parts.push(bytes.subarray(from, at), Buffer.from(`~k${name}~`));
    from = at;
  }
  return Buffer.concat([...parts, bytes.subarray(from)]);
}

/**
 * @param {Buffer} bytes
 * @returns {{ mark: string, at: number }[]}
 */
export function marksIn(bytes) {
  return Array.from(bytes.toString('latin1').matchAll(MARK), ({ 0: mark, index: at }) => ({ mark, at }));
}
