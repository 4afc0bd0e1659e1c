/**
 * The name of this process in holder ids and channels. It stands in every lock, so it is short; it says host and pid,
 * so that an operator finds the holder without another command; and its end is random, so that no two are the same.
 */
import { randomInt } from 'node:crypto';
import { hostname } from 'node:os';

/** The end of a host name tells pods of one deployment apart, its start does not. */
const LONGEST_HOST = 16;

/** A new name; only its random part unless `describe`. */
export function processName(describe: boolean): string {
  const random = randomInt(36 ** 8).toString(36).padStart(8, '0');
  if (!describe) return random;
  const host = hostname().replace(/[^A-Za-z0-9-]/g, '-').slice(-LONGEST_HOST);
  return `${host}:${process.pid}:${random}`;
}
