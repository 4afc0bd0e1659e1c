/** The line in the log with which a lock module starts: where its locks are kept, and what guards them there. */
import type { StoreSummary } from '../core/port/lock-store.js';
import { DEFAULT_INSTANCE } from './lock-names.js';

export function bootLine(instance: string, { place, prefix, off, unknown }: StoreSummary): string {
  const whose = instance === DEFAULT_INSTANCE ? 'Locks' : `Locks of the module '${instance}'`;
  const switchedOff = off.length === 0 ? '' : ` Without: ${off.join('; ')}.`;
  const untold = unknown === undefined ? '' : ` Not known: ${unknown}.`;
  return `${whose} are kept by ${place}, prefix '${prefix}'.${switchedOff}${untold}`;
}

/** The line of a module whose locks no server keeps. `implied`: no option said so. */
export function embeddedLine(implied: boolean): string {
  if (!implied) return 'Locks live in this process only (embedded: true).';
  return 'Locks live in this process only. Give redis to lock across processes, or embedded: true if this is meant.';
}
