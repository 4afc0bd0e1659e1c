/**
 * Something to send over one connection, and what is told its fate. As long as its answer is out, the errand itself stands
 * among the awaited answers: there is no further object for it.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import type { Awaited, Line } from './awaited-answers.js';
import type { LuaScript } from './lua.generated.js';
import type { ScriptArgument } from './script-runner.js';

export abstract class Errand implements Awaited {
  /** Only AwaitedAnswers writes it. */
  index = -1;
  /** Only the runner writes these. */
  sentAt = 0;
  deadline = 0;
  isGivenUp = false;
  /** The lock that it is about, for messages. */
  abstract readonly key: string | undefined;
  /** The Redis keys of that lock. */
  readonly redisKeys?: readonly string[] | undefined;
  readonly timeoutMs?: number | undefined;

  constructor(
    readonly line: Line,
    readonly what: string,
  ) {}

  abstract send(): Promise<unknown>;
  /** Sends the script itself, to a server that does not know it. */
  sendSource?(): Promise<unknown>;
  /** What it throws is told to {@link failed}. */
  abstract answered(reply: unknown): void;
  abstract failed(error: LockStoreError): void;
}

/** A script that is sent by its hash. */
export abstract class ScriptErrand extends Errand {
  abstract override readonly redisKeys: readonly string[];
  abstract readonly args: readonly ScriptArgument[];

  constructor(
    line: Line,
    readonly script: LuaScript,
  ) {
    super(line, script.name);
  }

  send(): Promise<unknown> {
    const { line, script, redisKeys, args } = this;
    return line.client.evalsha(script.sha1, redisKeys.length, ...redisKeys, ...args);
  }

  override sendSource(): Promise<unknown> {
    const { line, script, redisKeys, args } = this;
    return line.client.eval(script.source, redisKeys.length, ...redisKeys, ...args);
  }
}

/** One call of a script. */
export class ScriptRun extends ScriptErrand {
  constructor(
    line: Line,
    script: LuaScript,
    override readonly redisKeys: readonly string[],
    readonly args: readonly ScriptArgument[],
    readonly key: string | undefined,
    override readonly timeoutMs: number | undefined,
    private readonly onAnswer: (reply: unknown, sentAt: number) => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    super(line, script);
  }

  answered(reply: unknown): void {
    this.onAnswer(reply, this.sentAt);
  }
}

/** Anything else. */
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
