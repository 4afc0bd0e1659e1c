/**
 * A server on which scripts run one by one, as text: a Cluster of one node, and each script with a `#!lua` line, so that
 * the server refuses a key that was not announced or lies in another slot.
 */
import { expect } from '@jest/globals';
import type { Redis } from 'ioredis';
import * as scripts from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys, UNKNOWN_MEMORY, USUAL_LEASE_MS } from '../../lib/stores/wire/redis-keys.js';
import { eventually } from './eventually.js';
import { majorVersion } from './redis-binary.js';
import { startRedis, type RedisServer } from './redis-server.js';

/** maxLeaseMs. */
/** The last instant that an acquire can name. */
const NEVER = 9_999_999_999_999;

const WITH_A_HEAD = [scripts.renew, scripts.bringBack, scripts.recall];

export type Reply = number | string | (number | string)[];

export interface AcquireArguments {
  readonly mode?: 'w' | 'r';
  readonly leaseMs?: number;
  readonly fences?: number;
  readonly floor?: number;
  readonly notAfter?: number;
  readonly queue?: 0 | 1;
  /** Passed over while nobody listens on the channel of its process. */
  readonly needsListener?: boolean;
  readonly label?: string;
  readonly owner?: string;
  readonly permits?: number;
  readonly minHoldMs?: number;
  readonly replaces?: string;
  readonly handsOn?: boolean;
  readonly takes?: scripts.AcquireArgs['takes'];
  readonly known?: string;
  readonly recoveryMs?: number;
  readonly told?: string | undefined;
}

/** What acquire.lua is told in one request. */
export function acquireArguments(id: string, how: AcquireArguments = {}): scripts.AcquireArgs {
  const { mode = 'w', leaseMs = 30_000, fences = 1, floor = 0, notAfter = NEVER, queue = 1, needsListener = false, minHoldMs = 0, known = UNKNOWN_MEMORY, recoveryMs = 0 } = how;
  const { permits } = how;
  const [label, owner, replaces] = [given(how.label), permits === undefined ? given(how.owner) : String(permits), given(how.replaces)];
  const plain = fences === 1 && minHoldMs === 0 && replaces === undefined && leaseMs <= USUAL_LEASE_MS;
  return { id, mode: permits !== undefined ? 'permit' : mode === 'w' ? 'write' : 'read', leaseMs, fences, floor, notAfter, queue: queue === 1, needsListener, plain, takes: how.takes ?? (how.handsOn ? 'permit' : 'nothing'), minHoldMs, graceMs: 0, known, recoveryMs, label, owner, replaces, told: how.told };
}

/** In records - stands for none. */
const given = (field: string | undefined): string | undefined => field === '-' ? undefined : field;

export class LuaServer {
  private constructor(readonly server: RedisServer, readonly client: Redis, private readonly header: string) {}

  static async start(): Promise<LuaServer> {
    const server = await startRedis({ args: ['--cluster-enabled', 'yes'] });
    const client = server.client();
    await client.call('CLUSTER', 'ADDSLOTS', ...Array(16_384).keys());
    await eventually(async () => expect(await client.call('CLUSTER', 'INFO')).toContain('cluster_state:ok'));
    return new LuaServer(server, client, (await majorVersion()) >= 7 ? '#!lua flags=allow-oom\n' : '');
  }

  stop(): Promise<void> {
    return this.server.stop();
  }

