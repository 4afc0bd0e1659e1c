/**
 * The name of this process in holder ids and channels. It is short, because it is stored in every lock; it contains host and
 * pid, so that an operator can find the holder; and it ends with random characters, so that no two processes have the same.
 */
import { randomInt } from 'node:crypto';
import { hostname } from 'node:os';

/** The longest part of the host name that is kept, in characters: its end, because pods of one deployment differ there. */
const LONGEST_HOST = 16;

/** Makes a new name: `host:pid:random`, or only the random part when `describe` is false. */
export function processName(describe: boolean): string {
  const random = randomInt(36 ** 8).toString(36).padStart(8, '0');
  return describe ? `${shortHost(hostname())}:${process.pid}:${random}` : random;
}

/** The end of a host name, without characters that mean something in a holder id. */
function shortHost(host: string): string {
  return host.replace(/[^A-Za-z0-9-]/g, '-').slice(-LONGEST_HOST);
}
