/**
 * Judges who was served while somebody waited: a Redlock promises no order, but that nobody is passed again and again. While a
 * process waits for a lock, each other process may get that lock a few times before it, and no more.
 */
import type { HistoryEvent } from '../model/history.js';

/**
 * The present turn of the other one, a turn that it asked for before our mark stood on a quorum of nodes, and one that it won
 * when a vote was split.
 */
export const MAX_PASSES = 3;

/** A process that waits for a lock, and how often each other process got it meanwhile. */
interface Waiting {
  readonly id: string;
  readonly since: number;
  readonly passes: Map<string, number>;
}

export function checkTurns(history: readonly HistoryEvent[]): string[] {
  const found: string[] = [];
  const waiting = new Map<string, Waiting>();
  const granted = new Set<string>();
  const reads = new Set<string>();
  for (const event of history) {
    const { at, key, id, kind } = event;
    if (kind === 'asked' && event.mode === 'read') reads.add(id);
    const process = processOf(id);
    const name = `${process} ${key}`;
    if (kind === 'asked' && !waiting.has(name) && !granted.has(id)) waiting.set(name, { id, since: at, passes: new Map() });
    if (waiting.get(name)?.id === id && kind !== 'asked') waiting.delete(name);
    if (kind !== 'granted' || granted.has(id)) continue;
    granted.add(id);
    for (const [other, { id: waits, since, passes }] of waiting) {
      if (!other.endsWith(` ${key}`) || other === name) continue;
      if (reads.has(id) && reads.has(waits)) continue; // readers take nothing from readers
      const times = (passes.get(process) ?? 0) + 1;
      passes.set(process, times);
      if (times === MAX_PASSES + 1) found.push(`at ${at.toFixed(1)} ${process} got '${key}' ${times} times while ${other.split(' ')[0]} waited for it since ${since.toFixed(1)}`);
    }
  }
  return found;
}

function processOf(id: string): string {
  return id.slice(0, id.lastIndexOf('.'));
}