  /** The server's clock in ms. */
  async now(): Promise<number> {
    const [seconds, micros] = await this.client.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  /** Waits until the server's clock is past an instant. */
  async past(instant: number): Promise<void> {
    await eventually(async () => expect(await this.now()).toBeGreaterThan(instant));
  }

  async run(call: scripts.BuiltCall): Promise<Reply> {
    return this.answered(call, this.header);
  }

  /** The answers that stand in a list behind the head of a reply are told one after another. */
  private async answered({ script, keys, args }: scripts.BuiltCall, header = ''): Promise<Reply> {
    const reply = (await this.client.eval(header + script.source, keys.length, ...keys, ...args)) as Reply;
    return WITH_A_HEAD.includes(script) ? ((reply as unknown[]).flat(2) as Reply) : reply;
  }

  /** The answers to these, one after another and as they are shipped, of a server that has no memory for anything new. */
  async whenFull(...calls: readonly scripts.BuiltCall[]): Promise<Reply[]> {
    await this.client.config('SET', 'maxmemory', 1);
    try {
      const replies: Reply[] = [];
      for (const call of calls) replies.push(await this.answered(call));
      return replies;
    } finally {
      await this.client.config('SET', 'maxmemory', 0);
    }
  }

  lock(key: string): LuaLock {
    return new LuaLock(this, key);
  }
}

export function renewal(lockKeys: readonly string[], runs: scripts.RenewArgs['runs']): scripts.BuiltCall {
  return scripts.renewCall({ lockKeys }, { runs });
}

/** The scripts on one lock. */
export class LuaLock {
  private readonly names = new RedisKeys('lock');
  readonly group: number;
  readonly lockKey: string;
  readonly queueKey: string;
  readonly fenceKey: string;
  private known: string | undefined;

  constructor(private readonly lua: LuaServer, readonly key: string) {
    this.group = this.names.groupOf(key);
    ({ lockKey: this.lockKey, queueKey: this.queueKey, fenceKey: this.fenceKey } = this.names.spotOf(key));
  }

  async acquire(id: string, how: AcquireArguments = {}): Promise<Reply> {
    const known = (this.known ??= await this.memory());
    return this.lua.run(scripts.acquireCall(this, acquireArguments(id, { known, ...how })));
  }

  /** What the server tells as its memory. */
  async memory(recoveryMs = 0): Promise<string> {
    const [, , memory] = (await this.lua.run(scripts.recallCall({ keys: [{ fenceKey: this.fenceKey }] }, { process: 'p', recoveryMs, groups: [{ floor: 0, holds: false }] }))) as string[];
    return memory!;
  }

  /** The last fence of the slot group. */
  async lastFence(): Promise<number> {
    return parseInt((await this.lua.client.get(this.fenceKey)) ?? '0', 10);
  }

  /** Is granted the lock at once, whichever way the script says so. */
  async takes(id: string, how?: AcquireArguments): Promise<{ fence: number; grantedAt: number }> {
    const reply = await this.acquire(id, how);
    if (typeof reply === 'string') return { fence: Number(reply), grantedAt: Math.floor(Number(reply) / 1000) };
    const [code, grantedAt, fence] = reply as number[];
    if (code !== 1) throw new Error(`${id} was not granted ${this.key}: ${String(reply)}`);
    return { fence: fence as number, grantedAt: grantedAt as number };
  }

  /** `mayBeOver: false` is said by who gives back in time by the own clock, and spares the script a look at the server's. */
  release(id: string, { floor = 0, abandoned = false, mayBeOver = true } = {}): Promise<Reply> {
    return this.lua.run(scripts.releaseCall(this, { id, mayBeOver, floor, abandoned, recoveryMs: 0, known: UNKNOWN_MEMORY }));
  }

  renew(id: string, leaseMs = 30_000): Promise<Reply> {
    return this.lua.run(renewal([this.lockKey], [{ leaseMs, ids: id }]));
  }

  downgrade(id: string): Promise<Reply> {
    return this.lua.run(scripts.downgradeCall(this, { id, floor: 0, recoveryMs: 0 }));
  }

  /** What became of it. */
  async forceRelease(fence?: number, how: Partial<scripts.ForceReleaseArgs> = {}): Promise<scripts.ForceReleaseReply['kind']> {
    const notAfter = (await this.lua.now()) + 5_000;
    return scripts.readForceRelease(await this.lua.run(scripts.forceReleaseCall(this, { fence, notAfter, floor: 0, recoveryMs: 0, ...how }))).kind;
  }

  /** The mode of the lock, how many hold it, the fields of these, and then those of its waiters. */
  async inspect(): Promise<Reply> {
    const [phase, holders, waiters] = (await this.lua.run(scripts.inspectCall(this))) as unknown as [string, Reply[], Reply[]];
    return [phase, holders.length, ...holders.flat(), ...waiters.flat()];
  }

  /** The ids of its holders. */
  async holders(): Promise<string[]> {
    const [, count, ...fields] = (await this.inspect()) as (string | number)[];
    return Array.from({ length: Number(count) }, (_, n) => String(fields[6 * n]));
  }
}
