/** Random calls of every script, such that they meet each other: few locks, few processes, and ids of which most were asked for. */
import type { LockMode } from '../../lib/core/port/lock-options.js';
import { UNKNOWN_MEMORY, UNTIL_TOLD_MS, USUAL_LEASE_MS } from '../../lib/stores/wire/redis-keys.js';
import * as scripts from '../../lib/stores/wire/lua.generated.js';
import type { Random } from './random.js';
import type { RedisData } from './redis-data.js';

/** A lock on a node of a Redlock. */
const ON_NODE = { lockKey: '{sim:5}:l:d', queueKey: '{sim:5}:q:d', fenceKey: '{sim:5}:f' };
/** The last instant that an acquire can name. */
const NEVER = 9_999_999_999_999;

type SimLock = scripts.AcquireKeys;

export class ScriptCalls {
  private nowUs = 0;
  private ids = 0;

  constructor(
    private readonly random: Random,
    /** What the calls so far have written. */
    private readonly data: RedisData,
  ) {}

  /** The next one, at this server time. */
  at(nowUs: number): scripts.BuiltCall {
    this.nowUs = nowUs;
    const { random } = this;
    const on = this.lock();
    const id = this.anId();
    switch (random.whole(0, 31)) {
      case 0:
        return scripts.renewCall({ lockKeys: [on.lockKey] }, { runs: [{ leaseMs: random.pick([100, 30_000, 90_000]), ids: id }] });
      case 1: {
        const lockKeys = [this.lock(), this.lock(), this.lock()].map(({ lockKey }) => lockKey);
        const runs = [{ leaseMs: 2_000, ids: `${this.anId()} ${this.anId()}` }, { leaseMs: 100, ids: this.anId() }];
        return scripts.renewCall({ lockKeys }, { runs });
      }
      case 2:
        return scripts.acquireCall(on, { ...this.request(on), id });
      case 3:
        return scripts.downgradeCall(on, { id: random.chance(0.3) ? this.holderOf(on.lockKey) : id, floor: 0, recoveryMs: random.pick([0, 0, 300]) });
      case 4:
        return scripts.forceReleaseCall(on, { fence: random.pick([undefined, this.nowUs, this.fenceOf(on.lockKey)]), notAfter: random.pick([NEVER, NEVER, NEVER, 1]), floor: 0, recoveryMs: random.pick([0, 0, 300]) });
      case 5:
        return scripts.inspectCall(on);
      case 6:
      case 16:
      case 17:
        return scripts.acquireCall(ON_NODE, this.vote());
      case 19:
      case 20: {
        const left = random.pick([id, id, this.holderOf(ON_NODE.lockKey) || id]);
        const mark = random.pick([undefined, `${random.pick(['w', 'r'])},${random.pick([0, 700])},50,${this.anId()}`]);
        return scripts.releaseCall(ON_NODE, { id: left, mark, mayBeOver: mark !== undefined || random.pick([false, true]), abandoned: random.pick([false, false, true]), floor: 0, recoveryMs: UNTIL_TOLD_MS, known: this.nodeMemory() });
      }
      case 7:
        return scripts.forceReleaseCall(ON_NODE, { fence: random.pick([undefined, this.fenceOf(ON_NODE.lockKey)]), notAfter: NEVER, floor: 0, recoveryMs: UNTIL_TOLD_MS });
      case 8:
        return random.chance(0.5)
          ? scripts.recallCall({ keys: [{ fenceKey: ON_NODE.fenceKey }] }, { process: 'p1', recoveryMs: UNTIL_TOLD_MS, groups: [{ floor: random.pick([0, this.nowUs + 7]), holds: false }] })
          : many(scripts.bringBack, [ON_NODE], (keys, args, each) => scripts.addBringBack(keys, args, each, { ...this.lease(each), recoveryMs: UNTIL_TOLD_MS }));
      case 18: {
        const fence = this.nowUs + random.pick([-90_000_000, 0, 1_000]);
        return scripts.fencedWriteCall({ dataKey: '{guarded}' }, { fence, fields: ['state', 'paid', 'by', id] });
      }
      case 9:
        return scripts.admitCall({ fenceKeys: [ON_NODE.fenceKey] }, { maxLeaseMs: random.pick([0, 1, 5_000]), since: random.pick([NEVER, 0]), floors: [this.nowUs + 7] });
      case 21:
        return scripts.recallCall(
          { keys: [on.fenceKey, '{sim:9}:f'].map((fenceKey) => ({ fenceKey })) },
          { process: random.pick(['p1', 'p2']), recoveryMs: random.pick([0, 300]), groups: [random.pick([0, this.nowUs + 20]), 0].map((floor) => ({ floor, holds: random.chance(0.5) })) },
        );
      case 22:
      case 23:
        return many(scripts.bringBack, this.someLocks(on), (keys, args, each) => scripts.addBringBack(keys, args, each, this.lease(each)));
      case 24:
      case 25:
      case 26:
      case 27: {
        const takes = random.chance(0.2) ? 'beside' : 'hold';
        const terms = { takes, leaseMs: random.pick([300, 5_000, 40_000]), minHoldMs: 0, replaces: random.chance(0.7) ? this.holderOf(on.lockKey) || id : id } as const;
        return scripts.acquireCall(on, { ...this.request(on), ...terms, id: this.ticketId(), plain: false });
      }
      case 28:
      case 29:
      case 30:
      case 31: {
        const there = this.holderOf(on.lockKey);
        const replaces = there.includes('.=') ? there : this.ticketId();
        return scripts.acquireCall(on, { ...this.request(on), takes: 'ticket', id: this.newId(), replaces, minHoldMs: random.pick([NEVER, NEVER, Math.floor(nowUs / 1000) - 1]), plain: false });
      }
      case 10:
      case 11:
      case 12:
        return many(scripts.release, this.someLocks(on), (keys, args, each) =>
          scripts.addRelease(keys, args, each, { id: this.anId(), mayBeOver: random.chance(0.5), floor: random.pick([0, this.nowUs + 1_000]), abandoned: random.pick([false, false, true]), ...this.recovery(each) }));
      default:
        return many(scripts.acquire, this.someLocks(on), (keys, args, each) => scripts.addAcquire(keys, args, each, this.request(each)));
    }
  }

