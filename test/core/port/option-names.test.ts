import { describe, expect, it } from '@jest/globals';
import { checkOptions, optionsProblem } from '../../../lib/core/port/option-names.js';
import { ACQUIRE_OPTIONS } from '../../../lib/core/port/request-options.js';

const problemOf = (given: unknown): string | undefined => optionsProblem(given, ACQUIRE_OPTIONS);

describe('What is wrong with options', () => {
  const list = { names: { size: true }, example: '{ size: 1 }', of: 'Boxes' } as const;

  it('is one sentence, behind which stands what the caller can do instead, if the list says so', () => {
    expect(() => checkOptions({ colour: 1 }, list)).toThrow(/^Boxes: unknown option 'colour'\.$/);
    expect(() => checkOptions({ colour: 1 }, { ...list, advice: 'Leave it out' })).toThrow(/^Boxes: unknown option 'colour'\. Leave it out\.$/);
  });
});

describe('The name of an option', () => {
  it.each([
    ['leaseMS', 'leaseMs'],
    ['lease', 'leaseMs'],
    ['wait_ms', 'waitMs'],
    ['owmer', 'owner'],
    ['ownr', 'owner'],
    ['moode', 'mode'],
    ['mod', 'mode'],
    ['premits', 'permits'],
    ['sygnel', 'signal'],
    ['xenew', 'renew'],
    ['labels', 'label'],
    ['minRplicasx', 'minReplicas'],
    ['TTL', 'leaseMs'],
    ['retry-count', 'waitMs'],
  ])('%s is refused, and %s is told to be meant', (name, meant) => {
    expect(problemOf({ [name]: 1 })).toBe(`unknown option '${name}'; ${meant} is probably meant`);
  });

  it.each(['wt', 'mo', 'ms', 'colour', 'lbl', 'gracious', 'minRaplikaz', '_'])('%s is refused without a guess: too much of it would have to be wrong', (name) => {
    expect(problemOf({ [name]: 1 })).toBe(`unknown option '${name}'`);
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
