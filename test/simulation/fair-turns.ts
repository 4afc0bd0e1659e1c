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

/** A request that waits, and how often each other process got its lock since the request came, or since its own process got it last. */
interface Waiting {
  readonly process: string;
  readonly key: string;
  readonly reads: boolean;
  since: number;
  passes: Map<string, number>;
}

export function checkTurns(history: readonly HistoryEvent[]): string[] {
  const found: string[] = [];
  const waiting = new Map<string, Waiting>();
  const answered = new Set<string>();
  const reads = new Set<string>();
  /** The readers that are inside: those of one process that are there together have one turn. */
  const inside = new Set<string>();
  for (const event of history) {
    const { at, key, id, kind } = event;
    const process = processOf(id);
    if (kind === 'asked') {
      if (event.mode === 'read') reads.add(id);
      if (!waiting.has(id) && !answered.has(id)) waiting.set(id, { process, key, reads: event.mode === 'read', since: at, passes: new Map() });
      continue;
    }
    waiting.delete(id);
    if (kind === 'released' || kind === 'lost') inside.delete(id);
    if (kind !== 'granted' || answered.has(id)) continue;
    answered.add(id);
    const joins = reads.has(id) && [...inside].some((other) => processOf(other) === process);
    if (reads.has(id)) inside.add(id);
    if (joins) continue;
    for (const other of waiting.values()) {
      if (other.key !== key) continue;
      if (other.process === process) Object.assign(other, { since: at, passes: new Map() });
      else if (!other.reads || !reads.has(id)) found.push(...passedBy(process, other, at)); // readers take nothing from readers
    }
  }
  return found;
}

function passedBy(process: string, waiting: Waiting, at: number): string[] {
  const times = (waiting.passes.get(process) ?? 0) + 1;
  waiting.passes.set(process, times);
  if (times !== MAX_PASSES + 1) return [];
  return [`at ${at.toFixed(1)} ${process} got '${waiting.key}' ${times} times while ${waiting.process} waited for it since ${waiting.since.toFixed(1)}`];
}

const processOf = (id: string): string => id.slice(0, id.lastIndexOf('.'));