  private ticketId(): string {
    return `p1.=${this.random.whole(1, 2)}`;
  }

  /** Mostly one; a process puts what it asks for in one turn into one command. */
  private someLocks(first: SimLock): SimLock[] {
    return this.random.chance(0.8) ? [first] : [first, this.lock(), this.lock()];
  }

  private lease(on: SimLock): scripts.BringBackArgs {
    const { random, nowUs } = this;
    const nowMs = Math.floor(nowUs / 1000);
    const { recoveryMs, known } = this.recovery(on);
    return {
      id: this.anId(), mode: this.mode(), notAfter: random.pick([nowMs, nowMs, nowMs + 9_000, nowMs - 1]), leaseMs: random.pick([150, 30_000]),
      fence: random.pick([nowUs, nowUs - 9_000_000, this.fenceOf(on.lockKey) ?? nowUs]), fences: random.pick([1, 16]), minHoldMs: random.pick([0, 0, 1_200]),
      graceMs: random.pick([0, 0, 700]), recoveryMs, knownBy: random.pick([undefined, known]), owner: random.pick([undefined, 'saga:1']), label: 'Orders.pay',
    };
  }

  /** What a process knows that has asked for the server's memory, or one that has not. */
  private recovery({ fenceKey }: SimLock): { readonly recoveryMs: number; readonly known: string } {
    const record = this.data.peek(fenceKey, Math.floor(this.nowUs / 1000))?.value;
    const memory = typeof record === 'string' ? / (\S{30})/.exec(record)?.[1] : undefined;
    return { recoveryMs: this.random.pick([0, 0, 0, 0, 300]), known: memory !== undefined && this.random.chance(0.8) ? memory : UNKNOWN_MEMORY };
  }

