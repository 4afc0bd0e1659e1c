/**
 * What every handler of the matrix does, told to it from outside: end at once, wait at a gate, fail. It counts who is
 * inside, per lock key, so that no handler needs code of its own.
 */
import { ConflictException, Injectable } from '@nestjs/common';
import { firstValueFrom, Observable } from 'rxjs';
import { LockService } from '../../../lib/index.js';
import type { Returns } from '../../../lib/nest/locked-method.js';
import type { Gate } from '../application.js';

/** The calls of one key. */
export class Act {
  gate: Gate | undefined;
  fails = false;
  /** How many calls were made, by those who are not told of their ends. */
  fired = 0;
  entered = 0;
  inside = 0;
  most = 0;
  /** The keys of the leases that the calls saw. */
  readonly leases = new Set<string | undefined>();

  get left(): number {
    return this.entered - this.inside;
  }

  enter(lease: string | undefined): void {
    this.leases.add(lease);
    this.entered += 1;
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
  }

  leave(): void {
    this.inside -= 1;
  }
}

@Injectable()
export class Stage {
  /** What the guards of the handlers answer. */
  admits = true;
  private readonly acts = new Map<string, Act>();

  constructor(private readonly locks: LockService) {}

  act(key: string): Act {
    const act = this.acts.get(key) ?? new Act();
    this.acts.set(key, act);
    return act;
  }

  /** Forgets what happened to a key. */
  clear(key: string): Act {
    this.acts.delete(key);
    return this.act(key);
  }

  /** Lets everybody go who is still inside, after a test that failed half way. */
  openGates(): void {
    for (const { gate } of this.acts.values()) gate?.release();
  }

  perform(key: string, returns: Returns): Promise<string> | Observable<string> {
    const played = this.played(key);
    return returns === 'observable' ? played : firstValueFrom(played);
  }

  /** Ends with the act, with the loss of its lease, or when nobody listens any more. */
  private played(key: string): Observable<string> {
    return new Observable((subscriber) => {
      const act = this.act(key);
      const lease = this.locks.currentLease();
      act.enter(lease?.key);
      subscriber.add(() => act.leave());
      const lost = (): void => subscriber.error(lease?.signal.reason);
      lease?.signal.addEventListener('abort', lost);
      subscriber.add(() => lease?.signal.removeEventListener('abort', lost));
      const end = (): void => {
        if (act.fails) return subscriber.error(new ConflictException({ reason: 'no money' }));
        subscriber.next('done');
        subscriber.complete();
      };
      void Promise.resolve(act.gate?.opened).then(end);
    });
  }
}
