/**
 * Hands on answers that arrive together a few in each turn of the event loop. node-redis writes the commands of a turn at its end. So
 * the commands that follow from the first answers leave while the others still wait here, and the server works on them meanwhile:
 * otherwise the process and the server would by turns wait for each other to be done with everything.
 *
 *     arrived ──▶ handed on, at once or in a later turn | lost, when the connection ended before
 */
import type { Clock } from '../../../core/port/clock.js';
import { NOT_CONNECTED } from '../store-failure.js';

/** How many answers are handed on in one turn. Each may be that of a bundle of several requests. */
const IN_ONE_TURN = 2;

interface Waiting {
  readonly handOn: () => void;
  readonly lose: (reason: Error) => void;
}

export class AnswerTurns {
  private handedOn = 0;
  private readonly waiting: Waiting[] = [];

  constructor(private readonly clock: Clock) {}

  /**
   * Resolves when an answer may be handed on; undefined when it may be at once. Rejects when the connection ended before. `moreToCome`:
   * whether further answers may arrive together with it.
   */
  turn(moreToCome: boolean): Promise<void> | undefined {
    if (this.waiting.length > 0 || this.handedOn === IN_ONE_TURN) return new Promise((handOn, lose) => this.waiting.push({ handOn, lose }));
    // What follows from the answers of a turn is done before this is called. For an answer that comes alone nothing is called.
    if (moreToCome && this.handedOn++ === 0) process.nextTick(this.turnEnded);
    return undefined;
  }

  /** The answers that have not been handed on count as lost: by now another server may answer, of which they say nothing. */
  end(): void {
    for (const { lose } of this.waiting.splice(0)) lose(new Error(NOT_CONNECTED));
  }

  private readonly turnEnded = (): void => {
    this.handedOn = 0;
    if (this.waiting.length > 0) this.clock.nextTurn(this.handSomeOn);
  };

  private readonly handSomeOn = (): void => {
    const some = this.waiting.splice(0, IN_ONE_TURN);
    for (const { handOn } of some) handOn();
    if (this.waiting.length > 0) this.clock.nextTurn(this.handSomeOn);
  };
}
