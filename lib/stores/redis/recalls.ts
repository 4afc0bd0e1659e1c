/**
 * When the server is asked for its memories (memories.ts): at once, soon after a new connection, or once for all nodes of a Cluster
 * that come and go together. A question is repeated until it is answered, and asked once more when somebody wants that meanwhile.
 *
 *     wanted ──▶ asked ──▶ answered
 *        ▲         └─────▶ unanswered: one of all that are is asked again after a pause, and its answer makes the others wanted
 *        └────────────────────┘
 */
import type { Clock, Timer } from '../../core/port/clock.js';

/** The pause before one of the questions without an answer is asked again, in ms. A master that is down must not cost the others much. */
const ASKS_AGAIN_AFTER_MS = 100;
/** A recall without an answer is sent again after this long, in ms: a late answer counts all the same. */
const ANSWERS_WITHIN_MS = 300;
/** How long nodes that come and go are followed by no other recall than the first, in ms: several are lost, or change places, together. */
const NODES_SETTLE_MS = 300;
/** How long a new connection waits with its recall for the subscription, after which a recall has to follow in any case, in ms. */
const AFTER_SUBSCRIPTION_MS = 300;

interface RecallsParts {
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
  /** The questions without an answer, and on which connection each was asked. */
  private readonly unanswered = new Map<Question, number>();
  /** Runs while there are questions without an answer, but not while one of them is asked again. */
  private retry: Timer | undefined;
  /** Runs for {@link NODES_SETTLE_MS} after a node came or went. */
  private settling: Timer | undefined;
  /** Whether another node came or went meanwhile. */
  private nodesMovedAgain = false;

  constructor(private readonly parts: RecallsParts) {
    this.questions = parts.together.map((groups) => ({
      groups,
      isWanted: false,
      isOut: false,
    }));
  }

  /** Asks for all memories for the first time, at boot. Rejects with LockStoreError, and then nothing else is asked. */
  async begin(): Promise<void> {
    await Promise.all(this.questions.map(({ groups }) => this.parts.ask(groups)));
    this.isOpen = true;
  }

  close(): void {
    this.isOpen = false;
    this.stopTimer();
    for (const timer of [this.settling, this.retry]) if (timer !== undefined) this.parts.clock.clearTimer(timer);
    this.settling = this.retry = undefined;
  }

  /** Asks for all memories, and repeats that until it is answered. A call that comes meanwhile makes it ask once more. */
  atOnce(): void {
    this.stopTimer();
    if (this.isOpen) for (const question of this.questions) void this.ask(question);
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

  private async ask(question: Question): Promise<void> {
    question.isWanted = true;
    if (question.isOut) return;
    const wasUnanswered = this.unanswered.delete(question);
    const { ask, connection } = this.parts;
    question.isOut = true;
    while (question.isWanted && this.isOpen) {
      question.isWanted = false;
      const askedOn = connection();
      try {
        await ask(question.groups, ANSWERS_WITHIN_MS);
        if (wasUnanswered) for (const other of this.unanswered.keys()) void this.ask(other);
      } catch {
        if (!question.isWanted) this.unanswered.set(question, askedOn);
      }
    }
    question.isOut = false;
    if (this.isOpen && this.unanswered.has(question)) this.tryOneAgain();
  }

  private tryOneAgain(): void {
    this.retry ??= this.parts.clock.setTimer(() => {
      this.retry = undefined;
      // A new connection recalls the memories anyway.
      for (const [question, askedOn] of this.unanswered) if (askedOn !== this.parts.connection()) this.unanswered.delete(question);
      const left = [...this.unanswered.keys()];
      // Any of them, because of two masters that are down only one may be back.
      const any = left[Math.floor(Math.random() * left.length)];
      if (any !== undefined && this.isOpen) void this.ask(any);
    }, ASKS_AGAIN_AFTER_MS);
  }

  private stopTimer(): void {
    if (this.later !== undefined) this.parts.clock.clearTimer(this.later);
    this.later = undefined;
  }
}
