/**
 * A command to send over one connection, and what is called with its reply or its failure. Until it is answered, the errand
 * itself stands in the list of awaited answers, so that no further object is made for it.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import type { Awaited, Line } from './awaited-answers.js';
import type { LuaScript, ScriptArgument } from './lua.generated.js';

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

/** One call of a script, which is sent by its hash. */
export class ScriptRun implements Errand {
  index = -1;
  sentAt = 0;
  deadline = 0;
  isGivenUp = false;

  constructor(
    readonly line: Line,
    private readonly script: LuaScript,
    readonly redisKeys: readonly string[],
    private readonly args: readonly ScriptArgument[],
    readonly key: string | undefined,
    readonly timeoutMs: number | undefined,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
    /** See ScriptCall. */
    private readonly inOrder: boolean,
  ) {}

  get what(): string {
    return this.script.name;
  }

  send(): Promise<unknown> {
    if (this.inOrder) return this.sendSource();
    return this.line.client.evalsha(this.script.sha1, this.redisKeys.length, ...this.redisKeys, ...this.args);
  }

  sendSource(): Promise<unknown> {
    return this.line.client.eval(this.script.source, this.redisKeys.length, ...this.redisKeys, ...this.args);
  }

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}

/** A command that is no script. */
export class Command implements Errand {
  index = -1;
  sentAt = 0;
  deadline = 0;
  isGivenUp = false;

  constructor(
    readonly line: Line,
    readonly what: string,
    readonly key: string | undefined,
    readonly timeoutMs: number | undefined,
    readonly send: () => Promise<unknown>,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
  ) {}

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}
