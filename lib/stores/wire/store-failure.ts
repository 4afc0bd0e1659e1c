/**
 * Turns what ioredis rejects with into the one error of a store: which node, what it said, about which lock, and whether
 * asking again can help.
 */
import { LockStoreError } from '../../core/port/errors.js';

/** Replies that only an operator can mend. */
const FOR_THE_OPERATOR = /\b(MISCONF|NOREPLICAS|NOPERM|NOAUTH|WRONGPASS|WRONGTYPE|DENIED|can't run this command|ERR unknown command|ERR AUTH)\b/;

/** The reason for whatever was not sent, because there was no connection. */
export const NOT_CONNECTED = 'not connected';

/** Says what was being done, to which lock, on which node. */
export interface Attempt {
  readonly what: string;
  readonly key: string | undefined;
  readonly node: string;
}

/** `complaint` is what the connection said last, which tells more than that there is none. */
export function storeFailure(error: unknown, { what, key, node }: Attempt, complaint?: Error): LockStoreError {
  if (error instanceof LockStoreError) return error;
  const known = reasonOf(error);
  const reason = known === NOT_CONNECTED && complaint !== undefined ? `${known} (${reasonOf(complaint)})` : known;
  const retryable = !FOR_THE_OPERATOR.test(reason);
  const next = retryable ? 'The outcome is not known; it is safe to try again.' : 'Trying again will not help until the server is mended.';
  const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
  const message = `${subject}: ${what} failed on ${node}: ${reason}. ${next}`;
  return new LockStoreError(message, { key, cause: causeOf(error), nodes: [{ node, reason }], retryable });
}

export function reasonOf(error: unknown): string {
  const { message, lastNodeError } = (error ?? {}) as Complaint;
  const said = withoutArguments(String(message ?? error)).replace(/\.$/, '');
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
