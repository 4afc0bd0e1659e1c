/**
 * What a process does with three nodes, a step at a time: the rules of ballot.ts, redlock-store.ts and redlock-node.ts
 * written as changes of a state. Verdict, quorum and trust are the library's own functions.
 */
import { beginningOf } from '../../lib/stores/redis/remote-redis.js';
import { quorumEnd, quorumOf, verdict } from '../../lib/stores/redlock/quorum.js';
import {
  acquireCall, addBringBack, admitCall, bringBack, readAcquire, readBringBack, readRecall, recallCall, releaseCall, type BuiltCall,
} from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY, UNTIL_TOLD_MS } from '../../lib/stores/wire/redis-keys.js';
import { trustOf } from '../../lib/stores/wire/server-clock.js';
import { NEVER } from '../../lib/stores/redis/boot-probe.js';
import { PROCESS_BEGINS_AT, SERVER_BEGINS_AT } from './canonical.js';
import { changeKnown, changeMember, changeNode, wallFence, type Known, type Member, type NodeLetter, type NodeQuestion, type NodesState } from './redlock-state.js';

export const NODE_KEYS = { lockKey: '{sim:1}:l:k', queueKey: '{sim:1}:q:k', fenceKey: '{sim:1}:f' };
const MEMORY_KEYS = { fenceKeys: [NODE_KEYS.fenceKey] };
const AHEAD = SERVER_BEGINS_AT - PROCESS_BEGINS_AT;
const RETRY_MS = 500;

export interface QuorumRules {
  readonly leaseMs: number;
  readonly maxLeaseMs: number;
  /** How often each process wants the lock. */
  readonly tasks: readonly number[];
  /** How far their wall clocks are off, in ms. */
  readonly skewsMs: readonly number[];
  readonly defect?: string | undefined;
}

export class Voting {
  readonly now: number;

  constructor(readonly state: NodesState, readonly at: number, readonly rules: QuorumRules) {
    this.now = PROCESS_BEGINS_AT + state.now;
  }

  get member(): Member {
    return this.state.members[this.at]!;
  }

  knownOf(node: number): Known {
    return this.state.nodes[node]!.known[this.at]!;
  }

  /** Ballot.cast: asks all nodes for their votes. */
  cast(): void {
    const { member, now, rules, state, at } = this;
    const attempts = member.attempts + 1;
    const limit = now + Math.max(rules.leaseMs, 1_000);
    const proposal = Math.max(member.floor + 1, wallFence(state.now, rules.skewsMs[at] ?? 0));
    const id = `${member.name}.${attempts}`;
    changeMember(state, at, { attempts, castAt: now, ballot: { id, limit, proposal, fence: 0 } });
    state.nodes.forEach((_, node) => {
      this.know(node, { vote: undefined, asked: true, mute: 0, raised: 'no' });
      this.post(node, 'vote', id, acquireCall(NODE_KEYS, {
        id, mode: 'write', leaseMs: rules.leaseMs, fences: 1, takes: 'floor', floor: proposal, queue: false, needsListener: false, recoveryMs: UNTIL_TOLD_MS, plain: true, notAfter: this.has('votes have no limit') ? NEVER : limit + AHEAD, known: UNKNOWN_MEMORY, minHoldMs: 0, graceMs: 0,
        owner: undefined, label: undefined,
      }));
    });
  }

  /** The poll is over: who has not answered counts as failed. */
  giveUpOnMute(): void {
    this.state.nodes.forEach((_, node) => {
      if (this.knownOf(node).vote === undefined) this.mute(node);
    });
    this.decide();
  }

  hear(node: number, letter: NodeLetter): void {
    switch (letter.what) {
      case 'vote':
        return this.heardVote(node, letter);
      case 'raise fence':
        return this.heardRaised(node, letter);
      case 'withdrawal':
        return this.heardWithdrawal(node, letter);
      case 'recall':
        return this.heardRecall(node, letter);
      case 'recall of others':
        return this.heardOther(Number(letter.about), letter);
      case 'admit':
        return this.attend(node, letter.reply?.[0] === 1 ? undefined : RETRY_MS);
    }
  }

  release(): void {
    const { state, at, member } = this;
    state.nodes.forEach((_, node) => this.withdraw(node));
    changeMember(state, at, { ballot: undefined, trustedUntil: undefined, task: member.task + 1 });
  }

  /** Sends a withdrawal that got no answer, or may have come before its vote, once more. */
  withdrawAgain(node: number, ballot: string): void {
    const { withdrawals } = this.knownOf(node);
    this.know(node, { withdrawals: withdrawals.map((one) => (one.ballot === ballot ? { ...one, sentAt: this.now, isSent: true } : one)) });
    this.postWithdrawal(node, ballot);
  }

  recall(node: number): void {
    this.know(node, { attention: { kind: 'recalling' } });
    this.post(node, 'recall', '', this.recallCall());
  }

