/**
 * A small world of a Redlock: two processes that want one lock of three nodes, and whatever may happen to them, to the nodes and
 * to what is on its way. Nobody waits in a line here: marks are hints, and their order is no promise (docs/maintainers/protocol.md).
 */
import type { LuaReply } from '../simulation/lua-interpreter.js';
import { readHolders } from '../simulation/record-check.js';
import { PROCESS_BEGINS_AT, SERVER_BEGINS_AT } from './canonical.js';
import { healedAtLast, suffering, type HealingWorld, type Kind, type KindStep } from './healing.js';
import { NODE_KEYS, Voting, type QuorumRules } from './redlock-member.js';
import { canonicalOf, changeNode, draftOf, type Known, type Member, type Node, type NodeFault, type NodeLetter, type NodeQuestion, type NodesState } from './redlock-state.js';
import { localItem } from './redis-world.js';
import { EMPTY, SmallServer, viewOf, type LuaDefect } from './small-server.js';

export interface RedlockPlan extends QuorumRules {
  readonly name: string;
  readonly ticks: number;
  readonly tickMs: number;
  /** What may be held up or lost; everything, when it is left out. */
  readonly suffers?: readonly NodeQuestion[];
  /** How often a process may ask in vain before the faults end. */
  readonly attempts: number;
  readonly faults: Partial<Record<NodeFault, number>>;
  /**
   * Whether answers take their time. Where they do not, they are heard as soon as the node has given them: what follows from them is
   * a request, which may be on its way for as long.
   */
  readonly answersTravel?: boolean;
  /** Whether two nodes of three have granted a fence before, ahead of what the processes know. */
  readonly hasGranted?: boolean;
  readonly isQuick?: boolean;
}

type NodesStep = KindStep<NodesState>;

const NODES = 3;
const STRAY_MS = 3_000;
const NOTHING: Known = { vote: undefined, asked: false, mute: 0, raised: 'no', withdrawals: [], attention: { kind: 'none' } };

export class RedlockWorld implements HealingWorld<NodesState> {
  readonly name: string;
  readonly server: SmallServer;
  private attempts: number;

  constructor(readonly plan: RedlockPlan, lua?: LuaDefect) {
    this.name = plan.name;
    this.attempts = plan.attempts;
    this.server = new SmallServer(lua);
  }

  /** All nodes remember all they granted: a quarantine after the first install is over. */
  begin(): NodesState {
    this.attempts = this.plan.attempts;
    const memory = `${'a'.repeat(16)}:${SERVER_BEGINS_AT - 60_000}`;
    const last = (SERVER_BEGINS_AT - 1_000) * 1_000;
    const nodes = Array.from({ length: NODES }, (_, n): Node => {
      const entries = new Map([[NODE_KEYS.fenceKey, { value: `${this.plan.hasGranted && n < 2 ? last : 0} ${memory}`, expiresAt: Infinity }]]);
      return { memory: { ...EMPTY, entries }, letters: [], known: this.plan.tasks.map(() => NOTHING) };
    });
    const members = this.plan.tasks.map((_, at): Member => ({ name: 'ab'[at]!, task: 0, attempts: 0, castAt: 0, floor: 0, ballot: undefined, trustedUntil: undefined }));
    return { now: 0, ticks: this.plan.ticks, faults: this.plan.faults, nodes, members, highest: this.plan.hasGranted ? last : 0, broken: undefined };
  }

  canonical(state: NodesState): string {
    return canonicalOf(state, this.plan.skewsMs);
  }

  broken({ broken, members, now }: NodesState): string | undefined {
    if (broken !== undefined) return broken;
    const trusting = members.filter(({ trustedUntil = 0 }) => trustedUntil > PROCESS_BEGINS_AT + now);
    return trusting.length > 1 ? `S1: ${trusting.map(({ name }) => name).join(' and ')} both trust the lock` : undefined;
  }

