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
  /** Whether it is sent as source: a server that does not know its hash would run it after what was sent behind it. */
  readonly inOrder?: boolean | undefined;
}

/** One call of a script, which is sent by its hash. */
export class ScriptRun implements Errand {
  index = -1;
  sentAt = 0;
  deadline = 0;
  isGivenUp = false;

  constructor(
    readonly line: Line,
    private readonly call: ScriptCall,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
  ) {}

  get what(): string {
    return this.call.script.name;
  }

  get key(): string | undefined {
    return this.call.key;
  }

  get redisKeys(): readonly string[] {
    return this.call.keys;
  }

  get timeoutMs(): number | undefined {
    return this.call.timeoutMs;
  }

  send(): Promise<unknown> {
    const { script, keys, args, inOrder } = this.call;
    return inOrder ? this.sendSource() : this.line.client.evalsha(script.sha1, keys.length, ...keys, ...args);
  }

  sendSource(): Promise<unknown> {
    const { script, keys, args } = this.call;
    return this.line.client.eval(script.source, keys.length, ...keys, ...args);
  }

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}

export interface CommandCall {
  readonly what: string;
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  send(): Promise<unknown>;
}

/** A command that is no script. */
export class Command implements Errand {
  index = -1;
  sentAt = 0;
  deadline = 0;
  isGivenUp = false;

  constructor(
    readonly line: Line,
    private readonly call: CommandCall,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
  ) {}

  get what(): string {
    return this.call.what;
  }

  get key(): string | undefined {
    return this.call.key;
  }

  get timeoutMs(): number | undefined {
    return this.call.timeoutMs;
  }

  send(): Promise<unknown> {
    return this.call.send();
  }

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}
