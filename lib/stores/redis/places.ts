/**
 * The places that this process has in queues, and what becomes of a grant that is pushed to one of them.
 *
 *     expected ──▶ waiting ──▶ granted (by message, heartbeat or answer) | gone | released
 *
 * A message can overtake the answer that gave the place; it is kept until that answer is here. An entry goes with the
 * grant, the release, or an answer that gives no place.
 */
import type { AcquireRequest } from '../../core/port/lock-store.js';
import type { PushedGrant } from '../wire/wake-channel.js';

export interface Place {
  readonly request: AcquireRequest;
  readonly group: number;
  /** The highest fence that was known when the place was first asked for: a grant must be above it. */
  readonly floor: number;
  /** False while the request is on its way. */
  answered: boolean;
  /** The message that came before the answer. */
  early: PushedGrant | undefined;
}

export class Places {
  private readonly places = new Map<string, Place>();

  /** The store has put a request into its queue. */
  add(request: AcquireRequest, group: number, floor: number): Place {
    const place: Place = { request, group, floor, answered: true, early: undefined };
    this.places.set(request.id, place);
    return place;
  }

  /** A place is asked for once more: it keeps its floor, and messages wait for the answer. Undefined where there is none. */
  askAgain(request: AcquireRequest): Place | undefined {
    if (this.places.size === 0) return undefined;
    const known = this.places.get(request.id);
    if (known === undefined) return undefined;
    const place: Place = { request, group: known.group, floor: known.floor, answered: false, early: undefined };
    this.places.set(request.id, place);
    return place;
  }

  get(id: string): Place | undefined {
    return this.places.get(id);
  }

  /** Whether this is still what is known of its id: a later request or a release may have taken its stead. */
  has(place: Place): boolean {
    return this.places.get(place.request.id) === place;
  }

  forget(place: Place): void {
    if (this.has(place)) this.places.delete(place.request.id);
  }

  release(id: string): void {
    if (this.places.size > 0) this.places.delete(id);
  }

  all(): readonly Place[] {
    return [...this.places.values()];
  }
}
