/**
 * Asks a node of a Redlock whether it remembers what it granted, and brings it back when it does not (recovery.ts).
 */
import { listOf } from '../wire/lock-reply.js';
import { admit, greet, survey, type LuaScript } from '../wire/lua.generated.js';
import { SLOT_GROUPS, type RedisKeys } from '../wire/redis-keys.js';
import type { ScriptArgument, ScriptReply } from '../wire/script-runner.js';
import type { ServerClock } from '../wire/server-clock.js';

/** Whether a node remembers what it granted (shared/epoch.lua). */
export interface Memory {
  readonly whole: boolean;
  /** The time in ms until every lease that the node may have forgotten has ended. */
  readonly leftMs: number;
  readonly runId: string;
  readonly since: number;
  /** It may have granted something, as far as its data tell. */
  readonly hasVoted: boolean;
}

/** The fence counters of a node, and whether the node remembers all it granted, so that they can be relied on. */
export interface Survey {
  readonly whole: boolean;
  /** The last fence of each slot group; 0 where there is none. */
  readonly fences: readonly number[];
}

/** Runs a script on the node. */
type Run = <T>(
  script: LuaScript,
  keys: readonly string[],
  args: readonly ScriptArgument[],
  decode: (reply: ScriptReply, sentAt: number, receivedAt: number) => T,
) => Promise<T>;

export class NodeMemory {
  constructor(
    private readonly run: { /** On a connection of which nothing is known yet. */ readonly first: Run; /** Only while the node has a vote. */ readonly later: Run },
    private readonly keys: RedisKeys,
    private readonly around: { readonly maxLeaseMs: number; readonly clock: ServerClock; /** Told who answers. */ readonly met: (runId: string) => void },
  ) {}

  /** Asks the node whether it remembers what it granted. If it does not, it takes the fences that this process has seen. */
  greet(floors: ReadonlyMap<number, number>): Promise<Memory> {
    const keys = [this.keys.epoch, ...[...floors.keys()].map((group) => this.keys.fence(group))];
    return this.run.first(greet, keys, [this.around.maxLeaseMs, ...floors.values()], (reply, sentAt, receivedAt) => {
      const [whole, leftMs, runId, since, now, hasVoted] = listOf(reply);
      // From the first request on, limits can be sent in the time of this server.
      this.around.clock.observe(0, { sentAt, receivedAt, serverNow: Number(now) });
      this.around.met(String(runId));
      return { whole: whole === 1, leftMs: Number(leftMs), runId: String(runId), since: Number(since), hasVoted: hasVoted === 1 };
    });
  }

  survey(): Promise<Survey> {
    return this.run.later(survey, [this.keys.epoch, ...this.fenceKeys()], [this.around.maxLeaseMs], (reply) => {
      const [whole, ...fences] = listOf(reply);
      return { whole: whole === 1, fences: fences.map(Number) };
    });
  }

  /** Lets the node vote again, if it has not lost its memory once more since it was greeted. */
  admit({ runId, since }: Memory, fences: readonly number[]): Promise<boolean> {
    const args = [this.around.maxLeaseMs, runId, since, ...fences];
    return this.run.later(admit, [this.keys.epoch, ...this.fenceKeys().slice(0, fences.length)], args, (reply) => reply === 1);
  }

  private fenceKeys(): string[] {
    return Array.from({ length: SLOT_GROUPS }, (_, group) => this.keys.fence(group));
  }
}