  private request(on: SimLock): scripts.AcquireArgs {
    const { random, nowUs } = this;
    const owner = random.pick([undefined, 'saga:1']);
    const said: Omit<scripts.AcquireArgs, 'plain'> = {
      id: random.chance(0.15) ? this.anId() : this.newId(), mode: this.mode(), leaseMs: random.pick([150, 2_000, 30_000, 90_000]),
      fences: random.pick([1, 1, 16]), floor: random.pick([0, nowUs + 1_000]), notAfter: random.pick([NEVER, NEVER, Math.floor(nowUs / 1000), 1]),
      queue: random.pick([true, true, false]), needsListener: random.chance(0.7), label: random.pick([undefined, 'Orders.pay']), owner,
      minHoldMs: random.pick([0, 0, 1_200]), graceMs: random.pick([0, 0, 0, 0, 700]), replaces: random.chance(0.2) ? this.anId() : undefined, takes: random.chance(0.5) ? 'permit' : 'nothing', ...this.recovery(on),
    };
    return { ...said, plain: said.fences === 1 && said.minHoldMs === 0 && said.graceMs === 0 && said.replaces === undefined && said.leaseMs <= USUAL_LEASE_MS };
  }

  private lock(): SimLock {
    const [group, key] = this.random.pick([['{sim:1}', 'a'], ['{sim:1}', 'ä b'], ['{sim:2}', 'c']] as const);
    return { lockKey: `${group}:l:${key}`, queueKey: `${group}:q:${key}`, fenceKey: `${group}:f` };
  }

  private mode(): LockMode {
    return this.random.pick(['write', 'write', 'read']);
  }

  private vote(): scripts.AcquireArgs {
    const { random, nowUs: floor } = this;
    const [id, mode] = [this.newId(), this.mode()];
    const mark = random.pick([undefined, `${mode[0]},${random.pick([0, 3, 700])},${random.pick([1, 50])},${id}`]);
    const said = {
      id, mode, mark, leaseMs: 3_000, fences: random.pick([1, 1, 16]), floor, notAfter: random.pick([NEVER, NEVER, NEVER, 1]), label: 'Class.method',
      owner: random.pick([undefined, 'saga:1', 'saga:1', 'saga:1']), minHoldMs: random.pick([0, 0, 900]), graceMs: random.pick([0, 0, 700]),
      known: random.pick([undefined, this.nodeMemory()]) ?? UNKNOWN_MEMORY, takes: 'floor', queue: false, needsListener: false, recoveryMs: UNTIL_TOLD_MS,
    } as const;
    return { ...said, plain: said.fences === 1 && said.minHoldMs === 0 && said.graceMs === 0 };
  }

  private newId(): string {
    return `p${this.random.whole(1, 3)}.${++this.ids}`;
  }

  /** One of the last ten. */
  private anId(): string {
    return `p${this.random.whole(1, 3)}.${Math.max(1, this.ids - this.random.whole(0, 9))}`;
  }

  private holderOf(lockKey: string): string {
    return this.fieldOf(lockKey, 2);
  }

  private fenceOf(lockKey: string): number | undefined {
    return Number(this.fieldOf(lockKey, 3)) || undefined;
  }

  /** Of its first holder. */
  private fieldOf(lockKey: string, at: number): string {
    const value = this.data.peek(lockKey, Math.floor(this.nowUs / 1000))?.value;
    return typeof value === 'string' ? (value.split(' ')[at] ?? '') : '';
  }

  /** As its record names it. */
  private nodeMemory(): string {
    const value = this.data.peek(ON_NODE.fenceKey, Math.floor(this.nowUs / 1000))?.value;
    return typeof value === 'string' ? (value.split(' ')[1] ?? UNKNOWN_MEMORY) : UNKNOWN_MEMORY;
  }
}

/** A call of a script that takes many requests, one for each of the locks. */
function many(script: scripts.LuaScript, locks: readonly SimLock[], add: (keys: string[], args: scripts.ScriptArgument[], lock: SimLock) => void): scripts.BuiltCall {
  const [keys, args]: [string[], scripts.ScriptArgument[]] = [[], []];
  for (const lock of locks) add(keys, args, lock);
  return { script, keys, args };
}
