/**
 * A command to send over one connection, and what is called with its reply or its failure. Until it is answered, the errand
 * itself stands in the list of awaited answers, so that no further object is made for it.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import type { Awaited, Line } from './awaited-answers.js';
import type { LuaScript, ScriptArgument } from './lua.generated.js';

export abstract class Errand implements Awaited {
  /** Only AwaitedAnswers writes it. */
  index = -1;
  /** Only the runner writes these. */
  sentAt = 0;
  deadline = 0;
  isGivenUp = false;
  /** The lock that the command is about, for messages. */
  abstract readonly key: string | undefined;
  /** The Redis keys of the lock `key`. */
  readonly redisKeys?: readonly string[] | undefined;
  readonly timeoutMs?: number | undefined;

  constructor(
    readonly line: Line,
    readonly what: string,
  ) {}

  abstract send(): Promise<unknown>;
  /** Sends the source of the script, to a server that does not know it. */
  sendSource?(): Promise<unknown>;
  /** Called with the reply. When it throws, {@link failed} is called with the error. */
  abstract answered(reply: unknown): void;
  abstract failed(error: LockStoreError): void;
}

/** One call of a script, which is sent by its hash. */
export class ScriptRun extends Errand {
  constructor(
    line: Line,
    private readonly script: LuaScript,
    override readonly redisKeys: readonly string[],
    private readonly args: readonly ScriptArgument[],
    readonly key: string | undefined,
    override readonly timeoutMs: number | undefined,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    super(line, script.name);
  }

  send(): Promise<unknown> {
    return this.line.client.evalsha(this.script.sha1, this.redisKeys.length, ...this.redisKeys, ...this.args);
  }

  override sendSource(): Promise<unknown> {
    return this.line.client.eval(this.script.source, this.redisKeys.length, ...this.redisKeys, ...this.args);
  }

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}

/** A command that is no script. */
export class Command extends Errand {
  constructor(
    line: Line,
    what: string,
    readonly key: string | undefined,
    override readonly timeoutMs: number | undefined,
    readonly send: () => Promise<unknown>,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    super(line, what);
  }

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}
