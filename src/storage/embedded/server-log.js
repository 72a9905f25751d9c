/**
 * The file that the embedded PostgreSQL's stderr is appended to. It is bounded by copying it away and
 * truncating it: the server appends through a descriptor that it keeps, so a rename would not help. What is
 * written between the copy and the truncation is lost; it is a log for operators, not data.
 */
import { randomUUID } from 'node:crypto';
import { constants, copyFile, lstat, open, rename } from 'node:fs/promises';

const MAX_BYTES = 16 * 1024 * 1024;
/** Root may write here into a directory of another account, and must not follow a link that it made. */
const APPEND = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW;
const TAIL_LINES = 20;
const TAIL_MAX_BYTES = 65_536;

/**
 * Makes the file writable for the account.
 * @param {string} logFile
 * @param {import('./run-as.js').Account} [account]
 * @returns {Promise<number>} its size, for readLogSince()
 */
export async function prepareLog(logFile, account) {
  await trimLog(logFile);
  const file = await open(logFile, APPEND, 0o600);
  try {
    if (account) await file.chown(account.uid, account.gid);
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

/**
 * @param {string} logFile
 * @param {number} from offset in bytes
 * @returns {Promise<string>} the last lines written since
 */
export async function readLogSince(logFile, from) {
  const file = await open(logFile);
  try {
    const { size } = await file.stat();
    const start = Math.max(from, size - TAIL_MAX_BYTES);
    const buffer = Buffer.alloc(Math.max(0, size - start));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, start);
    return buffer.toString('utf8', 0, bytesRead).trim().split('\n').slice(-TAIL_LINES).join('\n');
  } finally {
    await file.close();
  }
}

/**
 * @param {string} logFile beyond 16 MiB it is copied to <logFile>.1 and truncated
 * @returns {Promise<void>}
 */
export async function trimLog(logFile) {
  const size = (await lstat(logFile).catch(() => undefined))?.size ?? 0;
  if (size <= MAX_BYTES) return;
  const file = await open(logFile, APPEND, 0o600);
  try {
    const part = `${logFile}.1.${randomUUID()}`;
    await copyFile(logFile, part, constants.COPYFILE_EXCL);
    await rename(part, `${logFile}.1`);
    await file.truncate();
  } finally {
    await file.close();
  }
}
