/** The small worlds that are small enough for every run, each to its end; and defects of which each breaks a promise in one of them. */
import { describe, expect, it } from '@jest/globals';
import { defects, plant } from './defects.js';
import { RedisWorld } from './redis-world.js';
import { RedlockWorld } from './redlock-world.js';
import { explore, type Exploration } from './search.js';
import { redisWorlds, redlockWorlds } from './worlds.js';

/** More than any of the quick worlds has. */
const MAX_STATES = 40_000;

function expectAllKept({ failure, cut, states, ends }: Exploration): void {
  expect({ failure, cut }).toEqual({ failure: undefined, cut: false });
  expect(states).toBeGreaterThan(500);
  expect(ends).toBeGreaterThan(0);
}

const quick = <P extends { readonly name: string; readonly isQuick?: boolean; readonly isLonger?: boolean }>(plans: readonly P[]): [string, P][] =>
  plans.filter(({ isQuick, isLonger }) => isQuick && !isLonger).map((plan) => [plan.name, plan]);

describe('Every interleaving keeps every promise', () => {
  it.each(quick(redisWorlds))('on one Redis: %s', (_, plan) => expectAllKept(explore(new RedisWorld(plan), MAX_STATES)));
  it.each(quick(redlockWorlds))('on a Redlock: %s', (_, plan) => expectAllKept(explore(new RedlockWorld(plan), MAX_STATES)));
});

describe('The explorer finds', () => {
  it.each(defects.filter(({ isDeep }) => !isDeep).map((defect) => [defect.name, defect] as const))('%s', (_, defect) => {
    const { failure } = plant(defect, MAX_STATES);
    expect(failure?.promise.slice(0, defect.breaks.length)).toBe(defect.breaks);
    expect(failure?.history.length).toBeGreaterThan(0);
  });
});
