/**
 * A command to send over one connection, and what is called with its reply or its failure. Until it is answered, the errand
 * itself stands in the list of awaited answers, so that no further object is made for it.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import type { Awaited, Line } from './awaited-answers.js';
import type { BuiltCall } from './lua.generated.js';

export interface Errand extends Awaited {
  /** Only the runner writes these. */
  sentAt: number;
  deadline: number;
  isGivenUp: boolean;
  /** What is sent, for messages. */
  readonly what: string;
  /** The lock that the command is about, for messages. */
  readonly key: string | undefined;
  /** The Redis keys of the lock `key`. */
  readonly redisKeys?: readonly string[] | undefined;
  /** Whether it takes the lock from whoever has it. */
  readonly namesNobody?: boolean | undefined;
  readonly timeoutMs?: number | undefined;
  send(): Promise<unknown>;
  /** Sends the source of the script, to a server that does not know it. */
  sendSource?(): Promise<unknown>;
  /** Called with the reply. When it throws, {@link failed} is called with the error. */
  answered(reply: unknown): void;
  failed(error: LockStoreError): void;
}

export interface ScriptCall extends BuiltCall {
  /** The key of the lock for messages, if the call is about a single one. */
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** Whether it takes the lock from whoever has it, so that nobody should simply make it again. */
  readonly namesNobody?: boolean | undefined;
  /** Whether it is sent as source: a server that does not know its hash would run it after what was sent behind it. */
  readonly inOrder?: boolean | undefined;
}

/** What is sent, and how. */
type Sending = Pick<Errand, 'what' | 'key' | 'redisKeys' | 'namesNobody' | 'timeoutMs' | 'send' | 'sendSource'>;

/** One call of a script, which is sent by its hash. */
export function scriptSending({ client }: Line, { script, keys, args, key, timeoutMs, namesNobody, inOrder }: ScriptCall): Sending {
  const sendSource = (): Promise<unknown> => client.eval(script.source, keys.length, ...keys, ...args);
  const send = inOrder ? sendSource : (): Promise<unknown> => client.evalsha(script.sha1, keys.length, ...keys, ...args);
  return { what: script.name, key, redisKeys: keys, namesNobody, timeoutMs, send, sendSource };
}

/** `onAnswer` gets the reply and the local instant at which it was asked for. */
export function errandOf(line: Line, sending: Sending, onAnswer: (reply: unknown, sentAt: number) => void, failed: (error: LockStoreError) => void): Errand {
  const errand: Errand = {
    ...sending, line, failed, index: -1, sentAt: 0, deadline: 0, isGivenUp: false,
    answered: (reply) => onAnswer(reply, errand.sentAt),
  };
  return errand;
}
