/** Commands of the lock machine at chosen instants: what is granted, who is woken, and what happens at the very end of a time. */
import { describe, expect, it } from '@jest/globals';
import { FIRST_LEASE_MS, MAX_HOLDS_OF_OWNER, type AcquireRequest, type Grant } from '../../../lib/core/port/lock-store.js';
import { LockMachine } from '../../../lib/stores/memory/lock-machine.js';
import { WAITER_LEASE_MS } from '../../../lib/stores/memory/machine-time.js';

type Asking = Partial<AcquireRequest>;

/** A machine whose lock is `k`, and what it woke. Fences begin at 1, because its wall clock stands at 0. */
function setUp() {
  const woken: string[] = [];
  const machine = new LockMachine(({ kind, id }) => woken.push(`${id} ${kind}`));
  const at = (ms: number) => ({ ms, us: 0 });
  const ask = (id: string, how: Asking = {}, ms = 0) =>
    machine.acquire({ key: 'k', id, mode: 'write', leaseMs: 10_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: Infinity, ...how }, at(ms));
  const granted = (id: string, how?: Asking, ms?: number): Grant => {
    const reply = ask(id, how, ms);
    if (reply.kind !== 'granted') throw new Error(`expected a grant, got ${reply.kind}`);
    return reply.grant;
  };
  const heartbeat = (id: string, ms = 0) => machine.heartbeat({ key: 'k', id }, at(ms));
  const renew = (id: string, leaseMs: number, ms: number) => machine.renew({ key: 'k', id, leaseMs, minReplicas: 0 }, at(ms));
  const release = (id: string, ms = 0) => machine.release({ key: 'k', id }, at(ms));
  const downgrade = (id: string, ms = 0) => machine.downgrade({ key: 'k', id }, at(ms));
  const look = (ms = 0) => machine.inspect('k', at(ms));
  const told = (): string[] => woken.splice(0);
  return { machine, at, ask, granted, heartbeat, renew, release, downgrade, look, told };
}

const reading = { mode: 'read' } as const;
const ids = (all: readonly { readonly id: string }[]): string[] => all.map(({ id }) => id);

describe('A request', () => {
  it('acts at its last instant, and not after it', () => {
    const { ask } = setUp();
    expect(ask('a', { notAfter: 100 }, 101)).toEqual({ kind: 'late' });
    expect(ask('a', { notAfter: 100 }, 100).kind).toBe('granted');
  });

  it('is granted fences from 1 on, where the clock says nothing, one for each that it asks for', () => {
    const { ask, granted, release } = setUp();
    expect(granted('a')).toMatchObject({ fence: 1, fences: 1 });
    release('a');
    expect(granted('b', { fences: 3 })).toMatchObject({ fence: 2, fences: 3 });
    ask('b.=t', { replaces: 'b', takesOver: 'hold' });
    expect(granted('c', { replaces: 'b.=t', takesOver: 'ticket' })).toMatchObject({ fence: 5, fences: 1 });
    release('c');
    expect(granted('d').fence).toBe(6);
  });

  it('of an owner who reads joins to read', () => {
    const { ask, granted } = setUp();
    const { fence } = granted('a', { ...reading, owner: 'o' });
    expect(granted('b', { ...reading, owner: 'o', fences: 16 })).toMatchObject({ fence, fences: 1 });
    expect(ask('c', { owner: 'o' }).kind).toBe('upgrade');
  });

  it('of an owner who has as many holds as there may be is refused, and those that are over do not count', () => {
    const { ask, granted, release } = setUp();
    granted('first', { owner: 'o', minHoldMs: 60_000 });
    for (let n = 1; n < MAX_HOLDS_OF_OWNER; n += 1) granted(`a${n}`, { owner: 'o' });
    expect(ask('more', { owner: 'o' })).toEqual({ kind: 'full' });
    release('first');
    expect(ask('more', { owner: 'o' }).kind).toBe('granted');
    expect(ask('one too many', { owner: 'o' })).toEqual({ kind: 'full' });
  });

  it('of an owner is not refused for the number of readers beside it who are not that owner', () => {
    const { granted } = setUp();
    const { fence } = granted('a', { ...reading, owner: 'o' });
    for (let n = 0; n < MAX_HOLDS_OF_OWNER; n += 1) granted(`b${n}`, reading);
    expect(granted('c', { ...reading, owner: 'o' }).fence).toBe(fence);
  });

  it('that replaces a hold of a lock without permits does not pass those who wait', () => {
    const { ask, granted, told } = setUp();
    granted('a');
    ask('b');
    told();
    expect(ask('c', { replaces: 'a', handsOn: true }).kind).toBe('waiting');
    expect(told()).toEqual(['b granted', 'b contended']);
  });

  it('that replaces a permit has the next one, and no place in the queue any more', () => {
    const { ask, granted, look } = setUp();
    granted('a', { permits: 1 });
    ask('b', { permits: 1 });
    ask('c', { permits: 1 });
    expect(ask('c', { permits: 1, replaces: 'a', handsOn: true }).kind).toBe('granted');
    expect([ids(look().holders), ids(look().waiters)]).toEqual([['c'], ['b']]);
  });

  it('that replaces a permit but names another number of them is refused', () => {
    const { ask, granted, look } = setUp();
    granted('a', { permits: 2 });
    granted('b', { permits: 2 });
    expect(ask('c', { permits: 3, replaces: 'a', handsOn: true })).toEqual({ kind: 'permits', permits: 2 });
    expect(ids(look().holders)).toEqual(['b']);
  });

  it('that replaces a permit although it was granted one already keeps its grant', () => {
    const { granted } = setUp();
    granted('a', { permits: 2 });
    const { fence } = granted('b', { permits: 2 });
    expect(granted('b', { permits: 2, replaces: 'a', handsOn: true }).fence).toBe(fence);
  });
});

