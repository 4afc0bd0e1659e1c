/** The options with which a hold is handed off, and with which it is adopted. */
import type { CallSite, LockOptions, ResolvedDefaults, WithLockOptions } from './lock-options.js';
import { checkOptions, type NamesOf, type OptionList } from './option-names.js';
import { integerProblem } from './option-values.js';

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
export interface WithAdoptedOptions extends AdoptOptions, Pick<WithLockOptions, 'onLost' | 'awaitRelease'> {}

const handOffNames: NamesOf<HandOffOptions> = { withinMs: true };
const WHY_NOT_LONGER = 'no lock stays taken for longer than maxLeaseMs without a sign of life; raise it for all processes';

const example = '{ leaseMs: 5000 }';
const adoptNames: NamesOf<AdoptOptions & CallSite> = {
  leaseMs: true, waitMs: true, renew: true, maxHoldMs: true, graceMs: true, signal: true, minReplicas: true, label: true, template: true, expectsBusy: true,
};
const withAdoptedNames: NamesOf<WithAdoptedOptions & CallSite> = { ...adoptNames, onLost: true, awaitRelease: true };
export const ADOPT_OPTIONS: OptionList = { names: adoptNames, example };
export const WITH_ADOPTED_OPTIONS: OptionList = { names: withAdoptedNames, example };

/** How long the ticket lasts. @throws LockUsageError */
export function withinMsOf(given: HandOffOptions | undefined, leaseMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key: string): number {
  if (given === undefined) return leaseMs;
  const valueProblem: OptionList['valueProblem'] = ({ withinMs }) => integerProblem('withinMs', withinMs, 1, maxLeaseMs, WHY_NOT_LONGER);
  checkOptions(given, { names: handOffNames, example: '{ withinMs: 60000 }', valueProblem }, key);
  return given.withinMs ?? leaseMs;
}
