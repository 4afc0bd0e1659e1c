/** Processes of a test's own that stand for a role (candidate-process.mjs), and the terms that they led. */
import type { LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { DrivenProcess } from './driven-process.js';

/** One term, by the clock that all processes of the machine share, in ms. What its process did not live to tell is undefined. */
export interface ToldTerm {
  readonly fence: number;
  readonly from: number;
  /** The last instant at which its process was seen to lead. */
  readonly until?: number;
  /** When its signal aborted. */
  readonly toldAt?: number;
  readonly endedAt?: number;
}

export class Candidate extends DrivenProcess {
  /** In their order. */
  readonly terms: ToldTerm[] = [];

  /** `loaded`: it takes other locks as well, again and again, as an application does. */
  constructor(options: LockModuleOptions, loaded: boolean) {
    super('test/support/candidate-process.mjs', { options, loaded });
  }

  isLeader(): Promise<boolean> {
    return this.ask('isLeader');
  }

  protected override heard({ term }: { readonly term?: ToldTerm }): void {
    if (term === undefined) return;
    const known = this.terms.findIndex(({ fence }) => fence === term.fence);
    this.terms.splice(known < 0 ? this.terms.length : known, 1, term);
  }
}

/** Starts a process that stands for a role, and waits until it does. */
export async function startCandidate(options: LockModuleOptions, loaded = false): Promise<Candidate> {
  const candidate = new Candidate(options, loaded);
  await candidate.ready;
  return candidate;
}