describe('A waiter', () => {
  it('of which nobody knows has no place, and cannot be downgraded', () => {
    const { heartbeat, downgrade, granted } = setUp();
    expect([heartbeat('a'), downgrade('a')]).toEqual([{ kind: 'gone' }, 'lost']);
    granted('b');
    expect([heartbeat('a'), downgrade('a')]).toEqual([{ kind: 'gone' }, 'lost']);
  });

  it('is told of to the holder by the first of them only, and to none whose hold is over', () => {
    const { ask, granted, release, told } = setUp();
    granted('a', { ...reading, minHoldMs: 60_000 });
    granted('b', reading);
    release('a');
    ask('c');
    expect(told()).toEqual(['b contended']);
    ask('d');
    expect(told()).toEqual([]);
  });

  it.each(['read', 'write'] as const)('for %s makes the lock contended', (mode) => {
    const { ask, granted, renew } = setUp();
    granted('a');
    expect(renew('a', 10_000, 0)).toMatchObject({ contended: false });
    ask('b', { mode });
    expect(renew('a', 10_000, 0)).toMatchObject({ contended: true });
  });

  it('for reading gives up its place as one for writing does', () => {
    const { ask, granted, release, look } = setUp();
    granted('a');
    ask('b', reading);
    expect([release('b'), ids(look().waiters), release('b')]).toEqual(['released', [], 'lost']);
  });

  it('that is first in line is told when to ask again: behind readers a writer', () => {
    const { ask, granted } = setUp();
    granted('a', { ...reading, leaseMs: 4_000 });
    expect(ask('b')).toEqual({ kind: 'waiting', askAgainInMs: 4_001 });
    expect(ask('c', reading)).toEqual({ kind: 'waiting' });
  });

  it('for reading is let in when the readers and the writer before it have ended at the same time', () => {
    const { ask, granted, heartbeat } = setUp();
    granted('a', { ...reading, leaseMs: 4_000 });
    ask('b');
    ask('c', reading);
    expect(heartbeat('c', WAITER_LEASE_MS).kind).toBe('waiting');
    expect(heartbeat('c', 4_001).kind).toBe('granted');
  });

  it('joins its owner with a short lease, leaves the queue, and waits while the owner has as many holds as there may be', () => {
    const { ask, granted, release, heartbeat, look, told } = setUp();
    granted('x');
    for (let n = 0; n <= MAX_HOLDS_OF_OWNER; n += 1) ask(`a${n}`, { owner: 'o', leaseMs: n === 1 ? 100 : 10_000 });
    told();
    release('x');
    expect(told()).toEqual(['a0 granted']);
    expect(heartbeat('a1')).toMatchObject({ kind: 'granted', grant: { trustedUntil: 100 } });
    for (let n = 2; n < MAX_HOLDS_OF_OWNER; n += 1) expect(heartbeat(`a${n}`)).toMatchObject({ kind: 'granted', grant: { trustedUntil: FIRST_LEASE_MS } });
    expect(heartbeat(`a${MAX_HOLDS_OF_OWNER}`).kind).toBe('waiting');
    expect(ids(look().waiters)).toEqual([`a${MAX_HOLDS_OF_OWNER}`]);
  });

  it('has its minHoldMs and its grace from the first renewal on', () => {
    const { ask, granted, release, renew } = setUp();
    granted('a');
    ask('b', { minHoldMs: 30_000, graceMs: 5_000 });
    release('a');
    expect(renew('b', 1_000, 0)).toEqual({ kind: 'renewed', trustedUntil: 30_000, contended: false });
  });
});

