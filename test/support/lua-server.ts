/**
 * A server on which scripts run one by one, as text: a Cluster of one node, and each script with a `#!lua` line, so that
 * the server refuses a key that was not announced or lies in another slot.
 */
import { expect } from '@jest/globals';
import type { Redis } from 'ioredis';
import * as scripts from '../../lib/stores/wire/lua.generated.js';
import { addAcquire } from '../../lib/stores/wire/acquire-request.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { eventually } from './eventually.js';
import { majorVersion } from './redis-binary.js';
import { startRedis, type RedisServer } from './redis-server.js';

/** maxLeaseMs. */
const LONGEST_MS = 60_000;

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
  readonly minHoldMs?: number;
  readonly replaces?: string;
}

/** What acquire.lua is given for one request. */
export function acquireArguments(id: string, how: AcquireArguments = {}): (string | number)[] {
  const { mode = 'w', leaseMs = 30_000, fences = 1, floor = 0, notAfter = 0, queue = 1, needsListener, minHoldMs = 0, label, owner, replaces } = how;
  const args: (string | number)[] = [];
  const named = { label: given(label), owner: given(owner), replaces: given(replaces) };
  addAcquire(args, { id, mode: mode === 'w' ? 'write' : 'read', leaseMs, fences, floor, notAfter, queue: queue === 1, needsListener, minHoldMs, longestMs: LONGEST_MS, ...named });
  return args;
}

/** In records - stands for none. */
function given(field: string | undefined): string | undefined {
  return field === '-' ? undefined : field;
}

export class LuaServer {
  private constructor(
    readonly server: RedisServer,
    readonly client: Redis,
    private readonly header: string,
  ) {}

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

  run(script: scripts.LuaScript, keys: readonly string[], args: readonly (string | number)[]): Promise<Reply> {
    return this.client.eval(this.header + script.source, keys.length, ...keys, ...args) as Promise<Reply>;
  }

  lock(key: string): LuaLock {
    return new LuaLock(this, key);
  }
}

/** The scripts on one lock. */
export class LuaLock {
  private readonly names = new RedisKeys('lock');
  readonly group: number;
  readonly lockKey: string;
  readonly queueKey: string;
  readonly fenceKey: string;

  constructor(
    private readonly lua: LuaServer,
    readonly key: string,
  ) {
    this.group = this.names.groupOf(key);
    [this.lockKey, this.queueKey, this.fenceKey] = this.names.all(this.group, key);
  }

  get all(): string[] {
    return [this.lockKey, this.queueKey, this.fenceKey];
  }

  acquire(id: string, how: AcquireArguments = {}): Promise<Reply> {
    return this.lua.run(scripts.acquire, this.all, acquireArguments(id, how));
  }

  /** Is granted the lock at once, whichever way the script says so. */
  async takes(id: string, how?: AcquireArguments): Promise<{ fence: number; grantedAt: number }> {
    const reply = await this.acquire(id, how);
    if (typeof reply === 'string') return { fence: Number(reply), grantedAt: Math.floor(Number(reply) / 1000) };
    const [code, grantedAt, fence] = reply as number[];
    if (code !== 1) throw new Error(`${id} was not granted ${this.key}: ${String(reply)}`);
    return { fence: fence as number, grantedAt: grantedAt as number };
  }

  release(id: string, floor = 0, abandoned = 0): Promise<Reply> {
    return this.lua.run(scripts.release, this.all, [id, `${floor} ${abandoned}`]);
  }

  renew(id: string, leaseMs = 30_000): Promise<Reply> {
    return this.lua.run(scripts.renew, [this.lockKey], [LONGEST_MS, leaseMs, id]);
  }

  heartbeat(id: string, floor = 0): Promise<Reply> {
    return this.lua.run(scripts.heartbeat, this.all, [id, floor, LONGEST_MS]);
  }

  downgrade(id: string): Promise<Reply> {
    return this.lua.run(scripts.downgrade, this.all, [id, 0]);
  }

  forceRelease(fence: number | '' = ''): Promise<Reply> {
    return this.lua.run(scripts.forceRelease, this.all, [fence, 0]);
  }

  inspect(): Promise<Reply> {
    return this.lua.run(scripts.inspect, [this.lockKey, this.queueKey], []);
  }
}
