/** Results, signals and reasons of other people's making: whatever they do when they are looked at, the call settles and its lock is free. */
import { describe, expect, it } from '@jest/globals';
import { LockClosedError, LockLostError, LockTimeoutError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, besideHolder, Fleet, eventsOf } from '../../support/locks.js';

const refuse = (): never => {
  throw new Error('nobody may look at this');
};

/** Lets nobody look at it, but for `then`, which every promise looks at. */
const shy = (): object => new Proxy({}, { has: refuse, getPrototypeOf: refuse, get: (_target, name) => (name === 'then' ? undefined : refuse()) });

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** A signal as SDKs have made them: what Node's signals can do beside this it cannot. `changes` breaks one of its members. */
function plainSignal(changes: object = {}) {
  const listeners = new Set<() => void>();
  const signal = {
    aborted: false,
    reason: undefined as unknown,
    addEventListener: (_type: string, listener: () => void) => void listeners.add(listener),
    removeEventListener: (_type: string, listener: () => void) => void listeners.delete(listener),
  };
  const abort = (reason?: unknown): void => {
    Object.assign(signal, { aborted: true, reason });
    for (const listener of [...listeners]) listener();
  };
  return { signal: Object.defineProperties(signal, Object.getOwnPropertyDescriptors(changes)), abort, listeners };
}

/** What all that was locked leaves behind. */
async function expectNothingLeft(fleet: Fleet): Promise<void> {
  await fleet.clock.advance(100);
  expect([fleet.store.size, fleet.clock.pendingTimers]).toEqual([0, 0]);
}

describe('Work that gives what nobody may look at', () => {
  it('has its result passed on, and its lock is free', async () => {
    const { fleet, locks } = alone();
    for (const result of [shy(), new Proxy({}, { has: refuse })]) {
      expect((await locks.withLock('k', async () => result)) === result).toBe(true);
      expect((await locks.withLock('k', () => result)) === result).toBe(true);
    }
    await expectNothingLeft(fleet);
  });

  it('that no promise can be resolved with is an error of that call, and its lock is free', async () => {
    const { fleet, locks } = alone();
    await expect(locks.withLock('k', () => revoked())).rejects.toThrow(TypeError);
    await expect(locks.withLock('k', () => new Proxy({}, { get: refuse }))).rejects.toThrow('nobody may look');
    await expectNothingLeft(fleet);
  });

  it('or fails with it, rejects with it', async () => {
    const { fleet, locks } = alone();
    const reason = revoked();
    const caught = await locks.withLock('k', () => Promise.reject(reason)).catch((error: unknown) => [error]);
    expect((caught as [unknown])[0] === reason).toBe(true);
    await expectNothingLeft(fleet);
  });
});

describe('A signal that only has aborted, reason and listeners', () => {
  it('stops the wait with its reason, and keeps no listener', async () => {
    const { fleet, locks, other: held } = await besideHolder('k');
    for (const [given, expected] of [['the user left', 'the user left'], [null, null], [undefined, expect.objectContaining({ name: 'AbortError' })]]) {
      const { signal, abort, listeners } = plainSignal();
      const ended = expect(locks.withLock('k', { signal }, () => 'done')).rejects.toEqual(expected);
      await fleet.clock.advance(5);
      expect(listeners.size).toBe(1);
      abort(given);
      await ended;
      expect(listeners.size).toBe(0);
    }
    await held.release();
    await expectNothingLeft(fleet);
  });

  it('may make a new reason whenever it is asked: a busy lock and a signal are not taken for each other', async () => {
    const { fleet, locks } = await besideHolder('k');
    const types: string[] = [];
    locks.events.subscribe(({ type }) => types.push(type));
    const { signal, abort } = plainSignal();
    Object.defineProperty(signal, 'reason', { get: () => Object.assign(new Error('again'), { code: 'LOCK_TIMEOUT' }), set: () => {} });
    const ended = expect(locks.acquire('k', { signal })).rejects.toThrow('again');
    await fleet.clock.advance(5);
    abort();
    await ended;
    expect(types).toEqual(['waiting', 'cancelled']);
  });
});