describe('A downgrade', () => {
  it('leaves a lock with permits as it is', () => {
    const { granted, downgrade, look } = setUp();
    granted('a', { permits: 2 });
    expect([downgrade('a'), look().mode]).toEqual(['downgraded', 'write']);
  });

  it('of a lock that is read lets nobody pass the writer who waits', () => {
    const { ask, granted, downgrade, look, told } = setUp();
    granted('a', reading);
    ask('b');
    ask('c', reading);
    told();
    expect([downgrade('a'), told(), ids(look().waiters)]).toEqual(['downgraded', [], ['b', 'c']]);
  });
});

describe('A forced release', () => {
  it('lets in who waits at once, and wakes no holder whose hold is over', () => {
    const { machine, at, ask, granted, release, told } = setUp();
    granted('a', { minHoldMs: 60_000 });
    release('a');
    ask('b');
    expect([machine.forceRelease('k', undefined, at(0)), told()]).toEqual([true, ['b granted']]);
  });
});

describe('What is told of a lock', () => {
  it('are the waiters in the order in which they will be served: behind readers first a writer, then all readers', () => {
    const { ask, granted, look } = setUp();
    granted('a', reading);
    for (const [id, mode] of [['w1', 'write'], ['r1', 'read'], ['w2', 'write'], ['r2', 'read']] as const) ask(id, { mode });
    expect(ids(look().waiters)).toEqual(['w1', 'r1', 'r2', 'w2']);
  });

  it('is no grace of a hold that is over, and what is left of its minHoldMs', () => {
    const { granted, release, look } = setUp();
    granted('a', { minHoldMs: 5_000, graceMs: 2_000 });
    release('a', 1_000);
    expect(look(1_000).holders).toEqual([{ id: 'a', fence: 1, owner: undefined, label: undefined, remainingMs: 4_000 }]);
  });

  it('is no number of permits when nobody holds it', () => {
    const { ask, granted, look } = setUp();
    granted('a', { permits: 1, leaseMs: 1_000 });
    ask('b', { permits: 1 });
    expect(look(1_001)).toMatchObject({ mode: null, permits: undefined, holders: [], waiters: [{ id: 'b' }] });
  });
});

describe('A ticket', () => {
  const handOff = ({ ask }: ReturnType<typeof setUp>, ms: number) => ask('a.=t', { leaseMs: 1_000, replaces: 'a', takesOver: 'hold', notAfter: Infinity }, ms);
  const adopt = ({ ask }: ReturnType<typeof setUp>, ms: number, notAfter = Infinity) =>
    ask('c', { leaseMs: 10_000, replaces: 'a.=t', takesOver: 'ticket', ticketUntil: 1_000, notAfter }, ms);

  it('is made of a hold at the last instant of its lease, and not after it', () => {
    const [one, other] = [setUp(), setUp()];
    for (const { granted } of [one, other]) granted('a', { leaseMs: 500 });
    expect(handOff(one, 500)).toMatchObject({ kind: 'granted', taken: { end: 1_500 } });
    expect(handOff(other, 501)).toMatchObject({ kind: 'gone', now: 501 });
  });

  it('is adopted at its last instant, by a request at the last instant of that, and not after either', () => {
    const on = setUp();
    on.granted('a');
    handOff(on, 0);
    expect(adopt(on, 900, 899)).toEqual({ kind: 'late' });
    expect(adopt(on, 1_000, 1_000).kind).toBe('granted');
  });

  it('shares the fence of another hold of its owner, and of nobody else', () => {
    for (const [owner, isOver, shares] of [['o', false, true], ['p', false, false], ['o', true, false]] as const) {
      const on = setUp();
      const { fence } = on.granted('b', { ...reading, owner, minHoldMs: isOver ? 60_000 : 0 });
      if (isOver) on.release('b');
      on.granted('a', { ...reading, owner: 'o' });
      handOff(on, 0);
      const adopted = adopt(on, 0);
      if (adopted.kind !== 'granted') throw new Error(`expected an adoption, got ${adopted.kind}`);
      expect(adopted.grant.fence === fence).toBe(shares);
    }
  });
});
