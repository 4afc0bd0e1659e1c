/** The candidates of one service: the roles that this process stands for. */
import { LockUsageError } from '../port/errors.js';
import type { CallSite } from '../port/lock-options.js';
import { resolveOptions } from '../port/resolve-options.js';
import { Candidacy } from './candidacy.js';
import type { ElectionHost } from './election-host.js';
import { termOptions, type LeadOptions, type Leadership, type Term } from './leadership.js';

export class Election {
  private readonly candidates = new Set<Candidacy>();
  /** The functions of leaders that run in this process, by the key of their role. */
  private readonly atWork = new Map<string, Promise<unknown>>();

  constructor(private readonly host: ElectionHost) {}

  /** Makes a candidate, which has its entry here until it has stopped and its function has ended. @throws LockUsageError */
  stand(role: string, key: string, work: Term, given: LeadOptions & CallSite = {}): Leadership {
    const { context, defaults } = this.host;
    if (typeof work !== 'function') throw new LockUsageError(`lead('${role}', fn, options?): fn must be a function.`, { key });
    const options = termOptions(given, key);
    resolveOptions(options.request, defaults, key);
    // A hold that surrounds this call says nothing about the terms, which outlive it.
    const candidate = context.outside(() => new Candidacy(role, key, work, options, this.host, this.atWork));
    this.candidates.add(candidate);
    void candidate.ended.then(() => this.candidates.delete(candidate));
    return candidate;
  }

  get leaderships(): readonly Leadership[] {
    return [...this.candidates];
  }

  /** Nobody stands any more, and who leads is told so. */
  close(): void {
    for (const candidate of this.candidates) candidate.leave('the application shuts down');
  }
}
