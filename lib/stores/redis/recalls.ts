/**
 * When the server is asked for its memories (memories.ts): at once, soon after a new connection, or once for all nodes of a Cluster
 * that come and go together. A question is repeated until it is answered, and asked once more when somebody wants that meanwhile.
 */
import { delay, type Clock, type Timer } from '../../core/port/clock.js';

/** The pause after a recall that failed, in ms. */
const RETRY_MS = 100;
/** A recall without an answer is sent again after this long, in ms: a late answer counts all the same. */
const ANSWERS_WITHIN_MS = 300;
/** How long nodes that come and go are followed by no other recall than the first, in ms. A node that is down does so ten times a second. */
const NODES_SETTLE_MS = 300;
/** How long a new connection waits with its recall for the subscription, after which a recall has to follow in any case, in ms. */
const AFTER_SUBSCRIPTION_MS = 300;

export interface RecallsParts {
  readonly clock: Clock;
  /** The slot groups that one command asks about, for each command. */
  readonly together: readonly (readonly number[])[];
  /** Asks for the memories of these slot groups. Rejects with LockStoreError when they were not answered. */
  ask(groups: readonly number[], timeoutMs?: number): Promise<void>;
  /** A number that is another one for each connection. */
  connection(): number;
}

/** The slot groups that one command asks about, and how far that command has come. */
interface Question {
  readonly groups: readonly number[];
  /** Whether it has to be sent once more. */
  isWanted: boolean;
  /** Whether it is being asked at present. */
  isOut: boolean;
}

export class Recalls {
  /** Whether anything is asked: from the end of the boot until the store is closed. Only this object writes it. */
  isOpen = false;
  private readonly questions: readonly Question[];
  private later: Timer | undefined;
  /** Runs for {@link NODES_SETTLE_MS} after a node came or went. */
  private settling: Timer | undefined;
  /** Whether another node came or went meanwhile. */
  private nodesMovedAgain = false;

  constructor(private readonly parts: RecallsParts) {
    this.questions = parts.together.map((groups) => ({ groups, isWanted: false, isOut: false }));
  }

  /** Asks for all memories for the first time, at boot. Rejects with LockStoreError, and then nothing else is asked. */
  async begin(): Promise<void> {
    await Promise.all(this.questions.map(({ groups }) => this.parts.ask(groups)));
    this.isOpen = true;
  }

  close(): void {
    this.isOpen = false;
    this.stopTimer();
    if (this.settling !== undefined) this.parts.clock.clearTimer(this.settling);
    this.settling = undefined;
  }

  /** Asks for all memories, and repeats that until it is answered. A call that comes meanwhile makes it ask once more. */
  atOnce(): void {
    this.stopTimer();
    if (this.isOpen) for (const question of this.questions) void this.askUntilAnswered(question);
  }

  /** Recalls after a node of a Cluster came or went, while the others serve on: at once, and then once for all that follow shortly. */
  afterNodesMoved(): void {
    if (!this.isOpen) return;
    this.nodesMovedAgain = this.settling !== undefined;
    if (this.nodesMovedAgain) return;
    this.atOnce();
    this.settling = this.parts.clock.setTimer(() => {
      this.settling = undefined;
      if (this.nodesMovedAgain) this.afterNodesMoved();
    }, NODES_SETTLE_MS);
  }

  /**
   * Recalls on a new connection. The subscription is made anew as well, and a recall follows it, because messages may have been
   * missed before it: one recall serves both, unless the subscription takes too long.
   */
  soon(): void {
    this.stopTimer();
    if (this.isOpen) this.later = this.parts.clock.setTimer(() => this.atOnce(), AFTER_SUBSCRIPTION_MS);
  }

  /** Each question is repeated by itself, because a master of a Cluster that is silent must not hold up the others. */
  private async askUntilAnswered(question: Question): Promise<void> {
    question.isWanted = true;
    if (question.isOut) return;
    question.isOut = true;
    const { clock, ask, connection } = this.parts;
    while (question.isWanted && this.isOpen) {
      question.isWanted = false;
      const askedOn = connection();
      try {
        await ask(question.groups, ANSWERS_WITHIN_MS);
      } catch {
        await delay(clock, RETRY_MS);
        // When there is no connection, the next one recalls the memories anyway.
        question.isWanted ||= askedOn === connection();
      }
    }
    question.isOut = false;
  }

  private stopTimer(): void {
    if (this.later !== undefined) this.parts.clock.clearTimer(this.later);
    this.later = undefined;
  }
}
