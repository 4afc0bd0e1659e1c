/** The scripts of one Redlock node, run one by one on a server of their own. */
import type { Redis } from 'ioredis';
import {
  addGiveBack, addVote, admitCall, giveBack, giveBackCall, greetCall, raiseFenceCall, surveyCall, vote, voteCall, type BuiltCall, type GiveBackArgs, type ScriptArgument, type VoteArgs,
} from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys, UNKNOWN_RUN_ID, type NodeKeys } from '../../lib/stores/wire/redis-keys.js';
import { NEVER } from '../../lib/stores/wire/trial-lock.js';
import { startRedis, type RedisServer } from './redis-server.js';

export interface VoteArguments {
  readonly mode?: 'w' | 'r';
  readonly leaseMs?: number;
  readonly fences?: number;
  readonly proposal?: number;
  readonly notAfter?: number;
  readonly owner?: string;
  readonly minHoldMs?: number;
  readonly process?: string;
  readonly waitedMs?: number;
  readonly patienceMs?: number;
}

type Reply = (number | string)[];

export class NodeScripts {
  readonly keys = new RedisKeys('lock');
  readonly epochKey = '{lock}:e';
  /** What the caller of a vote believes the server to be. */
  runId: string | undefined;

  private constructor(
    readonly server: RedisServer,
    readonly client: Redis,
    /** How long it stays out after it lost its memory. */
    readonly maxLeaseMs: number,
  ) {}

  static async start(maxLeaseMs: number): Promise<NodeScripts> {
    const server = await startRedis();
    return new NodeScripts(server, server.client(), maxLeaseMs);
  }

  async now(): Promise<number> {
    const [seconds, micros] = await this.client.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  /** Lets it vote, as if it had always been there. */
  async makeWhole(): Promise<void> {
    const [, , runId] = await this.greet();
    await this.client.set(this.epochKey, `${runId} ${await this.now()} 1`);
  }

  vote(key: string, id: string, how: VoteArguments = {}): Promise<Reply> {
    return this.run(voteCall(this.on(key), this.voteArgs(id, how))) as Promise<Reply>;
  }

  /** One ballot for each key, in one command. */
  voteTogether(keys: readonly string[], id: string): Promise<Reply[]> {
    const [redisKeys, args]: [string[], ScriptArgument[]] = [[], []];
    for (const key of keys) addVote(redisKeys, args, this.on(key), this.voteArgs(id, {}));
    return this.run({ script: vote, keys: redisKeys, args }) as Promise<Reply[]>;
  }

  raiseFence(key: string, id: string, fence: number, fences = 1): Promise<unknown> {
    return this.run(raiseFenceCall(this.on(key), { id, fence, fences }));
  }

  release(key: string, id: string, how: Partial<GiveBackArgs> = {}): Promise<unknown> {
    return this.run(giveBackCall(this.on(key), this.giveBackArgs(id, how)));
  }

  /** Takes the same ballot away from each key, in one command. */
  releaseTogether(keys: readonly string[], id: string): Promise<unknown[]> {
    const [redisKeys, args]: [string[], ScriptArgument[]] = [[], []];
    for (const key of keys) addGiveBack(redisKeys, args, this.on(key), this.giveBackArgs(id));
    return this.run({ script: giveBack, keys: redisKeys, args }) as Promise<unknown[]>;
  }

  greet(floors: ReadonlyMap<number, number> = new Map()): Promise<Reply> {
    return this.run(greetCall(this.memoryOf(floors.keys()), { maxLeaseMs: this.maxLeaseMs, floors: [...floors.values()] })) as Promise<Reply>;
  }

  survey(groups: readonly number[]): Promise<Reply> {
    return this.run(surveyCall(this.memoryOf(groups), { maxLeaseMs: this.maxLeaseMs })) as Promise<Reply>;
  }

  admit(runId: string, since: number, floors: ReadonlyMap<number, number> = new Map()): Promise<unknown> {
    return this.run(admitCall(this.memoryOf(floors.keys()), { maxLeaseMs: this.maxLeaseMs, runId, since, floors: [...floors.values()] }));
  }

  private on(key: string): NodeKeys {
    return this.keys.nodeSpotOf(key);
  }

  private memoryOf(groups: Iterable<number>): { epochKey: string; fenceKeys: string[] } {
    return { epochKey: this.epochKey, fenceKeys: [...groups].map((group) => this.keys.fence(group)) };
  }

  private voteArgs(id: string, { mode = 'w', owner, leaseMs = 5_000, ...how }: VoteArguments): VoteArgs {
    return {
      id, mode: mode === 'w' ? 'write' : 'read', owner: owner === '-' ? undefined : owner, leaseMs, proposal: 1, notAfter: NEVER,
      maxLeaseMs: this.maxLeaseMs, runId: this.runId ?? UNKNOWN_RUN_ID, process: 'p', waitedMs: -1, patienceMs: 50, fences: 1, minHoldMs: 0, graceMs: 0,
      plain: (how.fences ?? 1) === 1 && (how.minHoldMs ?? 0) === 0, ...how,
    };
  }

  private giveBackArgs(id: string, how: Partial<GiveBackArgs> = {}): GiveBackArgs {
    return { id, keepsMarks: how.waitedMs === undefined, mayBeOver: false, abandoned: false, process: 'p', waitedMs: -1, mode: 'write', patienceMs: 50, ...how };
  }

  private run({ script, keys, args }: BuiltCall): Promise<unknown> {
    return this.client.eval(script.source, keys.length, ...keys, ...args);
  }
}
