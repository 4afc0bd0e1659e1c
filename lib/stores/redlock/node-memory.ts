/**
 * Asks a node of a Redlock whether it remembers what it granted, and brings it back when it does not (recovery.ts).
 */
import { listOf } from '../wire/lock-reply.js';
import { admitCall, greetCall, readAdmit, readGreetMemory, readSurveyHead, surveyCall, surveyHeadSize, type SurveyKeys } from '../wire/lua.generated.js';
import { SLOT_GROUPS, type RedisKeys } from '../wire/redis-keys.js';
import type { NodeLink } from './node-link.js';

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

export class NodeMemory {
  constructor(
    private readonly link: NodeLink,
    private readonly keys: RedisKeys,
    private readonly maxLeaseMs: number,
  ) {}

  /** Asks the node whether it remembers what it granted. If it does not, it takes the fences that this process has seen. */
  greet(floors: ReadonlyMap<number, number>): Promise<Memory> {
    const fenceKeys = [...floors.keys()].map((group) => this.keys.fence(group));
    const call = greetCall({ epochKey: this.keys.epoch, fenceKeys }, { maxLeaseMs: this.maxLeaseMs, floors: [...floors.values()] });
    return this.link.send(call, (reply, sentAt, receivedAt) => {
      const memory = readGreetMemory(listOf(reply));
      // From the first request on, limits can be sent in the time of this server.
      this.link.serverClock.observe(0, { sentAt, receivedAt, serverNow: memory.now });
      this.link.meet(memory.runId);
      return memory;
    });
  }

  survey(): Promise<Survey> {
    return this.link.run(surveyCall(this.memoryKeys(), { maxLeaseMs: this.maxLeaseMs }), (reply) => {
      const told = listOf(reply);
      return { whole: readSurveyHead(told).whole, fences: told.slice(surveyHeadSize).map(Number) };
    });
  }

  /** Lets the node vote again, if it has not lost its memory once more since it was greeted. */
  admit({ runId, since }: Memory, fences: readonly number[]): Promise<boolean> {
    const { epochKey, fenceKeys } = this.memoryKeys();
    const call = admitCall({ epochKey, fenceKeys: fenceKeys.slice(0, fences.length) }, { maxLeaseMs: this.maxLeaseMs, runId, since, floors: fences });
    return this.link.run(call, (reply) => readAdmit(reply) === 'admitted');
  }

  private memoryKeys(): SurveyKeys {
    return { epochKey: this.keys.epoch, fenceKeys: Array.from({ length: SLOT_GROUPS }, (_, group) => this.keys.fence(group)) };
  }
}
