/**
 * Turns what ioredis rejects with into the one error of a store: which node, what it said, about which lock, and whether
 * asking again can help.
 */
import { LockStoreError } from '../../core/port/errors.js';

/** Replies that only an operator can mend. */
const FOR_THE_OPERATOR = /\b(MISCONF|NOREPLICAS|NOPERM|NOAUTH|WRONGPASS|WRONGTYPE|DAMAGED|DENIED|can't run this command|ERR unknown command|ERR AUTH)\b/;

/** Where in a script an error was raised, as Redis 6.2 puts it before its words. */
const IN_A_SCRIPT = /^@?user_script: ?\d+: -?(?=[A-Z]+ )/;

const DAMAGE = /\b(WRONGTYPE|DAMAGED)\b/;

/** The reason for whatever was not sent, because there was no connection. */
export const NOT_CONNECTED = 'not connected';

/** Says what was being done, to which lock, on which node. */
export interface Attempt {
  readonly what: string;
  readonly key: string | undefined;
  readonly node: string;
  /** The Redis keys it was about, if they are those of one lock. */
  readonly redisKeys?: readonly string[] | undefined;
}

/** `complaint` is what the connection said last, which tells more than that there is none. */
export function storeFailure(error: unknown, attempt: Attempt, complaint?: Error): LockStoreError {
  const { what, key, node } = attempt;
  if (error instanceof LockStoreError) return error;
  const reason = reasonWith(error, complaint);
  const retryable = !FOR_THE_OPERATOR.test(reason);
  const next = retryable ? 'The outcome is not known; it is safe to try again.' : (damageOf(reason, attempt) ?? 'Trying again will not help until the server is mended.');
  const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
  const message = `${subject}: ${what} failed on ${node}: ${reason}. ${next}`;
  return new LockStoreError(message, { key, cause: causeOf(error), nodes: [{ node, reason }], retryable });
}

/** That there is no connection says less than what the connection said last. */
export function reasonWith(error: unknown, complaint: Error | undefined): string {
  const known = reasonOf(error);
  return known === NOT_CONNECTED && complaint !== undefined ? `${known} (${reasonOf(complaint)})` : known;
}

/** Whether a Redis key of one lock holds something else, which is no concern of other locks. */
export function isDamage({ nodes }: LockStoreError): boolean {
  return nodes.some(({ reason }) => DAMAGE.test(reason));
}

/** What stands in the way is one Redis key, and whoever reads this has to find it. */
function damageOf(reason: string, { key, redisKeys }: Attempt): string | undefined {
  if (key === undefined || redisKeys === undefined || !DAMAGE.test(reason)) return undefined;
  const kinds = redisKeys.map((redisKey) => `'${redisKey}' (a ${/^\{[^}]*\}:q:/.test(redisKey) ? 'hash' : 'string'})`);
  const which = redisKeys.length === 1 ? kinds[0] : `one of the Redis keys ${kinds.join(', ')}`;
  return `Another program has put something else at ${which}: delete or rename it.`;
}

export function reasonOf(error: unknown): string {
  const { message, lastNodeError } = (error ?? {}) as Complaint;
  const said = withoutArguments(String(message ?? error)).replace(/\.$/, '').replace(IN_A_SCRIPT, '');
  // What ioredis says when it has no connection names its own options, which nobody here has set.
  if (/writeable and enableOfflineQueue|isn't ready and enableOfflineQueue|Connection is closed|retries per request/.test(said)) return NOT_CONNECTED;
  return lastNodeError == null ? said : `${said}: ${reasonOf(lastNodeError)}`;
}

/**
 * The error as it may be printed. ioredis hangs the command on it with all its arguments, of which one may be a password; the
 * copy has only the name of the command.
 */
export function causeOf(error: unknown): Error | undefined {
  if (error == null) return undefined;
  if (error instanceof LockStoreError) return error;
  const { name, message, stack, code, command, lastNodeError } = error as Complaint;
  const copy = new Error(withoutArguments(String(message ?? error)), lastNodeError == null ? undefined : { cause: causeOf(lastNodeError) });
  if (name !== undefined) Object.defineProperty(copy, 'name', { value: name, configurable: true, writable: true });
  if (stack !== undefined) copy.stack = withoutArguments(stack);
  return Object.assign(copy, code === undefined ? {} : { code }, command?.name === undefined ? {} : { command: command.name });
}

interface Complaint {
  readonly name?: string;
  readonly message?: string;
  readonly stack?: string;
  readonly code?: string;
  readonly command?: { readonly name?: string };
  /** Of a Cluster that could not ask any of its nodes. */
  readonly lastNodeError?: unknown;
}

/** A server that does not know a command repeats how its arguments begin. */
function withoutArguments(text: string): string {
  return text.replace(/,? with args beginning with:[^\n]*/g, '');
}

/**
 * The slot is being moved: several keys at once cannot be served, one can. ioredis tries such a command on other nodes
 * too, and what it reports in the end may be one of their answers.
 */
export function isTryAgain(error: unknown): boolean {
  const reason = reasonOf(error);
  return /\bTRYAGAIN\b|Too many Cluster redirections/.test(reason) && !/\bCLUSTERDOWN\b/.test(reason);
}

export function isNoScript(error: unknown): boolean {
  return /^NOSCRIPT\b/.test(reasonOf(error));
}
