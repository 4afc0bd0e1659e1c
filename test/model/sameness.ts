/** When the answers of a store and of the lock machine count as the same. */
import { expect } from '@jest/globals';
import type { AdoptOutcome } from '../support/ticket-desk.js';
import type { LockState } from '../../lib/core/port/lock-state.js';
import type { AcquireOutcome, Grant, RenewOutcome } from '../../lib/core/port/lock-store.js';

export type AnyOutcome = AcquireOutcome | RenewOutcome;

/** How much earlier a store may say that something ends: what a command takes, and for trust the margin of a long lease. */
const EARLIER_MS = 1_600;
/** A store reads its time after the machine did, so a remaining time may be a little longer; trust may not. */
const LATER_MS = 1_000;
/** Rounding to whole milliseconds. */
const ROUNDED_MS = 2;

/** Which fence of the store stands for which of the machine: their order must be the same. */
export class FencePairs {
  private readonly byKey = new Map<string, Map<number, number>>();

  same(key: string, model: number, actual: number): void {
    const pairs = this.byKey.get(key) ?? new Map<number, number>();
    this.byKey.set(key, pairs);
    if (!pairs.has(model)) {
      for (const [otherModel, other] of pairs) {
        const order = { rises: actual > other, than: other, fence: actual };
        expect(order).toEqual({ ...order, rises: model > otherModel });
        expect(actual).not.toBe(other);
      }
      pairs.set(model, actual);
    }
    expect(actual).toBe(pairs.get(model));
  }

  /** What the store calls the machine's fence; unknown ones stay as they are. */
  of(key: string, model: number): number {
    return this.byKey.get(key)?.get(model) ?? model;
  }
}

export function sameOutcome(key: string, model: AnyOutcome, actual: AnyOutcome, fences: FencePairs): void {
  expect(told(actual)).toEqual(told(model));
  expect(replacedLost(actual)).toBe(replacedLost(model));
  if (model.kind === 'granted' && actual.kind === 'granted') {
    fences.same(key, model.grant.fence, actual.grant.fence);
    sameTrust(model.grant.trustedUntil, actual.grant.trustedUntil);
  }
  if (model.kind === 'renewed' && actual.kind === 'renewed') sameTrust(model.trustedUntil, actual.trustedUntil);
  if (model.kind === 'waiting' && actual.kind === 'waiting' && model.askAgainInMs !== undefined) near(model.askAgainInMs, actual.askAgainInMs as number);
}

export function sameAdoption(key: string, model: AdoptOutcome, actual: AdoptOutcome, fences: FencePairs): void {
  expect(actual.kind).toBe(model.kind);
  if (model.kind !== 'adopted' || actual.kind !== 'adopted') return;
  model.holds.forEach((hold, at) => {
    const other = actual.holds[at]!;
    expect(other.owner).toBe(hold.owner);
    near(hold.minHoldMs, other.minHoldMs);
    sameOutcome(key, { kind: 'granted', grant: hold.grant }, { kind: 'granted', grant: other.grant }, fences);
  });
}

/** Never later than the machine's, which is the truth. */
function sameTrust(model: number, actual: number): void {
  expect(actual).toBeLessThanOrEqual(model + ROUNDED_MS);
  expect(actual).toBeGreaterThanOrEqual(model - EARLIER_MS);
}

function near(model: number, actual: number): void {
  expect(actual).toBeGreaterThanOrEqual(model - EARLIER_MS);
  expect(actual).toBeLessThanOrEqual(model + LATER_MS);
}

const replacedLost = (outcome: AnyOutcome): boolean => 'replacedLost' in outcome && outcome.replacedLost === true;

/** An outcome without its numbers. */
function told(outcome: AnyOutcome): object {
  switch (outcome.kind) {
    case 'granted': {
      const { mode, fences, contended }: Grant = outcome.grant;
      return { kind: 'granted', mode, fences, contended };
    }
    case 'renewed':
      return { kind: 'renewed', contended: outcome.contended };
    case 'waiting':
      return { kind: 'waiting', firstInLine: outcome.askAgainInMs !== undefined };
    case 'permits':
      return { kind: 'permits', permits: outcome.permits };
    default:
      return { kind: outcome.kind };
  }
}

export function sameState(model: LockState, actual: LockState, fences: FencePairs): void {
  const byId = (state: LockState): LockState['holders'] => [...state.holders].sort((one, other) => (one.id < other.id ? -1 : 1));
  const outline = (state: LockState): object => ({
    mode: state.mode,
    permits: state.permits,
    holders: byId(state).map(({ id, owner, label, handedOff }) => ({ id, owner, label, handedOff })),
    waiters: state.waiters.map(({ id, mode, label }) => ({ id, mode, label })),
  });
  expect(outline(actual)).toEqual(outline(model));
  const actualHolders = byId(actual);
  for (const [at, holder] of byId(model).entries()) {
    const other = actualHolders[at] as LockState['holders'][number];
    fences.same(model.key, holder.fence, other.fence);
    near(holder.remainingMs, other.remainingMs);
  }
}
