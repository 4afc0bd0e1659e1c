/**
 * Judges the grants that one Redis sends as messages. A grant of a place becomes a lease when its message is enough to trust it, and
 * else its waiter asks. A grant that came before the answer to its request is kept for that answer. A grant to nobody is given back.
 */
import type { Clock } from '../../core/port/clock.js';
import type { Wake } from '../../core/port/lock-store.js';
import { grantedAt, type PushedGrant } from '../wire/wake-channel.js';
import type { Acquiring } from './acquiring.js';
import type { Memories } from './memories.js';
import type { Places } from './places.js';
import type { ToldHolds } from './told-holds.js';
import type { Trust } from './trust.js';

interface PushedGrantsParts {
  readonly places: Places;
  readonly acquiring: Acquiring;
  readonly trust: Trust;
  readonly memories: Memories;
  readonly toldHolds: ToldHolds;
  readonly clock: Clock;
  /** The name of this process: the part of its holder ids before their last dot. */
  readonly process: string;
  tell(wake: Wake): void;
}

export class PushedGrants {
  constructor(private readonly parts: PushedGrantsParts) {}

  /** Called with each message of a grant. */
  came(push: PushedGrant): void {
    const { places, acquiring, trust, memories, toldHolds, clock, tell } = this.parts;
    const { key, id } = push;
    const place = places.get(id);
    if (place === undefined) {
      const underway = acquiring.underway(id);
      if (underway === undefined) return this.stray(push);
      return underway.messageCame(push);
    }
    if (!place.messageCame(push)) return;
    const grant = trust.pushed(place, push, clock.now(), memories.madeBy(place.group, grantedAt(push)));
    if (grant === undefined) return tell({ kind: 'ask', key, id });
    places.forget(place);
    toldHolds.forget(key);
    tell({ kind: 'granted', key, id, grant });
  }

  /** Handles a grant to an id that is not known here. Only an id of this process is released, whatever a message says. */
  private stray({ key, id }: PushedGrant): void {
    const { process, tell } = this.parts;
    if (id.startsWith(`${process}.`)) tell({ kind: 'stray', key, id });
  }
}
