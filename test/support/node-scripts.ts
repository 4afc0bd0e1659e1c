/** The scripts of one Redlock node, run one by one on a server of their own. */
import type { Redis } from 'ioredis';
import { admit, giveBack, greet, raiseFence, survey, vote, type LuaScript } from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { startRedis, type RedisServer } from './redis-server.js';

export interface VoteArguments {
  readonly mode?: 'w' | 'r';
  readonly leaseMs?: number;
  readonly fences?: number;
  readonly proposal?: number;
  readonly notAfter?: number;
  readonly owner?: string;
  readonly minHoldMs?: number;
  readonly graceMs?: number;
  readonly process?: string;
  readonly waitedMs?: number;
  readonly patienceMs?: number;
}

type Reply = (number | string)[];

export class NodeScripts {
  readonly keys = new RedisKeys('lock');
  readonly epochKey = '{lock}:e';
  /** What the caller of a vote believes the server to be. */
  runId = '-';

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
    return this.run(vote, this.voteKeys(key), this.voteArgs(id, how)) as Promise<Reply>;
  }

  /** One ballot for each key, in one command. */
  voteTogether(keys: readonly string[], id: string): Promise<Reply[]> {
    return this.run(vote, keys.flatMap((key) => this.voteKeys(key)), keys.flatMap(() => this.voteArgs(id, {}))) as Promise<Reply[]>;
  }

  raiseFence(key: string, id: string, fence: number, fences = 1): Promise<unknown> {
    const group = this.keys.groupOf(key);
    return this.run(raiseFence, [this.keys.lock(group, key), this.keys.fence(group)], [id, fence, fences]);
  }

  release(key: string, id: string, { abandoned = 0, next = '-', process = 'p', waitedMs = -2, mode = 'w' } = {}): Promise<unknown> {
    return this.run(giveBack, this.releaseKeys(key), [id, abandoned, next, process, waitedMs, mode, 50]);
  }

  /** Takes the same ballot away from each key, in one command. */
  releaseTogether(keys: readonly string[], id: string): Promise<unknown[]> {
    return this.run(giveBack, keys.flatMap((key) => this.releaseKeys(key)), keys.flatMap(() => [id, 0, '-', 'p', -2, 'w', 50])) as Promise<unknown[]>;
  }

  greet(floors: ReadonlyMap<number, number> = new Map()): Promise<Reply> {
    return this.run(greet, [this.epochKey, ...[...floors.keys()].map((group) => this.keys.fence(group))], [this.maxLeaseMs, ...floors.values()]) as Promise<Reply>;
  }

  survey(groups: readonly number[]): Promise<Reply> {
    return this.run(survey, [this.epochKey, ...groups.map((group) => this.keys.fence(group))], [this.maxLeaseMs]) as Promise<Reply>;
  }

  admit(runId: string, since: number, floors: ReadonlyMap<number, number> = new Map()): Promise<unknown> {
    const keys = [this.epochKey, ...[...floors.keys()].map((group) => this.keys.fence(group))];
    return this.run(admit, keys, [this.maxLeaseMs, runId, since, ...floors.values()]);
  }

  private voteKeys(key: string): string[] {
    const group = this.keys.groupOf(key);
    return [this.keys.lock(group, key), this.keys.fence(group), this.keys.marks(group, key), this.epochKey];
  }

  private voteArgs(id: string, how: VoteArguments): (string | number)[] {
    const { mode = 'w', leaseMs = 5_000, fences = 1, proposal = 1, notAfter = 0, owner = '-', minHoldMs = 0, graceMs = 0, process = 'p', waitedMs = -1, patienceMs = 50 } = how;
    return [id, mode, leaseMs, fences, proposal, notAfter, '-', owner, minHoldMs, graceMs, this.maxLeaseMs, this.runId, process, waitedMs, patienceMs];
  }

  private releaseKeys(key: string): string[] {
    const group = this.keys.groupOf(key);
    return [this.keys.lock(group, key), this.keys.marks(group, key)];
  }

  private run(script: LuaScript, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    return this.client.eval(script.source, keys.length, ...keys, ...args);
  }
}
