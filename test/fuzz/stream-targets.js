/**
 * What hosts answer, under fuzz: the follower's frames, the journal's entries, the probe. However it is damaged, the
 * only error is FOLLOWER_PROTOCOL, and any way of cutting it gives the same up to the same place.
 */
import assert from 'node:assert/strict';
import { PgsluiceError } from '../../src/base/errors.js';
import { FrameDecoder } from '../../src/codec/frames.js';
import { JournalDecoder } from '../../src/codec/journal-export.js';
import { parseProbe } from '../../src/follower/probe.js';
import { cursorOf, exported, START_US, suppressed } from '../helpers/journal.js';
import { anyFormat, records } from './material.js';
import { mutate } from './mutate.js';

/** @import { Random } from './random.js' */
/** @import { Target } from './targets.js' */

const KINDS = ['data', 'directory', 'file', 'other', 'hidden', 'missing'];
const SAMPLE_MAX_BYTES = 8192;
const CLOCK = Math.floor(START_US / 1e6);

/** @type {Target[]} */
export const streamTargets = [
  {
    name: 'frames',
    make: random => mutate(random, frames(random)),
    check(bytes, random) {
      const whole = decodeFrames(bytes, [bytes.length]);
      assert.deepEqual(decodeFrames(bytes, sizes(random, bytes)), whole, 'when cut otherwise');
    },
  },
  {
    name: 'journal',
    make: random => mutate(random, journal(random)),
    check(bytes, random) {
      const maxPieceBytes = random.pick([16, 300, 1 << 20]);
      const whole = decodeJournal(bytes, [bytes.length], maxPieceBytes);
      assert.deepEqual(
        decodeJournal(bytes, sizes(random, bytes), maxPieceBytes),
        whole,
        'when cut otherwise',
      );
    },
  },
  {
    name: 'probe',
    make: random => mutate(random, answer(random)),
    check(bytes, random) {
      const wanted = {
        logs: random.pick([[], ['/var/log/postgresql'], ['/a', '/b']]),
        discover: random.oneIn(2),
      };
      /** @type {import('../../src/follower/probe.js').ProbeFacts | null} */
      let facts = null;
      errorOf(() => {
        facts = parseProbe(bytes, wanted);
      });
      checkFacts(facts, wanted.logs.length);
    },
  },
];

/** @param {import('../../src/follower/probe.js').ProbeFacts | null} facts @param {number} least */
function checkFacts(facts, least) {
  if (facts === null) return;
  const { clock, logs } = facts;
  assert.ok(Number.isSafeInteger(clock) && logs.length >= least, 'clock and logs');
  for (const { kind, files } of logs) {
    assert.ok(KINDS.includes(kind), 'kind of a log');
    for (const { count, bytes, unreadable, newest, sample } of Object.values(files)) {
      for (const number of [count, bytes, unreadable, newest?.size ?? 0, newest?.modifiedAt ?? 0])
        assert.ok(Number.isSafeInteger(number), 'a number');
      assert.ok(sample === null || sample.length <= SAMPLE_MAX_BYTES, 'length of a sample');
    }
  }
}

/**
 * @param {() => void} work
 * @returns {string | null} the code of the error it throws, which must be one of the protocol
 */
function errorOf(work) {
  try {
    work();
    return null;
  } catch (error) {
    if (!(error instanceof PgsluiceError) || error.code !== 'FOLLOWER_PROTOCOL') throw error;
    assert.ok(!/[\r\n]/.test(error.message), 'an error of more than one line');
    return error.code;
  }
}

/** @param {Random} random @param {Buffer} bytes @returns {number[]} */
function sizes(random, { length }) {
  if (random.oneIn(4)) return [1];
  return Array.from({ length: random.between(1, 30) }, () => random.size(1, Math.max(1, length)));
}

/**
 * @param {Buffer} bytes
 * @param {number[]} pieceSizes
 * @param {(chunk: Buffer) => void} write
 */
function feed(bytes, pieceSizes, write) {
  for (let at = 0, piece = 0; at < bytes.length; piece += 1) {
    const size = Math.max(1, pieceSizes[piece % pieceSizes.length] ?? 1);
    const chunk = Buffer.from(bytes.subarray(at, at + size));
    write(chunk);
    chunk.fill(0x58);
    at += size;
  }
}

/** @param {Buffer} bytes @param {number[]} pieceSizes */
function decodeFrames(bytes, pieceSizes) {
  /** @type {unknown[]} */
  const seen = [];
  /** @type {{ offset: number, parts: Buffer[], length: number } | null} */
  let run = null;
  const flush = () => {
    if (run) seen.push({ offset: run.offset, bytes: Buffer.concat(run.parts).toString('latin1') });
    run = null;
  };
  const decoder = new FrameDecoder(
    frame => {
      flush();
      seen.push(frame);
    },
    (piece, offset) => {
      if (run === null || run.offset + run.length !== offset) {
        flush();
        run = { offset, parts: [], length: 0 };
      }
      run.parts.push(Buffer.from(piece));
      run.length += piece.length;
    },
  );
  const error = errorOf(() => feed(bytes, pieceSizes, chunk => decoder.write(chunk)));
  flush();
  return { seen, error, ...(error === null && { idle: decoder.idle }) };
}

