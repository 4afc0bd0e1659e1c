/** The options of calls for a lock, of tickets and of the module. Their defaults and limits are in options.ts. */

/** What stops a wait: an AbortSignal, or a signal of another library that can be asked and listened to as one, as those of the SDKs of clouds can. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** Options of one call for a lock. Module options of the same name set the default. */
export interface LockOptions {
  /**
   * `write` excludes every other holder, `read` is shared with other readers.
   * @default 'write'
   */
  mode?: LockMode | undefined;
  /**
   * Length of the lease in ms, from 100 to `maxLeaseMs`. The watchdog renews the lease while the work goes on, also when
   * this option is given: so it bounds how long the lock stays taken after a crash, and not how long the work may take.
   * @default 30000, or what `maxLeaseMs` leaves beside the module's `graceMs`
   */
  leaseMs?: number | undefined;
  /**
   * Longest wait in ms, an outage of Redis included. Then the call rejects with LockTimeoutError, or with LockStoreError when
   * the store did not respond. 0 does not wait for the lock; the store still has 800 ms to answer. Infinity waits for ever. A
   * LockTimeoutError may come up to 100 ms later, because the store is asked who holds the lock.
   * @default 10000
   */
  waitMs?: number | undefined;
  /**
   * With false the lease is not renewed: it ends after `leaseMs`, whether or not the work has ended.
   * @default true
   */
  renew?: boolean | undefined;
  /**
   * Longest hold in ms, at least 100. No renewal sets an end later than the start of the hold plus this; then the lease is
   * lost and its signal aborts. So work that hangs cannot hold the lock for ever.
   * @default none
   */
  maxHoldMs?: number | undefined;
  /**
   * Shortest hold in ms, at most `maxLeaseMs`: the lock stays taken at least this long, even if the work ends earlier. The release
   * sets that end in the store, so it outlives the process. It is meant for cron jobs that must run once per firing although
   * the clocks of the instances differ.
   * @default 0
   */
  minHoldMs?: number | undefined;
  /**
   * How long the lock stays taken after a lease that ended without a release, in ms, while the holder's trust and its signal end
   * with the lease: for that time no other holder can start, so work that is paused at that moment meets nobody. A release hands the lock over at
   * once, also in that time. It is meant for effects that cannot compare a fence, such as mail and payments, and costs that much
   * more waiting after a crash. The longer of `leaseMs` and `minHoldMs` plus this is at most `maxLeaseMs`.
   * @default 0
   */
  graceMs?: number | undefined;
  /**
   * A name of 1 to 128 characters, by which several calls share a lock, also from several processes. While a hold with this name
   * exists, a call with the same name joins it: it passes the queue, shares the mode and the fence, and has a lease of its own. It
   * never upgrades from read to write. An owner has at most 1,000 holds of one lock at a time; the next call rejects with LockUsageError.
   * @default none
   */
  owner?: string | undefined;
  /**
   * How many calls may hold the lock at a time, from 1 to 10,000, each with a permit: a lease, a signal and a fence of its own. While
   * anybody holds the lock or waits for it, a call that names another number, or none, rejects with LockUsageError. Not together with
   * `mode: 'read'`, `owner` or several keys, and not on a Redlock.
   * @default none: one at a time
   */
  permits?: number | undefined;
  /** Stops the wait for the lock when it aborts; the call rejects with `signal.reason`. */
  signal?: AbortSignalLike | undefined;
  /**
   * How many replicas, from 0 to 100, must have acknowledged a grant or a renewal before it counts; each costs one command WAIT more. When
   * fewer do, the call rejects with LockStoreError, as it does for any number but 0 on the embedded store or a Redlock.
   * @default 0
   */
  minReplicas?: number | undefined;
  /**
   * What the holder says of itself, 1 to 48 bytes: in errors, events and spans, in `inspect` and `list` of any process, and on
   * the board. It is stored with the lock, also with `describeHolders: false`. A call without a label costs the store nothing.
   * @default decorators: class and method, unless the module has `describeHolders: false`; other calls: none
   */
  label?: string | undefined;
  /**
   * The name of options in `profiles` of the module. What the call says itself wins. A name that the module does not have rejects with
   * LockUsageError; in a decorator it fails the boot.
   * @default none
   */
  profile?: string | undefined;
}

/** What a decorator says of its calls: the key before rendering, and whether a busy lock is an answer that it expects. */
export interface CallSite {
  /** The key template before rendering, by which telemetry groups locks. */
  template?: string | undefined;
  /** A busy lock is an expected answer for this caller: the store is not asked for its holders to explain it in the error. */
  expectsBusy?: boolean | undefined;
}

/** Options of {@link LockService.withLock}. */
export interface WithLockOptions extends LockOptions {
  /**
   * What happens when the work ends after its lease was lost: `throw` rejects with LockLostError, `ignore` returns the result.
   * @default 'throw'
   */
  onLost?: 'throw' | 'ignore' | undefined;
  /**
   * With false the result comes as soon as the work has ended and the release was sent, one round trip earlier. The lock may still be
   * taken for a moment then, for a call of another process that does not wait. A lease that the store no longer knew is told as an event
   * and a warning. Not together with `minReplicas`.
   * @default true
   */
  awaitRelease?: boolean | undefined;
}