describe('A signal that does not keep its word', () => {
  it.each([
    ['without removeEventListener', { removeEventListener: undefined }],
    ['whose removeEventListener throws', { removeEventListener: refuse }],
  ])('%s settles its calls, and their locks are free; it has one listener for all of them', async (_name, changes) => {
    const { fleet, locks } = alone();
    const { signal, listeners } = plainSignal(changes);
    for (const key of ['k', ['k', 'l']]) expect(await locks.withLock(key, { signal }, () => 'done')).toBe('done');
    await (await locks.acquire('k', { signal })).release();
    expect(listeners.size).toBe(1);
    await expectNothingLeft(fleet);
  });

  it('and cannot be listened to ends its calls with what it threw', async () => {
    const { fleet, locks } = alone();
    for (const key of ['k', ['k', 'l']]) {
      const { signal } = plainSignal({ addEventListener: refuse });
      await expect(locks.withLock(key, { signal }, () => 'done')).rejects.toThrow('nobody may look at this');
    }
    await expectNothingLeft(fleet);
  });

  it('and aborts without telling anybody ends its call when the line is looked at, and each of the others is served once', async () => {
    const { fleet, locks, wire } = alone();
    const { signal } = plainSignal();
    wire.slowMs = 10;
    const calls = [{ mode: 'read' } as const, { signal }, { mode: 'read' } as const].map((options) => locks.withLock('k', options, () => 'done'));
    signal.aborted = true;
    const [done, stopped] = [{ value: 'done' }, { reason: { name: 'AbortError' } }];
    expect(await fleet.clock.runUntil(Promise.allSettled(calls))).toMatchObject([done, stopped, done]);
    await expectNothingLeft(fleet);
  });

  it('and has no reason to be read is aborted with what it threw', async () => {
    const { fleet, locks } = await besideHolder('k');
    const { signal, abort } = plainSignal();
    Object.defineProperty(signal, 'reason', { get: refuse, set: () => {} });
    const ended = expect(locks.acquire('k', { signal })).rejects.toThrow('nobody may look at this');
    await fleet.clock.advance(5);
    abort();
    await ended;
  });

  it('and aborts with a revoked Proxy ends every call with it: one that waits inside a hold, and one of several locks', async () => {
    const { fleet, locks } = await besideHolder('k');
    const ends: ((locks: LockService, signal: AbortSignal) => Promise<unknown>)[] = [
      (service, signal) => service.withLock('k', { signal }, () => 'done'),
      (service, signal) => service.withLock('around', () => service.acquire('k', { signal })),
      (service, signal) => service.acquire(['a', 'k'], { signal }),
      (service, signal) => service.tryAcquire('free', { signal }).then(() => service.acquire('k', { signal })),
    ];
    for (const call of ends) {
      const [stop, reason] = [new AbortController(), revoked()];
      const ended = call(locks, stop.signal).catch((error: unknown) => [error]);
      await fleet.clock.advance(5);
      stop.abort(reason);
      await fleet.clock.advance(1_000);
      expect(((await ended) as [unknown])[0] === reason).toBe(true);
    }
  });

  it.each<[string, unknown]>([
    ['a number', 5_000],
    ['a controller', new AbortController()],
    ['an EventTarget', new EventTarget()],
    ['what has aborted but no listeners', { aborted: false }],
    ['a Proxy that lets nobody look at it', shy()],
    ['a revoked Proxy', revoked()],
  ])('that is none is refused at once: %s', async (_name, signal) => {
    const { locks, wire } = new Fleet().process();
    await expect(locks.acquire('k', { signal: signal as AbortSignal })).rejects.toThrow(LockUsageError);
    await expect(locks.withLock('k', { signal: signal as AbortSignal }, () => 'done')).rejects.toThrow('expected signal to be an AbortSignal');
    expect(wire.commands).toBe(0);
  });
});

/** Calls whose signal aborts with an error of this library, as a group does whose first failure stops the others: a signal ended them, whatever its reason is. */
const reasons = [
  new LockTimeoutError("Lock 'other' was still busy after 10 ms.", { key: 'other', waitMs: 10 }),
  new LockClosedError("Lock 'other' was not taken.", { key: 'other' }),
  new LockLostError("Lock 'other' was lost.", { key: 'other' }),
];

const calls: readonly (readonly [string, (locks: LockService, options: LockOptions) => Promise<unknown>])[] = [
  ['withLock', (locks, options) => locks.withLock('k', options, () => 'done')],
  ['acquire', (locks, options) => locks.acquire('k', options)],
  ['acquire of several', (locks, options) => locks.acquire(['a', 'k'], options)],
  ['acquire inside a hold', (locks, options) => locks.withLock('around', () => locks.acquire('k', options))],
];

describe('A call whose signal aborts', () => {
  it.each(calls)('rejects with the very error that its signal gives, and is told of as cancelled: %s', async (_name, call) => {
    for (const reason of reasons) {
      const { fleet, locks, other: held } = await besideHolder('k');
      const [events, stop] = [eventsOf(locks), new AbortController()];
      const waiting = call(locks, { signal: stop.signal });
      const ended = expect(waiting).rejects.toBe(reason);
      await fleet.clock.advance(5);
      stop.abort(reason);
      await fleet.clock.advance(1_000);
      await ended;
      expect(events.filter(({ type }) => type === 'cancelled')).toHaveLength(1);
      expect(events.filter(({ type }) => type === 'busy' || type === 'failed')).toEqual([]);
      await held.release();
    }
  });

  it('before it asks is told so too, and never that the lock is busy', async () => {
    const { locks } = new Fleet().process();
    const signal = AbortSignal.abort(reasons[0]);
    await expect(locks.tryAcquire('k', { signal })).rejects.toBe(reasons[0]);
    await expect(locks.acquire('k', { signal })).rejects.toBe(reasons[0]);
  });

  it('during tryAcquire rejects with the reason, because null would say that the lock is busy', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 100;
    const stop = new AbortController();
    const tried = expect(locks.tryAcquire('k', { signal: stop.signal })).rejects.toBe(reasons[0]);
    await fleet.clock.advance(10);
    stop.abort(reasons[0]);
    await fleet.clock.advance(1_000);
    await tried;
    expect(fleet.store.size).toBe(0);
  });

  it('leaves the error of the other call as it is: what that says of its wait is not that of this one', async () => {
    const { fleet, locks, other: held } = await besideHolder(['k', 'l']);
    const group = new AbortController();
    const waits = [locks.acquire('k', { waitMs: 50 }), locks.withLock('around', () => locks.acquire('l', { signal: group.signal }))];
    for (const wait of waits) wait.catch((error: unknown) => group.abort(error));
    await fleet.clock.advance(2_000);
    const [first, second] = (await Promise.allSettled(waits)) as PromiseRejectedResult[];
    expect(second!.reason).toBe(first!.reason);
    expect(first!.reason).toMatchObject({ key: 'k', waitMs: 50, held: [] });
    await (held satisfies Lease).release();
  });
});
