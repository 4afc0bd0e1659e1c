/** The comparison passes a store that does what the machine does, and fails each of those that do one thing otherwise. */
import { describe, expect, it } from '@jest/globals';
import type { LockState } from '../../lib/core/port/lock-state.js';
import type { AcquireRequest, HeartbeatOutcome, HolderRef, RenewOutcome, Wake } from '../../lib/core/port/lock-store.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { FakeClock } from '../support/fake-clock.js';
import { answersLikeTheMachine } from './side-by-side.js';
import type { ModelTarget } from './store-and-machine.js';

class Revives extends MemoryStore {
  override async renew(requests: Parameters<MemoryStore['renew']>[0]): Promise<readonly RenewOutcome[]> {
    return (await super.renew(requests)).map((outcome) => (outcome.kind === 'lost' ? { kind: 'renewed', trustedUntil: 0, contended: false } : outcome));
  }
}

class ReleasesBlindly extends MemoryStore {
  override async release(holder: HolderRef): Promise<'released'> {
    await super.release(holder);
    return 'released';
  }
}

class TrustsTooLong extends MemoryStore {
  override async acquire(request: AcquireRequest): ReturnType<MemoryStore['acquire']> {
    const outcome = await super.acquire(request);
    if (outcome.kind !== 'granted') return outcome;
    return { kind: 'granted', grant: { ...outcome.grant, trustedUntil: outcome.grant.trustedUntil + 100 } };
  }
}

class RepeatsFences extends MemoryStore {
  override async acquire(request: AcquireRequest): ReturnType<MemoryStore['acquire']> {
    const outcome = await super.acquire(request);
    return outcome.kind === 'granted' ? { kind: 'granted', grant: { ...outcome.grant, fence: 7 } } : outcome;
  }
}

class HidesGrants extends MemoryStore {
  override async heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    return (await super.heartbeat(waiters)).map((outcome) => (outcome.kind === 'granted' ? { kind: 'waiting' } : outcome));
  }
}

class LosesWakes extends MemoryStore {
  override onWake(listener: (wake: Wake) => void): void {
    super.onWake((wake) => wake.kind === 'granted' || listener(wake));
  }
}

/** A store that answers otherwise when a hold is to change hands: `whose` says to a ticket (`hold`) or from one (`ticket`). */
function withTickets(whose: 'hold' | 'ticket', change: (request: AcquireRequest, ask: MemoryStore['acquire']) => ReturnType<MemoryStore['acquire']>): typeof MemoryStore {
  return class extends MemoryStore {
    override acquire(request: AcquireRequest): ReturnType<MemoryStore['acquire']> {
      const { takesOver } = request;
      const ask = (other: AcquireRequest): ReturnType<MemoryStore['acquire']> => super.acquire(other);
      return takesOver !== undefined && (takesOver === 'ticket') === (whose === 'ticket') ? change(request, ask) : ask(request);
    }
  };
}

class HidesReaders extends MemoryStore {
  override async inspect(key: string): Promise<LockState> {
    const state = await super.inspect(key);
    return state.mode === 'read' ? { ...state, holders: state.holders.slice(0, 1) } : state;
  }
}

class LetsOneMoreIn extends MemoryStore {
  override acquire(request: AcquireRequest): ReturnType<MemoryStore['acquire']> {
    return super.acquire({ ...request, permits: request.permits && request.permits + 1 });
  }

  override async inspect(key: string): Promise<LockState> {
    const state = await super.inspect(key);
    return { ...state, permits: state.permits && state.permits - 1 };
  }
}

class TakesAnyNumber extends MemoryStore {
  override async acquire(request: AcquireRequest): ReturnType<MemoryStore['acquire']> {
    const outcome = await super.acquire(request);
    return outcome.kind === 'permits' && outcome.permits !== undefined ? super.acquire({ ...request, permits: outcome.permits }) : outcome;
  }
}

class KeepsPermits extends MemoryStore {
  override async release(request: Parameters<MemoryStore['release']>[0]): Promise<'released' | 'lost'> {
    const { permits, holders } = await this.inspect(request.key);
    // What is left of the lease is all that is given back.
    if (permits !== undefined && holders.some(({ id }) => id === request.id)) return 'released';
    return super.release(request);
  }
}

/** A store that sees another request than the one that was made. */
function mishearing(change: Partial<AcquireRequest>): typeof MemoryStore {
  return class extends MemoryStore {
    override acquire(request: AcquireRequest): ReturnType<MemoryStore['acquire']> {
      return super.acquire({ ...request, ...change });
    }
  };
}

function compare(Store: typeof MemoryStore): Promise<void> {
  const open = (): ModelTarget => {
    const clock = new FakeClock();
    const store = new Store({ clock: Object.assign(Object.create(clock), { setTimer: () => ({}) }), maxLeaseMs: 60_000 });
    const wakes: Wake[] = [];
    store.onWake((wake) => wakes.push(wake));
    return { stores: [store, store], wakes, clock, pass: (ms) => clock.advance(ms) };
  };
  return answersLikeTheMachine({ open, numRuns: 100, mostActs: 40, seed: 22, anyFailure: true });
}

describe('The comparison of a store with the lock machine', () => {
  it('passes a store that answers like the machine', async () => {
    await compare(MemoryStore);
  });

  const mutants: Record<string, typeof MemoryStore> = {
    'revives lost leases': Revives,
    'tells every release as done': ReleasesBlindly,
    'trusts a grant for too long': TrustsTooLong,
    'repeats a fence': RepeatsFences,
    'does not tell grants by heartbeat': HidesGrants,
    'loses the wakes of grants': LosesWakes,
    'shows one reader of several': HidesReaders,
    'takes readers for writers': mishearing({ mode: 'write' }),
    'does not release what a request replaces': mishearing({ replaces: undefined }),
    'hands no permit on': mishearing({ handsOn: false }),
    'knows no owners': mishearing({ owner: undefined }),
    'knows no permits': mishearing({ permits: undefined }),
    'lets one too many have a permit': LetsOneMoreIn,
    'takes any number of permits': TakesAnyNumber,
    'lets nobody in when a permit is given back': KeepsPermits,
    'forgets minHoldMs': mishearing({ minHoldMs: 0 }),
    'gives everybody a place': mishearing({ queue: true }),
    'grants other lengths': mishearing({ leaseMs: 60_000 }),
    'reserves one fence': mishearing({ fences: 1 }),
    'does not hear of hand-offs': withTickets('hold', async ({ mode }) => ({
      kind: 'granted',
      grant: { fence: 1, fences: 1, mode, trustedUntil: 0, contended: false },
      taken: { owner: undefined, permits: undefined, minHoldMs: 0, end: 0 },
    })),
    'gives every ticket the same time': withTickets('hold', (request, ask) => ask({ ...request, leaseMs: 1 })),
    'adopts nothing': withTickets('ticket', async () => ({ kind: 'gone', now: 0, memory: undefined })),
    'adopts for another time': withTickets('ticket', (request, ask) => ask({ ...request, leaseMs: 60_000 })),
  };

  it.each(Object.entries(mutants))('fails a store that %s', async (_, Store) => {
    await expect(compare(Store)).rejects.toThrow(/seed: 22[^]*after\n/);
  });
});
