/** Profiles: options that the configuration of a module gives a name, so that calls and decorators can ask for them by it. */
import type { LockProfile, LockProfiles } from './lock-options.js';
import { optionsProblem, type NamesOf, type OptionList } from './option-names.js';
import { invalidOption, oneOfProblem, show } from './option-values.js';
import { lockOptionNames } from './request-options.js';

const { owner: _owner, signal: _signal, label: _label, profile: _profile, ...ofCalls } = lockOptionNames;
const names: NamesOf<LockProfile> = { ...ofCalls, onLost: true, awaitRelease: true, onBusy: true };
const OPTIONS: OptionList = { names, example: '{ leaseMs: 60000, waitMs: 0 }', valueProblem: ({ onBusy }) => oneOfProblem('onBusy', onBusy, ['throw', 'skip']) };

/** Checks the shape of profiles, and completes them: one that skips does not wait. The values are checked with their defaults. @throws LockUsageError */
export function completeProfiles(given: LockProfiles | undefined): LockProfiles {
  if (given === undefined) return {};
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalidOption(`expected profiles to be an object such as { batch: ${OPTIONS.example} }, got ${show(given)}`);
  }
  const complete = Object.entries(given).map(([name, profile]): [string, LockProfile] => {
    const problem = optionsProblem(profile, OPTIONS);
    if (problem !== undefined) throw invalidOption(problem, undefined, profileText(name));
    return [name, profile.onBusy === 'skip' ? { ...profile, waitMs: profile.waitMs ?? 0 } : profile];
  });
  return Object.fromEntries(complete);
}

/**
 * The options of a call that names a profile: those of the profile that such a call takes, and what the call says itself, which wins.
 * Without a profile they are the given ones. @throws LockUsageError naming the profiles that there are
 */
export function withProfile<O extends { readonly profile?: string | undefined }>(given: O, profiles: LockProfiles, { names, of }: OptionList, key?: string): O {
  if (typeof given !== 'object' || given === null || given.profile === undefined) return given;
  const { profile: name, ...own } = given;
  if (typeof name !== 'string' || !Object.hasOwn(profiles, name)) {
    const known = Object.keys(profiles).map((each) => `'${each}'`).join(', ');
    throw invalidOption(`there is no profile ${show(name)}; the option profiles of this LockModule has ${known || 'none'}`, key, of);
  }
  const taken = Object.entries(profiles[name]!).filter(([option]) => Object.hasOwn(names, option));
  const said = Object.entries(own).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...taken, ...said]) as O;
}

/** How messages name a profile. */
export function profileText(name: string): string {
  return `LockModule options, profile '${name}'`;
}
