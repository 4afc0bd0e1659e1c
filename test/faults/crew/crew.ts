/**
 * Processes that outlive single fault runs: starting one takes longer than many a fault. Each boots a new application for
 * each run; one that was killed or crashed is replaced.
 */
import type { LockModuleOptions } from '../../../lib/nest/lock-module-options.js';
import { DrivenProcess } from '../../support/driven-process.js';
import { GUARDED_WRITE } from './fenced-resource.js';
import type { CallerPlan, OpenFailure, ProcessReport } from './stay-record.js';

const ENDS_WITHIN_MS = 5_000;

export interface Berth {
  /** `run/process`, the run's name being that of its keys in the resource. */
  readonly name: string;
  readonly resourceUrl: string;
}

export class CrewMember extends DrivenProcess {
  constructor() {
    super('test/faults/crew/crew-process.mjs');
  }

  open(options: LockModuleOptions, berth: Berth): Promise<OpenFailure | undefined> {
    return this.ask('open', { options, guard: GUARDED_WRITE, ...berth });
  }

  begin(plans: readonly CallerPlan[], seed: number): Promise<void> {
    return this.ask('begin', { plans, seed });
  }

  lastGrants(): Promise<Record<string, number>> {
    return this.ask('lastGrants');
  }

  heldSince(key: string): Promise<number | undefined> {
    return this.ask('heldSince', { key });
  }

  finish(): Promise<ProcessReport> {
    return this.ask('finish');
  }

  stepClock(ms: number): Promise<void> {
    return this.ask('stepClock', { ms });
  }

  /** Closes its application. The process stays, for the next one. */
  closeApplication(): Promise<void> {
    return this.ask('close');
  }

  /** Leaves it alone: with nothing to do it must end by itself. Answers its exit code, or 'stays'. */
  async dismiss(): Promise<number | null | 'stays'> {
    this.leaveAlone();
    const timer = setTimeout(() => void this.kill(), ENDS_WITHIN_MS);
    const { code, signal } = await this.exited;
    clearTimeout(timer);
    return signal === 'SIGKILL' ? 'stays' : code;
  }
}

export class Crew {
  private readonly idle: CrewMember[] = [];

  async take(count: number): Promise<CrewMember[]> {
    while (this.idle.length < count) this.idle.push(new CrewMember());
    const members = this.idle.splice(0, count);
    await Promise.all(members.map(({ ready }) => ready));
    return members;
  }

  giveBack(members: readonly CrewMember[]): void {
    this.idle.push(...members.filter(({ isUp }) => isUp));
  }

  /** Ends all who are idle, and tells how: 0 is right. */
  async dismiss(): Promise<(number | null | 'stays')[]> {
    return Promise.all(this.idle.splice(0).map((member) => member.dismiss()));
  }
}