  brokenInTheEnd(state: NodesState): string | undefined {
    this.attempts = Infinity;
    try {
      return healedAtLast(this, state);
    } finally {
      this.attempts = this.plan.attempts;
    }
  }

  healed(state: NodesState, forMs: number): NodesState {
    const nodes = state.nodes.map((node) => ({ ...node, letters: node.letters.filter(({ stray }) => !stray) }));
    return { ...state, ticks: Math.ceil(forMs / this.plan.tickMs), faults: {}, nodes };
  }

  unserved({ members, nodes }: NodesState): readonly string[] {
    const owes = (at: number): boolean => nodes.some(({ known }) => known[at]!.withdrawals.length > 0);
    return members.filter(({ task, ballot }, at) => task < this.plan.tasks[at]! || ballot !== undefined || owes(at)).map(({ name }) => name);
  }

  leftBehind({ nodes, now }: NodesState): string | undefined {
    const live = nodes.some(({ memory }) => {
      const view = viewOf(memory, now, () => false);
      return readHolders(view.text(NODE_KEYS.lockKey) ?? '').some(({ end }) => end >= view.nowMs());
    });
    return live ? 'L6: a node keeps the lock although everybody has released it' : undefined;
  }

  steps(state: NodesState): NodesStep[] {
    return [...this.arrivals(state), ...this.acts(state), ...this.time(state), ...this.happenings(state)];
  }

  private *arrivals(state: NodesState): Generator<NodesStep> {
    for (const [node, { letters }] of state.nodes.entries()) {
      const met = new Set<string>();
      for (const [n, letter] of letters.entries()) {
        const { way, of, stray, what, about, reply } = letter;
        if (!stray && met.has(way + of)) continue;
        if (!stray) met.add(way + of);
        const { name } = state.members[of]!;
        if (way === 'request') yield { kind: 'arrival', what: `node ${node + 1} runs ${stray ? 'a late ' : ''}${what} ${about} of ${name}`, take: () => this.serve(state, node, n) };
        else {
          const take = (): NodesState => this.act(state, of, (voting) => voting.hear(node, letter), [node, n]);
          yield { kind: 'arrival', what: `${name} hears ${reply === undefined ? 'no answer' : 'the answer'} of node ${node + 1} to ${what} ${about}`, take };
        }
      }
    }
  }

  private *acts(state: NodesState): Generator<NodesStep> {
    const now = PROCESS_BEGINS_AT + state.now;
    for (const [at, { name, task, attempts, castAt, ballot, trustedUntil }] of state.members.entries()) {
      const step = (kind: Kind, what: string, act: (voting: Voting) => void): NodesStep => ({ kind, what: `${name} ${what}`, take: () => this.act(state, at, act) });
      // Whoever asks in vain pauses before the next try; when the faults have ended that is what lets the others finish.
      const pauses = castAt === now && this.attempts === Infinity;
      if (ballot === undefined && task < this.plan.tasks[at]! && attempts < this.attempts && !pauses) yield step('question', 'asks all nodes for their votes', (voting) => voting.cast());
      if (trustedUntil !== undefined) yield step('release', 'releases', (voting) => voting.release());
      if (ballot !== undefined && ballot.fence === 0 && now > castAt) yield step('question', 'waits no longer for votes', (voting) => voting.giveUpOnMute());
      for (const [node, { known }] of state.nodes.entries()) {
        const { attention, withdrawals } = known[at]!;
        if (attention.kind === 'wanted' && attention.at <= now) yield step('question', `recalls node ${node + 1}`, (voting) => voting.recall(node));
        for (const one of withdrawals) if (!one.isSent && one.sentAt < now) yield step('question', `withdraws ${one.ballot} from node ${node + 1} again`, (voting) => voting.withdrawAgain(node, one.ballot));
      }
    }
  }