/** @param {Buffer} bytes @param {number[]} pieceSizes @param {number} maxPieceBytes */
function decodeJournal(bytes, pieceSizes, maxPieceBytes) {
  /** @type {unknown[]} */
  const seen = [];
  /** @type {Buffer[]} */
  let pieces = [];
  const decoder = new JournalDecoder(
    {
      onFrame: frame => seen.push(frame),
      onPlace: (cursor, taken) => seen.push(['place', cursor, taken]),
      onLook(cursor) {
        pieces = [];
        seen.push(['look', cursor]);
      },
      onPiece(_, piece) {
        assert.ok(piece.length <= maxPieceBytes, 'a piece that is too long');
        pieces.push(Buffer.from(piece));
      },
      onEntry(entry, rest) {
        assert.ok(rest.length <= maxPieceBytes, 'a piece that is too long');
        seen.push(['entry', { ...entry }, Buffer.concat([...pieces, rest]).toString('latin1')]);
        pieces = [];
      },
      onLookEnd: clock => seen.push(['end', clock]),
    },
    maxPieceBytes,
  );
  const error = errorOf(() => feed(bytes, pieceSizes, chunk => decoder.write(chunk)));
  return { seen, error, ...(error === null && { idle: decoder.idle }) };
}

/** @param {Random} random */
function frames(random) {
  /** @type {Buffer[]} */
  const parts = [Buffer.from(`V 1 ${CLOCK}\n`)];
  let offset = 0;
  for (let left = random.size(1, 40); left > 0; left -= 1) {
    const data = records(random, anyFormat(random), random.size(1, 10));
    const header = random.pick([
      'S 12 300 300 4294967295 300 0 ./old name.csv',
      'B',
      `F 13 2049 ${offset} ${random.pick(['new', 'known', 'shrunk'])} ./a.csv`,
      `H ${CLOCK} ${offset} ${offset + 7} 0`,
      `I ${offset}`,
      'G 12',
      'C 12 14 ./copied.log',
      'E 12 1000',
      'L removed 17 ./gone.log',
      'Z Europe/Moscow',
      'P %m [%p] %q%u@%d ',
      'W missing /var/log/postgresql',
      'X moved',
    ]);
    if (random.oneIn(2) && data.length > 0) {
      const tentative = random.oneIn(2);
      parts.push(Buffer.from(`${tentative ? 'T' : 'D'} ${offset} ${data.length}\n`), data);
      offset += data.length;
      if (tentative) parts.push(Buffer.from(`K ${offset}\n`));
    } else {
      parts.push(Buffer.from(`${header}\n`));
    }
  }
  return Buffer.concat(parts);
}

/** @param {Random} random */
function journal(random) {
  const cursor = (/** @type {number} */ number) => cursorOf(number, START_US + number);
  /** @type {Buffer[]} */
  const parts = [Buffer.from(`V 1 ${CLOCK}\nP ${random.pick(['before', 'after'])} ${cursor(0)}\nB\n`)];
  for (let look = random.size(1, 5), number = 0; look > 0; look -= 1) {
    parts.push(Buffer.from(`J ${cursor(number)}\n`));
    for (let left = random.size(1, 10); left > 0; left -= 1, number += 1) {
      const timeUs = START_US + number * 1000;
      const message = records(random, anyFormat(random), random.size(1, 4));
      const entry = random.oneIn(6)
        ? suppressed(timeUs, random.int(100), random.oneIn(2))
        : { timeUs, message, pid: '17', ...(random.oneIn(3) && { lineBreak: 'line-max' }) };
      parts.push(exported({ ...entry, cursor: cursor(number) }));
    }
    parts.push(Buffer.from(`-- cursor: ${cursor(number)}\nQ 0 ${CLOCK}\nH ${CLOCK} 0 0 1\n`));
  }
  return Buffer.concat(parts);
}

/** @param {Random} random */
function answer(random) {
  const lines = [`V 1 ${CLOCK}`, 'U Linux', 'N postgres', ...(random.oneIn(3) ? ['T gzip'] : [])];
  for (let left = random.int(4); left > 0; left -= 1) {
    lines.push(`L ${random.pick(['/var/log/postgresql', '/a', '/b', '/data'])}`);
    lines.push(`K ${random.pick(KINDS)}`);
    const facts = ['N 18', 'J csvlog', 'D /data/log', 'Z UTC', 'P %m [%p] ', 'X read 0640 /data/log'];
    lines.push(...facts.slice(0, random.int(7)));
    for (const suffix of ['csv', 'json', 'log']) {
      if (random.oneIn(2)) continue;
      lines.push(`F ${suffix} 3 1000 0`, `M ${CLOCK} 500 a.${suffix}`);
      const sample = records(random, anyFormat(random), 3).subarray(0, 64);
      for (let at = 0; at < sample.length; at += 16) {
        const bytes = Array.from(sample.subarray(at, at + 16), byte => byte.toString(16).padStart(2, '0'));
        lines.push(`O ${bytes.join(' ')}`);
      }
      if (random.oneIn(3)) lines.push('X search 0750 /data/log', 'XO postgres', 'XG adm');
    }
  }
  return Buffer.from(`${[...lines, 'E'].join('\n')}\n`, 'latin1');
}
