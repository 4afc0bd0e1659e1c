/** The words of the line with which a lock module starts, without a server; boot-line.test.ts shows what a server makes of them. */
import { describe, expect, it } from '@jest/globals';
import { bootLine, embeddedLine } from '../../lib/nest/boot-line.js';

const summary = { place: 'one Redis (a:6379)', prefix: 'lock', off: [] };

describe('The words of the line with which a lock module starts', () => {
  it('say where the locks are, and nothing else of a module without a name where everything is switched on', () => {
    expect(bootLine('default', summary)).toBe(`Locks are kept by one Redis (a:6379), prefix 'lock'.`);
  });

  it('name a module that has a name', () => {
    expect(bootLine('billing', summary)).toBe(`Locks of the module 'billing' are kept by one Redis (a:6379), prefix 'lock'.`);
  });

  it('list what is switched off, and say what is not known', () => {
    const line = bootLine('default', { ...summary, off: ['recovery', 'replicas'], unknown: 'persistence' });
    expect(line).toBe(`Locks are kept by one Redis (a:6379), prefix 'lock'. Without: recovery; replicas. Not known: persistence.`);
  });

  it('tell locks that were meant to live in this process from those of a module without options', () => {
    expect(embeddedLine(false)).toBe('Locks live in this process only (embedded: true).');
    expect(embeddedLine(true)).toBe('Locks live in this process only. Give redis to lock across processes, or embedded: true if this is meant.');
  });
});
