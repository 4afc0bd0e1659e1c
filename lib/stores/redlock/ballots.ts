/**
 * The ballots of a store by holder id: one for each request that is out and each lease that is held. A ballot is removed when it
 * is refused, released or lost, and at the latest when its lease has ended on every node.
 */
import type { Ballot } from './ballot.js';

export class Ballots {
  private readonly byHolder = new Map<string, Ballot>();

  get size(): number {
    return this.byHolder.size;
  }

  get(holder: string): Ballot | undefined {
    return this.byHolder.get(holder);
  }

  /** The ballot with this id on the nodes, unless its holder has a newer one. */
  find(ballotId: string): Ballot | undefined {
    const ballot = this.byHolder.get(ballotId.slice(0, ballotId.lastIndexOf('/')));
    return ballot?.id === ballotId ? ballot : undefined;
  }

  add(ballot: Ballot, now: number): void {
    this.forgetEnded(now);
    this.byHolder.set(ballot.holder, ballot);
  }

  /** Removes the ballot, unless its holder has a newer one. */
  remove(ballot: Ballot): void {
    if (this.byHolder.get(ballot.holder) === ballot) this.byHolder.delete(ballot.holder);
  }

  /** Moves a ballot that was just renewed to the end: the ballots that have not been renewed for longest stand first. */
  touch({ holder }: Ballot): void {
    const ballot = this.byHolder.get(holder);
    if (ballot !== undefined && this.byHolder.delete(holder)) this.byHolder.set(holder, ballot);
  }

  clear(): void {
    this.byHolder.clear();
  }

  /** Removes the ballots whose lease has ended: their holders neither released nor renewed them. */
  private forgetEnded(now: number): void {
    let looked = 0;
    for (const [holder, ballot] of this.byHolder) {
      if (++looked > 2) return;
      if (ballot.state === 'held' && ballot.standing.endsAt < now) this.byHolder.delete(holder);
    }
  }
}