  private *time(state: NodesState): Generator<NodesStep> {
    const { slow = 0 } = state.faults;
    const isSlow = state.nodes.some(({ letters }) => letters.some(({ stray }) => !stray));
    if (state.ticks === 0 || (isSlow && slow === 0)) return;
    const take = (): NodesState => {
      const draft = draftOf(state);
      draft.now += this.plan.tickMs;
      draft.ticks -= 1;
      if (isSlow) draft.faults.slow = slow - 1;
      const now = PROCESS_BEGINS_AT + draft.now;
      draft.nodes = draft.nodes.map((node) => ({ ...node, letters: node.letters.filter(({ stray, sentAt }) => !stray || now - sentAt <= STRAY_MS) }));
      return draft;
    };
    yield { kind: 'time', what: `${this.plan.tickMs} ms pass${isSlow ? ' while something is on its way' : ''}`, take };
  }

  private *happenings(state: NodesState): Generator<NodesStep> {
    const may = (fault: NodeFault): boolean => (state.faults[fault] ?? 0) > 0;
    const step = suffering<NodeFault, NodesState>(() => draftOf(state));
    for (const [node, { letters, memory }] of state.nodes.entries()) {
      for (const [n, letter] of letters.entries()) {
        const { way, of, stray, what, about, reply } = letter;
        const which = `${what} ${about} of ${state.members[of]!.name}`;
        if (!(this.plan.suffers ?? [what]).includes(what)) continue;
        const replace = (draft: NodesState, ...instead: NodeLetter[]): void => changeNode(draft, node, { letters: letters.toSpliced(n, 1, ...instead) });
        if (!stray && way === 'request' && may('late')) yield step('late', `${which} to node ${node + 1} is held up`, (draft) => replace(draft, failed(letter), { ...letter, stray: true }));
        if (way === 'answer' && reply !== undefined && may('silence')) yield step('silence', `the answer of node ${node + 1} to ${which} is lost`, (draft) => replace(draft, failed(letter)));
      }
      if (may('flush')) yield step('flush', `node ${node + 1} is flushed`, (draft) => changeNode(draft, node, { memory: { ...memory, entries: new Map() } }));
      if (may('empty restart')) {
        const forgotten = { entries: new Map(), incarnation: memory.incarnation + 1 };
        // Every process is connected anew, and recalls it.
        const attention = { kind: 'wanted', at: PROCESS_BEGINS_AT + state.now } as const;
        const known = state.nodes[node]!.known.map((one) => ({ ...one, attention }));
        yield step('empty restart', `node ${node + 1} restarts without its data`, (draft) => changeNode(draft, node, { memory: forgotten, known, letters: letters.filter(({ stray }) => !stray).map(failed) }));
      }
    }
  }

  private act(state: NodesState, at: number, act: (voting: Voting) => void, [node, letter]: [number?, number?] = []): NodesState {
    const draft = draftOf(state);
    if (node !== undefined) changeNode(draft, node, { letters: draft.nodes[node]!.letters.toSpliced(letter!, 1) });
    act(new Voting(draft, at, this.plan));
    return draft;
  }

  private serve(state: NodesState, node: number, n: number): NodesState {
    const draft = draftOf(state);
    const { memory, letters } = state.nodes[node]!;
    const { call, ...letter } = letters[n]!;
    const ran = this.server.run(memory, call!, state.now, () => false);
    const answer: NodeLetter = { ...letter, way: 'answer', reply: localReply(ran.reply) };
    const isKept = !letter.stray && this.plan.answersTravel === true;
    changeNode(draft, node, { memory: ran.memory, letters: [...letters.toSpliced(n, 1), ...(isKept ? [answer] : [])] });
    if (!letter.stray && !isKept) new Voting(draft, letter.of, this.plan).hear(node, answer);
    return draft;
  }
}

function failed({ call: _, ...letter }: NodeLetter): NodeLetter {
  return { ...letter, way: 'answer', reply: undefined };
}

const localReply = (reply: LuaReply): (string | number)[] => (Array.isArray(reply) ? reply : [reply]).map(localItem) as (string | number)[];