  has(defect: string): boolean {
    return this.rules.defect === defect;
  }

  private heardVote(node: number, { about, reply, sentAt }: NodeLetter): void {
    const { member, state, at } = this;
    const { ballot, trustedUntil } = member;
    const told = reply === undefined ? undefined : readAcquire(reply);
    if (told?.kind === 'recovering') this.forgetful(node);
    if (told?.kind === 'granted') changeMember(state, at, { floor: Math.max(member.floor, told.fence) });
    if (ballot?.id !== about && told === undefined) return this.mayStillAct(node, about, sentAt);
    if (ballot?.id !== about || this.knownOf(node).vote !== undefined) return;
    if (told === undefined) this.mute(node);
    else if (told.kind !== 'granted') this.know(node, { vote: 'against', asked: false });
    else {
      this.know(node, { vote: { fence: told.fence, end: trustOf(told.end - told.now, this.has('trust from receipt') ? this.now : sentAt) } });
      if (ballot.fence !== 0 && told.fence !== ballot.fence) this.raise(node, about, ballot.fence);
    }
    if (ballot.fence === 0 && trustedUntil === undefined) this.decide();
  }

  /** Standing.ask: a vote request that failed after its ballot was over may still come, so it is withdrawn until it cannot. */
  private mayStillAct(node: number, ballot: string, sentAt: number): void {
    if (this.has('votes of a ballot that is over are forgotten')) return;
    const lateUntil = sentAt + Math.max(this.rules.leaseMs, 1_000);
    const others = this.knownOf(node).withdrawals.filter((one) => one.ballot !== ballot);
    this.know(node, { withdrawals: [...others, { ballot, lateUntil, until: lateUntil + this.rules.leaseMs, sentAt: this.now, isSent: true }] });
    this.postWithdrawal(node, ballot);
  }

  /** Ballot.cast, decide and agree: what the votes so far mean. */
  private decide(): void {
    const { state, at, member } = this;
    const votes = state.nodes.map((_, node) => this.knownOf(node).vote);
    const result = verdict(votes.map((vote) => (vote === undefined ? undefined : typeof vote === 'string' ? 'against' : 'granted')));
    if (result === undefined) return;
    if (result !== 'granted') return this.end();
    const granted = votes.flatMap((vote) => (typeof vote === 'object' ? vote.fence : []));
    const fence = Math.max(...granted);
    changeMember(state, at, { ballot: { ...member.ballot!, fence } });
    state.nodes.forEach((_, node) => {
      const vote = votes[node];
      if (typeof vote === 'object' && vote.fence !== fence && !this.has('fences are not written back')) this.raise(node, member.ballot!.id, fence);
    });
    this.settle();
  }

  /** agreeOnFence: the lease is held once a quorum has its fence. */
  private settle(): void {
    const { state, at, now, member: { ballot } } = this;
    const { fence = 0 } = ballot ?? {};
    const votes = state.nodes.map((_, node) => this.knownOf(node));
    const ends = votes.flatMap(({ vote, raised }) => (typeof vote === 'object' && (vote.fence === fence || raised === 'yes' || this.has('fences are not written back')) ? vote.end : []));
    if (ends.length < quorumOf(votes.length)) {
      if (!votes.some(({ raised }) => raised === 'sent')) this.end();
      return;
    }
    const trustedUntil = quorumEnd(ends, quorumOf(votes.length));
    if (trustedUntil <= now) return this.end();
    changeMember(state, at, { trustedUntil });
    if (fence <= state.highest) state.broken ??= `S2: a fence of ${this.member.name} does not exceed an earlier one`;
    state.highest = Math.max(state.highest, fence);
  }

  private raise(node: number, ballot: string, fence: number): void {
    this.know(node, { raised: 'sent' });
    const [keys, args]: [string[], (string | number)[]] = [[], []];
    addBringBack(keys, args, NODE_KEYS, {
      id: ballot, mode: 'write', notAfter: this.now + this.rules.leaseMs + AHEAD, leaseMs: this.rules.leaseMs, fence, fences: 1, minHoldMs: 0, graceMs: 0,
      recoveryMs: UNTIL_TOLD_MS, knownBy: '-', ticketId: undefined, owner: undefined, label: undefined,
    });
    this.post(node, 'raise fence', ballot, { script: bringBack, keys, args });
  }

  /** Standing.renewal: a ballot that is over may have been brought back behind its release, or still be. */
  private heardRaised(node: number, { about, reply, sentAt }: NodeLetter): void {
    const { ballot, trustedUntil } = this.member;
    const isHeld = reply !== undefined && readBringBack(reply).answers[0]!.kind === 'held';
    if (ballot?.id !== about) return isHeld || reply === undefined ? this.mayStillAct(node, about, sentAt) : undefined;
    this.know(node, { raised: isHeld ? 'yes' : 'failed' });
    if (reply === undefined) this.know(node, { mute: sentAt + this.rules.leaseMs });
    if (trustedUntil === undefined) this.settle();
  }

