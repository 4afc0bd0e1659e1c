/**
 * The acts of a random run: plain data, so that fast-check can shrink a failing run and print it. Requests are named by
 * a number that counts modulo the requests made so far, so every act makes sense wherever it stands.
 */
import fc from 'fast-check';
import type { LockMode } from '../../lib/core/port/lock-options.js';

export type Act =
  | {
      readonly act: 'acquire';
      readonly key: number;
      readonly mode: LockMode;
      readonly queue: boolean;
      readonly leaseMs: number;
      readonly minHoldMs: number;
      readonly fences: number;
      readonly owner: string | undefined;
      readonly permits: number | undefined;
      /** An earlier request for the same key to release in the same step, if there is one. */
      readonly replaces: number | undefined;
      /** Whether a permit that is released in the same step goes to this request before those who wait. */
      readonly handsOn: boolean;
    }
  /** The very same request once more. */
  | { readonly act: 'repeat'; readonly who: number }
  | { readonly act: 'renew'; readonly who: readonly number[]; readonly leaseMs: number }
  | { readonly act: 'release'; readonly who: number; readonly abandoned: boolean }
  | { readonly act: 'downgrade'; readonly who: number }
  /** To one of a few tickets, which may be in use for other locks. */
  | { readonly act: 'handOff'; readonly who: number; readonly ticket: number; readonly withinMs: number }
  | { readonly act: 'adopt'; readonly key: number; readonly ticket: number; readonly leaseMs: number }
  /** From all holders of a key, or from the one with this request's fence. */
  | { readonly act: 'forceRelease'; readonly key: number; readonly who: number | undefined };

export const KEYS_OF_A_RUN = 3;
/** The key of which most requests want a permit. */
const PERMIT_KEY = 2;
/** The number that most of them name. */
const PERMITS = 2;

/** Far longer than a run takes, and apart from each other by more than it takes. */
const leases = fc.constantFrom(20_000, 30_000, 45_000);
const someone = fc.nat(200);
const key = fc.nat(KEYS_OF_A_RUN - 1);
const ticket = fc.nat(1);

/** Prints shorter. */
const PLAIN = { noNullPrototype: true } as const;

const acquire: fc.Arbitrary<Act> = fc.record({
  act: fc.constant('acquire' as const),
  key,
  mode: fc.constantFrom<LockMode>('write', 'write', 'read'),
  queue: fc.constantFrom(true, true, true, false),
  leaseMs: leases,
  minHoldMs: fc.constantFrom(0, 0, 0, 0, 0, 10_000, 50_000),
  fences: fc.constantFrom(1, 1, 16),
  owner: fc.constantFrom(undefined, undefined, undefined, 'saga:1', 'saga:2'),
  permits: fc.constant(undefined),
  replaces: fc.option(someone, { nil: undefined, freq: 4 }),
  handsOn: fc.constant(false),
}, PLAIN);

const acquirePermit: fc.Arbitrary<Act> = fc.record({
  act: fc.constant('acquire' as const),
  key: fc.constantFrom(PERMIT_KEY, PERMIT_KEY, PERMIT_KEY, PERMIT_KEY, PERMIT_KEY, 0),
  mode: fc.constant('write' as const),
  queue: fc.constantFrom(true, true, true, false),
  leaseMs: leases,
  minHoldMs: fc.constantFrom(0, 0, 0, 0, 0, 10_000, 50_000),
  fences: fc.constantFrom(1, 1, 16),
  owner: fc.constant(undefined),
  permits: fc.constantFrom(PERMITS, PERMITS, PERMITS, PERMITS, PERMITS, PERMITS, PERMITS + 1, 1),
  replaces: fc.option(someone, { nil: undefined, freq: 4 }),
  handsOn: fc.boolean(),
}, PLAIN);

const follow: readonly fc.WeightedArbitrary<Act>[] = [
  { weight: 7, arbitrary: acquire },
  { weight: 5, arbitrary: acquirePermit },
  { weight: 7, arbitrary: fc.record({ act: fc.constant('release' as const), who: someone, abandoned: fc.constantFrom(false, false, true) }, PLAIN) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant('repeat' as const), who: someone }, PLAIN) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('renew' as const), who: fc.array(someone, { minLength: 1, maxLength: 4 }), leaseMs: leases }, PLAIN) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('downgrade' as const), who: someone }, PLAIN) },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('handOff' as const), who: someone, ticket, withinMs: leases }, PLAIN) },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('adopt' as const), key, ticket, leaseMs: leases }, PLAIN) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('forceRelease' as const), key, who: fc.option(someone, { nil: undefined }) }, PLAIN) },
];

/** A run of up to `most` acts. */
export function runs(most: number): fc.Arbitrary<Act[]> {
  return fc.array(fc.oneof(...follow), { minLength: 1, maxLength: most, size: 'max' });
}
