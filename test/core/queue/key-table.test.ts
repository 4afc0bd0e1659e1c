/** The table of a process's queues by the key of their lock. */
import { describe, expect, it } from '@jest/globals';
import { KeyTable, type Entry } from '../../../lib/core/queue/key-table.js';

class Named implements Entry<Named> {
  hash = 0;
  chained: Named | undefined;
  constructor(readonly key: string) {}
}

/** Puts entries with these keys into a table. */
function tableOf(...keys: string[]): { table: KeyTable<Named>; entries: Named[] } {
  const table = new KeyTable<Named>();
  const entries = keys.map((key) => new Named(key));
  for (const entry of entries) table.add(entry);
  return { table, entries };
}

const numbers = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, n) => `order:${from + n}`);

describe('A table by key', () => {
  it('finds each entry by its key and nothing by another', () => {
    const { table, entries } = tableOf('a', 'b', 'toString', '', 'ä');
    expect(['a', 'b', 'toString', '', 'ä'].map((key) => table.get(key))).toEqual(entries);
    expect(['c', 'aa', '__proto__', 'a '].map((key) => table.get(key))).toEqual([undefined, undefined, undefined, undefined]);
    expect(table.size).toBe(5);
    expect(new Set(table.all())).toEqual(new Set(entries));
  });

  it('forgets what is removed, and removes nothing that it does not have', () => {
    const { table, entries: [a, b] } = tableOf('a', 'b');
    table.remove(a!);
    table.remove(a!);
    table.remove(new Named('b'));
    expect([table.size, table.get('a'), table.get('b'), table.all()]).toEqual([1, undefined, b, [b]]);
  });

  it('holds any number of entries, and each can be removed from anywhere in its chain', () => {
    const { table, entries } = tableOf(...numbers(0, 5_000));
    expect([table.size, table.all().length]).toEqual([5_000, 5_000]);
    expect(entries.every((entry) => table.get(entry.key) === entry)).toBe(true);
    const removed = entries.filter((_, n) => n % 3 === 0);
    const left = entries.filter((_, n) => n % 3 !== 0);
    for (const entry of removed) table.remove(entry);
    expect([table.size, table.all().length, left.every((entry) => table.get(entry.key) === entry)]).toEqual([left.length, left.length, true]);
    expect(removed.every((entry) => table.get(entry.key) === undefined)).toBe(true);
  });

  it('has chains that stay short, however many entries there are', () => {
    const { table, entries } = tableOf(...numbers(0, 4_097));
    expect(chainsOf(table)).toBe(8_192);
    expect(longestChain(entries)).toBeLessThan(16);
  });

  it('keeps its room through entries that come and go', () => {
    const { table, entries } = tableOf('a', 'b');
    for (let n = 0; n < 200; n++) for (const entry of entries) {
      table.remove(entry);
      table.add(entry);
    }
    expect([chainsOf(table), table.size, table.get('a'), table.get('b')]).toEqual([64, 2, ...entries]);
  });
});

function longestChain(entries: readonly Named[]): number {
  const lengthFrom = (entry: Named): number => (entry.chained === undefined ? 1 : 1 + lengthFrom(entry.chained));
  return Math.max(...entries.map(lengthFrom));
}

function chainsOf(table: KeyTable<Named>): number {
  return (table as unknown as { readonly chains: readonly unknown[] }).chains.length;
}