  /** Ballot.end: it is taken back from every node on which it may stand. */
  private end(): void {
    if (!this.has('nothing is withdrawn')) this.state.nodes.forEach((_, node) => this.withdraw(node));
    changeMember(this.state, this.at, { ballot: undefined });
  }

  private withdraw(node: number): void {
    const { ballot } = this.member;
    const { asked, mute, withdrawals } = this.knownOf(node);
    if (!asked || ballot === undefined) return;
    const one = { ballot: ballot.id, lateUntil: mute, until: ballot.limit + this.rules.leaseMs, sentAt: this.now, isSent: true };
    this.know(node, { withdrawals: [...withdrawals, one], asked: false, vote: undefined, raised: 'no', mute: 0 });
    this.postWithdrawal(node, ballot.id);
  }

  private heardWithdrawal(node: number, { about, reply, sentAt }: NodeLetter): void {
    const { withdrawals } = this.knownOf(node);
    const one = withdrawals.find(({ ballot }) => ballot === about);
    if (one === undefined) return;
    const isOver = (reply !== undefined && sentAt > one.lateUntil) || this.now >= one.until;
    const rest = withdrawals.filter((other) => other !== one);
    this.know(node, { withdrawals: isOver ? rest : [...rest, { ...one, isSent: false }] });
  }

  private forgetful(node: number): void {
    if (this.knownOf(node).attention.kind === 'none') this.attend(node, 0);
  }

  private attend(node: number, inMs: number | undefined): void {
    this.know(node, { attention: inMs === undefined ? { kind: 'none' } : { kind: 'wanted', at: this.now + inMs } });
  }

  private heardRecall(node: number, { reply }: NodeLetter): void {
    if (reply === undefined) return this.attend(node, RETRY_MS);
    const { recoversForMs, now, groups } = readRecall(reply);
    if (recoversForMs === 0) return this.attend(node, undefined);
    const since = beginningOf(groups[0]!.memory) - AHEAD;
    const leftMs = since + this.rules.maxLeaseMs + 1 - now;
    if (leftMs > 0) return this.attend(node, leftMs);
    this.know(node, { attention: { kind: 'asking others', since, awaited: this.state.nodes.length - 1, whole: 0, out: 0, floor: this.member.floor } });
    this.state.nodes.forEach((_, other) => {
      if (other !== node) this.post(other, 'recall of others', String(node), this.recallCall());
    });
  }

  private heardOther(node: number, { reply }: NodeLetter): void {
    const { attention } = this.knownOf(node);
    if (attention.kind !== 'asking others') return;
    const isWhole = reply !== undefined && readRecall(reply).recoversForMs === 0;
    const floor = Math.max(attention.floor, reply === undefined ? 0 : readRecall(reply).groups[0]!.fence);
    const whole = attention.whole + Number(isWhole);
    const out = attention.out + Number(reply !== undefined && !isWhole);
    const awaited = attention.awaited - 1;
    if (awaited > 0) return this.know(node, { attention: { ...attention, awaited, whole, out, floor } });
    const quorum = quorumOf(this.state.nodes.length);
    const enough = this.has('one of the others is enough') ? 1 : quorum;
    if (whole < enough && this.state.nodes.length - out - 1 >= quorum) return this.attend(node, RETRY_MS);
    this.know(node, { attention: { kind: 'admitting' } });
    const floors = [this.has('the others are not asked') ? 0 : floor];
    this.post(node, 'admit', '', admitCall(MEMORY_KEYS, { maxLeaseMs: this.rules.maxLeaseMs, since: attention.since + AHEAD, floors }));
  }

  /** What a node is asked for its memory, and told of fences. */
  private recallCall(): BuiltCall {
    return recallCall({ keys: [{ fenceKey: NODE_KEYS.fenceKey }] }, { process: this.member.name, recoveryMs: UNTIL_TOLD_MS, groups: [{ floor: this.member.floor, holds: false }] });
  }

  private mute(node: number): void {
    this.know(node, { vote: 'failed', mute: this.member.ballot?.limit ?? 0 });
  }

  private know(node: number, change: Partial<Known>): void {
    changeKnown(this.state, node, this.at, change);
  }

  private postWithdrawal(node: number, id: string): void {
    this.post(node, 'withdrawal', id, releaseCall(NODE_KEYS, { id, mayBeOver: false, abandoned: false, floor: 0, recoveryMs: UNTIL_TOLD_MS, known: UNKNOWN_MEMORY }));
  }

  private post(node: number, what: NodeQuestion, about: string, call: BuiltCall): void {
    changeNode(this.state, node, { letters: [...this.state.nodes[node]!.letters, { way: 'request', of: this.at, stray: false, what, about, sentAt: this.now, call }] });
  }
}