/** Options of calls and decorators under a name, see `profiles` of the module. */
export interface LockProfile extends Omit<WithLockOptions, 'owner' | 'signal' | 'label' | 'profile'> {
  /**
   * What decorators do when the lock is busy. With `skip` the default of `waitMs` is 0, and the method's result must be allowed to be
   * undefined, which the compiler cannot check here. Other calls, and routes, fail with LockTimeoutError as without it.
   * @default 'throw'
   */
  onBusy?: 'throw' | 'skip' | undefined;
}

/** Profiles by their names. */
export type LockProfiles = Readonly<Record<string, LockProfile>>;

/** The defaults that a module sets for all calls, and its limits. */
export interface LockDefaults
  extends Pick<
    WithLockOptions,
    'leaseMs' | 'waitMs' | 'renew' | 'maxHoldMs' | 'minHoldMs' | 'graceMs' | 'minReplicas' | 'onLost' | 'awaitRelease'
  > {
  /**
   * Longest lease in ms; a longer one is refused. Of what the processes have, the greatest counts: a node of a Redlock that lost
   * its memory grants nothing for this long, nor does one Redis with `recoveryMs: 'lease'`.
   * @default 60000
   */
  maxLeaseMs?: number | undefined;
  /**
   * How many callers of one process may follow each other on one grant while other processes wait, from 1 to 1,000,000. With 1 all processes are
   * served in the order of their calls, and each hand-over costs one more command.
   * @default 16
   */
  handOn?: number | undefined;
  /**
   * How long a command to the store may take, in ms from 10 to 600,000, before its outcome counts as unknown. A renewal may take a third of its
   * lease when that is shorter, so that there is time for another try.
   * @default 2000
   */
  commandTimeoutMs?: number | undefined;
  /**
   * How long holds may go on after the shutdown began, in ms from 0 to 3,600,000. Then their signals abort. In a Nest application it begins before the first
   * `onModuleDestroy` hook, so it should be long enough for what such hooks wait for.
   * @default 10000
   */
  shutdownGraceMs?: number | undefined;
  /**
   * Options by name, for calls and decorators that say `profile: name`: so the configuration can decide them.
   * `{ batch: { leaseMs: 60_000, waitMs: 0, onBusy: 'skip' } }`. A candidate (`lead`, `@Leader`) takes of them what LeadOptions has. With a
   * `route`, those of the module with the route count, whichever module keeps the key.
   * @default none
   */
  profiles?: LockProfiles | undefined;
}

/** Options of {@link Lease.handOff}. */
export interface HandOffOptions {
  /**
   * How long the ticket can be adopted, in ms, from 1 to `maxLeaseMs`. When nobody has adopted it by then, the lock passes on to the next.
   * @default the leaseMs of the hold
   */
  withinMs?: number | undefined;
}

/** Options of {@link LockService.adopt}. Mode, owner, permits and minHoldMs are those of the hold that was handed off. */
export interface AdoptOptions extends Pick<LockOptions, 'leaseMs' | 'waitMs' | 'renew' | 'maxHoldMs' | 'graceMs' | 'signal' | 'minReplicas' | 'label'> {}

/** Options of {@link LockService.withAdopted}. */
export interface WithAdoptedOptions extends AdoptOptions, Pick<WithLockOptions, 'onLost' | 'awaitRelease'> {
  /**
   * What becomes of the lock when the work fails. `handBack`: it goes back to the ticket, which is good again for `withinMs`, so that the
   * next attempt of a job goes on under the lock. The call rejects with the work's error either way.
   * @default 'release'
   */
  onError?: 'release' | 'handBack' | undefined;
  /**
   * How long a ticket that was handed back is good, in ms, from 1 to `maxLeaseMs`: longer than the pause before the next attempt.
   * @default the leaseMs of the adopted hold
   */
  withinMs?: number | undefined;
}

/** All options of a call but its profile: what that says has been put in for the options that the call leaves out. */
type CallOptions = Omit<WithLockOptions & CallSite, 'profile'>;
/** What it need not say, and what has no default then. */
type Optional = 'owner' | 'permits' | 'signal' | 'label' | 'template' | 'expectsBusy';

/** The options of one call, complete and valid. */
export interface ResolvedOptions extends Readonly<Required<Omit<CallOptions, Optional>>>, Readonly<{ [Name in Optional]: CallOptions[Name] }> {}

/** The defaults and limits of a module, complete and valid. */
export interface ResolvedDefaults extends ResolvedOptions, Readonly<Required<Omit<LockDefaults, keyof CallOptions>>> {}

/** How a lock is held: `write` excludes every other holder, `read` is shared with other readers. */
export type LockMode = 'read' | 'write';

/** True if a call that wants the lock in mode `wanted` may re-enter a hold of mode `held`. */
export function covers(held: LockMode, wanted: LockMode): boolean {
  return held === 'write' || wanted === 'read';
}
