import { describe, expect, it } from '@jest/globals';
import { ACQUIRE_OPTIONS, checkOptions, optionsProblem } from '../../../lib/core/port/options.js';

const problemOf = (given: unknown): string | undefined => optionsProblem(given, ACQUIRE_OPTIONS);

describe('What is wrong with options', () => {
  const list = { names: { size: true }, example: '{ size: 1 }', of: 'Boxes' } as const;

  it('is one sentence, behind which stands what the caller can do instead, if the list says so', () => {
    expect(() => checkOptions({ colour: 1 }, list)).toThrow(/^Boxes: unknown option 'colour'; expected size\.$/);
    expect(() => checkOptions({ colour: 1 }, { ...list, advice: 'Leave it out' })).toThrow(/^Boxes: unknown option 'colour'; expected size\. Leave it out\.$/);
  });
});

describe('The name of an option', () => {
  it.each(['leaseMS', 'TTL', 'wt', '_'])('%s is refused, with those that there are', (name) => {
    expect(problemOf({ [name]: 1 })).toBe(
      `unknown option '${name}'; expected mode, leaseMs, waitMs, renew, maxHoldMs, minHoldMs, graceMs, owner, permits, signal, minReplicas, label, profile`,
    );
  });

  it('is refused alone where there are more than a message can hold', () => {
    const names = Object.fromEntries(Array.from({ length: 31 }, (_, n) => [`n${n}`, true as const]));
    expect(optionsProblem({ m: 1 }, { names, example: '{}' })).toBe(`unknown option 'm'`);
  });

  it('is not looked for among what every object has, for options may be an instance of a class of the old kind', () => {
    class Old {}
    const given: unknown = Object.assign(Object.create({ constructor: Old, toString: () => 'options' }) as object, { leaseMs: 5_000 });
    expect(problemOf(given)).toBeUndefined();
  });

  it('is known to every call that takes it', () => {
    expect(problemOf({ leaseMs: 5_000, owner: 'ann', template: 'order:<0>' })).toBeUndefined();
    expect(problemOf({})).toBeUndefined();
  });
});
