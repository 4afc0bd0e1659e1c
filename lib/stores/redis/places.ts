/**
 * The places that this process has in the queues of one Redis.
 *
 *     expected ──▶ waiting ──▶ granted (by message, heartbeat or answer) | gone | released
 *
 * The message of a grant can arrive before the answer that gave the place; it is kept until that answer. An entry is removed by the
 * grant, by the release, or by an answer that gives no place.
 */
import type { AcquireRequest } from '../../core/port/lock-store.js';
import type { PushedGrant } from '../wire/wake-channel.js';

export class Place {
  /** Whether the request was answered, so that the place waits: a message of its grant is believed from then on. */
  private isAnswered = false;

  constructor(
    readonly request: AcquireRequest,
    readonly group: number,
    /** The highest fence that was known when the place was first asked for. The fence of its grant must be greater. */
    readonly floor: number,
    /** The message of its grant, if that came before the answer. */
    private early?: PushedGrant,
  ) {}

  /** Notes the message of its grant. Returns whether that is to be judged now; else the place keeps it for the answer. */
  messageCame(push: PushedGrant): boolean {
    if (!this.isAnswered) this.early = push;
    return this.isAnswered;
  }

  /** Notes the answer that gave the place. Returns the message of its grant, if that came before. */
  answerCame(): PushedGrant | undefined {
    this.isAnswered = true;
    return this.early;
  }
}

export class Places {
  /** How many there are: mostly none, and then there is nothing to look up. Only this object writes it. */
  count = 0;
  private readonly places = new Map<string, Place>();

  /** Adds the place of a request that the store has put into its queue. `early` is a message that came before the place was known. */
  add(request: AcquireRequest, group: number, floor: number, early?: PushedGrant): Place {
    return this.put(new Place(request, group, floor, early));
  }

  /** Notes that a request asks again: its place keeps its floor, and messages wait for the answer. Undefined when it has no place. */
  askAgain(request: AcquireRequest): Place | undefined {
    const known = this.places.get(request.id);
    if (known === undefined) return undefined;
    return this.put(new Place(request, known.group, known.floor));
  }

  get(id: string): Place | undefined {
    return this.places.get(id);
  }

  /** Whether this is still the place of its id: a later request may have replaced it, or a release removed it. */
  has(place: Place): boolean {
    return this.places.get(place.request.id) === place;
  }

  forget(place: Place): void {
    if (this.has(place)) this.drop(place.request.id);
  }

  /** Removes the place of an id that is released, or was told to be gone. */
  drop(id: string): void {
    this.places.delete(id);
    this.count = this.places.size;
  }

  all(): readonly Place[] {
    return [...this.places.values()];
  }

  private put(place: Place): Place {
    this.places.set(place.request.id, place);
    this.count = this.places.size;
    return place;
  }
}
