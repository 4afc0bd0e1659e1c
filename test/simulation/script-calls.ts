/** Random calls of every script, such that they meet each other: few locks, few processes, and ids of which most were asked for. */
import { addAcquire } from '../../lib/stores/wire/acquire-request.js';
import * as scripts from '../../lib/stores/wire/lua.generated.js';
import type { Random } from './random.js';
import type { RedisData } from './redis-data.js';

export class ScriptCalls {
  private nowUs = 0;
  private ids = 0;

  constructor(
    private readonly random: Random,
    /** What the calls so far have written. */
    private readonly data: RedisData,
    private readonly runId: string,
  ) {}

  /** The next one, at this server time. */
  at(nowUs: number): [script: scripts.LuaScript, keys: readonly string[], args: readonly (string | number)[]] {
    this.nowUs = nowUs;
    const { random, runId } = this;
    const lock = this.lock();
    const [lockKey, , fenceKey] = lock;
    const id = this.anId();
    switch (random.whole(0, 20)) {
      case 0:
        return [scripts.renew, [lockKey], [60_000, random.pick([100, 30_000]), id]];
      case 1: {
        const locks = [this.lock(), this.lock(), this.lock()];
        return [scripts.renew, locks.map(([key]) => key), [60_000, 2_000, `${this.anId()} ${this.anId()}`, 100, this.anId()]];
      }
      case 2: {
        const locks = [this.lock(), this.lock()];
        return [scripts.heartbeat, locks.flat(), locks.flatMap(() => [this.anId(), 0, random.pick([1_000, 60_000])])];
      }
      case 3:
        return [scripts.downgrade, lock, [random.chance(0.3) ? this.holderOf(lockKey) : id, 0]];
      case 4:
        return [scripts.forceRelease, lock, [random.pick(['', this.nowUs, this.fenceOf(lockKey)]), 0]];
      case 5:
        return [scripts.inspect, lock.slice(0, 2), []];
      case 6:
      case 16:
      case 17:
        return [scripts.vote, [lockKey, fenceKey, this.marksOf(lockKey), '{sim}:e'], [
          this.newId(), this.mode(), 3_000, random.pick([1, 16]), this.nowUs, random.pick([0, 0, 0, 1]), 'Class.method', random.pick(['-', 'saga:1', 'saga:1', 'saga:1']), random.pick([0, 0, 900]), random.pick([0, 0, 700]), random.pick([1, 1, 5_000]),
          random.pick(['-', runId]), random.pick(['p1', 'p2', 'p3']), random.pick([-1, 0, 3, 700]), random.pick([1, 50]),
        ]];
      case 19:
      case 20:
        return [scripts.giveBack, [lockKey, this.marksOf(lockKey)], [
          random.pick(['-', this.holderOf(lockKey), id]), random.pick([0, 0, 1]), random.pick(['-', 'p1', 'p2']), random.pick(['p1', 'p2']), random.pick([-2, -1, 0, 700]), this.mode(), random.pick([1, 50]),
        ]];
      case 7:
        return [scripts.raiseFence, [lockKey, fenceKey], [random.pick([id, this.holderOf(lockKey)]), this.nowUs + random.pick([-10, 10]), 1]];
      case 8:
        return random.chance(0.5)
          ? [scripts.greet, ['{sim}:e', fenceKey], [random.pick([1, 5_000]), this.nowUs + 5]]
          : [scripts.survey, ['{sim}:e', fenceKey, '{sim:9}:f'], [5_000]];
      case 18:
        return [scripts.fencedWrite, ['{guarded}'], [this.nowUs + random.pick([-90_000_000, 0, 1_000]), 'state', 'paid', 'by', id]];
      case 9:
        return [scripts.admit, ['{sim}:e', fenceKey], [random.pick([1, 5_000]), runId, this.epochSince(), this.nowUs + 7]];
      case 10:
      case 11:
      case 12: {
        const locks = this.someLocks(lock);
        return [scripts.release, locks.flat(), locks.flatMap(() => [this.anId(), `${random.pick([0, this.nowUs + 1_000])} ${random.pick([0, 0, 1])}`])];
      }
      default: {
        const locks = this.someLocks(lock);
        return [scripts.acquire, locks.flat(), locks.flatMap(() => this.request())];
      }
    }
  }

  /** Mostly one; a process puts what it asks for in one turn into one command. */
  private someLocks(first: [string, string, string]): [string, string, string][] {
    return this.random.chance(0.8) ? [first] : [first, this.lock(), this.lock()];
  }

  private request(): (string | number)[] {
    const { random, nowUs } = this;
    const args: (string | number)[] = [];
    const owner = this.owner();
    addAcquire(args, {
      id: random.chance(0.15) ? this.anId() : this.newId(), mode: this.mode() === 'w' ? 'write' : 'read', leaseMs: random.pick([150, 2_000, 30_000]),
      fences: random.pick([1, 1, 16]), floor: random.pick([0, nowUs + 1_000]), notAfter: random.pick([0, 0, Math.floor(nowUs / 1000), 1]),
      queue: random.pick([true, true, false]), needsListener: random.chance(0.7), label: random.pick([undefined, 'Orders.pay']), owner: owner === '-' ? undefined : owner,
      minHoldMs: random.pick([0, 0, 1_200]), graceMs: random.pick([0, 0, 0, 0, 700]), replaces: random.chance(0.2) ? this.anId() : undefined, longestMs: random.pick([1_000, 60_000]),
    });
    return args;
  }

  private lock(): [string, string, string] {
    const [group, key] = this.random.pick([['{sim:1}', 'a'], ['{sim:1}', 'ä b'], ['{sim:2}', 'c']] as const);
    return [`${group}:l:${key}`, `${group}:q:${key}`, `${group}:f`];
  }

  private mode(): string {
    return this.random.pick(['w', 'w', 'r']);
  }

  private owner(): string {
    return this.random.pick(['-', '-', 'saga:1']);
  }

  private newId(): string {
    return `p${this.random.whole(1, 3)}.${++this.ids}`;
  }

  /** One of the last ten. */
  private anId(): string {
    return `p${this.random.whole(1, 3)}.${Math.max(1, this.ids - this.random.whole(0, 9))}`;
  }

  private marksOf(lockKey: string): string {
    return lockKey.replace('}:l:', '}:m:');
  }

  private holderOf(lockKey: string): string {
    return this.fieldOf(lockKey, 2);
  }

  private fenceOf(lockKey: string): string {
    return this.fieldOf(lockKey, 3);
  }

  /** Of its first holder. */
  private fieldOf(lockKey: string, at: number): string {
    const value = this.data.peek(lockKey, Math.floor(this.nowUs / 1000))?.value;
    return typeof value === 'string' ? (value.split(' ')[at] ?? '') : '';
  }

  private epochSince(): string {
    const value = this.data.peek('{sim}:e', Math.floor(this.nowUs / 1000))?.value;
    return typeof value === 'string' ? (value.split(' ')[1] ?? '0') : '0';
  }
}
