/**
 * The ballots of a store, one for each holder id: what it asks for or holds. An entry goes with the refusal, the release,
 * the loss, or the end by itself.
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

  /** The one with this id, if it still stands for its holder. */
  find(ballotId: string): Ballot | undefined {
    const ballot = this.byHolder.get(ballotId.slice(0, ballotId.lastIndexOf('/')));
    return ballot?.id === ballotId ? ballot : undefined;
  }

  add(ballot: Ballot, now: number): void {
    this.forgetEnded(now);
    this.byHolder.set(ballot.holder, ballot);
  }

  /** Unless another one stands for its holder by now. */
  remove(ballot: Ballot): void {
    if (this.byHolder.get(ballot.holder) === ballot) this.byHolder.delete(ballot.holder);
  }

  /** It was heard of: those that have been silent for longest stand first. */
  touch({ holder }: Ballot): void {
    const ballot = this.byHolder.get(holder);
    if (ballot !== undefined && this.byHolder.delete(holder)) this.byHolder.set(holder, ballot);
  }

  clear(): void {
    this.byHolder.clear();
  }

  /** Of holders that never released and were never renewed. */
  private forgetEnded(now: number): void {
    let looked = 0;
    for (const [holder, ballot] of this.byHolder) {
      if (++looked > 2) return;
      if (ballot.state === 'held' && ballot.endsBy < now) this.byHolder.delete(holder);
    }
  }
}
