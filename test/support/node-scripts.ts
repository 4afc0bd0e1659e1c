/** The scripts of one Redlock node, run one by one on a server of their own. */
import type { Redis } from 'ioredis';
import {
  acquire, acquireCall, addAcquire, addBringBack, addRelease, admitCall, bringBack, recallCall, release, releaseCall, type AcquireArgs, type BuiltCall, type ReleaseArgs, type ScriptArgument,
} from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys, UNKNOWN_MEMORY, UNTIL_TOLD_MS } from '../../lib/stores/wire/redis-keys.js';
import { NEVER } from '../../lib/stores/redis/boot-probe.js';
import { wholeNode } from '../simulation/whole-node.js';
import { startRedis, type RedisServer } from './redis-server.js';

export interface VoteArguments {
  readonly mode?: 'w' | 'r';
  readonly leaseMs?: number;
  readonly fences?: number;
  readonly proposal?: number;
  readonly notAfter?: number;
  readonly owner?: string;
  readonly minHoldMs?: number;
  readonly waitedMs?: number;
}

type Reply = (number | string)[];

export class NodeScripts {
  readonly keys = new RedisKeys('lock');
  /** What the caller of a vote believes the memory of the server to be. */
  known: string | undefined;

  private constructor(readonly server: RedisServer, readonly client: Redis, readonly runId: string) {}

  static async start(): Promise<NodeScripts> {
    const server = await startRedis();
    const client = server.client();
    return new NodeScripts(server, client, /run_id:(\w+)/.exec(await client.info('server'))![1]!);
  }

  stop(): Promise<void> {
    return this.server.stop();
  }

  async now(): Promise<number> {
    const [seconds, micros] = await this.client.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  /** Lets it vote, as if it had always been there. */
  async makeWhole(since?: number): Promise<void> {
    await this.client.mset(...wholeNode('lock', this.runId, since ?? (await this.now())).flat());
  }

  /** What stands behind the last fence of the slot group of a lock. */
  async memoryOf(key: string): Promise<string> {
    return (await this.record(key))!.split(' ')[1]!;
  }

  /** The last fence of the slot group of a lock, with what stands behind it. */
  record(key: string): Promise<string | null> {
    return this.client.get(this.keys.spotOf(key).fenceKey);
  }

  marks(key: string): Promise<string | null> {
    return this.client.get(this.keys.lock(key).replace('}:l:', '}:m:'));
  }

  vote(key: string, id: string, how: VoteArguments = {}): Promise<Reply> {
    return this.run(acquireCall(this.keys.spotOf(key), this.voteArgs(id, how))) as Promise<Reply>;
  }

  /** One ballot for each key, in one command. */
  voteTogether(keys: readonly string[], id: string): Promise<Reply[]> {
    const [redisKeys, args]: [string[], ScriptArgument[]] = [[], []];
    for (const key of keys) addAcquire(redisKeys, args, this.keys.spotOf(key), this.voteArgs(id, {}));
    return this.run({ script: acquire, keys: redisKeys, args }) as Promise<Reply[]>;
  }

  /** Gives a ballot to the node that it may not have, and its fence. */
  async bringBack(key: string, id: string, fence: number, fences = 1): Promise<Reply> {
    const [redisKeys, args]: [string[], ScriptArgument[]] = [[], []];
    addBringBack(redisKeys, args, this.keys.spotOf(key), {
      id, mode: 'write', notAfter: NEVER, leaseMs: 5_000, fence, fences, minHoldMs: 0, graceMs: 0, recoveryMs: UNTIL_TOLD_MS, knownBy: '-',
      ticketId: undefined, owner: undefined, label: undefined,
    });
    const [, [answer]] = (await this.run({ script: bringBack, keys: redisKeys, args })) as [number, [Reply]];
    return answer;
  }

  release(key: string, id: string, how: Partial<ReleaseArgs> = {}): Promise<unknown> {
    return this.run(releaseCall(this.keys.spotOf(key), this.releaseArgs(id, how)));
  }

  /** Takes the same ballot away from each key, in one command. */
  releaseTogether(keys: readonly string[], id: string): Promise<unknown[]> {
    const [redisKeys, args]: [string[], ScriptArgument[]] = [[], []];
    for (const key of keys) addRelease(redisKeys, args, this.keys.spotOf(key), this.releaseArgs(id));
    return this.run({ script: release, keys: redisKeys, args }) as Promise<unknown[]>;
  }

  /** Asks for the memory and the last fence of the group of this lock. `closed`: whether it waits to be told the last fences. */
  async recall(key: string, floor = 0): Promise<{ closed: boolean; memory: string; since: number; fence: string }> {
    const { fenceKey } = this.keys.spotOf(key);
    const call = recallCall({ keys: [{ fenceKey }] }, { process: 'p', recoveryMs: UNTIL_TOLD_MS, groups: [{ floor, holds: false }] });
    const [, closedForMs, [[memory, fence]]] = (await this.run(call)) as [number, number, [[string, string]]];
    return { closed: closedForMs > 0, memory, since: Number(memory.slice(17)), fence };
  }

  admit(since: number, maxLeaseMs: number, floors: Readonly<Record<string, number>>): Promise<unknown> {
    return this.run(admitCall(this.groupsOf(Object.keys(floors)), { maxLeaseMs, since, floors: Object.values(floors) }));
  }

  private groupsOf(keys: readonly string[]): { fenceKeys: string[] } {
    return { fenceKeys: keys.map((key) => this.keys.spotOf(key).fenceKey) };
  }

  private voteArgs(id: string, { mode = 'w', owner, leaseMs = 5_000, proposal = 1, waitedMs = -1, ...how }: VoteArguments): AcquireArgs {
    return {
      id, mode: mode === 'w' ? 'write' : 'read', owner, label: undefined, leaseMs, takes: 'floor', floor: proposal, notAfter: NEVER, known: this.known ?? UNKNOWN_MEMORY,
      mark: waitedMs < 0 ? undefined : `${mode},${waitedMs},${id.replace(/\/[^/]*$/, '')}`, queue: false, needsListener: false, recoveryMs: UNTIL_TOLD_MS,
      fences: 1, minHoldMs: 0, graceMs: 0, plain: (how.fences ?? 1) === 1 && (how.minHoldMs ?? 0) === 0, ...how,
    };
  }

  private releaseArgs(id: string, how: Partial<ReleaseArgs> = {}): ReleaseArgs {
    return { id, mayBeOver: false, abandoned: false, floor: 0, recoveryMs: UNTIL_TOLD_MS, known: this.known ?? UNKNOWN_MEMORY, ...how };
  }

  private run({ script, keys, args }: BuiltCall): Promise<unknown> {
    return this.client.eval(script.source, keys.length, ...keys, ...args);
  }
}
